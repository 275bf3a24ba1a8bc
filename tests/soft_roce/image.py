#!/usr/bin/env python3
"""What a virtual machine boots: Debian's stock kernel, unpacked and not installed, and an initramfs with busybox,
the RDMA tools and the programs that a test adds. Needs no root.

    image.py CACHE     builds kernel and base image into the folder CACHE unless they are there

Exit status 77 means that they cannot be had here; the reason is on standard output.
"""

import contextlib
import fcntl
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
KERNEL_PACKAGE = "linux-image-amd64"
# First what the machine itself needs, then soft-RoCE. Without crc32_generic, rdma_rxe fails with ENOENT.
MODULES = ("virtio_pci", "virtio_console", "virtio_net", "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm")
HOST_PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "cpio": "cpio", "ldd": "libc-bin", "strip": "binutils",
                 "setpriv": "util-linux", "dpkg-deb": "dpkg", "apt-get": "apt"}
GUEST_PROGRAMS = {"busybox": "busybox-static", "modprobe": "kmod", "depmod": "kmod",
                  "ip": "iproute2", "rdma": "iproute2",
                  "ibv_devices": "ibverbs-utils", "ibv_devinfo": "ibverbs-utils",
                  "ibv_rc_pingpong": "ibverbs-utils", "rping": "rdmacm-utils",
                  **{f"ib_{verb}_{kind}": "perftest" for verb in ("read", "write", "atomic", "send")
                     for kind in ("lat", "bw")}}
PROVIDER_CONFIGURATION = pathlib.Path("/etc/libibverbs.d/rxe.driver")
PROVIDER_PATTERN = "/usr/lib/*/libibverbs/librxe-rdmav*.so"
GUEST_FOLDER = pathlib.Path(__file__).resolve().parent / "guest"
APT_TIMEOUT_S = 300
LAB_PREFIX = "lab-"  # begins the names of folders in the cache that belong to a running test


class Unavailable(Exception):
    """The image cannot be had here; the message says why and what helps."""


def find_program(name, package):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise Unavailable(f"{name} is not installed (package {package}; scripts/setup installs it)")
    return pathlib.Path(path)


def require_host():
    """Raises Unavailable unless this host has every program that is needed."""
    if os.uname().machine != "x86_64":
        raise Unavailable(f"the virtual machines are x86-64, this host is {os.uname().machine}")
    for name, package in {**HOST_PROGRAMS, **GUEST_PROGRAMS}.items():
        find_program(name, package)
    if not provider().exists() or not PROVIDER_CONFIGURATION.exists():
        raise Unavailable("libibverbs has no rxe provider (package ibverbs-providers; scripts/setup installs it)")


def provider():
    found = sorted(pathlib.Path("/").glob(PROVIDER_PATTERN.lstrip("/")))
    return found[-1] if found else pathlib.Path(PROVIDER_PATTERN)


def run(command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE, **options)


@contextlib.contextmanager
def locked(cache):
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---- the kernel

class Kernel:
    """A kernel image and the modules named above and all that they depend on, as a tree that modprobe reads."""

    def __init__(self, folder):
        self.folder = folder
        self.image = folder / "kernel"
        self.modules = folder / "modules"

    def module_files(self):
        """{path in the virtual machine: file on this host}."""
        return {"/usr" / path.relative_to(self.modules): path
                for path in sorted(self.modules.rglob("*")) if path.is_file()}


def fetch_kernel(cache):
    """Returns the kernel in the cache. Downloads it first if there is none."""
    kernel = Kernel(cache / f"kernel-{hashlib.sha256(repr(MODULES).encode()).hexdigest()[:16]}")
    if kernel.image.exists():
        return kernel
    with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as scratch:
        scratch = pathlib.Path(scratch)
        package = download_kernel(scratch)
        tree = scratch / "tree"
        run(["dpkg-deb", "--extract", package, tree])
        pick_kernel(tree, scratch / "kernel")
        shutil.rmtree(kernel.folder, ignore_errors=True)
        (scratch / "kernel").rename(kernel.folder)
    return kernel


