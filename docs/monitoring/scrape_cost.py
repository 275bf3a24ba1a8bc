#!/usr/bin/env python3
"""What it costs a training to be scraped once a second.

    scrape_cost.py [--program PROGRAM] [--seconds S] [--every S] [-- ARGUMENTS OF verbena run]

One training is cut into windows of --every seconds, two by two: at the start of one of them /metrics is asked for, in the other
one it is not, and which comes first turns. A pair's ratio is how long an iteration takes in the one beside the other, so that
what makes whole runs differ by more than the price (where their memory lies, a neighbour on the host) is in both. Printed is the
median of the ratios, with the bounds that hold the true median in 95 of 100 cases (by order statistics). By default mf on 100,000
ratings, as `verbena generate mf` makes them, with a server and two workers, whose iterations take a millisecond or so: more
reports a second than most trainings have."""

import argparse
import bisect
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

START = re.compile(r"^verbena_run_start_time_seconds\S* (\S+)$", re.MULTILINE)


class Scrapes(threading.Thread):
    """Asks in one of each two windows, and notes when."""

    def __init__(self, url, every):
        super().__init__()
        self.url, self.every = url, every
        self.is_over = threading.Event()
        self.start_time = None  # of the run, since 1970
        self.first = None  # when the first window begins
        self.asked = []  # (window, seconds since 1970, seconds it took)

    def scrape(self):
        with urllib.request.urlopen(f"{self.url}metrics", timeout=10) as answer:
            return answer.read().decode()

    def run(self):
        try:
            self.start_time = float(START.search(self.scrape())[1])
            self.first = time.time() + self.every  # the run has begun to train
            window = 0
            while True:
                at = self.first + window * self.every
                if self.is_over.wait(max(0.0, at - time.time())):
                    return
                began = time.time()
                self.scrape()
                self.asked.append((window, began, time.time() - began))
                window += 3 if window % 4 == 0 else 1  # 0, 3, 4, 7, …: the first of a pair, the second of the next
        except OSError:
            return  # the run has just ended


def train(command, every=None):
    """Its metrics' records, and its scrapes (None without `every`)."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder, "run.jsonl")
        words = [*command, "--quiet", f"--metrics={metrics}", *(["--metrics-port=0"] if every else [])]
        scrapes = None
        with subprocess.Popen(words, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            said = []
            for line in run.stderr:
                said.append(line)
                url = re.search(r"(http://\S+/) shows the run", line)
                if url and every:
                    scrapes = Scrapes(url[1], every)
                    scrapes.start()
        if scrapes is not None:
            scrapes.is_over.set()
            scrapes.join()
        if run.returncode != 0:
            sys.exit(f"{' '.join(words)} ended with {run.returncode}:\n{''.join(said)}")
        return [json.loads(line) for line in metrics.read_text().splitlines()], scrapes


def ratios_of(records, scrapes, every):
    """For each pair of windows that lies within the training: the time of an iteration with a scrape to that without."""
    ends = [scrapes.start_time + record["elapsed_seconds"] for record in records if record["kind"] == "iteration"]

    def iterations_until(moment):
        """A fraction of one counts, too."""
        after = bisect.bisect_right(ends, moment)
        return after + (moment - ends[after - 1]) / (ends[after] - ends[after - 1])

    ratios = []
    asked = {window for window, _, _ in scrapes.asked}
    for pair in range(0, max(asked, default=-1) + 1, 2):
        begin = scrapes.first + pair * every
        if begin <= ends[0] or begin + 2 * every >= ends[-1]:
            continue
        (scraped,) = asked & {pair, pair + 1}
        done = [iterations_until(at + every) - iterations_until(at) for at in (begin, begin + every)]
        ratios.append(done[1 - (scraped - pair)] / done[scraped - pair])
    return sorted(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bin/verbena")
    parser.add_argument("--seconds", type=float, default=180.0, help="about so long the training takes")
    parser.add_argument("--every", type=float, default=1.0, help="of a window")
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
                return [*command, "mf", f"--data={ratings}", "--servers=1", "--workers=2", "--rank=16", "--decay=0.9999",
                        f"--evaluate-every={iterations}", f"--iterations={iterations}"]

            few = 2000
            (summary,) = [each for each in train(training(few))[0] if each["kind"] == "summary"]
            command = training(max(few, round(few * arguments.seconds / summary["seconds"])))
        records, scrapes = train(command, arguments.every)
    ratios = ratios_of(records, scrapes, arguments.every)
    if len(ratios) < 10:
        sys.exit(f"{len(ratios)} pairs of windows of {arguments.every:g} s are too few: the training must take longer")
    apart = 0.98 * math.sqrt(len(ratios))  # 1.96 standard deviations of how many of the ratios are below the true median
    low = ratios[max(0, math.floor(len(ratios) / 2 - apart))]
    high = ratios[min(len(ratios) - 1, math.ceil(len(ratios) / 2 + apart))]
    print(f"with a scrape every {arguments.every:g} s an iteration takes {statistics.median(ratios):.4f} times as long "
          f"({low:.4f} … {high:.4f}; {len(ratios)} pairs of windows)")
    print(f"{len(scrapes.asked)} scrapes, {1000 * statistics.median(took for _, _, took in scrapes.asked):.2f} ms each")


if __name__ == "__main__":
    main()
