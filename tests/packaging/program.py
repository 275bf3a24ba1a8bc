"""The program under test, and what it says of itself."""

import os
import pathlib
import re
import subprocess

PROGRAM = pathlib.Path(os.environ["VERBENA_PROGRAM"])
BUILD = pathlib.Path(os.environ["VERBENA_BUILD"])  # the build tree that it is from
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = SOURCE / "packaging"
CORPUS = SOURCE / "data" / "kjv-chapters.tsv.gz"


def help_of(command):
    """`command`: the words behind `verbena`."""
    return subprocess.run([PROGRAM, *command, "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout


def options_in(text):
    """The options, also the short ones, that a help names: each has a line, with its text below."""
    lines = re.findall(r"^ {7}(-.*)\n {14}", text, re.MULTILINE)
    return {name for line in lines for name in re.findall(r"(?<!\S)--?[a-z][a-z0-9-]*", line.split(" [")[0])}


def commands_in(text):
    section = re.search(r"^(?:COMMANDS|APPLICATIONS|EXPERIMENTS)\n((?: {7}.*\n)+)", text, re.MULTILINE)
    return re.findall(r"^ {7}(\S+)", section[1], re.MULTILINE) if section else []


def all_commands():
    """(words, help) of the program and each of its commands."""
    ahead = [[]]
    while ahead:
        command = ahead.pop()
        text = help_of(command)
        yield command, text
        ahead += [[*command, name] for name in commands_in(text)]
