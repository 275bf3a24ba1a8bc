#!/usr/bin/env python3
"""What shells complete. bash really does; zsh and fish, where they are, read their scripts."""

import shutil
import subprocess
import tempfile
import unittest

import program

# Completes each line of the standard input; the answers to one line are one line, separated by tabs.
COMPLETE = """
source <("$1" completion bash)
while IFS= read -r line; do
    COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
    _verbena
    (IFS=$'\\t'; echo "${COMPREPLY[*]}")
done
"""


def complete(lines, folder="."):
    """What bash offers for each line, which begins behind the program's name."""
    ended = subprocess.run(["bash", "--norc", "-c", COMPLETE, "bash", program.PROGRAM], check=True, text=True, cwd=folder,
                           input="".join(f"{program.PROGRAM} {line}\n" for line in lines), stdout=subprocess.PIPE)
    return [set(filter(None, line.split("\t"))) for line in ended.stdout.split("\n")[:-1]]


class Bash(unittest.TestCase):
    def test_every_command_and_option(self):
        commands = list(program.all_commands())
        self.assertGreater(len(commands), 40)
        lines = []
        for command, _ in commands:
            path = " ".join([*command, ""])
            lines += [path + "-", path]
        answers = complete(lines)
        for (command, text), options, words in zip(commands, answers[::2], answers[1::2], strict=True):
            with self.subTest(command=command):
                self.assertEqual(options, program.options_in(text))
                self.assertLessEqual(set(program.commands_in(text)), words)

    def test_words(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("data.txt", "a b.txt", "x:y.txt"):
                open(f"{folder}/{name}", "w").close()
            subprocess.run(["mkdir", f"{folder}/dates"], check=True)
            expected = {
                "r": {"run"},
                "run m": {"mf"},
                "run mf --tr": {"--train-data", "--transport"},
                "run mf --transport ": {"auto", "shm", "verbs", "tcp"},
                # Only what readline replaces: what is behind the last = or :
                "run mf --transport=s": {"shm"},
                "run mf --transport shm --re": {"--regularization", "--replicas", "--rendezvous", "--read-path", "--resume",
                                               "--recommend", "--recommendations", "--resume-from", "--restarts", "--report"},
                "run mf --consistency s": {"ssp:", "sequential"},
                "run mf --consistency ssp:": set(),
                "run mf --rank ": set(),
                "run mf --no-biases --evaluate": {"--evaluate-every"},
                "run mf --data d": {"data.txt", "dates"},
                "run mf --data=d": {"data.txt", "dates"},
                "run mf --data a": {"a b.txt"},
                # Words with blanks, and their values, are one word each.
                "run mf --data 'a b.txt' --tr": {"--train-data", "--transport"},
                'run mf --data "a b.txt" --transport s': {"shm"},
                r"run mf --data a\ b.txt --transport s": {"shm"},
                "run mf --data 'a b": {"a b.txt"},
                'run mf --data="a b': {"a b.txt"},
                r"run mf --data=a\ b": {"a b.txt"},
                # A colon is part of a file's name.
                "run mf --data x:": {"y.txt"},
                "run mf --data=x:y": {"y.txt"},
                r"run mf --data x\:y": {"x:y.txt"},
                "run mf --data 'x:": {"x:y.txt"},
                # Options of `run` itself are for a program of one's own: applications would be refused.
                "run --servers 2 l": set(),
                "run --servers 2 ": program.options_in(program.help_of(["run"])),
                "run lda --stop-words ": {"none", "english", "data.txt", "a b.txt", "x:y.txt", "dates"},
                "run ctr --data data.txt d": {"data.txt", "dates"},
                "checkpoint list d": {"dates"},
                "experiment scale --models bsp,b": {"bsp,bounded-delay:"},
                "help run l": {"lda"},
                "run --servers 2 -- ./d": {"./data.txt", "./dates"},
                "completion ": {"bash", "fish", "zsh"},
                "nonsense --": {"--help", "--version"},
                "help --": {"--help"},
                "run mf --nonsense ": program.options_in(program.help_of(["run", "mf"])),
            }
            for line, answer in zip(expected, complete(expected, folder)):
                with self.subTest(line=line):
                    self.assertEqual(answer, expected[line])


class Scripts(unittest.TestCase):
    def test_syntax(self):
        for shell in ("bash", "zsh", "fish"):
            with self.subTest(shell=shell):
                script = subprocess.run([program.PROGRAM, "completion", shell], check=True, stdout=subprocess.PIPE).stdout
                self.assertIn(b" complete -- ", script)
                if not shutil.which(shell):
                    self.skipTest(f"no {shell} (scripts/setup leaves it out)")
                subprocess.run([shell, "-n"], input=script, check=True)

    def test_unknown_shell(self):
        ended = subprocess.run([program.PROGRAM, "completion", "csh"], text=True, stderr=subprocess.PIPE)
        self.assertEqual(ended.returncode, 2)
        self.assertIn('one of bash, fish, zsh is expected, not "csh"', ended.stderr)


if __name__ == "__main__":
    unittest.main()
