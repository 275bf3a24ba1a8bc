"""Rows that are changed where they lie, and what becomes of arrays that outlive that."""

import gc
import re
import threading
import unittest

import numpy as np

import jobs
import verbena


def of_node(**options):
    """Of a job whose worker is on the node of its only server: all rows are here."""
    return jobs.alone(node=0, **options)


def dynamic(session, **options):
    return session.table("rows", **{"rows": 10, "width": 4, "dynamic": True, "consistency": verbena.Asp(), **options})


class HeldRows(unittest.TestCase):
    def test_are_changed_in_place(self):
        for dtype in ("float32", "float64", "int32", "int64"):
            with self.subTest(dtype=dtype), of_node() as session:
                table = dynamic(session, dtype=dtype)
                table.push(range(10), np.arange(40).reshape(10, 4))
                session.barrier()
                with table.hold([7, 2, 7]) as held:
                    self.assertEqual(len(held), 3)
                    self.assertEqual(held.taken.tolist(), [True, True, False])  # a key's second time
                    self.assertIsNone(held[2])
                    self.assertIsNone(held[-1])
                    self.assertEqual((held[0].dtype, held[0].shape), (np.dtype(dtype), (4,)))
                    self.assertEqual(held[0].tolist(), [28, 29, 30, 31])
                    for row in held:
                        if row is not None:
                            row += 100
                    held[1][0] = -1
                np.testing.assert_array_equal(table.pull([7, 2]), [[128, 129, 130, 131], [-1, 109, 110, 111]])

    def test_ranges_and_none(self):
        with of_node() as session:
            table = dynamic(session)
            with table.hold(range(4)) as held:
                self.assertEqual(len(list(held)), 4)
            with table.hold([]) as held:
                self.assertEqual((len(held), held.taken.tolist()), (0, []))

    def test_rows_that_are_elsewhere_are_left_out(self):
        with jobs.alone(servers=2, node=0) as session:
            table = dynamic(session)
            with table.hold(range(10)) as held:
                taken = held.taken
                self.assertEqual(taken.tolist(), [table.is_here(key) for key in range(10)])
            self.assertEqual({True, False}, set(taken.tolist()))
        with jobs.alone("tcp") as session:
            with dynamic(session).hold(range(10)) as held:
                self.assertFalse(held.taken.any())

    def test_others_cannot_hold_them_meanwhile(self):
        with jobs.job(workers=2) as place:
            here = threading.Barrier(2)

            def work(session):
                table = dynamic(session)
                taken = None
                if session.rank == 0:
                    held = table.hold([3])
                    here.wait(20)
                    here.wait(20)
                    held.release()
                    here.wait(20)
                    here.wait(20)
                else:
                    here.wait(20)
                    with table.hold([3]) as held:
                        taken = held.taken.tolist()
                    here.wait(20)
                    here.wait(20)
                    with table.hold([3]) as held:
                        taken += held.taken.tolist()
                    here.wait(20)
                session.barrier()
                return taken

            self.assertEqual(jobs.in_workers(place, work, node=0)[1], [False, True])

    def test_mistakes(self):
        with of_node() as session:
            table = dynamic(session)
            fixed = session.table("fixed", rows=10)
            with self.assertRaises(verbena.FailedPreconditionError):
                fixed.hold([1])
            with self.assertRaises(verbena.InvalidArgumentError):
                table.hold([10])
            with table.hold([1]) as held:
                with self.assertRaises(IndexError):
                    held[1]  # pylint: disable=pointless-statement
                with self.assertRaises(IndexError):
                    held[-2]  # pylint: disable=pointless-statement
                with self.assertRaisesRegex(verbena.FailedPreconditionError, "are held already"):
                    table.hold([2])
            for use in (lambda: held[0], lambda: list(held), lambda: held.taken, lambda: len(held)):
                with self.assertRaisesRegex(verbena.FailedPreconditionError, "given back"):
                    use()
            held.release()  # does nothing
            self.assertEqual(table.pull([1]).tolist(), [[0, 0, 0, 0]])

    def test_another_thread_may_not_give_them_back(self):
        with of_node() as session:
            held = dynamic(session).hold([1])
            errors = []

            def release():
                try:
                    held.release()
                except verbena.FailedPreconditionError as error:
                    errors.append(error)

            thread = threading.Thread(target=release)
            thread.start()
            thread.join()
            self.assertEqual(len(errors), 1)
            held[0][:] = 2
            held.release()


