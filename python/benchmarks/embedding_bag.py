#!/usr/bin/env python3
"""What a layer over a table costs beside PyTorch's: 256 bags of 8 embeddings of 16 numbers.

    embedding_bag.py [--seconds S] [--embeddings N] [--threads T]

The least of many short rounds, by turns: whatever else runs on the machine only adds to it."""

import argparse

import torch
from calls import in_python, seconds_a_call

import verbena
import verbena.torch

BAGS, LENGTH, WIDTH = 256, 8, 16


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each comparison")
    parser.add_argument("--embeddings", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch's")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    random = torch.Generator().manual_seed(1)
    indices = torch.randint(arguments.embeddings, (BAGS * LENGTH,), generator=random)
    offsets = torch.arange(0, BAGS * LENGTH, LENGTH)
    gradients = torch.randn(BAGS, WIDTH, generator=random)
    theirs = torch.nn.EmbeddingBag(arguments.embeddings, WIDTH, mode="sum", sparse=True)
    their_steps = torch.optim.Adagrad(theirs.parameters(), 0.01)
    with verbena.init() as session:
        layers = {"a dense table": {}, "a sparse table": {"sparse": True}}
        ours = [verbena.torch.EmbeddingBag(session, name, arguments.embeddings, WIDTH, mode="sum", rule="adagrad(rate=0.01)",
                                           **options) for name, options in layers.items()]

        def both_ways(layer):
            layer(indices, offsets).backward(gradients)

        def plainly():
            theirs.weight.grad = None
            both_ways(theirs)

        def plain_step():
            plainly()
            their_steps.step()

        def step(layer):
            both_ways(layer)
            session.clock()

        for layer in ours:  # of a sparse table, rows that were never pushed to are drawn at each pull
            step(layer)
        print(f"{BAGS} bags of {LENGTH} embeddings of {WIDTH} float32 values, of {arguments.embeddings:,}; "
              "microseconds, and times PyTorch's")
        print(f"{'':<38} {'EmbeddingBag(sparse=True)':>26} " + " ".join(f"{name:>20}" for name in layers))
        for what, plain, way in (("forward", lambda: theirs(indices, offsets), lambda layer: layer(indices, offsets)),
                                 ("forward and backward", plainly, both_ways),
                                 ("forward, backward and step of Adagrad", plain_step, step)):
            ways = [plain, *((lambda layer=layer: way(layer)) for layer in ours)]
            least = [each * 1e6 for each in seconds_a_call([in_python(each) for each in ways], arguments.seconds)]
            print(f"{what:<38} {least[0]:>26.0f} "
                  + " ".join(f"{each:>11.0f} ({each / least[0]:.2f} x)" for each in least[1:]))


if __name__ == "__main__":
    main()
