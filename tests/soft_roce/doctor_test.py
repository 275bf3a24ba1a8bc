"""`verbena doctor` in machines that are fit for verbs and in others. Its advice must make a machine work."""

import json
import shutil

import case

DOCTOR = "verbena doctor"
WORKS, SHARED_MEMORY_ONLY = 0, 1
ORDINARY_USER = "/usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


class DoctorTest(case.Case):
    @classmethod
    def setUpClass(cls):
        # Given by its path, because busybox has a setpriv with fewer options.
        cls.programs = {**cls.programs, "/usr/bin/setpriv": shutil.which("setpriv")}
        cls.open_lab(files={"/etc/os-release": "/etc/os-release"})
        cls.machine = cls.lab.machine()
        cls.machine.wait_booted()
        cls.machine.show("---- as booted")
        cls.told = [cls.machine.start(DOCTOR).wait(60)]  # exit statuses of its text for people
        cls.rounds = cls.follow_its_advice()
        cls.machine.show("---- with its advice followed")
        cls.told.append(cls.machine.start(DOCTOR).wait(60))

    @classmethod
    def examine(cls, prefix="", suffix=""):
        """Runs doctor. Returns its exit status and its JSON."""
        job = cls.machine.start(f"{prefix} {DOCTOR} --json {suffix}")
        status = job.wait(60)
        text = job.text()
        return status, json.loads(text[text.index("{"):])  # libibverbs may print warnings first

    @staticmethod
    def problems(report):
        return {finding["subject"]: finding for finding in report["findings"] if finding["level"] == "problem"}

    @staticmethod
    def commands(finding):
        return [command for remedy in finding["remedies"] for command in remedy["commands"]]

    @classmethod
    def follow_its_advice(cls):
        """Runs what doctor advises until no problem is left. Returns (exit status, problems) of each round."""
        rounds = []
        while len(rounds) < 8:
            status, report = cls.examine()
            problems = cls.problems(report)
            rounds.append((status, problems))
            if status == WORKS:
                break
            for finding in problems.values():
                for command in cls.commands(finding):
                    cls.machine.run(command)
        return rounds

    def mend(self):
        rounds = self.follow_its_advice()
        self.assertEqual(rounds[-1], (WORKS, {}))
        return rounds

    def test_its_advice_makes_soft_roce_work(self):
        status, problems = self.rounds[0]
        self.assertEqual(status, SHARED_MEMORY_ONLY)
        self.assertIn("devices", problems)
        self.assertEqual(self.commands(problems["soft-RoCE"]),
                         ["ip link set eth0 up", "modprobe rdma_rxe", "rdma link add rxe0 type rxe netdev eth0"])
        self.assertEqual(self.rounds[-1], (WORKS, {}))
        self.assertEqual(self.told, [SHARED_MEMORY_ONLY, WORKS])

    def test_says_what_would_be_used(self):
        status, report = self.examine()
        self.assertEqual(status, WORKS)
        self.assertTrue(report["verbs"])
        self.assertTrue(report["shared_memory"])
        use = report["would_use"]
        self.assertEqual((use["device"], use["port"], use["address"], use["mtu_bytes"]), ("rxe0", 1, "192.168.77.1", 1024))
        gid = int(use["gid"].split()[0])
        text = self.machine.run(f"cat /sys/class/infiniband/rxe0/ports/1/gids/{gid}", shown=False)
        self.assertEqual(text.strip(), "0000:0000:0000:0000:0000:ffff:c0a8:4d01")

    def test_a_larger_mtu(self):
        advice = [finding for finding in self.examine()[1]["findings"] if finding["subject"] == "path MTU"]
        for command in self.commands(advice[0]):
            self.machine.run(command)
        self.addCleanup(self.machine.run, "ip link set eth0 mtu 1500")
        status, report = self.examine()
        self.assertEqual(status, WORKS)
        self.assertEqual(report["would_use"]["mtu_bytes"], 4096)

    def test_memory_that_may_be_locked_is_too_little(self):
        status, report = self.examine(f"ulimit -l 64; {ORDINARY_USER}")
        self.assertEqual(status, SHARED_MEMORY_ONLY)
        self.assertEqual(set(self.problems(report)), {"locked memory", "verbs"})
        self.assertIn("sudo prlimit --pid $$ --memlock=unlimited", self.commands(self.problems(report)["locked memory"]))
        status, _ = self.examine(f"ulimit -l unlimited; {ORDINARY_USER}")
        self.assertEqual(status, WORKS)

    def test_a_device_that_this_user_may_not_open(self):
        self.machine.run("chmod 600 /dev/infiniband/uverbs0")
        status, report = self.examine(ORDINARY_USER)
        self.assertEqual(status, SHARED_MEMORY_ONLY)
        for command in self.commands(self.problems(report)["rxe0"]):
            self.machine.run(command.removeprefix("sudo "))
        self.assertEqual(self.examine(f"ulimit -l unlimited; {ORDINARY_USER}")[0], WORKS)

    def test_no_libibverbs(self):
        self.machine.run(f"mv {LIBRARIES}/libibverbs.so.1 /libibverbs.away")
        self.addCleanup(self.machine.run, f"mv /libibverbs.away {LIBRARIES}/libibverbs.so.1")
        status, report = self.examine()
        self.assertEqual(status, SHARED_MEMORY_ONLY)
        self.assertIn("libibverbs", self.problems(report)["libraries"]["text"])

    def test_no_provider(self):
        self.machine.run("mv /etc/libibverbs.d/rxe.driver /rxe.away")
        self.addCleanup(self.machine.run, "mv /rxe.away /etc/libibverbs.d/rxe.driver")
        status, report = self.examine()
        self.assertEqual(status, SHARED_MEMORY_ONLY)
        self.assertIn("provider", self.problems(report)["rxe0"]["text"])

    def test_a_port_that_is_down(self):
        self.machine.run("ip link set eth0 down")
        status, problems = self.mend()[0]
        self.assertEqual(status, SHARED_MEMORY_ONLY)
        self.assertEqual(self.commands(problems["rxe0 port 1"]), ["ip link set eth0 up"])

    def test_a_cable_that_is_out(self):
        self.machine.set_link(False)
        self.addCleanup(self.machine.set_link, True)
        self.machine.run("until [ $(cat /sys/class/net/eth0/carrier) = 0 ]; do sleep 0.1; done", shown=False)
        status, report = self.examine()
        self.assertEqual(status, SHARED_MEMORY_ONLY)
        self.assertIn("cable", self.problems(report)["rxe0 port 1"]["remedies"][0]["what"])

    def test_link_local_addresses_only(self):
        self.machine.run("ip address del 192.168.77.1/24 dev eth0")
        status, problems = self.mend()[0]
        self.assertEqual(status, SHARED_MEMORY_ONLY)
        self.assertEqual(self.commands(problems["rxe0 port 1"]), ["ip address add 192.168.77.1/24 dev eth0"])

    def test_a_device_that_is_asked_for(self):
        self.assertEqual(self.examine(suffix="--device rxe0 --device-port 1")[0], WORKS)
        status, report = self.examine(suffix="--device mlx5_7")
        self.assertEqual(status, SHARED_MEMORY_ONLY)
        self.assertIn("rxe0", self.problems(report)["devices"]["text"])


if __name__ == "__main__":
    case.main()
