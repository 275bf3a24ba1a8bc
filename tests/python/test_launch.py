"""init(), alone and among others; and which libraries may be loaded before and after."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import jobs
import verbena

TRAIN = """
import sys
import numpy, verbena
with verbena.init(no_secret=True) as session:
    table = session.table("rows", rows=10, width=2, consistency=verbena.Bsp())
    for _ in range(5):
        table.push(range(10), numpy.ones((10, 2), dtype=numpy.float32))
        session.clock()
    session.barrier()
    print(session.rank, session.workers, table.pull([3])[0, 0])
"""


TRAIN_UNTIL = """
import pathlib, sys, time
import numpy, verbena
with verbena.init() as session:
    rows = session.table("rows", rows=10, width=2, consistency="bsp")
    ends = session.table("ends", rows=1, consistency="bsp")
    clocks = 0
    while clocks < 20_000 and not ends.pull([0])[0]:
        rows.push(range(10), numpy.ones((10, 2)))
        if session.rank == 0 and pathlib.Path(sys.argv[1]).exists():
            ends.push([0], [1])
        session.clock()
        clocks += 1
        if clocks == 1:
            print("trains", flush=True)
        time.sleep(0.002)
    print("counted all" if rows.pull([3])[0, 0] == clocks * session.workers else "has lost some", flush=True)
"""


def servers_of(launcher):
    """The processes of its servers and their copies, by the numbers that it has given them."""
    found = {}
    for pid in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text(encoding="ascii").split():
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        found.update((int(word[14:]), int(pid)) for word in words if word.startswith(b"--server-rank="))
    return found


def torchrun(rank, processes, port):
    """What torchrun tells each process."""
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port)}


class Launch(unittest.TestCase):
    def test_alone(self):
        self.assertEqual(jobs.run_script(TRAIN), "0 1 5.0\n")

    def test_alone_without_a_goodbye(self):
        script = "import verbena; session = verbena.init(); session.table('a', rows=1).push([0], [[1]]); print('done')"
        self.assertEqual(jobs.run_script(script), "done\n")

    def test_warnings_are_not_among_what_the_program_prints(self):
        script = f"""
import verbena
try:
    verbena.connect(["tcp:127.0.0.1:{jobs.free_port()}"], no_secret=True, timeout_ms=2000)
except verbena.DeadlineExceededError as error:
    print("nobody")
"""
        ended = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.stdout, "nobody\n")
        self.assertRegex(ended.stderr, "worker 0 waits for server 0: tcp:127.0.0.1")

    def test_for_another_python(self):
        package = pathlib.Path(verbena.__file__).parent
        with tempfile.TemporaryDirectory() as folder:
            own = pathlib.Path(folder) / "verbena"
            own.mkdir()
            for path in package.iterdir():
                name = "_verbena.cpython-27-x86.so" if path.name.startswith("_verbena.cpython") else path.name
                (own / name).symlink_to(path)
            script = f"import sys; sys.path.insert(0, {folder!r}); import verbena"
            output = jobs.run_script(script, expect=1)
        self.assertRegex(output, r"ImportError: verbena is built for another Python than this one, 3\.[^:]*: its module is "
                                 r"_verbena\.cpython-27-x86\.so")

    def test_once_only(self):
        script = ("import verbena\nverbena.init().close()\ntry:\n    verbena.init()\n"
                  "except verbena.FailedPreconditionError as error:\n    print(error)\n")
        self.assertIn("has asked for its place in a job already", jobs.run_script(script))

    def test_by_torchruns_variables(self):
        port = jobs.free_port()
        running = [jobs.started(TRAIN, **torchrun(rank, 2, port)) for rank in range(2)]
        for rank, process in enumerate(running):
            output = jobs.finish(process)
            self.assertEqual(output.splitlines()[-1:], [f"{rank} 2 10.0"], output)
            self.assertEqual(process.returncode, 0)

    def test_goes_on_when_a_server_dies(self):
        with tempfile.TemporaryDirectory() as folder:
            enough = pathlib.Path(folder) / "enough"
            command = [os.environ["VERBENA_TEST_PROGRAM"], "run", "--servers", "2", "--workers", "2", "--replicas", "1", "-q",
                       "--", sys.executable, "-c", TRAIN_UNTIL, str(enough)]
            process = subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT)
            lines = [process.stdout.readline(), process.stdout.readline()]
            self.assertEqual(lines, ["trains\n", "trains\n"])
            os.kill(servers_of(process.pid)[1], signal.SIGKILL)
            for line in process.stdout:
                lines.append(line)
                if "can take its place" in line:
                    enough.touch()
            jobs.finish(process)
        output = "".join(lines)
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("the run goes on with the last copy of server 1", output)
        self.assertIn("can take its place", output)
        self.assertEqual(lines.count("counted all\n"), 2, output)

    def test_by_variables_of_ones_own(self):
        script = f"""
import os, verbena
server = verbena.Server("{jobs.free_address('shm')}")
os.environ["VERBENA_SERVERS"] = server.address
with verbena.init() as session:
    print(session.workers)
print(server.wait())
"""
        self.assertEqual(jobs.run_script(script), "1\nTrue\n")

    def test_an_exception_that_ends_a_program_ends_the_job(self):
        script = """
import verbena
session = verbena.init(no_secret=True)
table = session.table("rows", rows=10, consistency="bsp")
if session.rank == 1:
    raise LookupError("line 7 is missing")
for _ in range(100):
    session.clock()
    session.barrier()
"""
        port = jobs.free_port()
        running = [jobs.started(script, **torchrun(rank, 2, port)) for rank in range(2)]
        outputs = []
        for process in running:
            outputs.append(jobs.finish(process))
            self.assertNotEqual(process.returncode, 0)
        self.assertIn("AbortedError", outputs[0])
        self.assertIn("LookupError: line 7 is missing", outputs[0])

    def test_ctrl_c_while_others_are_missing(self):
        script = "import verbena\nprint('waits')\nverbena.init(no_secret=True)\n"
        process = jobs.started(script, **torchrun(0, 2, jobs.free_port()))
        self.assertEqual(process.stdout.readline(), "waits\n")
        process.send_signal(signal.SIGINT)
        output = jobs.finish(process, timeout=30)  # the others have a minute
        self.assertIn("KeyboardInterrupt", output)

    def test_beside_torch(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("torch is not installed: whether it can be loaded beside it was not tried")
        for first, second in (("torch", "verbena"), ("verbena", "torch")):
            script = f"""
import {first}, {second}
session = verbena.init()
table = session.table("rows", rows=10, width=2)
keys = torch.tensor([1, 2])
table.push(keys, torch.ones(2, 2))
print(torch.from_numpy(table.pull(keys)).sum().item())
session.close()
"""
            self.assertEqual(jobs.run_script(script), "4.0\n")


if __name__ == "__main__":
    unittest.main()
