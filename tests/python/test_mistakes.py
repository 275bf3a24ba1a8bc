"""What is refused, and in which words."""

import os
import threading
import traceback
import unittest

import numpy as np

import jobs
import verbena


class Arrays(unittest.TestCase):
    def setUp(self):
        job = jobs.alone()
        session = job.__enter__()
        self.addCleanup(job.__exit__, None, None, None)
        self.table = session.table("rows", rows=10, width=2)

    def refuses(self, words, call, *arguments, **named):
        with self.assertRaisesRegex(verbena.InvalidArgumentError, words) as raised:
            call(*arguments, **named)
        self.assertIsInstance(raised.exception, ValueError)
        self.assertEqual(raised.exception.code, "INVALID_ARGUMENT")

    def test_keys(self):
        pull = self.table.pull
        self.refuses("whole numbers are expected .*not float64", pull, [1.5])
        self.refuses("whole numbers are expected .*not bool", pull, [True])
        self.refuses("not object", pull, [2**70])
        self.refuses("one dimension is expected.*\\(2, 1\\)", pull, [[1], [2]])
        self.refuses("one dimension is expected.*\\(\\)", pull, 3)
        self.refuses("keys below 10, not 10", pull, [10])
        self.refuses("keys below 10, not 18446744073709551615, which is -1 if it has a sign", pull, [-1])
        self.refuses("step 1", pull, range(0, 4, 2))
        self.refuses("range of keys goes from 0", pull, range(-3, 4))
        self.refuses("keys below 10", pull, range(8, 12))

    def test_out(self):
        def out(array):
            return lambda: self.table.pull([1, 2, 3], out=array)

        self.refuses("float32 with shape \\(3, 2\\) is expected; this one has float64", out(np.zeros((3, 2))))
        self.refuses("has shape \\(2, 3\\)", out(np.zeros((2, 3), dtype=np.float32)))
        self.refuses("has shape \\(6,\\)", out(np.zeros(6, dtype=np.float32)))
        self.refuses("is not contiguous", out(np.zeros((2, 3), dtype=np.float32).T))
        self.refuses("is not contiguous", out(np.zeros((3, 4), dtype=np.float32)[:, ::2]))
        self.refuses("is a list", out([[0, 0], [0, 0], [0, 0]]))
        fixed = np.zeros((3, 2), dtype=np.float32)
        fixed.setflags(write=False)
        self.refuses("is read-only", out(fixed))
        self.refuses("float32 with shape", lambda: self.table.pull_async([1], out=np.zeros((1, 2))))

    def test_updates(self):
        push = self.table.push
        self.refuses("shape \\(2, 2\\) is expected, a row for each key; this one has \\(2,\\)", push, [1, 2], [1, 2])
        self.refuses("float32 is expected", push, [1], [["a", "b"]])
        self.refuses("float32 is expected.*complex128", push, [1], np.zeros((1, 2), dtype=complex))

    def test_whole_numbers_stay_whole(self):
        with jobs.alone() as session:
            table = session.table("whole", rows=4, dtype="int32")
            self.refuses("int32 is expected.*float64", table.push, [1], [[1.5]])

    def test_numbers_that_the_type_does_not_hold(self):
        most = {"int32": 2**31 - 1, "int64": 2**63 - 1, "float32": float(np.finfo("f4").max), "float64": 1e308}
        with jobs.alone() as session:
            for dtype, type_of, wrong in (("int32", "i8", 3_000_000_000), ("int32", "i8", -2**31 - 1), ("int32", "u4", 2**31),
                                          ("int32", ">i8", 2**31), ("int64", "u8", 2**63), ("int32", "u8", 2**64 - 1),
                                          ("float32", "f8", 1e300), ("float32", "f8", -3.5e38), ("float32", ">f8", 1e39),
                                          ("float64", "g", np.longdouble("-1e400"))):
                with self.subTest(dtype=dtype, type_of=type_of):
                    table = session.table(f"{dtype} {type_of} {wrong}", rows=4, width=2, dtype=dtype)
                    updates = np.array([[1, 0], [most[dtype], 0]], dtype=type_of)
                    table.push([1, 2], updates)  # the largest are taken
                    updates[1, 1] = wrong
                    words = f"updates: numbers that {dtype} holds are expected; the one at place 3 is "
                    for push in (table.push, table.push_async):
                        self.refuses(words, push, [1, 2], updates)
                        self.refuses(words, push, [1, 2], np.repeat(updates, 2, axis=1)[:, ::2])
                    self.assertEqual(table.pull([1])[0, 0], 1)
            table = session.table("whole", rows=4, dtype="int32")
            self.refuses("place 0 is 3000000000", table.push, [1], [[3_000_000_000]])
            for type_of in ("?", "u1", "u2", "i1", "i2"):
                table.push([1], np.ones((1, 1), dtype=type_of))
            self.assertEqual(table.pull([1])[0, 0], 5)
            table = session.table("parts", rows=4, width=4)
            table.push([1], np.array([[np.inf, -np.inf, np.nan, 1e38]]))  # these float32 has
            np.testing.assert_array_equal(table.pull([1]), np.array([[np.inf, -np.inf, np.nan, 1e38]], dtype="f4"))

    def test_names(self):
        with jobs.alone() as session:
            self.refuses("a table holds float32", session.table, "a", rows=1, dtype="float16")
            self.refuses("consistency", session.table, "a", rows=1, consistency="bps")
            self.refuses("rule", session.table, "a", rows=1, rule="adagard")
            with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'wdith'"):
                session.table("a", rows=1, wdith=3)
            with self.assertRaisesRegex(TypeError, "rows cannot be 'many'"):
                session.table("a", rows="many")
            table = session.table("a", rows=1)
            self.refuses("top", table.call, "top(cuont=1)")
        self.refuses("read_path", verbena.connect, ["shm:nowhere"], read_path="quick")
        for connect in (verbena.connect, verbena.Observer):
            self.refuses('servers: a list of addresses is expected, \\["shm:nowhere"\\], and not a text', connect, "shm:nowhere")
        self.refuses("a port is expected that its workers know, not 0", verbena.Server, "tcp:127.0.0.1:0", no_secret=True)


