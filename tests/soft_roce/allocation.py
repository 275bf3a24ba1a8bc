"""Measures iterations over two virtual machines, for each way to allocate rows, and the plain loop in one of
them. Not a test: the times are those of an emulator. Prints the table of docs/soft-roce.md. From the root of the
tree:

  python3 -B tests/soft_roce/allocation.py build/release/tests/soft_roce/image --program build/release/bin/verbena
"""

import gzip
import itertools
import pathlib
import re
import subprocess
import tempfile

import case

DATA = pathlib.Path("data")
SEQUENTIAL = "--consistency=sequential"
ROWS_STAY = "--allocation=static"
ALLOCATIONS = {"classic": [SEQUENTIAL, ROWS_STAY, "--lookahead=0"], "prefetch": [SEQUENTIAL, ROWS_STAY],
               "localize": [SEQUENTIAL, "--allocation=localize"],
               "intent": ["--consistency=asp", "--allocation=intent"]}
ITERATIONS = 5
APPLICATIONS = {"mf": ["mf", "--data=/data/ratings", "--rank=100", "--batch=64"],
                "kge": ["kge", "--data=/data/graph"],
                "word2vec": ["word2vec", "--data=/data/text", "--batch=1024", "--top-words=0"]}
# Whole data sets would take too long.
LINES = {"graph/train.txt": 10_000, "graph/valid.txt": 100, "graph/test.txt": 100, "text": 150}
FIGURES = ("share of time waited", "share of rows local", "rows moved", "time of a move")
MEMORY_MIB = 1024
DEADLINE_S = 900


class Allocation(case.PairCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="verbena-")
        cls.addClassCleanup(folder.cleanup)
        here = pathlib.Path(folder.name)
        subprocess.run([cls.programs["/usr/bin/verbena"], "generate", "mf", f"--output={here}/ratings", "--users=2000",
                        "--items=1000", "--ratings=100000"], check=True)
        (here / "graph").mkdir()
        for name, lines in LINES.items():
            source = DATA / "wn18rr" / f"{pathlib.Path(name).stem}.txt.gz" if "/" in name else DATA / "kjv-chapters.tsv.gz"
            with gzip.open(source, "rt", encoding="utf-8") as text:
                (here / name).write_text("".join(itertools.islice(text, lines)), encoding="utf-8")
        cls.open_pair(files={f"/data/{name}": here / name for name in ("ratings", *LINES)}, memory_mib=MEMORY_MIB)

    def test_iterations(self):
        table = [("application", "rows", "iteration", *FIGURES)]
        for name, application in APPLICATIONS.items():
            for rows, options in {"plain loop": None, **ALLOCATIONS}.items():
                command = [*application, f"--iterations={ITERATIONS}"]
                if options is None:
                    output = self.nodes[0].run(["verbena", "run", *command, "--baseline"], DEADLINE_S)
                else:
                    servers, workers = self.start(command, *options)
                    for job in workers + servers:
                        self.assertEqual(job.wait(DEADLINE_S), 0, job.text())
                    output = workers[0].text()
                printed = dict(re.findall(r"^  (\S.*?)  +(\S.*)$", output, re.MULTILINE))
                seconds = float(printed["training time"].split()[0]) / ITERATIONS
                table.append((name, rows, f"{seconds:.2f} s", *(printed.get(figure, "–") for figure in FIGURES)))
        print("\n".join(f"| {' | '.join(row)} |" for row in table))


if __name__ == "__main__":
    case.main()