def download_kernel(folder):
    """Downloads the package with the system's package lists, or with our own if those are missing or old."""
    own = folder / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (own / part).mkdir(parents=True)
    # As root, apt would download as another user, who cannot write here.
    common = ["-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=2",
              "-o", f"APT::Sandbox::User={'root' if os.getuid() == 0 else ''}"]
    own_lists = ["-o", f"Dir::State={own}/state", "-o", f"Dir::Cache={own}/cache",
                 "-o", "Dir::State::status=/var/lib/dpkg/status"]
    try:
        return download_with(common, folder)
    except subprocess.SubprocessError:
        pass
    complaints = ""
    try:
        complaints = apt(["apt-get", *common, *own_lists, "update"], folder).stderr
        return download_with(common + own_lists, folder)
    except subprocess.SubprocessError as error:
        complaints += getattr(error, "stderr", None) or str(error)
        raise Unavailable(f"{KERNEL_PACKAGE} cannot be downloaded: {complaints.strip().splitlines()[0]}") from error


def download_with(options, folder):
    depends = apt(["apt-cache", *options, "depends", "--important", KERNEL_PACKAGE], folder).stdout
    package = re.search(r"Depends: (linux-image-\S+)", depends)
    if package is None:
        raise subprocess.SubprocessError(f"{KERNEL_PACKAGE} depends on no kernel")
    apt(["apt-get", *options, "download", package[1]], folder)
    return next(folder.glob("linux-image-*.deb"))


def apt(command, folder):
    return run(command, cwd=folder, stderr=subprocess.PIPE, timeout=APT_TIMEOUT_S, env={**os.environ, "LC_ALL": "C"})


