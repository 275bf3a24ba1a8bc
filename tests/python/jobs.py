"""Servers and workers for the tests."""

import contextlib
import itertools
import os
import pathlib
import socket
import subprocess
import sys
import threading

import verbena

SKIPPED = 77  # what a test's program ends with if what it needs is not there

_number = itertools.count()


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096


def free_port():
    """A TCP port of this host at which nobody listens; below those that the system gives to whoever asks for any."""
    first, count = 12000, 20000
    while True:
        port = first + (os.getpid() * 61 + 7 * next(_number)) % count
        with socket.socket() as taken:
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.1", port))
                return port


def free_address(scheme):
    if scheme == "tcp":
        return f"tcp:127.0.0.1:{free_port()}"
    return f"shm:python-test-{os.getpid()}-{next(_number)}"


def network(scheme):
    return {"no_secret": True} if scheme == "tcp" else {}


@contextlib.contextmanager
def job(scheme="shm", servers=1, workers=1, **options):
    """The servers of a job; gives the arguments for connect(). What goes wrong in a server fails the test."""
    addresses = [free_address(scheme) for _ in range(servers)]
    running = [
        verbena.Server(address, rank=rank, servers=servers, workers=workers, **network(scheme), **options)
        for rank, address in enumerate(addresses)
    ]
    try:
        yield {"servers": addresses, "workers": workers, **network(scheme)}
    except BaseException:
        for server in running:
            server.stop()
        raise
    for server in running:
        if not server.wait(20):
            server.stop()
            raise AssertionError("a server goes on, although all workers have left")


@contextlib.contextmanager
def alone(scheme="shm", servers=1, **options):
    """The only worker of a job."""
    with job(scheme, servers) as place, verbena.connect(**place, **options) as session:
        yield session


def in_workers(place, work, **options):
    """Runs work(session) in a thread for each worker; returns what each has returned, or raises the first error."""
    results = [None] * place["workers"]
    errors = []

    def run(rank):
        try:
            with verbena.connect(**place, rank=rank, **options) as session:
                results[rank] = work(session)
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(place["workers"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def run_script(script, *arguments, expect=0, timeout=60, **variables):
    """Runs Python with such variables; returns what it has written."""
    process = started(script, *arguments, **variables)
    output = finish(process, timeout)
    if expect is not None and process.returncode != expect:
        raise AssertionError(f"ended with {process.returncode}:\n{output}")
    return output


def run_example(name, *arguments):
    """What an example writes alone, and what the first of two workers does."""
    example = ROOT / "python" / "examples" / name
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "VERBENA_NO_SECRET": "1"}
    alone = started(example, *arguments)
    together = [started(example, *arguments, **variables, RANK=str(rank)) for rank in range(2)]
    outputs = []
    for process in (alone, *together):
        outputs.append(finish(process, timeout=280))
        if process.returncode != 0:
            raise AssertionError(f"ended with {process.returncode}:\n{outputs[-1]}")
    return outputs[:2]


def finish(process, timeout=60):
    """What the process has still written, when it has ended. One that does not end is killed."""
    with process:
        try:
            return process.communicate(timeout=timeout)[0]
        except BaseException:
            process.kill()
            raise


def started(script, *arguments, **variables):
    environment = {**os.environ, **variables}
    # Whoever runs the tests may have been started by a launcher himself.
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "VERBENA_SERVERS"):
        if name not in variables:
            environment.pop(name, None)
    command = [sys.executable, "-u", "-c", script] if isinstance(script, str) else [sys.executable, "-u", str(script)]
    return subprocess.Popen([*command, *arguments], env=environment, text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


ROOT = pathlib.Path(__file__).resolve().parents[2]
