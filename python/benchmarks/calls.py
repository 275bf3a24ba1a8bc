#!/usr/bin/env python3
"""What a call costs from Python, and what the same takes in C++: pulls of a table on this host, by number of keys; then
adding to 100 rows of a dynamic table, each where it lies or all by a pull and a push, by their width.

    calls.py [--seconds S]

The least of many short rounds, by turns: whatever else runs on the machine only adds to it."""

import argparse
import time

import numpy as np

import verbena

WIDTH = 16
ROWS = 1 << 16
ROUND_S = 0.002


def in_python(call):
    """A function that times so many calls."""

    def seconds(count):
        start = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - start

    return seconds


def seconds_a_call(ways, seconds):
    """Of each way, the least."""
    counts = []
    for way in ways:
        count = 1
        while way(count) < ROUND_S:
            count *= 2
        counts.append(count)
    least = [float("inf")] * len(ways)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, (way, count) in enumerate(zip(ways, counts)):
            least[i] = min(least[i], way(count) / count)
    return least


def compare_hold(session, seconds):
    count = 100
    print(f"\nadding to {count} rows; microseconds")
    print(f"{'width':>8} {'hold':>12} {'pull and push':>16}")
    for width in (16, 256, 4096, 65_536):
        table = session.table(f"rows of {width}", rows=count, width=width, dynamic=True, consistency=verbena.Asp())
        keys = np.arange(count, dtype=np.uint64)
        updates = np.ones((count, width), dtype=np.float32)
        out = np.empty_like(updates)

        def in_place():
            with table.hold(keys) as rows:
                for row in rows:
                    row += 1

        def both_ways():
            table.pull(keys, out)
            table.push(keys, updates)

        held, copied = (each * 1e6 for each in seconds_a_call((in_python(in_place), in_python(both_ways)), seconds))
        print(f"{width:>8} {held:>12.1f} {copied:>16.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each number of keys")
    seconds = parser.parse_args().seconds
    random = np.random.default_rng(1)
    memory = np.ones((ROWS, WIDTH), dtype=np.float32)
    with verbena.init() as session:
        table = session.table("rows", rows=ROWS, width=WIDTH)
        table.push(range(ROWS), memory)
        session.barrier()
        print(f"rows of {WIDTH} float32 values; microseconds a call")
        print(f"{'keys':>8} {'pull in C++':>12} {'pull, out given':>16} {'pull, new array':>16} {'numpy take':>11}")
        for count in (1, 10, 100, 1000, 10_000):
            keys = random.choice(ROWS, count, replace=False).astype(np.uint64)
            places = keys.astype(np.int64)
            out = np.empty((count, WIDTH), dtype=np.float32)
            ways = (lambda calls: table._seconds_of_pulls(keys, out, calls), in_python(lambda: table.pull(keys, out)),
                    in_python(lambda: table.pull(keys)), in_python(lambda: memory.take(places, 0, out)))
            cpp, filled, fresh, taken = (each * 1e6 for each in seconds_a_call(ways, seconds))
            print(f"{count:>8} {cpp:>12.2f} {filled:>16.2f} {fresh:>16.2f} {taken:>11.2f}")
        compare_hold(session, seconds)


if __name__ == "__main__":
    main()
