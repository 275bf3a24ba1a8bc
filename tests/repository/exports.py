#!/usr/bin/env python3
"""Compares what the public headers declare with what the shared library shows: each function of theirs that the
objects define must be there, or programs that call it cannot be linked. And the library must not want static thread-local
memory, or programs that load it late may not be able to.

usage: exports.py HEADERS LIBRARY OBJECT…"""
import pathlib
import re
import subprocess
import sys


def symbols(*arguments):
    """(kind, demangled name) of each."""
    output = subprocess.run(["nm", "--demangle", "--defined-only", "--format=posix", *arguments], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    # NAME KIND VALUE SIZE; names have blanks.
    return {(found[2], found[1]) for found in re.finditer(r"^(.+) (\w) [0-9a-f]+ [0-9a-f]*$", output, re.MULTILINE)}


def main():
    folder, library, *objects = sys.argv[1:]
    text = "\n".join(re.sub(r"//.*", "", header.read_text()) for header in pathlib.Path(folder).glob("*.hpp"))
    # Of a class or struct that is defined there, its own functions; what a class declares only, such as a nested one,
    # is nobody else's.
    classes = set(re.findall(r"^(?:class|struct) (?:\[\[\w+\]\] )?(\w+)[^;{]*{", text, re.MULTILINE))
    functions = set(re.findall(r"^[\w:<>*& ]+[ *&](\w+)\(", text, re.MULTILINE))
    # T: defined once. Templates and inline functions (W) are compiled by who calls them.
    public = set()
    for kind, name in symbols(*objects):
        found = re.match(r"verbena::(\w+)(?:\[abi:\w+\])?(?:\(|::~?\w+(?:\[abi:\w+\])?\(|::operator)", name)
        if kind == "T" and found and (found[1] in classes if name[found.end(1):].startswith("::") else
                                             found[1] in functions):
            public.add(name)
    if len(public) < 50:
        sys.exit(f"only {len(public)} public functions were found: {sorted(public)}")
    missing = public - {name for _, name in symbols("--dynamic", library)}
    for name in sorted(missing):
        print(f"{library} does not show {name}")
    dynamic = subprocess.run(["readelf", "--dynamic", library], check=True, text=True, stdout=subprocess.PIPE).stdout
    wants_static = "STATIC_TLS" in dynamic
    if wants_static:
        print(f"{library} wants static thread-local memory (STATIC_TLS)")
    sys.exit(1 if missing or wants_static else 0)


if __name__ == "__main__":
    main()