def pick_kernel(tree, into):
    """Takes the image and the needed modules from an unpacked kernel package."""
    modules = next((tree / "lib/modules").iterdir())
    release = modules.name
    run(["depmod", "-b", tree, release], env=path_with_sbin())
    shows = run(["modprobe", "-d", tree, "-S", release, "--show-depends", "--all", *MODULES], env=path_with_sbin())
    wanted = [pathlib.Path(line.split()[1]) for line in shows.stdout.splitlines() if line.startswith("insmod ")]
    listings = [modules / name for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo")]
    for path in {*wanted, *listings}:
        target = into / "modules" / path.relative_to(tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    run(["depmod", "-b", into / "modules", release], env=path_with_sbin())
    (into / "kernel").write_bytes(unpack_kernel((tree / "boot" / f"vmlinuz-{release}").read_bytes()))


def unpack_kernel(packed):
    """Returns the kernel in a bzImage: an emulated processor takes longer to unpack it than for all else in booting.
    Returns the bzImage itself if the kernel is packed in another way than Debian's, or if QEMU cannot boot it
    unpacked."""
    setup_sectors = packed[0x1F1] or 4  # Documentation/x86/boot.rst
    offset, size = struct.unpack_from("<II", packed, 0x248)
    payload = packed[(setup_sectors + 1) * 512 + offset:][:size]
    if not payload.startswith(b"\xfd7zXZ\0"):
        return packed
    kernel = lzma.LZMADecompressor().decompress(payload)  # the kernel's size follows
    entry_note = struct.pack("<III4s", 4, 8, 18, b"Xen\0")  # XEN_ELFNOTE_PHYS32_ENTRY: where QEMU begins
    return kernel if entry_note in kernel else packed


def path_with_sbin():
    return {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}


# ---- archives

def shared_objects(program):
    """All shared objects that the program needs, directly or indirectly; none for a static one."""
    listing = subprocess.run(["ldd", program], text=True, capture_output=True, check=False)
    if listing.returncode != 0:
        return []
    missing = re.findall(r"(\S+) => not found", listing.stdout)
    if missing:
        raise Unavailable(f"{program} needs {', '.join(missing)}, which this host has not")
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", listing.stdout)]


def place(path):
    """The place of a path of this host in the image, which has /bin, /sbin, /lib and /lib64 only below /usr."""
    path = pathlib.Path(os.path.abspath(path))
    return pathlib.Path("/usr", *path.parts[1:]) if path.parts[1] in ("bin", "sbin", "lib", "lib64") else path


def with_shared_objects(programs):
    """Returns {path in the image: file here} of these programs and of the shared objects that they load."""
    files = dict(programs)
    for program in programs.values():
        files.update({place(path): path for path in shared_objects(program)})
    return files


def hash_of(files):
    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes())
    for target, source in sorted(files.items()):
        digest.update(f"{target}\0{os.access(source, os.X_OK)}\0".encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()[:16]


def write_archive(files, links, archive, strip=False):
    """Writes {path in the image: file here} and {link in the image: target} as a cpio archive that belongs to root."""
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="stage-") as stage:
        for link, target in links.items():
            path = pathlib.Path(stage + link)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        for target, source in files.items():
            path = pathlib.Path(f"{stage}{target}")
            path.parent.mkdir(parents=True, exist_ok=True)
            if not (strip and strip_debug_info(source, path)):
                shutil.copy(source, path)
        names = sorted(str(path.relative_to(stage)) for path in pathlib.Path(stage).rglob("*"))
        part = archive.with_suffix(".part")
        with open(part, "wb") as out:
            subprocess.run(["cpio", "--quiet", "--create", "--format=newc", "--owner=+0:+0"], cwd=stage, check=True,
                           input="".join(f"{name}\n" for name in names).encode(), stdout=out)
        part.rename(archive)


def strip_debug_info(source, target):
    with open(source, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return False
    run(["strip", "--strip-debug", "-o", target, source])
    return True


class Image:
    """What the cache holds, ready to boot."""

    def __init__(self, cache, kernel, base):
        self.cache = cache
        self.kernel = kernel
        self.base = base

    def extend(self, programs, files, initramfs):
        """Writes the base together with programs, what they load, and other files.

        Both are {path in the image: file here}. Programs lose their debug information.
        """
        everything = with_shared_objects({pathlib.Path(to): pathlib.Path(path) for to, path in programs.items()})
        everything.update({pathlib.Path(to): pathlib.Path(path) for to, path in files.items()})
        write_archive(everything, {}, initramfs, strip=True)
        # The kernel unpacks several archives that follow each other.
        initramfs.write_bytes(self.base.read_bytes() + initramfs.read_bytes())


def remove_leftovers(cache):
    """Removes what killed runs left more than a day ago. The lock must be held."""
    day_ago = time.time() - 24 * 60 * 60
    for folder in (*cache.glob("stage-*"), *cache.glob("download-*"), *cache.glob(f"{LAB_PREFIX}*")):
        if folder.stat().st_mtime < day_ago:
            shutil.rmtree(folder, ignore_errors=True)


def build(cache):
    """The image in the cache, brought up to date. Raises Unavailable."""
    cache = pathlib.Path(cache).resolve()
    require_host()
    with locked(cache):
        remove_leftovers(cache)
        kernel = fetch_kernel(cache)
        programs = {place(path): path for path in
                    (find_program(name, package) for name, package in GUEST_PROGRAMS.items())}
        # Loaded by name, which ldd does not see: the rxe provider, and a library that glibc loads when a
        # thread ends.
        loaded = (provider(), provider().parent.parent / "libgcc_s.so.1")
        programs.update({place(path): path for path in loaded})
        files = with_shared_objects(programs)
        files.update(kernel.module_files())
        files[PROVIDER_CONFIGURATION] = PROVIDER_CONFIGURATION
        files.update({pathlib.Path("/") / path.name: path for path in GUEST_FOLDER.iterdir()})
        base = cache / f"base-{hash_of(files)}.cpio"
        if not base.exists():
            for old in cache.glob("base-*.cpio"):
                old.unlink()
            links = {f"/{folder}": f"usr/{folder}" for folder in ("bin", "sbin", "lib", "lib64")}
            links["/usr/bin/sh"] = "busybox"
            write_archive(files, links, base)
    return Image(cache, kernel, base)


def main(arguments):
    if len(arguments) != 1:
        print(f"usage: image.py CACHE\n\n{__doc__}", file=sys.stderr)
        return 2
    try:
        image = build(arguments[0])
    except Unavailable as reason:
        print(f"skipped: soft-RoCE in virtual machines: {reason}")
        return SKIPPED
    print(f"{image.kernel.image}\n{image.base} ({image.base.stat().st_size >> 20} MiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
