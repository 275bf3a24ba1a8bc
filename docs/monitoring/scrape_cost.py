#!/usr/bin/env python3
"""What it costs a run to be watched: the time of training without --metrics-port, with it when nobody asks, and with a scrape
of /metrics each second.

    scrape_cost.py [--program PROGRAM] [--rounds N] [--seconds S] [--every S] [-- ARGUMENTS OF verbena run]

The runs are made in rounds, each way once a round, in an order that turns; a way's figure is the median of its ratios to the
run without a port in the same round. By default mf on 100,000 ratings, as `verbena generate mf` makes them, with a server and
two workers, whose iterations take a millisecond or so: more reports a second than most trainings have."""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

WAYS = ("no port", "a port, nobody asks", "scraped")


def scrape_often(url, every, is_over, scrapes):
    while not is_over.wait(every):
        began = time.perf_counter()
        try:
            with urllib.request.urlopen(f"{url}metrics", timeout=10) as answer:
                answer.read()
        except OSError:
            return  # the run has just ended
        scrapes.append(time.perf_counter() - began)


def train(command, way, every, scrapes):
    """Seconds of training, by the run's own clock."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder, "run.jsonl")
        words = [*command, "--quiet", f"--metrics={metrics}", *(["--metrics-port=0"] if way != WAYS[0] else [])]
        is_over = threading.Event()
        scraper = None
        with subprocess.Popen(words, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            said = []
            for line in run.stderr:
                said.append(line)
                url = re.search(r"(http://\S+/) shows the run", line)
                if url and way == WAYS[2]:
                    scraper = threading.Thread(target=scrape_often, args=(url[1], every, is_over, scrapes))
                    scraper.start()
        is_over.set()
        if scraper is not None:
            scraper.join()
        if run.returncode != 0:
            sys.exit(f"{' '.join(words)} ended with {run.returncode}:\n{''.join(said)}")
        (summary,) = [each for each in map(json.loads, metrics.read_text().splitlines()) if each["kind"] == "summary"]
        return summary["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bin/verbena")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=10.0, help="about so long each training takes")
    parser.add_argument("--every", type=float, default=1.0, help="seconds from one scrape to the next")
    parser.add_argument("run", nargs="*", metavar="ARGUMENT", help="of verbena run: another training, which --seconds leaves "
                        "as it is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.program, "run", *arguments.run]
        if not arguments.run:
            ratings = pathlib.Path(folder, "ratings.tsv")
            subprocess.run([arguments.program, "generate", "mf", "--users=1000", "--items=1700", "--ratings=100000",
                            f"--output={ratings}"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

            def training(iterations):
                return [*command, "mf", f"--data={ratings}", "--servers=1", "--workers=2", "--rank=16", "--decay=0.999",
                        f"--evaluate-every={iterations}", f"--iterations={iterations}"]

            few = 200
            took = train(training(few), WAYS[0], arguments.every, [])
            command = training(max(few, round(few * arguments.seconds / took)))
        seconds = {way: [] for way in WAYS}
        scrapes = []
        for number in range(arguments.rounds):
            turn = number % len(WAYS)
            for way in (*WAYS[turn:], *WAYS[:turn]):
                seconds[way].append(train(command, way, arguments.every, scrapes))
    print(f"{'':<22} {'median s':>9} {'times as long as without a port':>32} {'lowest … highest':>18}")
    for way in WAYS:
        ratios = [mine / plain for mine, plain in zip(seconds[way], seconds[WAYS[0]])]
        print(f"{way:<22} {statistics.median(seconds[way]):>9.3f} {statistics.median(ratios):>32.4f} "
              f"{min(ratios):>9.4f} … {max(ratios):.4f}")
    if scrapes:
        print(f"{len(scrapes)} scrapes, {1000 * statistics.median(scrapes):.2f} ms each, one every {arguments.every:g} s")


if __name__ == "__main__":
    main()
