"""Waiting: in an event loop, and until Ctrl-C."""

import asyncio
import signal
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import jobs
import verbena


class Asyncio(unittest.TestCase):
    def test_operations_are_awaited(self):
        with jobs.alone(read_path="cached") as session:
            table = session.table("rows", rows=1000, width=4, consistency="bsp")
            table.push(range(1000), np.ones((1000, 4), dtype=np.float32))
            session.clock()

            async def pull(first):
                values = await table.pull_async(range(first, first + 100))
                return values.sum()

            async def everything():
                return await asyncio.gather(*(pull(first) for first in range(0, 1000, 100)))

            self.assertEqual(asyncio.run(everything()), [400] * 10)

    def test_other_tasks_go_on_meanwhile(self):
        with jobs.job(workers=2) as place:

            def work(session):
                table = session.table("rows", rows=10, consistency="ssp:0")
                table.push([1], [[1]])
                session.clock()
                if session.rank == 1:
                    time.sleep(0.3)
                    session.clock()
                    session.barrier()
                    return None
                session.clock()

                async def train():
                    turns = 0

                    async def other():
                        nonlocal turns
                        while True:
                            turns += 1
                            await asyncio.sleep(0.001)

                    task = asyncio.create_task(other())
                    values = await table.pull_async([1])  # until the other worker's clock has ended
                    task.cancel()
                    return turns, values[0, 0]

                result = asyncio.run(train())
                session.barrier()
                return result

            turns, value = jobs.in_workers(place, work)[0]
            self.assertGreater(turns, 1)
            self.assertEqual(value, 2)

    def test_errors_are_raised(self):
        with jobs.alone() as session:
            table = session.table("rows", rows=10)

            async def pull():
                return await table.pull_async([10])

            with self.assertRaises(verbena.InvalidArgumentError):
                asyncio.run(pull())


WAITS = {
    "a barrier": """
session = verbena.connect([server.address], workers=2)
print("waits")
session.barrier()
""",
    "a table": """
session = verbena.connect([server.address], workers=2)
session.table("rows", rows=10, consistency="ssp:0").pull([1])
session.clock()
print("waits")
session.table("rows", rows=10, consistency="ssp:0").pull([1])
""",
    "a pending pull": """
session = verbena.connect([server.address], workers=2)
table = session.table("rows", rows=10, consistency="ssp:0")
session.clock()
pending = table.pull_async([1])
print("waits")
pending.wait()
""",
    "a server": """
print("waits")
server.wait()
""",
    "a connection": """
print("waits")
verbena.connect(["shm:python-test-nobody"])
""",
    "a limit of the lead": """
session = verbena.connect([server.address], workers=2)
print("waits")
session.limit_lead(1)
""",
}


class Interrupts(unittest.TestCase):
    """Ctrl-C ends what would wait for an hour."""

    def test_each_wait_ends(self):
        running = []
        for name, body in WAITS.items():
            script = (f"import verbena\nserver = verbena.Server('{jobs.free_address('shm')}', workers=2)\n"
                      f"try:\n" + "".join(f"    {line}\n" for line in body.strip().splitlines()) +
                      "except KeyboardInterrupt:\n    print('interrupted')\n    raise SystemExit(3)\n")
            running.append((name, jobs.started(script)))
        for name, process in running:
            with self.subTest(name):
                self.assertEqual(process.stdout.readline(), "waits\n", name)
                # Not before it waits; should it not yet, the exception comes where it is, which is as well.
                time.sleep(0.1)
                process.send_signal(signal.SIGINT)
                output = jobs.finish(process)
                self.assertIn("interrupted", output)
                self.assertEqual(process.returncode, 3, output)

    def test_a_handler_that_raises_nothing_interrupts_nothing(self):
        script = f"""
import signal, threading, verbena
came = []
def handle(number, frame):
    try:
        session.clock()
    except verbena.FailedPreconditionError as error:
        came.append(str(error))
signal.signal(signal.SIGUSR1, handle)
server = verbena.Server('{jobs.free_address('shm')}', workers=2)
def other():
    with verbena.connect([server.address], rank=1, workers=2) as second:
        gone.wait()
        second.barrier()
gone = threading.Event()
thread = threading.Thread(target=other)
thread.start()
session = verbena.connect([server.address], workers=2)
threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGUSR1)).start()
threading.Timer(0.8, gone.set).start()
session.barrier()
thread.join()
session.close()
server.wait()
print(came)
"""
        self.assertIn("in the middle of a call, in which a signal's handler must not use it", jobs.run_script(script))

    def test_a_connection_in_the_last_moment(self):
        """It is made while the handler runs that then raises: its session says goodbye."""
        script = f"""
import signal, time, verbena
address = "{jobs.free_address('shm')}"
def handle(number, frame):
    global server
    server = verbena.Server(address)
    time.sleep(1)
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    verbena.connect([address])
except KeyboardInterrupt:
    print("interrupted", server.wait(5))
"""
        self.assertEqual(jobs.run_script(script), "interrupted True\n")


class OtherThreads(unittest.TestCase):
    """They run while a call takes its time."""

    def test_a_checkpoint_is_looked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            with jobs.alone() as session:
                table = session.table("rows", rows=1 << 18, width=16, consistency="bsp")
                table.push(range(1 << 18), np.ones((1 << 18, 16), dtype=np.float32))
                session.checkpoint(folder)
                session.finish_checkpoint()
            turns, is_over = 0, False

            def turn():
                nonlocal turns
                while not is_over:
                    time.sleep(0.0002)
                    turns += 1

            self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
            sys.setswitchinterval(10)  # only a call that gives up the interpreter's lock lets the other thread run
            thread = threading.Thread(target=turn)
            thread.start()
            time.sleep(0.01)
            before = after = turns
            for _ in range(1000):  # it may take the other thread longer than one call to wake up
                if after == before:
                    verbena.newest_checkpoint(folder)
                    after = turns
            is_over = True
            thread.join()
            self.assertGreater(after, before)

    def test_a_sample_is_drawn_by_one_call(self):
        """What another thread draws with the same generator meanwhile is not missing in it."""
        count, most = 3_000_000, 100_000
        keys = verbena.KeyDistribution.uniform(range(1 << 16))
        with jobs.alone() as session:
            table = session.table("rows", rows=1 << 16, dynamic=True, consistency="asp")
            expected = table.prepare_sample(keys, count + most, verbena.Random(1)).keys
            random, begins, is_over = verbena.Random(1), threading.Event(), False

            def draw():
                begins.wait()
                while not is_over:
                    keys.draw(random)
                    time.sleep(0.0001)

            thread = threading.Thread(target=draw)
            thread.start()
            begins.set()
            found = table.prepare_sample(keys, count, random).keys
            is_over = True
            thread.join()
            starts = [i for i in range(most) if expected[i] == found[0] and (expected[i:i + 8] == found[:8]).all()]
            self.assertEqual(len(starts), 1)
            np.testing.assert_array_equal(found, expected[starts[0]:][:count])


if __name__ == "__main__":
    unittest.main()
