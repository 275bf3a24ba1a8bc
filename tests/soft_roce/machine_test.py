"""The virtual machines themselves, and soft-RoCE in one of them with tools that others have written."""

import os
import tempfile
import time
from unittest import mock

import case
import vm


class MachineTest(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.payload = os.urandom(1 << 20)
        with tempfile.NamedTemporaryFile() as file:
            file.write(cls.payload)
            file.flush()
            cls.open_lab(files={"/payload": file.name})
        cls.machine, = cls.lab.network(1)

    def test_exit_statuses_come_back(self):
        self.assertEqual(self.machine.start("exit 7").wait(vm.RUN_DEADLINE_S), 7)
        self.assertEqual(self.machine.start("kill -KILL $$").wait(vm.RUN_DEADLINE_S), 128 + 9)
        with self.assertRaisesRegex(vm.Failure, "'echo said; false' on node1 ended with status 1:\nsaid"):
            self.machine.run("echo said; false")

    def test_files_come_whole_and_unchanged(self):
        self.assertEqual(self.machine.read_file("/payload"), self.payload)
        with self.assertRaisesRegex(vm.Failure, "can't open '/nothing'"):
            self.machine.read_file("/nothing")

    def test_output_that_is_read_late_comes_whole(self):
        for _ in range(2):  # what the first one left unread would be at the beginning of the second one's output
            job = self.machine.start("cat /payload", shown=False)
            time.sleep(0.3)  # nobody reads: the status comes before most of the output
            self.assertEqual(job.wait(vm.RUN_DEADLINE_S), 0)
            self.assertTrue(job.output == self.payload, len(job.output))

    def test_output_of_two_jobs_does_not_mix(self):
        jobs = [self.machine.start(f"for i in $(seq 200); do echo {word}; done") for word in ("one", "two")]
        for job, word in zip(jobs, ("one", "two")):
            self.assertEqual(job.wait(vm.RUN_DEADLINE_S), 0)
            self.assertEqual(job.text(), f"{word}\n" * 200)

    def test_output_looking_like_a_status_is_output(self):
        self.assertEqual(self.machine.run("echo exited 3"), "exited 3\n")

    def test_overdue_job_is_killed_with_its_children(self):
        job = self.machine.start("echo begun; sleep 1234 & sleep 1234")
        job.wait_for("begun", vm.RUN_DEADLINE_S)
        with self.assertRaisesRegex(vm.Overdue, "not within 0.5 s"):
            job.wait(0.5)
        self.assertEqual(job.status, 128 + 9)
        self.assertNotIn("sleep 1234", self.machine.run("ps"))

    def test_device_is_active(self):
        self.assertIn("rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0", self.machine.run("rdma link"))
        information = self.machine.run("ibv_devinfo -d rxe0 -v")
        self.assertRegex(information, r"active_mtu:\s+4096")
        self.assertRegex(information, r"GID\[.*::ffff:10\.0\.0\.1, RoCE v2")

    def test_pingpong_through_loopback(self):
        server = self.machine.start(f"ibv_rc_pingpong -n 100 -d rxe0 -g {self.machine.gid_index()}")
        self.machine.wait_listening(18515)
        self.machine.run(f"ibv_rc_pingpong -n 100 -d rxe0 -g {self.machine.gid_index()} 10.0.0.1")
        self.assertEqual(server.wait(vm.RUN_DEADLINE_S), 0)

    def test_latencies_through_loopback(self):
        for tool in ("ib_read_lat", "ib_write_lat", "ib_atomic_lat"):
            typical_us = self.perftest(tool, self.machine, self.machine, "-s 8 -n 100")
            print(f"{tool} in one machine, 8 bytes: typical {typical_us} µs")
            self.assertGreater(typical_us, 0)

    def test_then_it_hangs_and_is_killed(self):
        """Runs last because of its name: it leaves no machine."""
        machine, begin, deadline_s = self.machine, time.monotonic(), vm.CONTROL_DEADLINE_S
        machine.monitor("stop")
        with mock.patch.object(vm, "CONTROL_DEADLINE_S", 2), self.assertRaisesRegex(vm.Overdue, "node1 was killed, too"):
            machine.run("true", deadline_s=1)
        self.assertLess(time.monotonic() - begin, deadline_s)
        self.assertFalse(machine.alive())
        with self.assertRaises(vm.MachineDied):
            machine.run("true")


if __name__ == "__main__":
    case.main()
