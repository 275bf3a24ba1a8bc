"""Every operation on tables, over shared memory and over TCP."""

import pathlib
import tempfile
import threading
import unittest

import numpy as np

import jobs
import verbena


class OverSharedMemory(unittest.TestCase):
    scheme = "shm"

    def alone(self, **options):
        return jobs.alone(self.scheme, **options)

    def test_values_of_each_type(self):
        with self.alone(servers=2) as session:
            for dtype in ("float32", "float64", "int32", "int64"):
                for width in (1, 3, 16):
                    table = session.table(f"{dtype} {width}", rows=50, width=width, dtype=dtype)
                    self.assertEqual((table.rows, table.width, table.dtype), (50, width, np.dtype(dtype)))
                    keys = np.array([49, 0, 17, 0, 25], dtype=np.uint64)
                    updates = np.arange(1, 5 * width + 1, dtype=dtype).reshape(5, width)
                    table.push(keys, updates)
                    session.barrier()
                    values = table.pull(keys)
                    self.assertEqual((values.dtype, values.shape), (np.dtype(dtype), (5, width)))
                    np.testing.assert_array_equal(values[0], updates[0])
                    np.testing.assert_array_equal(values[1], updates[1] + updates[3])  # key 0 comes twice
                    everything = table.pull(range(50))
                    np.testing.assert_array_equal(everything[17], updates[2])
                    self.assertEqual(np.count_nonzero(everything.any(axis=1)), 4)

    def test_kinds_of_keys(self):
        with self.alone() as session:
            table = session.table("rows", rows=20, dtype="int64")
            table.push(range(20), np.arange(20).reshape(20, 1))
            wanted = [[3], [5], [4]]
            strided = np.array([3, 0, 5, 0, 4, 0], dtype=np.int64)[::2]
            for keys in ([3, 5, 4], (3, 5, 4), np.array([3, 5, 4], dtype=np.int64), np.array([3, 5, 4], dtype=np.uint64),
                         np.array([3, 5, 4], dtype=np.uint8), np.array([3, 5, 4], dtype=">i8"), strided):
                np.testing.assert_array_equal(table.pull(keys), wanted)
            self.assertEqual(table.pull([]).shape, (0, 1))
            self.assertEqual(table.pull(range(7, 7)).shape, (0, 1))
            np.testing.assert_array_equal(table.pull(range(2, 5)), [[2], [3], [4]])

    def test_out_is_filled(self):
        with self.alone() as session:
            table = session.table("rows", rows=20, width=2)
            table.push(range(20), np.ones((20, 2), dtype=np.float32))
            out = np.zeros((3, 2), dtype=np.float32)
            self.assertIs(table.pull([1, 2, 3], out=out), out)
            np.testing.assert_array_equal(out, np.ones((3, 2)))
            part = np.zeros((6, 2), dtype=np.float32)
            table.pull([1, 2], out=part[2:4])
            self.assertEqual(part.sum(), 4)
            narrow = session.table("narrow", rows=20)
            narrow.push([5], [2.5])  # a width of 1 needs no second dimension
            flat = np.zeros(1, dtype=np.float32)
            self.assertEqual(narrow.pull([5], out=flat)[0], 2.5)

    def test_updates_are_converted(self):
        with self.alone() as session:
            table = session.table("rows", rows=4, width=2)
            table.push([0, 1], [[1, 2], [3, 4]])
            table.push([0, 1], np.array([[0.5, 0.5], [0.5, 0.5]]))
            table.push([0, 1], np.asfortranarray(np.ones((2, 2), dtype=np.float32)))
            np.testing.assert_array_equal(table.pull([0, 1]), [[2.5, 3.5], [4.5, 5.5]])

    def test_asynchronous_operations(self):
        with self.alone(read_path="cached") as session:
            table = session.table("rows", rows=100, width=4, consistency=verbena.Bsp())
            table.push(range(100), np.ones((100, 4), dtype=np.float32))
            session.clock()
            out = np.zeros((100, 4), dtype=np.float32)
            pull = table.pull_async(range(100), out=out)
            self.assertIs(pull.wait(), out)
            self.assertTrue(pull.done)
            self.assertIs(pull.wait(), out)  # once more is no mistake
            np.testing.assert_array_equal(out, np.ones((100, 4)))
            first = table.pull_async([1, 2])
            second = table.push_async([1], np.ones((1, 4)), after=[first])
            third = table.pull_async([1], after=[first, second])
            while not third.poll():
                pass
            np.testing.assert_array_equal(third.wait(), np.full((1, 4), 2))
            self.assertIsNone(second.wait())
            forgotten = [table.pull_async(range(100)) for _ in range(100)]
            del forgotten
            session.clock()

    def test_sparse_tables(self):
        with self.alone(servers=2) as session:
            table = session.table("rows", sparse=True, width=2, initial=verbena.named("constant", value=7),
                                  expected_rows=100)
            keys = np.array([2**63, 5, 2**40], dtype=np.uint64)
            table.push(keys, np.arange(6, dtype=np.float32).reshape(3, 2))
            session.barrier()
            expected = np.arange(6).reshape(3, 2) + 7
            np.testing.assert_array_equal(table.pull(keys), expected)
            np.testing.assert_array_equal(table.pull(keys.view(np.int64)), expected)  # bit for bit
            np.testing.assert_array_equal(table.pull([1]), [[7, 7]])
            handles = table.locate(keys)
            self.assertEqual(len(handles), 3)
            np.testing.assert_array_equal(handles.keys, keys)
            np.testing.assert_array_equal(table.pull(handles), expected)
            found, values = table.scan()
            order = np.argsort(found)
            np.testing.assert_array_equal(found[order], np.sort(keys))
            np.testing.assert_array_equal(values[order], expected[np.argsort(keys)])
            found, values = table.scan(range(0, 2**50))
            self.assertEqual(set(found.tolist()), {5, 2**40})
            seen = []

            def use(found, values):
                np.testing.assert_array_equal(table.pull(found), values)
                seen.extend(found.tolist())

            table.scan_batches(use, batch=2)
            self.assertEqual(sorted(seen), sorted(keys.tolist()))
            self.assertEqual(table.memory()["rows"], 3)

    def test_admission_eviction_filter(self):
        with self.alone() as session:
            table = session.table("rows", sparse=True, consistency=verbena.Bsp(), admission="count(least=2)",
                                  eviction=verbena.named("age", clocks=5))
            table.push([1, 2], [[1.0], [1.0]])
            session.clock()
            table.push([1], [[1.0]])
            session.clock()
            session.barrier()
            self.assertEqual(table.memory()["rows"], 1)
            for _ in range(10):
                session.barrier()
            self.assertEqual(table.memory()["rows"], 0)
            filtered = session.table("filtered", rows=10, consistency="ssp:1",
                                     filter=verbena.named("significant", least=1), encoding="packed")
            filtered.push([1, 2], [[0.25], [2.0]])
            session.clock()
            self.assertEqual(session.statistics()["rows_kept_back"], 1)

    def test_functions_of_servers(self):
        with self.alone(servers=2) as session:
            table = session.table("rows", rows=10, width=2)
            table.push(range(10), np.arange(20, dtype=np.float32).reshape(10, 2))
            session.barrier()
            keys, norms = table.call("top(count=2)")
            self.assertEqual(keys.tolist(), [9, 8])
            np.testing.assert_allclose(norms, [np.hypot(18, 19), np.hypot(16, 17)])
            self.assertEqual(table.call("norms", keys=[1, 2]).numbers[0], 2)
            table.call("set", keys=[3], numbers=[[1.5, 2.5]])
            np.testing.assert_array_equal(table.pull([3]), [[1.5, 2.5]])
            pending = table.call_async(verbena.named("scale", factor=2), keys=range(3, 4))
            session.barrier()
            pending.wait()
            np.testing.assert_array_equal(table.pull([3]), [[3, 5]])

    def test_dynamic_tables(self):
        with self.alone(servers=2, node=1) as session:
            table = session.table("rows", rows=10, width=2, dynamic=True, consistency=verbena.Asp())
            table.push(range(10), np.ones((10, 2)))
            session.barrier()
            table.localize([0, 1, 2]).wait()
            # Over a network a worker has no node whose memory it could map.
            self.assertEqual(table.is_here(0), self.scheme == "shm")
            table.intent([3, 4], session.current_clock, session.current_clock + 2)
            session.clock()
            distribution = verbena.KeyDistribution.weighted(2, [1, 0, 3])
            random = verbena.Random(1)
            sample = table.prepare_sample(distribution, 100, random, preference=0.5)
            self.assertEqual(set(sample.keys.tolist()), {2, 4})
            self.assertGreaterEqual(sample.redrawn, 0)
            np.testing.assert_array_equal(table.pull_sample(sample), np.ones((100, 2)))
            self.assertIn(distribution.draw(random), {2, 4})
            self.assertEqual(verbena.KeyDistribution.uniform(range(3, 9)).keys, range(3, 9))
            self.assertGreaterEqual(session.statistics()["rows_localized"], 3)

    def test_rules(self):
        with self.alone() as session:
            plain = session.table("sgd", rows=4, consistency="bsp", rule=verbena.named("sgd", rate=0.5))
            plain.push([1], [[1.0]])
            session.clock()
            self.assertEqual(plain.pull([1])[0, 0], -0.5)
            adaptive = session.table("adagrad", rows=4, consistency="bsp", rule="adagrad(rate=0.1)")
            adaptive.push([1], [[4.0]])
            session.clock()
            self.assertAlmostEqual(adaptive.pull([1])[0, 0], -0.1, places=6)

    def test_consistency_models(self):
        models = [verbena.Bsp(), verbena.ABsp(), verbena.ABsp(means=True), verbena.Ssp(staleness=2), verbena.Ssp(),
                  verbena.Essp(3), verbena.BoundedDelay(delay=2), verbena.Asp(), verbena.Sequential(),
                  verbena.Vap(value_bound=0.5)]
        with self.alone() as session:
            for model in models:
                self.assertEqual(verbena.parse_consistency(str(model)), str(model))
                table = session.table(f"of {model}", rows=4, consistency=model)
                table.push([1], [[0.25]])
                session.barrier()
                self.assertEqual(table.pull([1])[0, 0], 0.25, str(model))

    def test_two_workers(self):
        with jobs.job(self.scheme, servers=2, workers=2) as place:

            def work(session):
                table = session.table("rows", rows=10, width=2, consistency=verbena.Essp(staleness=1))
                for _ in range(20):
                    table.pull(range(10))
                    table.push(range(10), np.ones((10, 2), dtype=np.float32))
                    session.clock()
                session.barrier()
                self.assertEqual(session.workers, 2)
                return table.pull(range(10)), table.staleness()

            for values, staleness in jobs.in_workers(place, work):
                np.testing.assert_array_equal(values, np.full((10, 2), 40))
                self.assertLess(staleness["mean_clock_differential"], 0)

    def test_data_cursor(self):
        with self.alone() as session:
            session.table("rows", rows=1, consistency=verbena.ABsp())
            cursor = verbena.DataCursor(session, examples=10, mini_batch=4)
            for _ in range(2):
                self.assertEqual(list(cursor), [range(0, 4), range(4, 8), range(8, 10)])
                self.assertEqual(cursor.left, 0)
                session.clock()

    def test_checkpoints(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.alone() as session:
                table = session.table("rows", rows=10, consistency=verbena.Bsp())
                table.push([3], [[1.5]])
                session.checkpoint(folder, b"mine", keep=1, notes={"of": "tests"})
                session.finish_checkpoint()
                clock = session.current_clock
                self.assertIsNone(session.resumed_state())
            newest = verbena.newest_checkpoint(folder)
            self.assertEqual((newest.clock, newest.workers, newest.notes), (clock, 1, {"of": "tests"}))
            self.assertEqual(verbena.read_checkpoint(newest.path).clock, clock)
            with self.alone(resume=newest.path) as session:
                self.assertEqual(session.resumed_state(), b"mine")
                table = session.table("rows", rows=10, consistency=verbena.Bsp())
                self.assertEqual(table.pull([3])[0, 0], 1.5)
            with self.assertRaises(verbena.NotFoundError):
                verbena.newest_checkpoint(folder + "/none")

    def test_damaged_checkpoints(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.alone() as session:
                table = session.table("rows", rows=10, consistency=verbena.Bsp())
                for _ in range(2):
                    table.push([3], [[1.5]])
                    session.checkpoint(folder)
                session.finish_checkpoint()
            newest = verbena.newest_checkpoint(folder)
            self.assertEqual(newest.damaged, ())
            for path in pathlib.Path(newest.path).iterdir():
                if path.suffix != ".json":
                    path.write_bytes(path.read_bytes()[:-1])
            older = verbena.newest_checkpoint(folder)
            self.assertLess(older.clock, newest.clock)
            self.assertEqual(len(older.damaged), 1)
            self.assertIn(newest.path, older.damaged[0])

    def test_observer(self):
        with jobs.job(self.scheme) as place, verbena.connect(**place) as session:
            table = session.table("rows", rows=10, width=2, rule="sgd(rate=1)")
            table.push([3], [[-1, -2]])
            session.barrier()
            observer = verbena.Observer(place["servers"], **jobs.network(self.scheme))
            self.assertEqual(observer.job()[:3], (1, 1, 0))
            (seen,) = observer.tables()
            self.assertEqual((seen.name, seen.options["rows"], seen.options["rule"]), ("rows", 10, "sgd(rate=1)"))
            self.assertEqual(observer.call(seen, "top(count=1)").keys.tolist(), [3])
            self.assertEqual(observer.memory(seen)["rows"], 10)
            self.assertEqual(observer.memory("rows")["rows"], 10)
            self.assertEqual(observer.call("rows", "top(count=1)").keys.tolist(), [3])
            self.assertEqual(observer.scan("rows")[0].tolist(), observer.scan(seen)[0].tolist())
            for look in (observer.memory, observer.scan, lambda table: observer.call(table, "norms")):
                with self.assertRaisesRegex(verbena.NotFoundError, 'there is no table "others"; there are "rows"'):
                    look("others")
            keys, values = observer.scan(seen)
            self.assertEqual(values[keys.tolist().index(3)].tolist(), [1, 2])
            del observer

    def test_what_a_session_says(self):
        with self.alone() as session:
            table = session.table("rows", rows=10)
            table.push([1], [[1]])
            table.pull([1, 2])
            session.limit_lead(3)
            session.report(1, items=10, seconds=0.5, sums={"loss": 1.0})
            session.poll()
            statistics = session.statistics()
            self.assertEqual((statistics["rows_pushed"], statistics["rows_pulled"]), (1, 2))
            self.assertEqual((session.rank, session.workers, session.servers), (0, 1, 1))
            self.assertFalse(session.is_catching_up)
            self.assertEqual(session.current_clock, 1)
        self.assertTrue(session.closed)

    def test_another_thread_takes_over(self):
        with self.alone() as session:
            table = session.table("rows", rows=10)

            def work():
                session.take_over()
                table.push([1], [[1]])

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            session.take_over()
            self.assertEqual(table.pull([1])[0, 0], 1)


class OverTcp(OverSharedMemory):
    scheme = "tcp"


class Exactness(unittest.TestCase):
    """Under BSP a row is what the same additions in the same order make of it, to the last bit."""

    def test_bsp(self):
        rows, width, workers, clocks = 40, 5, 3, 6
        random = np.random.default_rng(1)
        keys = random.integers(0, rows, (clocks, workers, 4, 10))
        updates = (random.standard_normal((clocks, workers, 4, 10, width)) *
                   10.0**random.integers(-6, 6, (clocks, workers, 4, 10, 1))).astype(np.float32)
        expected = np.zeros((rows, width), dtype=np.float32)
        after = []
        for clock in range(clocks):
            for worker in range(workers):
                pushed = {}
                for push in range(4):
                    for key, update in zip(keys[clock, worker, push], updates[clock, worker, push]):
                        pushed[key] = pushed[key] + update if key in pushed else update
                for key, update in pushed.items():
                    expected[key] = expected[key] + update
            after.append(expected.copy())

        with jobs.job("shm", servers=2, workers=workers, threads=2, lanes=2) as place:

            def work(session):
                table = session.table("rows", rows=rows, width=width, consistency=verbena.Bsp())
                for clock in range(clocks):
                    for push in range(4):
                        table.push(keys[clock, session.rank, push], updates[clock, session.rank, push])
                    session.clock()
                    if table.pull(range(rows)).tobytes() != after[clock].tobytes():
                        return clock
                return None

            self.assertEqual(jobs.in_workers(place, work), [None] * workers)


if __name__ == "__main__":
    unittest.main()
