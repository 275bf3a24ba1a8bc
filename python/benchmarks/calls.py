#!/usr/bin/env python3
"""What a call costs from Python: pulls and pushes of a table on this host, by number of keys.

    calls.py [--seconds S]

`verbena bench --operations pull` measures the same from C++ (docs/benchmarks.md). Run both by turns, on a machine with
nothing else to do."""

import argparse
import time

import numpy as np

import verbena

WIDTH = 16
ROWS = 1 << 16
ROUNDS = 7


def seconds_a_call(call, seconds):
    """The least of several rounds: whatever else runs on the machine only adds to it."""
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        passed = time.perf_counter() - start
        if passed > seconds / ROUNDS / 2:
            break
        calls *= 2
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - start) / calls)
    return min(rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    seconds = parser.parse_args().seconds
    random = np.random.default_rng(1)
    with verbena.init() as session:
        table = session.table("rows", rows=ROWS, width=WIDTH)
        table.push(range(ROWS), np.ones((ROWS, WIDTH), dtype=np.float32))
        session.barrier()
        print(f"rows of {WIDTH} float32 values; microseconds a call")
        print(f"{'keys':>8} {'pull, out given':>16} {'pull, new array':>16} {'push':>8} {'numpy take':>12}")
        memory = np.ones((ROWS, WIDTH), dtype=np.float32)
        for count in (1, 10, 100, 1000, 10_000):
            keys = random.choice(ROWS, count, replace=False).astype(np.uint64)
            places = keys.astype(np.int64)
            out = np.empty((count, WIDTH), dtype=np.float32)
            updates = np.zeros((count, WIDTH), dtype=np.float32)
            filled = seconds_a_call(lambda: table.pull(keys, out), seconds)  # pylint: disable=cell-var-from-loop
            fresh = seconds_a_call(lambda: table.pull(keys), seconds)  # pylint: disable=cell-var-from-loop
            taken = seconds_a_call(lambda: memory.take(places, 0, out), seconds)  # pylint: disable=cell-var-from-loop
            pushed = seconds_a_call(lambda: table.push(keys, updates), seconds)  # pylint: disable=cell-var-from-loop
            session.clock()
            print(f"{count:>8} {filled * 1e6:>16.2f} {fresh * 1e6:>16.2f} {pushed * 1e6:>8.2f} {taken * 1e6:>12.2f}")


if __name__ == "__main__":
    main()
