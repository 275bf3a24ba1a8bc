"""The wheel: built without a network, whole, and of use where nothing else of Verbena is.

test_wheel.py BUILD_TREE: of which it is made."""

import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import jobs

BUILD = ""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options).stdout


class Wheel(unittest.TestCase):
    def test_is_built_and_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "--wheel-dir", work,
                "--config-settings", f"build-folder={BUILD}", jobs.ROOT)
            (wheel,) = work.glob("verbena-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                names = archive.namelist()
            self.assertTrue(any(name.startswith("verbena/libverbena.so.") for name in names), names)
            for name in ("verbena/__init__.py", "verbena/_verbena.pyi", "verbena/py.typed", "verbena/torch.py"):
                self.assertIn(name, names)
            prefix = work / "prefix"
            run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", prefix, wheel)
            wheel.unlink()
            script = ("import sys; sys.path.insert(0, sys.argv[1]); import verbena; print(verbena.__file__)\n"
                      "with verbena.init() as session:\n"
                      "    table = session.table('rows', rows=3)\n"
                      "    table.push([1], [[2]])\n"
                      "    print(table.pull([1])[0, 0])\n"
                      "print([line.split()[-1] for line in open('/proc/self/maps') if 'libverbena' in line][0])\n")
            output = run(sys.executable, "-I", "-c", script, prefix, cwd="/").splitlines()
            self.assertEqual(output[0], str(prefix / "verbena" / "__init__.py"))
            self.assertEqual(output[1], "2.0")
            self.assertTrue(output[2].startswith(str(prefix)), output)  # and not one of the build tree's

    @unittest.skipUnless((jobs.ROOT / ".git").exists() and shutil.which("git"), "not in a clone of the repository")
    def test_sources(self):
        sys.path.insert(0, str(jobs.ROOT / "python"))
        import backend  # pylint: disable=import-outside-toplevel

        with tempfile.TemporaryDirectory() as folder:
            name = backend.build_sdist(folder)
            with tarfile.open(pathlib.Path(folder) / name) as archive:
                names = archive.getnames()
        for wanted in ("pyproject.toml", "python/backend.py", "PKG-INFO", "worker/session.cpp", "python/verbena/__init__.py"):
            self.assertIn(f"{backend.NAME}/{wanted}", names)


if __name__ == "__main__":
    BUILD = str(pathlib.Path(sys.argv.pop()).resolve())
    unittest.main()
