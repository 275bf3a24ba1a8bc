#!/usr/bin/env python3
"""The manual pages that the build has made: each command's, with all that its help says, and as troff wants it."""

import re
import subprocess
import unittest

import program

MANUAL = program.BUILD / "manual"


def shown(page):
    """The page as people see it, without its layout."""
    ended = subprocess.run(["groff", "-K", "utf8", "-ww", "-man", "-T", "utf8", "-rLL=2000n", "-P", "-c", page], check=True, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if ended.stderr:
        raise AssertionError(f"{page.name}: {ended.stderr}")
    return re.sub(".\b", "", ended.stdout).replace("‐", "-")


def words(text):
    return re.sub(r"\s+", " ", text)


class Manual(unittest.TestCase):
    def test_pages_say_what_help_says(self):
        pages = set()
        for command, text in program.all_commands():
            name = "-".join(["verbena", *command])
            pages.add(f"{name}.1")
            with self.subTest(page=name):
                page = words(shown(MANUAL / f"{name}.1"))
                source = (MANUAL / f"{name}.1").read_text()
                # troff makes other characters of these, some of them on some devices only.
                self.assertNotRegex(source, r"['`^~]")
                # .PP would end the indentation of an option's text.
                self.assertNotRegex(source, r"(?m)^\.TP\n(?:(?!\.SH|\.TP).*\n)*\.PP")
                # Behind the first line, which has the command's name in another spelling.
                for paragraph in re.split(r"\n(?=\n|[A-Z]| {7}-)", text.split("\n", 2)[2]):
                    self.assertIn(words(paragraph).strip(), page)
        self.assertEqual({page.name for page in MANUAL.iterdir()}, pages)

    def test_errors_name_the_folder(self):
        ended = subprocess.run([program.PROGRAM, "manual", "/dev/null/pages"], text=True, stderr=subprocess.PIPE)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("/dev/null/pages: cannot be made", ended.stderr)


if __name__ == "__main__":
    unittest.main()
