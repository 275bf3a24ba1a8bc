#!/usr/bin/env python3
"""A two-tower recommender in PyTorch: what somebody has liked, and an item, become vectors whose product says how likely it is
that the item is liked next.

    two_tower.py                                     alone, beside the same in plain PyTorch
    torchrun --nproc-per-node 2 two_tower.py         as two workers (PyTorch 2; VERBENA_NO_SECRET=1 on one's own machine)

The likes are drawn from hidden tastes, by a fixed seed. The tower of people is the mean of the embeddings of six items that they
have liked, and two layers; that of items an embedding. Embeddings are tables whose servers take steps of Adagrad; the layers'
parameters are one, too. Each worker has its share of each batch's people."""

import time

import torch

import verbena
import verbena.torch

ITEMS, WIDTH, HISTORY = 1000, 16, 6
PEOPLE, BATCH, PASSES = 12_000, 240, 3
RATE, NET_RATE = 0.1, 0.003


def generate():
    """For each of the people, items that they have liked, and the one that they like next."""
    random = torch.Generator().manual_seed(1)
    tastes = torch.randn(PEOPLE, 4, generator=random)
    items = torch.randn(ITEMS, 4, generator=random)
    likes = torch.multinomial(torch.softmax(2 * tastes @ items.T, dim=1), HISTORY + 1, generator=random)
    return likes[:, :HISTORY].contiguous(), likes[:, HISTORY].contiguous()


def start_values():
    random = torch.Generator().manual_seed(2)
    return [0.1 * torch.randn(ITEMS, WIDTH, generator=random) for _ in range(2)]


class TwoTowers(torch.nn.Module):
    def __init__(self, liked, items):
        super().__init__()
        torch.manual_seed(3)
        self.liked, self.items = liked, items
        self.net = torch.nn.Sequential(torch.nn.Linear(WIDTH, 32), torch.nn.ReLU(), torch.nn.Linear(32, WIDTH))

    def forward(self, history, following):
        """The loss: each of the people should like his own next item rather than those of the others in the batch."""
        scores = self.net(self.liked(history)) @ self.items(following).T
        return torch.nn.functional.cross_entropy(scores, torch.arange(len(history)))


def train(name, towers, batches, finish_batch, is_first):
    start = time.perf_counter()
    for number in range(1, PASSES + 1):
        total = 0.0
        for history, following in batches():
            loss = towers(history, following)
            loss.backward()
            finish_batch()
            total += loss.item() / (PEOPLE // BATCH)
        if is_first:
            print(f"{name}, pass {number}: loss {total:.4f}", flush=True)
    if is_first:
        print(f"{name}: {PASSES * PEOPLE / (time.perf_counter() - start):,.0f} people a second", flush=True)


def train_plainly(batches):
    liked, items = start_values()
    towers = TwoTowers(torch.nn.EmbeddingBag.from_pretrained(liked, freeze=False, mode="mean", sparse=True),
                       torch.nn.Embedding.from_pretrained(items, freeze=False, sparse=True))
    optimizers = [torch.optim.Adagrad([towers.liked.weight, towers.items.weight], RATE),
                  torch.optim.Adam(towers.net.parameters(), NET_RATE)]

    def finish_batch():
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    train("plain PyTorch", towers, batches, finish_batch, True)


def train_by_tables(session, batches):
    liked, items = start_values()
    options = {"rule": verbena.named("adagrad", rate=RATE), "consistency": verbena.Bsp()}
    towers = TwoTowers(
        verbena.torch.EmbeddingBag(session, "liked", ITEMS, WIDTH, mode="mean", initial=liked, **options),
        verbena.torch.Embedding(session, "items", ITEMS, WIDTH, initial=items, **options))
    optimizer = verbena.torch.DistributedOptimizer(torch.optim.Adam(towers.net.parameters(), NET_RATE), session, towers.net,
                                                   consistency=verbena.Bsp())

    def finish_batch():
        optimizer.step()
        optimizer.zero_grad()
        session.clock()

    train("Verbena", towers, lambda: verbena.torch.prefetch(batches(), towers.liked, towers.items), finish_batch,
          session.rank == 0)


def main():
    histories, following = generate()
    with verbena.init() as session:

        def batches():
            for first in range(0, PEOPLE, BATCH):
                mine = slice(first + session.rank, first + BATCH, session.workers)
                yield histories[mine], following[mine]

        if session.workers == 1:
            train_plainly(batches)
        train_by_tables(session, batches)


if __name__ == "__main__":
    main()
