#!/usr/bin/env python3
"""Follows docs/library.md to the letter: writes the files that it shows, runs its commands in order, and checks
what the programs learn.

follow_guide.py SOURCE_TREE BUILD_TREE WORK_FOLDER"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

# These commands have already been run, for the build under test.
DONE = ("scripts/setup", "cmake --preset", "cmake --build --preset")


def blocks(text):
    """(kind, name before it or None, contents) of each fenced block."""
    pattern = r"(?:^\*\*`(?P<name>[^`\n]+)`\*\*\n\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$"
    for found in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        yield found["kind"], found["name"], found["body"]


def main():
    source, build, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    shutil.rmtree(work, ignore_errors=True)
    home = work / "home"
    folder = home / "logistic"
    folder.mkdir(parents=True)
    commands = ["set -e"]
    for kind, name, body in blocks((source / "docs" / "library.md").read_text()):
        if name:
            (folder / name).write_text(body)
        elif kind == "sh":
            commands += [line.replace("build/release", str(build)) for line in body.splitlines()
                         if not line.startswith(DONE)]
    environment = {**os.environ, "HOME": str(home), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    ended = subprocess.run(["bash", "-c", "\n".join(commands)], cwd=source, env=environment, text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=280)
    print(ended.stdout)
    if ended.returncode != 0:
        sys.exit(f"the guide's commands end with {ended.returncode}")
    accuracies = [float(value) for value in re.findall(r"^pass 10: accuracy (\S+)$", ended.stdout, re.MULTILINE)]
    losses = [float(value) for value in re.findall(r"^pass 10: loss (\S+)$", ended.stdout, re.MULTILINE)]
    # In C++ alone, by verbena run, by mpirun and by hand; in C alone and by verbena run.
    if len(accuracies) != 4 or min(accuracies) < 0.83:
        sys.exit(f"four runs with an accuracy of 0.83 or more are expected, not {accuracies}")
    if len(losses) != 2 or max(losses) > 0.36:
        sys.exit(f"two runs with a loss of 0.36 or less are expected, not {losses}")
    for left in ("run.jsonl", "run.html"):
        if not (folder / left).stat().st_size:
            sys.exit(f"{left} is empty")


if __name__ == "__main__":
    main()
