"""Builds the wheel and the source distribution: what pip asks for (PEP 517), with nothing but CMake and Python.

Where the build is: --config-settings build-folder=FOLDER, a CMake build tree of this source tree, which is built where it
is not; without it, build/wheel.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSION = re.search(r"project\(verbena VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
NAME = f"verbena-{VERSION}"
METADATA = (ROOT / "python" / "METADATA.in").read_text().replace("@PROJECT_VERSION@", VERSION)


def wheel_tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{re.sub('[-.]', '_', sysconfig.get_platform())}"


def run(*command):
    subprocess.run([str(word) for word in command], check=True, cwd=ROOT)


def build_package(settings, prefix):
    """Builds the package, and puts it into prefix/verbena, with the library beside it."""
    build = pathlib.Path((settings or {}).get("build-folder") or ROOT / "build" / "wheel").resolve()
    if not (build / "CMakeCache.txt").exists():
        run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-D", "CMAKE_BUILD_TYPE=Release", "-D", "BUILD_TESTING=OFF",
            "-D", "VERBENA_PYTHON=ON", "-D", f"Python3_EXECUTABLE={sys.executable}")
    run("cmake", "--build", build, "--target", "verbena_python")
    with tempfile.TemporaryDirectory() as installed:
        run("cmake", "--install", build, "--component", "python", "--prefix", installed, "--strip")
        (package,) = pathlib.Path(installed).glob("**/verbena")
        shutil.copytree(package, prefix / "verbena")
        # By the name under which the module looks for it.
        (library,) = build.glob("libverbena.so.[0-9]*.[0-9]*.[0-9]*")
        name = ".".join(library.name.split(".")[:-1])
        shutil.copy(library, prefix / "verbena" / name)
        run("strip", "--strip-unneeded", prefix / "verbena" / name)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"{NAME}-{wheel_tag()}.whl"
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder)
        build_package(config_settings, prefix)
        info = prefix / f"{NAME}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(METADATA)
        (info / "WHEEL").write_text(
            f"Wheel-Version: 1.0\nGenerator: verbena\nRoot-Is-Purelib: false\nTag: {wheel_tag()}\n")
        shutil.copy(ROOT / "LICENSE", info)
        record = info / "RECORD"
        with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
            lines = []
            for file in sorted(path for path in prefix.rglob("*") if path.is_file()):
                digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
                lines.append(f"{file.relative_to(prefix)},sha256={digest},{file.stat().st_size}\n")
                wheel.write(file, file.relative_to(prefix))
            record.write_text("".join(lines) + f"{record.relative_to(prefix)},,\n")
            wheel.write(record, record.relative_to(prefix))
    return name


def build_sdist(sdist_directory, config_settings=None):
    """What git tracks, but for the data and what is only for the project's own tests."""
    name = f"{NAME}.tar.gz"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(pathlib.Path(sdist_directory) / name, "w:gz") as archive:
        for path in map(os.fsdecode, listed.split(b"\0")):
            if path and not path.startswith(("data/", "tests/", "docs/images/")):
                archive.add(ROOT / path, f"{NAME}/{path}")
        with tempfile.TemporaryDirectory() as folder:
            information = pathlib.Path(folder) / "PKG-INFO"
            information.write_text(METADATA)
            archive.add(information, f"{NAME}/PKG-INFO")
    return name
