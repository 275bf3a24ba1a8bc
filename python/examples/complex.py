#!/usr/bin/env python3
"""ComplEx in PyTorch: embeddings of a knowledge graph's entities and relations, which tell what is true.

    complex.py data/wn18rr                                    alone, beside the same in plain PyTorch
    torchrun --nproc-per-node 2 complex.py data/wn18rr        as two workers (PyTorch 2; VERBENA_NO_SECRET=1 on one's own machine)

An embedding is a vector of complex numbers; a triple's score is the real part of the sum of head times relation times conjugate of
tail (Trouillon et al., ICML'16). Each triple is trained against some whose tail is drawn at random. Embeddings are tables whose
servers take steps of Adagrad; the next batch's rows are asked for beforehand."""

import gzip
import pathlib
import sys
import time

import torch

import verbena
import verbena.torch

WIDTH, NEGATIVES, BATCH, PASSES, RATE = 16, 4, 1000, 6, 0.1


def read(folder):
    """The triples to train with, as numbers of entities and relations: heads, relations, tails."""
    entities, relations, triples = {}, {}, []
    with gzip.open(pathlib.Path(folder) / "train.txt.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            head, relation, tail = line.rstrip("\n").split("\t")
            triples.append((entities.setdefault(head, len(entities)), relations.setdefault(relation, len(relations)),
                            entities.setdefault(tail, len(entities))))
    return torch.tensor(triples), len(entities), len(relations)


def start_values(rows, seed):
    return 0.1 * torch.randn(rows, 2 * WIDTH, generator=torch.Generator().manual_seed(seed))


class ComplEx(torch.nn.Module):
    def __init__(self, entities, relations):
        super().__init__()
        self.entities, self.relations = entities, relations

    def forward(self, entities, relations):
        """The loss of triples. entities: for each a head, a tail, and tails that are wrong."""
        rows = self.entities(entities)
        head, tails = rows[:, :1], rows[:, 1:]
        relation = self.relations(relations)[:, None]
        (h, i), (r, s), (t, u) = (each.split(WIDTH, dim=-1) for each in (head, relation, tails))
        scores = ((h * r - i * s) * t + (h * s + i * r) * u).sum(-1)
        truth = torch.zeros_like(scores)
        truth[:, 0] = 1
        return torch.nn.functional.binary_cross_entropy_with_logits(scores, truth, reduction="sum")


def train(name, model, batches, finish_batch, is_first):
    start = time.perf_counter()
    for number in range(1, PASSES + 1):
        total, count = 0.0, 0
        for entities, relations in batches(number):
            loss = model(entities, relations)
            loss.backward()
            finish_batch()
            total += loss.item()
            count += len(entities)
        if is_first:
            print(f"{name}, pass {number}: loss {total / count:.4f}", flush=True)
    if is_first:
        print(f"{name}: {PASSES * count / (time.perf_counter() - start):,.0f} triples a second", flush=True)


def train_plainly(batches, entities, relations):
    model = ComplEx(torch.nn.Embedding.from_pretrained(start_values(entities, 1), freeze=False, sparse=True),
                    torch.nn.Embedding.from_pretrained(start_values(relations, 2), freeze=False, sparse=True))
    optimizer = torch.optim.Adagrad(model.parameters(), RATE)

    def finish_batch():
        optimizer.step()
        optimizer.zero_grad()

    train("plain PyTorch", model, batches, finish_batch, True)


def train_by_tables(session, batches, entities, relations):
    # Alone, each step must come before the next batch, for the plain loop's does; several workers need not wait for each other.
    consistency = verbena.Bsp() if session.workers == 1 else verbena.Essp(staleness=2)
    model = ComplEx(*(
        verbena.torch.Embedding(session, name, rows, 2 * WIDTH, rule=verbena.named("adagrad", rate=RATE),
                                initial=start_values(rows, seed), consistency=consistency)
        for seed, (name, rows) in enumerate((("entities", entities), ("relations", relations)), start=1)))
    train("Verbena", model, lambda number: verbena.torch.prefetch(batches(number), model.entities, model.relations),
          session.clock, session.rank == 0)


def main():
    triples, entities, relations = read(sys.argv[1])
    with verbena.init() as session:
        mine = triples[session.rank::session.workers]

        def batches(number):
            random = torch.Generator().manual_seed(100 * session.rank + number)
            for places in torch.randperm(len(mine), generator=random).split(BATCH):
                wrong = torch.randint(entities, (len(places), NEGATIVES), generator=random)
                yield torch.cat([mine[places][:, [0, 2]], wrong], dim=1), mine[places, 1]

        if session.workers == 1:
            train_plainly(batches, entities, relations)
        train_by_tables(session, batches, entities, relations)


if __name__ == "__main__":
    main()
