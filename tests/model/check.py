#!/usr/bin/env python3
"""Looks at all states that a model of the protocol can reach, with Spin: nothing in the model's list of what must hold
is broken, every wait ends, and each broken variant is found.

check.py MODEL FOLDER [--show VARIANT]

MODEL: chain or sequential. FOLDER: for what Spin and the compiler make. With --show only one variant is searched, and
what happens in it is told, in few steps."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 200
LIMIT_MB = 1500  # a search that needs more ends, and counts as failed


class Case:
    """A size of the model; `finds`: the variants that are searched for in it, None: all."""

    def __init__(self, finds=(), **sizes):
        self.name = " ".join(f"{name}={value}" for name, value in sizes.items())
        self.options = [f"-D{name.upper()}={value}" for name, value in sizes.items()]
        self.finds = finds


# All sizes are as small as the variants allow; the first one of each model is also searched for loops.
MODELS = {
    "chain": [
        # The only ones in which a copy in the middle gets another one before it, and has one that follows.
        Case(copies=4, deaths=3, joins=0, workers=1, clocks=1, finds=["FOLLOWS_WITH_UNCOUNTED"]),
        Case(copies=3, deaths=3, joins=1, workers=1, clocks=1, finds=None),
        Case(copies=2, deaths=1, joins=0, workers=2, clocks=2),
        Case(copies=3, deaths=2, joins=0, workers=2, clocks=1),
        Case(copies=2, deaths=2, joins=1, workers=2, clocks=1),
        # One that has joined has another one after it.
        Case(copies=2, deaths=3, joins=2, workers=1, clocks=1, finds=["ENDS_IMAGE_TOO_SOON"]),
    ],
    "sequential": [
        Case(copies=2, deaths=1, readers=2, reads=1, updates=2, finds=None),
        Case(copies=2, deaths=1, readers=1, reads=3, updates=2),
        Case(copies=3, deaths=2, readers=1, reads=1, updates=2, finds=["COUNTS_WHAT_CAME"]),
    ],
}


class Failed(Exception):
    pass


def run(command, folder, **environment):
    ended = subprocess.run([str(part) for part in command], cwd=folder, env={**os.environ, **environment}, text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=LIMIT_S)
    return ended.returncode, ended.stdout


class Search:
    """The program that Spin makes of a model of one size."""

    def __init__(self, model, case, folder, compiler, options=("-DSAFETY",)):
        self.model, self.folder = model, folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for command in (["spin", "-a", *case.options, HERE / f"{model}.pml"],
                        # Not optimised: that would take longer than it saves.
                        [compiler, "-w", "-O0", "-DVECTORSZ=512", f"-DMEMLIM={LIMIT_MB}", *options,
                         "-o", "pan", "pan.c"]):
            code, said = run(command, folder)
            if code != 0 or "error" in said.lower():
                raise Failed(f"{command[0]} fails for {model} {case.name}:\n{said}")

    def search(self, broken=0, *options):
        """(what was found, or None; states; seconds)"""
        begin = time.monotonic()
        _, said = run(["./pan", "-m10000", "-w20", *options], self.folder, BROKEN=str(broken))
        found = re.search(r"^pan:\d+: (.*?)(?: \(at depth|$)", said, re.MULTILINE)
        errors = re.search(r"errors: (\d+)", said)
        states = re.search(r"^ *(\S+) states, stored", said, re.MULTILINE)
        if not errors or not states or (errors[1] == "0") == bool(found) or (not found and "not completed" in said):
            raise Failed(f"the search of {self.model} in {self.folder} did not end:\n{said}")
        return found and found[1], int(float(states[1])), time.monotonic() - begin

    def story(self, broken=0):
        """Of the last error found."""
        _, said = run(["./pan", "-r", f"{self.model}.pml.trail"], self.folder, BROKEN=str(broken))
        others = re.compile(r"(proc|spin|local|global|queue|byte|bit|mtype|chan)\b")
        lines = [line.strip() for line in said.splitlines()]
        return "\n".join(line for line in lines if re.match(r"[a-z].* ", line) and not others.match(line))


def variants_of(model):
    text = (HERE / f"{model}.pml").read_text()
    found = re.findall(r"^#define (\w+) \(broken == (\d+)\)$", text, re.MULTILINE)
    return {name: int(number) for name, number in found}


def finds_of(case, cases, variants):
    if case.finds is not None:
        return case.finds
    elsewhere = {name for other in cases for name in other.finds or ()}
    return [name for name in variants if name not in elsewhere]


def check(model, folder, compiler):
    variants = variants_of(model)
    cases = MODELS[model]
    wrong = []
    for index, case in enumerate(cases):
        searched = Search(model, case, folder / str(index), compiler)
        found, states, seconds = searched.search()
        print(f"{model} {case.name}: {states} states, {seconds:.1f} s: {found or 'nothing is wrong'}")
        if found:
            wrong.append(f"{found}\n{searched.story()}")
            continue
        for name in finds_of(case, cases, variants):
            found, states, seconds = searched.search(variants[name])
            print(f"  {name:<26} {states:>9} states, {seconds:.1f} s: {'found' if found else 'NOT FOUND'}")
            if not found:
                wrong.append(f"{name} is not found")
        if index == 0:
            found, states, seconds = Search(model, case, folder / "loops", compiler, ["-DNP"]).search(0, "-l")
            print(f"  {'loops':<26} {states:>9} states, {seconds:.1f} s: {'FOUND' if found else 'none'}")
            if found:
                wrong.append(f"it need not end: {found}")
    if wrong:
        raise Failed("\n".join(wrong))


def show(model, folder, compiler, name):
    variants = variants_of(model)
    if name not in variants:
        raise Failed(f"{model}.pml has no variant {name}, but {', '.join(variants)}")
    for case in MODELS[model]:
        if name in finds_of(case, MODELS[model], variants):
            searched = Search(model, case, folder / "shown", compiler, ["-DSAFETY", "-DREACH"])
            searched.search(variants[name], "-i")
            print(f"{model} {case.name}, {name}:\n{searched.story(variants[name])}")


def main(arguments):
    if len(arguments) not in (2, 4) or arguments[0] not in MODELS or arguments[2:3] not in ([], ["--show"]):
        print(__doc__, file=sys.stderr)
        return 2
    model, folder = arguments[0], pathlib.Path(arguments[1]).resolve()
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    for what, there in (("spin", shutil.which("spin")), ("a C compiler", compiler)):
        if not there:
            print(f"skipped: models of the protocol: no {what} (scripts/setup installs it)")
            return SKIPPED
    try:
        if arguments[3:]:
            show(model, folder, compiler, arguments[3])
        else:
            check(model, folder, compiler)
    except (Failed, subprocess.TimeoutExpired) as why:
        print(why)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