class Sessions(unittest.TestCase):
    def test_another_thread(self):
        with jobs.alone() as session:
            table = session.table("rows", rows=10)
            pending = table.pull_async([1])
            errors = []

            def use():
                for call in (lambda: table.pull([1]), session.clock, session.statistics, session.close,
                             lambda: table.pull_async([1]), lambda: verbena.DataCursor(session, 1),
                             table.staleness, lambda: pending.wait() if not pending.done else session.poll()):
                    try:
                        call()
                    except verbena.FailedPreconditionError as error:
                        errors.append(str(error))

            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
            self.assertEqual(len(errors), 8)
            for error in errors:
                self.assertRegex(error, "belongs to thread [0-9]+ .*and thread [0-9]+ .*has used it")
            self.assertEqual(session.rank, 0)

    def test_fork(self):
        with jobs.alone() as session:
            table = session.table("rows", rows=10)
            table.push([1], [[1]])
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                said = []
                try:
                    for call in (lambda: table.pull([1]), session.clock, session.take_over, session.statistics):
                        try:
                            call()
                            said.append("nothing")
                        except verbena.FailedPreconditionError as error:
                            said.append(str(error))
                    session.close()  # leaves the parent's alone
                except BaseException:  # pylint: disable=broad-except
                    said.append(traceback.format_exc())
                os.write(write, "\n".join(said).encode())
                os._exit(0)
            os.close(write)
            with open(read, encoding="utf-8") as pipe:
                said = pipe.read().splitlines()
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(len(said), 4, said)
            for sentence in said:
                self.assertRegex(sentence, f"belongs to process {os.getpid()}, and a child that it has forked")
            session.clock()
            self.assertEqual(table.pull([1])[0, 0], 1)

    def test_fork_and_observers(self):
        with jobs.job("tcp") as place, verbena.connect(**place) as session:
            observer = verbena.Observer(place["servers"], **jobs.network("tcp"))
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                said = "nothing"
                try:
                    observer.job()
                except verbena.Error as error:
                    said = str(error)
                os.write(write, said.encode())
                del observer  # leaves the parent's alone
                os._exit(0)
            os.close(write)
            with open(read, encoding="utf-8") as pipe:
                self.assertIn("belongs to the process that has made it", pipe.read())
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(observer.job().workers, 1)
            session.clock()

    def test_closed(self):
        with jobs.alone() as session:
            table = session.table("rows", rows=10)
            cursor = verbena.DataCursor(session, 1)
        session.close()
        for call in (lambda: table.pull([1]), lambda: table.rows, session.clock, lambda: next(cursor),
                     lambda: session.rank, lambda: session.table("rows", rows=10), table.staleness):
            with self.assertRaisesRegex(verbena.FailedPreconditionError, "this session is closed"):
                call()

    def test_closed_before_an_operation_has_ended(self):
        with jobs.job(workers=2) as place:
            second = []

            def other():
                with verbena.connect(**place, rank=1) as session:
                    session.table("rows", rows=10, consistency="ssp:0")
                    second.append(session)
                    opened.set()
                    closed.wait()

            opened, closed = threading.Event(), threading.Event()
            thread = threading.Thread(target=other)
            thread.start()
            session = verbena.connect(**place, rank=0, timeout_ms=5000)
            table = session.table("rows", rows=10, consistency="ssp:0")
            opened.wait()
            session.clock()
            pending = table.pull_async([1])  # waits for the other worker's clock
            self.assertFalse(pending.poll())
            closed.set()
            session.close()
            thread.join()
            try:
                pending.wait()
            except verbena.FailedPreconditionError as error:
                self.assertRegex(str(error), "closed before the operation had ended")

    def test_nobody_there(self):
        with self.assertRaisesRegex(verbena.DeadlineExceededError, "python-test-nobody") as raised:
            verbena.connect(["shm:python-test-nobody"], timeout_ms=100)
        self.assertIsInstance(raised.exception, TimeoutError)
        self.assertIsInstance(raised.exception, verbena.Error)

    def test_a_server_that_is_gone(self):
        server = verbena.Server(jobs.free_address("shm"))
        session = verbena.connect([server.address])
        table = session.table("rows", rows=10, consistency="sequential")
        server.stop()
        self.assertTrue(server.wait(20))
        with self.assertRaises((verbena.UnavailableError, verbena.AbortedError, verbena.CancelledError)) as raised:
            for _ in range(1000):
                table.push([1], [[1]])
        self.assertNotIn("not allowed", str(raised.exception))
        with self.assertRaises(verbena.Error):
            session.clock()
        session.close()
        self.assertFalse(server.running)

    def test_a_server_that_cannot_begin(self):
        with verbena.Server(jobs.free_address("shm")) as server:
            with verbena.connect([server.address]):
                second = verbena.Server(server.address)
                with self.assertRaises(verbena.AlreadyExistsError):
                    second.wait()
        bad = verbena.Server("shm:", workers=0)
        with self.assertRaises(verbena.InvalidArgumentError):
            bad.wait()

    def test_giving_up(self):
        with self.assertRaisesRegex(verbena.AbortedError, "ZeroDivisionError: division by zero"):
            with jobs.job(workers=2) as place:

                def work(session):
                    session.table("rows", rows=10, consistency="bsp")
                    if session.rank == 1:
                        try:
                            with session:
                                return 1 / 0
                        except ZeroDivisionError:
                            return None
                    for _ in range(1000):
                        session.clock()
                        session.barrier()
                    return None

                jobs.in_workers(place, work)

    def test_what_a_scan_must_not_do(self):
        with jobs.alone() as session:
            table = session.table("rows", sparse=True)
            table.push([1, 2], [[1], [2]])
            session.barrier()
            for call in (session.clock, session.close, lambda: table.push([1], [[1]])):
                with self.assertRaisesRegex(verbena.FailedPreconditionError, "in the middle of a call"):
                    table.scan_batches(lambda keys, values, call=call: call())
            with self.assertRaisesRegex(KeyError, "mine"):
                table.scan_batches(lambda keys, values: {}["mine"])
            session.clock()


if __name__ == "__main__":
    unittest.main()
