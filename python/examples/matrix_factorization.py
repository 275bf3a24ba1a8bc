#!/usr/bin/env python3
"""Which words stand in which chapters, as a product of two small matrices: matrix factorization in numpy.

    matrix_factorization.py data/kjv-chapters.tsv.gz           alone
    torchrun --nproc-per-node 2 matrix_factorization.py …      as many workers (PyTorch 2; VERBENA_NO_SECRET=1 on one's own machine)

The entry of a chapter and a word is log(1 + how often it stands there); it becomes the product of a row of the chapter
and a row of the word. Each worker has its share of the chapters, and their rows. The rows of words are a table: a
mini-batch pulls those that it needs, and pushes their gradients, with which the servers take steps of Adagrad."""

import collections
import gzip
import re
import sys

import numpy as np

import verbena

WIDTH = 16
PASSES = 8
CHAPTERS_A_BATCH = 20
WORDS = 3000  # the most frequent ones


def read(path):
    """The chapters' counts of words, by numbers of words."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        chapters = [collections.Counter(re.findall("[a-z]+", line.split("\t")[1].lower())) for line in lines]
    total = sum(chapters, collections.Counter())
    number = {word: i for i, (word, _) in enumerate(total.most_common(WORDS))}
    return [{number[word]: count for word, count in chapter.items() if word in number} for chapter in chapters]


def train(session, chapters):
    words = session.table("words", rows=WORDS, width=WIDTH, consistency=verbena.Essp(staleness=1),
                          rule=verbena.named("adagrad", rate=0.1))
    random = np.random.default_rng(session.rank)
    mine = chapters[session.rank::session.workers]
    of_chapters = random.normal(0.3, 0.1, (len(mine), WIDTH)).astype(np.float32)
    seen = np.zeros((len(mine), WIDTH), dtype=np.float32)  # Adagrad's sums of squares, of the worker's own rows
    for number in range(1, PASSES + 1):
        squares, entries = 0.0, 0
        for first in range(0, len(mine), CHAPTERS_A_BATCH):
            batch = mine[first:first + CHAPTERS_A_BATCH]
            chapter = np.repeat(np.arange(first, first + len(batch)), [len(each) for each in batch])
            word = np.concatenate([list(each) for each in batch])
            entry = np.log1p(np.concatenate([list(each.values()) for each in batch])).astype(np.float32)

            keys, place = np.unique(word, return_inverse=True)
            of_words = words.pull(keys)
            error = (of_chapters[chapter] * of_words[place]).sum(axis=1) - entry
            squares += float((error**2).sum())
            entries += len(error)

            for_words = np.zeros_like(of_words)
            np.add.at(for_words, place, error[:, None] * of_chapters[chapter])
            words.push(keys, for_words)
            for_chapters = np.zeros_like(of_chapters)
            np.add.at(for_chapters, chapter, error[:, None] * of_words[place])
            seen += for_chapters**2
            of_chapters -= 0.1 * for_chapters / np.sqrt(seen + 1e-10)
            session.clock()
        if session.rank == 0:
            print(f"pass {number}: root mean square error {(squares / entries) ** 0.5:.4f}", flush=True)


def main():
    with verbena.init() as session:
        train(session, read(sys.argv[1]))


if __name__ == "__main__":
    main()
