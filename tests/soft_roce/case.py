"""What the tests in this folder share: the image, and perftest's tools as a yardstick.

Each test is a program: NAME_test.py CACHE [--program FILE]... [what unittest takes]. CACHE is the folder of the
image (image.py). The programs are in /usr/bin of the machines.
"""

import argparse
import math
import pathlib
import re
import sys
import unittest

import image
import vm

PERFTEST_PORT = 18515  # its default
ATTEMPTS = 3
PAIRS = ("--servers=2", "--workers=2")


class Case(unittest.TestCase):
    image = None  # these two are set by main()
    programs = {}
    lab = None

    @classmethod
    def open_lab(cls, **what):
        """Opens a vm.Lab for the tests of this class, with the same arguments."""
        cls.lab = vm.Lab(cls.image, programs=cls.programs, **what)
        cls.addClassCleanup(cls.lab.close)

    def tearDown(self):
        for machine in self.lab.machines if self.lab else []:
            machine.end_jobs()

    def perftest(self, tool, server, client, options=""):
        """Runs a latency tool between two machines, or in one, and returns its typical figure in µs.

        A tool measures the clock's rate first. On a busy host this fails, and its figures are inf. Then it is run
        again.
        """
        for _ in range(ATTEMPTS):
            typical_us = self._perftest_once(tool, server, client, options)
            if math.isfinite(typical_us):
                break
        return typical_us

    def _perftest_once(self, tool, server, client, options):
        waiting = server.start(f"{tool} -F -d rxe0 -x {server.gid_index()} {options}")
        server.wait_listening(PERFTEST_PORT)
        table = client.run(f"{tool} -F -d rxe0 -x {client.gid_index()} {options} {server.address()}")
        self.assertEqual(waiting.wait(vm.RUN_DEADLINE_S), 0, waiting.text())
        # bytes, iterations, t_min, t_max, t_typical, …
        typical = re.search(r"^\s*\d+\s+\d+\s+\S+\s+\S+\s+(\S+)", table, re.MULTILINE)
        self.assertIsNotNone(typical, table)
        return float(typical[1])


class PairCase(Case):
    """Jobs over two machines, with a server and a worker on each."""

    @classmethod
    def open_pair(cls, **what):
        """Opens a lab of two machines. Takes the arguments of open_lab()."""
        cls.open_lab(**what)
        cls.nodes = cls.lab.network(2)
        cls.port = 7000

    def addresses(self):
        """The servers' addresses in a new job, with a port that no earlier server has used."""
        type(self).port += 1
        return [f"{node.address()}:{self.port}" for node in self.nodes]

    def start(self, application, *options):
        """Starts a server and a worker on each node. Returns the servers and the workers."""
        for node in self.nodes:
            node.run("umask 077; echo a-secret-of-all-of-this-job > /secret")
        where = [f"--addresses={','.join(self.addresses())}", "--secret-file=/secret", *PAIRS]
        servers = [node.start(["verbena", "server", *where, f"--server-rank={rank}"])
                   for rank, node in enumerate(self.nodes)]
        workers = [node.start(["verbena", "worker", *application, *where, f"--worker-rank={rank}", *options])
                   for rank, node in enumerate(self.nodes)]
        return servers, workers


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s CACHE [--program FILE]... [what unittest takes]")
    parser.add_argument("cache")
    parser.add_argument("--program", action="append", default=[], type=pathlib.Path)
    known, rest = parser.parse_known_args()
    Case.programs = {f"/usr/bin/{program.name}": program for program in known.program}
    try:
        Case.image = image.build(known.cache)
    except image.Unavailable as reason:
        print(f"skipped: soft-RoCE in virtual machines: {reason}")
        sys.exit(image.SKIPPED)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
