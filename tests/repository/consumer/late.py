#!/usr/bin/env python3
"""Loads the installed library into a program that has long been running, and trains with it.

usage: late.py PREFIX"""
import ctypes
import pathlib
import sys


class TableOptions(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("rows", ctypes.c_uint64),
        ("width", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("consistency", ctypes.c_char_p),
        ("dynamic", ctypes.c_int),
        ("rule", ctypes.c_char_p),
        ("cache_rows", ctypes.c_uint64),
    ]


class Keys(ctypes.Structure):
    _fields_ = [("list", ctypes.c_void_p), ("first", ctypes.c_uint64), ("count", ctypes.c_size_t)]


(path,) = pathlib.Path(sys.argv[1]).glob("lib*/**/libverbena.so")
library = ctypes.CDLL(str(path))
library.verbena_last_error.restype = ctypes.c_char_p


def call(name, *arguments):
    if getattr(library, name)(*arguments) != 0:
        sys.exit(f"{name}: {library.verbena_last_error().decode()}")


session = ctypes.c_void_p()
call("verbena_join", None, ctypes.byref(session))
options = TableOptions(ctypes.sizeof(TableOptions), b"numbers", 1000, 4, 2, b"bsp", 0, b"add", 2**64 - 1)
table = ctypes.c_void_p()
call("verbena_open", session, ctypes.byref(options), ctypes.byref(table))
values = (ctypes.c_double * 8)(*range(8))
keys = Keys(None, 500, 2)
for _ in range(3):
    call("verbena_push", table, keys, values, ctypes.sizeof(values))
    call("verbena_clock", session)
found = (ctypes.c_double * 8)()
call("verbena_pull", table, keys, found, ctypes.sizeof(found))
library.verbena_close(session)
if list(found) != [3.0 * value for value in range(8)]:
    sys.exit(f"found {list(found)}")
