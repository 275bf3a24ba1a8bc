#!/usr/bin/env python3
"""The sbatch files, run by a Slurm of one node that this test starts for itself."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import program

BATCHES = program.PACKAGING / "slurm"
CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Slurm:
    """A controller, a daemon of one node of 8 processors, whatever the host has, and what lets them trust each other."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        user = subprocess.run(["id", "-un"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
        configuration = self.folder / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(host=socket.gethostname().split(".")[0], user=user, folder=self.folder,
                                                      controller_port=free_port(), node_port=free_port()))
        self.environment = {**os.environ, "SLURM_CONF": str(configuration),
                            "PATH": f"{program.PROGRAM.parent}:/usr/sbin:{os.environ['PATH']}"}
        self.start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                   f"--seed-file={self.folder}/munged.seed")
        self.wait(lambda: (self.folder / "munge.socket").exists())
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D")
        self.wait(lambda: "idle" in self.run("sinfo", "--noheader", "--format=%T").stdout)

    def start(self, *words):
        process = subprocess.Popen(words, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)

    def run(self, *words):
        return subprocess.run(words, env=self.environment, cwd=self.folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    def wait(self, holds):
        deadline = time.monotonic() + 60
        while not holds():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text() for path in self.folder.glob("*.log"))
                raise AssertionError(f"Slurm does not come up:\n{logs}")
            time.sleep(0.1)


class Batches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = Slurm()
        cls.addClassCleanup(cls.slurm.stack.close)

    def test_all_are_looked_at(self):
        self.assertEqual(sorted(BATCHES.iterdir()), [BATCHES / "pmix.sbatch", BATCHES / "rendezvous.sbatch"])

    def said_by(self, batch, *words):
        """What a job says that ends well."""
        # All four tasks on the one node.
        submitted = self.slurm.run("sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=4", "--cpus-per-task=2",
                                   "--output=%x-%j.out", batch, *words)
        self.assertEqual(submitted.returncode, 0, submitted.stdout)
        number = submitted.stdout.strip()
        state = lambda: self.slurm.run("scontrol", "--oneliner", "show", "job", number).stdout
        self.slurm.wait(lambda: "JobState=COMPLETED" in state() or "JobState=FAILED" in state())
        said = (self.slurm.folder / f"verbena-{number}.out").read_text()
        self.assertIn("JobState=COMPLETED", state(), said)
        self.assertIn("2 servers × 2 workers", said)
        # Nothing of the secret is left.
        self.assertEqual(list(self.slurm.folder.glob(".verbena-secret*")), [])
        return said

    def test_each_trains(self):
        for batch in BATCHES.iterdir():
            with self.subTest(batch=batch.name):
                self.assertIn("log_likelihood_per_token", self.said_by(batch, "lda", f"--data={program.CORPUS}",
                                                                       "--stop-words=english", "--iterations=5"))

    def test_each_starts_a_program_with_processors(self):
        hello = program.PROGRAM.parent / "hello"
        for batch in BATCHES.iterdir():
            with self.subTest(batch=batch.name):
                said = self.said_by(batch, "--", "sh", "-c", 'echo "$SRUN_CPUS_PER_TASK processors"; exec "$0"', hello)
                # What srun was told. Without a plugin that binds tasks to processors nothing else shows it.
                self.assertEqual(said.count("2 processors"), 2, said)


if __name__ == "__main__":
    for daemon in ("munged", "slurmctld", "slurmd"):
        if not shutil.which(daemon, path=f"/usr/sbin:{os.environ['PATH']}"):
            print(f"skipped: batch files: no {daemon} (scripts/setup installs it)")
            sys.exit(77)
    unittest.main()
