#!/usr/bin/env python3
"""What the container images are made of: the packages that the program needs, and files that are there. Building them takes
a network and rights that tests have not got."""

import re
import subprocess
import unittest

import program

CONTAINER = program.PACKAGING / "container"


def output_of(*words):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout


def packages_of(libraries):
    """For each library those that have it: 32-bit ones are packages of their own."""
    found = output_of("dpkg-query", "-S", *[f"*/{library}" for library in libraries]).splitlines()
    return {library: {line.split(":")[0] for line in found if line.endswith(f"/{library}")} for library in libraries}


class Packages(unittest.TestCase):
    def test_the_list_is_what_the_program_needs(self):
        linked = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", program.PROGRAM))
        self.assertGreater(len(linked), 10)
        sources = [path.read_text() for folder in ("base", "cluster", "job", "transport")
                   for path in (program.SOURCE / folder).rglob("*.cpp")]
        loaded = re.findall(r'"(lib[a-z]+\.so\.[0-9]+)"', "".join(sources))
        self.assertIn("libpmix.so.2", loaded)
        packages = (CONTAINER / "packages").read_text().split()
        self.assertEqual(packages, sorted(packages))
        # These are in every system.
        there = {*packages, "libc6", "libgcc-s1"}
        used = {"ibverbs-providers"}  # what libibverbs1 loads
        for library, having in packages_of([*linked, *loaded]).items():
            self.assertTrue(having & there, f"{library} is in {having}")
            used |= having
        self.assertLessEqual(set(packages), used)


class Files(unittest.TestCase):
    def test_what_is_copied_is_there(self):
        docker = re.findall(r"^COPY (?!--from)(\S+) ", (CONTAINER / "Dockerfile").read_text(), re.MULTILINE)
        self.assertEqual(docker, [".", "packaging/container/packages"])
        apptainer = re.findall(r"^    (\w\S*) (/\S+)$", (CONTAINER / "verbena.def").read_text(), re.MULTILINE)
        for path, _ in apptainer:
            self.assertTrue((program.SOURCE / path).exists(), path)
        copied = {path for path, place in apptainer if place == f"/source/{path}"}
        self.assertEqual(set(apptainer), {*((path, f"/source/{path}") for path in copied),
                                          ("packaging/container/packages", "/tmp/packages")})
        folders = re.search(r"^foreach\(folder (.*)\)\n  add_subdirectory", (program.SOURCE / "CMakeLists.txt").read_text(),
                            re.MULTILINE)[1]
        self.assertEqual(copied, {"CMakeLists.txt", "CMakePresets.json", "cmake", "data", "include", "packaging", "scripts",
                                  *folders.split()})

    def test_no_secret_is_copied(self):
        made = re.search(r"base64 > (\S+)\)", (program.SOURCE / "docs" / "kubernetes.md").read_text())[1]
        self.assertIn(made, (CONTAINER / "Dockerfile.dockerignore").read_text().splitlines())

    def test_what_builds_is_a_shell_script(self):
        subprocess.run(["sh", "-n", CONTAINER / "install"], check=True)
        for name in ("Dockerfile", "verbena.def"):
            self.assertIn("/source/packaging/container/install /installed", (CONTAINER / name).read_text())

    def test_nobody_is_root(self):
        users = re.findall(r"^USER (\d+)|^FROM", (CONTAINER / "Dockerfile").read_text(), re.MULTILINE)
        self.assertEqual(users, ["", "", "1000", "", "0", "1000"])


if __name__ == "__main__":
    unittest.main()
