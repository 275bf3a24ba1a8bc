"""Nothing is kept that is not needed, and nothing goes that is."""

import gc
import sys
import unittest
import weakref

import numpy as np

import jobs
import verbena

MEBIBYTE = 1 << 20


class Memory(unittest.TestCase):
    def test_a_million_calls_take_none(self):
        # Rings take their memory when they are first used, so small ones, and all of it before the count begins.
        with jobs.alone(inbox_bytes=1 << 17, push_ring_bytes=1 << 17) as session:
            table = session.table("rows", rows=1000, width=16)
            keys = np.arange(10, dtype=np.uint64)
            updates = np.ones((10, 16), dtype=np.float32)
            out = np.zeros((10, 16), dtype=np.float32)

            def calls(count):
                for i in range(count):
                    table.pull(keys, out=out)
                    table.push(keys, updates)
                    if i % 10 == 0:
                        table.pull(keys)
                        table.pull_async(keys, out=out)
                        table.pull([1, 2])
                    if i % 100 == 0:
                        session.clock()
                        try:
                            table.pull([1001])
                        except verbena.Error:
                            pass

            calls(50_000)
            gc.collect()
            before = jobs.resident_bytes()
            counts = [sys.getrefcount(each) for each in (keys, updates, out, table, session, None)]
            calls(500_000)
            gc.collect()
            after = [sys.getrefcount(each) for each in (keys, updates, out, table, session, None)]
            self.assertEqual(counts[:5], after[:5])
            self.assertLess(abs(after[5] - counts[5]), 1000)
            self.assertLess(jobs.resident_bytes() - before, MEBIBYTE)

    def test_an_operation_keeps_its_array(self):
        with jobs.job(workers=2) as place:

            def work(session):
                table = session.table("rows", rows=1000, width=16, consistency="ssp:0")
                table.push(range(1000), np.ones((1000, 16), dtype=np.float32))
                session.clock()
                kept = []
                if session.rank == 0:
                    session.clock()
                    out = np.zeros((1000, 16), dtype=np.float32)
                    kept.append(weakref.ref(out))
                    pending = table.pull_async(range(1000), out=out)  # waits for the other worker's second clock
                    under_way = not pending.done
                    del out, pending
                    gc.collect()
                    self.assertEqual(kept[0]() is not None, under_way)
                    session.barrier()
                    for _ in range(100):
                        table.pull_async([1])  # the session looks for what has ended
                    self.assertIsNone(kept[0]())
                else:
                    session.clock()
                    session.barrier()

            jobs.in_workers(place, work)

    def test_objects_go(self):
        with jobs.job() as place:
            session = verbena.connect(**place)
            table = session.table("rows", rows=10)
            pending = table.pull_async([1])
            del session
            self.assertEqual(table.pull([1])[0, 0], 0)  # tables and operations keep what they need
            pending.wait()
            del table, pending  # says goodbye: the server ends


if __name__ == "__main__":
    unittest.main()
