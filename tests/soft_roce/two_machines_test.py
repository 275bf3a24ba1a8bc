"""Two virtual machines joined by a cable: soft-RoCE between them, and what happens when the cable is pulled or a
machine dies."""

import time

import case
import vm

SOME_ITERATIONS, MANY_ITERATIONS = 200, 1_000_000


class TwoMachinesTest(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.open_lab()
        cls.one, cls.two = cls.lab.network(2)

    def test_1_rping(self):
        server = self.one.start("rping -s -a 10.0.0.1 -C 100")
        self.one.wait_listening_rdma()
        self.two.run("rping -c -a 10.0.0.1 -C 100")
        self.assertEqual(server.wait(vm.RUN_DEADLINE_S), 0)

    def test_2_latencies_over_the_cable(self):
        sent_packets = self.one.sent_packets()
        for tool in ("ib_read_lat", "ib_write_lat"):
            typical_us = self.perftest(tool, self.one, self.two, f"-s 8 -n {SOME_ITERATIONS}")
            print(f"{tool} between two machines, 8 bytes: typical {typical_us} µs")
            self.assertGreater(typical_us, 0)
        self.assertGreater(self.one.sent_packets(), sent_packets + 2 * SOME_ITERATIONS)

    def reading(self):
        """Returns two jobs, in which machine two reads from machine one and has already done many reads."""
        # rxe takes 7 retries, the default of most tools, for any number of retries. -e: the tool sleeps until
        # an event comes.
        tool = f"ib_read_lat -e -F -d rxe0 -R --retry_count=2 -n {MANY_ITERATIONS}"
        enough = self.two.sent_packets() + 500
        # The kernel shows a listener shortly before it accepts connections. perftest is refused then, and
        # crashes. Sometimes its server takes in the broken attempt and no longer listens, so each attempt has
        # a server of its own.
        for _ in range(20):
            server = self.one.start(tool)
            self.one.wait_listening_rdma()
            client = self.two.start(f"{tool} {self.one.address()}")
            self.two.wait_sent_packets(enough, unless_ended=client)
            if self.two.sent_packets() >= enough:
                return server, client
            client.kill()
            server.kill()
            time.sleep(0.2)
        self.fail(f"nothing was read:\n{client.text()}")

    def check_fails(self, client, what):
        begin = time.monotonic()
        self.assertNotEqual(client.wait(vm.RUN_DEADLINE_S), 0)
        print(f"{what}: noticed after {time.monotonic() - begin:.1f} s")
        self.assertRegex(client.text(), r"(?i)completion with error|status 12")

    def test_3_pulled_cable(self):
        server, client = self.reading()
        self.two.set_link(False)
        self.check_fails(client, "pulled cable")
        server.kill()
        self.two.wait_device("DOWN")
        self.two.set_link(True)
        self.two.wait_device("ACTIVE")
        self.perftest("ib_read_lat", self.one, self.two, "-n 100")

    def test_4_killed_machine(self):
        server, client = self.reading()
        self.one.kill()
        self.check_fails(client, "killed machine")
        with self.assertRaises(vm.MachineDied):
            server.wait(vm.RUN_DEADLINE_S)


if __name__ == "__main__":
    case.main()