class Document(unittest.TestCase):
    def test_its_program(self):
        text = (jobs.ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        (program,) = re.findall("^```python\n(import numpy, verbena\n\nwith[^`]*)^```$", text, re.MULTILINE)
        self.assertEqual(jobs.run_script(program), "1.0\n")


class WhatIsKept(unittest.TestCase):
    def test_an_array_becomes_a_copy_that_cannot_be_written_to(self):
        with of_node() as session:
            table = dynamic(session)
            with table.hold([1, 2]) as held:
                row = held[0]
                row[:] = 3
                rows = list(held)
            table.push([1], [[1, 1, 1, 1]])
            self.assertEqual(row.tolist(), [3, 3, 3, 3])
            self.assertEqual([each.tolist() for each in rows], [[3, 3, 3, 3], [0, 0, 0, 0]])
            with self.assertRaisesRegex(ValueError, "read-only"):
                row += 1
            self.assertEqual(table.pull([1]).tolist(), [[4, 4, 4, 4]])
        self.assertEqual(row[1:].tolist(), [3, 3, 3])  # when the session has gone

    def test_a_part_of_an_array_is_an_error(self):
        with of_node() as session:
            table = dynamic(session)
            with self.assertRaisesRegex(BufferError, "have been given back"):
                with table.hold([1]) as held:
                    part = held[0][1:]
            with table.hold([1]) as held:  # they have
                self.assertTrue(held.taken.all())
            with self.assertRaisesRegex(BufferError, "cannot be closed"):
                session.close()
            self.assertEqual(part.tolist(), [0, 0, 0])  # its memory is there
            del part

    def test_what_goes_unnoticed_is_what_the_document_says(self):
        text = (jobs.ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        strides = np.lib.stride_tricks
        with of_node() as session:
            table = dynamic(session)

            def is_noticed(make):
                try:
                    with table.hold([1]) as held:
                        made = make(held[0])
                except BufferError:
                    return True
                finally:
                    del made
                return False

            for make in (lambda row: row[1:], lambda row: row.reshape(2, 2), lambda row: row.T, lambda row: row.view("i4"),
                         lambda row: np.broadcast_to(row, (2, 4)), np.frombuffer, lambda row: np.ndarray(2, "f4", row)):
                self.assertTrue(is_noticed(make))
            for name, make in {"memoryview(row)": memoryview, "numpy.ma.array(row)": lambda row: np.ma.array(row, copy=False),
                               "numpy.asmatrix(row)": np.asmatrix, "row.view(numpy.recarray)": lambda row: row.view(np.recarray),
                               "numpy.from_dlpack(row)": np.from_dlpack, "row.flat": lambda row: row.flat,
                               "numpy.nditer(row)": np.nditer, "row.ctypes": lambda row: row.ctypes,
                               "as_strided": lambda row: strides.as_strided(row, (2,)),
                               "sliding_window_view": lambda row: strides.sliding_window_view(row, 2)}.items():
                self.assertTrue(f"`{name}`" in text, name)
                self.assertFalse(is_noticed(make), name)

    def test_an_exception_goes_its_way(self):
        with of_node() as session:
            table = dynamic(session)
            with self.assertRaisesRegex(KeyError, "mine") as raised:
                with table.hold([1]) as held:
                    part = held[0][1:]
                    raise KeyError("mine")
            self.assertIsNone(raised.exception.__context__)
            del part
            with table.hold([1]) as held:
                self.assertTrue(held.taken.all())

    def test_without_a_block(self):
        with of_node() as session:
            table = dynamic(session)
            held = table.hold([1])
            row = held[0]
            row[:] = 5
            del held  # gives them back
            gc.collect()
            with table.hold([1]) as again:
                self.assertTrue(again.taken.all())
            self.assertFalse(row.flags.writeable)
            held = table.hold([1, 2])
            row = held[1]
        self.assertEqual(row.tolist(), [0, 0, 0, 0])  # the session has given them back
        with self.assertRaisesRegex(verbena.FailedPreconditionError, "given back"):
            held[0]  # pylint: disable=pointless-statement
        held.release()

    def test_nothing_is_kept(self):
        with of_node() as session:
            table = dynamic(session)

            def calls(count):
                for _ in range(count):
                    with table.hold(range(10)) as held:
                        row = held[3]
                        row += 1

            calls(5000)
            before = jobs.resident_bytes()
            calls(50_000)
            self.assertLess(jobs.resident_bytes() - before, 1 << 20)
            self.assertEqual(table.pull([3])[0, 0], 55_000)

    def test_a_session_that_fails_leaves_their_memory(self):
        script = """
import numpy, verbena
session = verbena.init()
try:
    with session:
        table = session.table("rows", rows=10, width=4, dynamic=True, consistency="asp")
        held = table.hold(range(10))
        parts = [row[1:] for row in held if row is not None]
        print(len(parts))
        raise KeyError("mine")
except KeyError:
    print(session.closed)
for part in parts: part += 1
print(parts[0][0])
"""
        self.assertEqual(jobs.run_script(script, expect=None).splitlines()[:3], ["10", "True", "1.0"])


if __name__ == "__main__":
    unittest.main()
