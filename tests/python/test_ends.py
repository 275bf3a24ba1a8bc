"""How programs end, and what the other workers are told."""

import unittest

import jobs
import verbena

BEGINS = """
import sys, verbena
session = verbena.connect([sys.argv[1]], rank=1, workers=2)
"""

# Its text is no UTF-8, or there is none at all.
ERRORS = """
class Odd(Exception):
    def __str__(self):
        raise RuntimeError("has no text")
"""


def ended(program):
    """Runs a program that is the second of two workers. Returns its status, and what the first one is then told: why it
    has given up, or None if it has finished."""
    server = verbena.Server(jobs.free_address("shm"), workers=2)
    first = verbena.connect([server.address], rank=0, workers=2)
    try:
        process = jobs.started(BEGINS + program, server.address)
        jobs.finish(process)
        first.barrier()
        first.close()
        if not server.wait(20):
            raise AssertionError("the server goes on, although all workers have left")
        return process.returncode, None
    except verbena.AbortedError as error:
        return process.returncode, str(error)
    finally:
        server.stop()
        first.close()


class Reasons(unittest.TestCase):
    def check(self, program, status, expected):
        found, why = ended(program)
        self.assertEqual(found, status, program)
        if expected is None or why is None:
            self.assertEqual(why, expected, program)
        else:
            self.assertIn(expected, why, program)

    def test_an_exception_without_a_proper_text_is_a_reason(self):
        for raised, expected in (("ValueError('\\udc80 is bad')", "ValueError: \\udc80 is bad"), ("Odd()", "Odd")):
            self.check(f"{ERRORS}raise {raised}", 1, expected)
            self.check(f"{ERRORS}with session:\n    raise {raised}", 1, expected)

    def test_whoever_exits_may_have_finished(self):
        for given in ("", "0", "None", "False"):
            self.check(f"with session:\n    sys.exit({given})", 0, None)
            self.check(f"sys.exit({given})", 0, None)
        self.check("with session:\n    sys.exit('bad input')", 1, "SystemExit: bad input")
        self.check("with session:\n    sys.exit(3)", 3, "SystemExit: 3")


class StepsAside(unittest.TestCase):
    def test_another_session_goes_on_with_the_current_clock(self):
        with jobs.job(replaces_workers=True) as place:
            for incarnation in range(2):
                with verbena.connect(**place, incarnation=incarnation) as session:
                    rows = session.table("rows", rows=1, width=1, dtype="float32", consistency="ssp:1")
                    self.assertEqual(session.is_catching_up, incarnation == 1)
                    for clock in range(2 * (incarnation + 1)):
                        if not session.is_catching_up:
                            rows.push([0], [[1.0]])
                        session.clock()
                    if incarnation == 0:
                        session.step_aside()
                    else:
                        self.assertEqual(rows.pull([0]).tolist(), [[4.0]])


class Whole(unittest.TestCase):
    def test_one_session_that_cannot_be_closed_keeps_no_other_open(self):
        names = [jobs.free_address("shm") for _ in range(6)]
        output = jobs.run_script(f"""
import atexit
def look():  # when the package has closed what is open
    print([each.closed for each in sessions], [each.running for each in servers])
atexit.register(look)
import verbena
servers = [verbena.Server(name) for name in {names}]
sessions = [verbena.connect([server.address], node=0) for server in servers]
parts = []
for session in sessions[:3]:
    table = session.table("rows", rows=4, width=4, dynamic=True, consistency="asp")
    held = table.hold([1])
    parts.append(held[0][1:])
""")
        self.assertIn(f"{[True] * 6} {[False] * 6}", output)
        self.assertIn("arrays that were made of rows that were held are still there", output)


class Threads(unittest.TestCase):
    """A daemon thread is in a call when the interpreter ends, which takes a while then."""

    def check(self, call):
        server = verbena.Server(jobs.free_address("shm"), workers=2)
        try:
            output = jobs.run_script(f"""
import sys, threading, time, verbena
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.5)
slow = Slow()
def call():
    session = verbena.connect([sys.argv[1]], workers=2)
    server = verbena.Server({jobs.free_address("shm")!r}, workers=2)
    begun.set()
    while True:
        {call}
begun = threading.Event()
threading.Thread(target=call, daemon=True).start()
begun.wait()
time.sleep(0.1)
print("done")
""", server.address)
        finally:
            server.stop()
        self.assertEqual(output, "done\n")

    def test_a_barrier(self):
        self.check("session.barrier()")

    def test_servers(self):
        self.check("server.wait(0.001)")

    def test_what_a_scan_calls(self):
        self.check("session.table('rows', sparse=True).scan_batches(lambda keys, values: None)")


if __name__ == "__main__":
    unittest.main()
