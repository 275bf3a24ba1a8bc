#!/usr/bin/env python3
"""The Debian packages, made from the build tree: as lintian wants them, and of use on a system that has nothing else of
Verbena: this one, with what is written going elsewhere."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import program

DEBIAN = program.PACKAGING / "debian"

# Runs as root in namespaces of its own: this system with the packages, which nobody else sees. $1: a folder for it;
# $2: one that is seen in it, too, with the packages and use.sh, and gets a list of the files and folders that are new, changed
# or gone in the end.
IN_A_SYSTEM = """
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/written" "$1/work" "$1/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/written,workdir=$1/work" "$1/system" || exit 77
mkdir -p "$1/system$2"
mount --bind "$2" "$1/system$2"
for folder in proc dev; do mount --rbind "/$folder" "$1/system/$folder"; done
chroot "$1/system" sh -eux "$2/use.sh" "$2"
cd "$1/written"
find . ! -path ".$2*" '(' ! -type d -o ! -exec test -e "/{}" ';' ')' -print | sed 's/^[.]//' >"$2/left"
"""

USE = """
export LC_ALL=C PYTHONDONTWRITEBYTECODE= PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd /
dpkg --install "$1"/*.deb
verbena run lda --data /usr/share/verbena/kjv-chapters.tsv.gz --topics 5 --iterations 2 --servers 1 --workers 2 \\
  --output "$1/model"
man --where verbena-run-lda || test -e /usr/share/man/man1/verbena-run-lda.1.gz  # a system may have no man
python3 -I "$1/rows.py"
cc -std=c99 "$1/version.c" -o "$1/version" $(pkg-config --cflags --libs verbena)
"$1/version"
cmake -G Ninja -S "$1/consumer" -B "$1/built"
cmake --build "$1/built"
"$1/built/hello_shared" >"$1/hello"
"$1/built/hello_static" >>"$1/hello"
dpkg --purge verbena libverbena0.2 libverbena-dev python3-verbena
"""

ROWS_PY = """
import importlib.metadata
import verbena
assert importlib.metadata.version("verbena") == verbena.__version__, importlib.metadata.version("verbena")
assert importlib.metadata.requires("verbena") == ["numpy"]
assert verbena.__file__ == "/usr/lib/python3/dist-packages/verbena/__init__.py", verbena.__file__
with verbena.init() as session:
    table = session.table("rows", rows=3)
    table.push([1], [[2]])
    assert table.pull([1])[0, 0] == 2
libraries = {line.split()[-1] for line in open("/proc/self/maps") if "libverbena" in line}
assert libraries == {"/usr/lib/LIBRARY"}, libraries
"""

VERSION_C = """
#include <verbena/verbena.h>
#include <string.h>
int main(void) { return strcmp(verbena_version(), "VERSION") != 0; }
"""

CONSUMER = """
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(verbena VERSION REQUIRED COMPONENTS static)
add_library(hello OBJECT /usr/share/doc/libverbena-dev/examples/hello.cpp)
target_link_libraries(hello PRIVATE verbena::verbena)
add_executable(hello_shared $<TARGET_OBJECTS:hello>)
target_link_libraries(hello_shared PRIVATE verbena::verbena)
add_executable(hello_static $<TARGET_OBJECTS:hello>)
target_link_libraries(hello_static PRIVATE verbena::static)
"""


def run(*words, **options):
    """What it printed; that stands in the error, too."""
    ended = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           check=False, **options)
    if ended.returncode != 0:
        raise AssertionError(f"{words[0]} ended with {ended.returncode}:\n{ended.stdout[-20000:]}")
    return ended.stdout


def fields(package):
    """Of a package's control file."""
    text = run("dpkg-deb", "--field", package)
    return dict(re.findall(r"^([\w-]+): (.*)$", text, re.MULTILINE))


def names(dependencies):
    return {re.split(r"[ :(]", dependency.strip())[0] for dependency in dependencies.split(",")}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        run(program.SOURCE / "scripts" / "package", "--no-setup", "--build-tree", program.BUILD, cls.folder.name)
        cls.packages = {path.name.split("_")[0]: path for path in pathlib.Path(cls.folder.name).iterdir()}
        cls.version = re.search(r"^project\(verbena VERSION ([\d.]+)", (program.SOURCE / "CMakeLists.txt").read_text(),
                                re.MULTILINE)[1]
        (cls.library,) = (path.name for path in program.BUILD.glob("libverbena.so.*.*.*"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_names_and_versions(self):
        soname = re.search(r"libverbena\.so\.(\d+\.\d+)", self.library)[1]
        self.assertEqual(set(self.packages), {"verbena", f"libverbena{soname}", "libverbena-dev", "python3-verbena"})
        for package in self.packages.values():
            self.assertTrue(fields(package)["Version"].startswith(f"{self.version}-"))

    def test_lintian_finds_no_error(self):
        run("lintian", "--allow-root", "--fail-on", "error", *self.packages.values())

    def test_documents_lead_to_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "--extract", self.packages["verbena"], folder)
            root = pathlib.Path(folder) / "usr" / "share" / "doc" / "verbena"
            documents = [root / "README.md", *root.glob("docs/**/*.md")]
            links = {(document.parent / link).resolve() for document in documents
                     for link in re.findall(r"\]\(([^)#: ]*[./][^)#: ]*)[)#]", document.read_text())}
            # Sources are in no package.
            inside = {link for link in links
                      if any(link.is_relative_to(root / part) for part in ("docs", "packaging/kubernetes", "packaging/slurm"))}
            self.assertGreater(len(inside), 50)
            self.assertEqual([link for link in inside if not link.exists()], [])

    def test_what_is_loaded_late_is_recommended(self):
        """What programs are linked to is found by debhelper; what they load when it is wanted is not."""
        sources = [path.read_text() for folder in ("base", "cluster", "job", "transport")
                   for path in (program.SOURCE / folder).rglob("*.cpp")]
        loaded = re.findall(r'"lib([a-z]+)\.so\.([0-9]+)"', "".join(sources))
        self.assertIn(("ibverbs", "1"), loaded)
        for name, package in self.packages.items():
            if name in ("libverbena-dev", "python3-verbena"):
                continue
            told = fields(package)
            self.assertLessEqual({f"lib{library}{version}" for library, version in loaded},
                                 names(told["Recommends"]) | names(told["Suggests"]), name)

    def test_a_system_with_them(self):
        use = pathlib.Path(self.folder.name)
        (use / "use.sh").write_text(USE)
        (use / "rows.py").write_text(ROWS_PY.replace("LIBRARY", self.library))
        (use / "version.c").write_text(VERSION_C.replace("VERSION", self.version))
        (use / "consumer").mkdir()
        (use / "consumer" / "CMakeLists.txt").write_text(CONSUMER.replace("VERSION R", f"{self.version} R"))
        with tempfile.TemporaryDirectory() as system:
            ended = subprocess.run(["unshare", "--mount", "sh", "-c", IN_A_SYSTEM, "sh", system, use], text=True, check=False,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ended.returncode == 77 or (ended.returncode != 0 and os.geteuid() != 0):
            reason = "the packages are not installed: that takes root and overlayfs"
            print(f"skipped: {reason}", flush=True)
            self.skipTest(reason)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertTrue(any((use / "model").parent.glob("model*")), ended.stdout)
        self.assertEqual((use / "hello").read_text().count("clock 3: row 7 starts with 3, row 42 with 30\n"), 2)
        # dpkg's own books, caches that its triggers have made anew, and the folder in which a user's runs keep their secrets.
        others = re.compile(r"/(var/lib/dpkg|var/log|var/cache|etc/ld\.so\.cache|tmp/verbena-0)(/|$)")
        left = [path for path in (use / "left").read_text().splitlines() if not others.match(path)]
        self.assertEqual(left, [])

    def test_what_builds_them_is_installed_by_setup(self):
        run("dpkg-checkbuilddeps", DEBIAN / "control")
        setup = (program.SOURCE / "scripts" / "setup").read_text()
        installed = set(re.search(r'build_packages="([^"]*)"', setup)[1].split())
        installed |= set(re.search(r'packaging_packages="([^"]*)"', setup)[1].split())
        control = (DEBIAN / "control").read_text()
        wanted = names(re.search(r"^Build-Depends: ((?:.*\n )*.*)$", control, re.MULTILINE)[1])
        # One of debhelper's names for itself; the compilers are in every system that builds packages.
        self.assertLessEqual(wanted - {"debhelper-compat"}, installed)
        self.assertLessEqual(installed - wanted,
                             {"debhelper", "g++", "libgtest-dev", "libgmock-dev", "libbenchmark-dev"})


class Flags(unittest.TestCase):
    """Of packages that are built from nothing. Only configured here: building takes minutes."""

    def test_are_hardened_and_the_presets(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "source")
            ignored = shutil.ignore_patterns(".git", "build", "tests", "docs")
            shutil.copytree(program.SOURCE, source, ignore=ignored)
            (source / "packaging" / "debian").rename(source / "debian")
            plain = {name: value for name, value in os.environ.items() if name not in ("CXXFLAGS", "VERBENA_BUILD_TREE")}
            run("make", "-f", "debian/rules", "override_dh_auto_configure", cwd=source, env=plain)
            tree = source / "build" / "debian"
            compiled = json.loads((tree / "compile_commands.json").read_text())
            self.assertGreater(len(compiled), 20)
            for each in compiled:
                flags = each["command"].split()
                for flag in ("-fstack-protector-strong", "-D_FORTIFY_SOURCE=2", "-Werror=format-security",
                             f"-ffile-prefix-map={source}=."):
                    self.assertIn(flag, flags)
                if "-O3" in flags:  # what is written in C is a test of the headers
                    self.assertGreater(flags.index("-O3"), flags.index("-O2"))
            self.assertTrue(any("-O3" in each["command"] for each in compiled))
            linked = re.findall(r"^  LINK_FLAGS = (.*)$", (tree / "build.ninja").read_text(), re.MULTILINE)
            shared = [flags for flags in linked if "-z,now" in flags and "-z,relro" in flags]
            self.assertEqual(len(shared), len([flags for flags in linked if "-Wl," in flags]))
            self.assertGreaterEqual(len(shared), 3)  # the program, the library, the Python module


class WrongUse(unittest.TestCase):
    def test_is_explained(self):
        script = program.SOURCE / "scripts" / "package"
        for words, error in [(["--nonsense"], "unknown argument '--nonsense'"),
                             (["--build-tree"], "--build-tree wants a folder"),
                             (["--build-tree", "/usr"], "/usr is no build tree of "),
                             (["--build-tree", "/nowhere"], "/nowhere is no build tree of "),
                             (["one", "two"], "one folder is enough, not 'two', too")]:
            with self.subTest(words=words):
                ended = subprocess.run([script, "--no-setup", *words], text=True, stderr=subprocess.PIPE, check=False)
                self.assertEqual(ended.returncode, 2)
                self.assertIn(f"scripts/package: {error}", ended.stderr)


if __name__ == "__main__":
    for tool, package in {"dpkg-buildpackage": "dpkg-dev", "dh": "debhelper", "dh_python3": "dh-python",
                          "lintian": "lintian"}.items():
        if not shutil.which(tool):
            print(f"skipped: Debian packages: no {tool} (scripts/setup installs {package})")
            sys.exit(77)
    if not (program.BUILD / "python" / "verbena").exists():
        print("skipped: Debian packages: the Python package is not built (VERBENA_PYTHON)")
        sys.exit(77)
    unittest.main()
