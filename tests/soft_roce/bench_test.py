"""`verbena bench` over soft-RoCE in one virtual machine, beside perftest: every figure is there and plausible. How
fast it is does not matter here; the table is printed for those who want to know."""

import json
import math

import case

BENCH_DEADLINE_S = 400
PORT = 7471
TOOLS = {"read": ("ib_read_lat", "ib_read_bw"), "write": ("ib_write_lat", "ib_write_bw"),
         "write-notify": ("ib_write_lat", "ib_send_lat", "ib_send_bw")}
BUDGETS = {"ib_read_lat": 1.1, "ib_read_bw": 0.95, "ib_write_bw": 0.95}
SENDING_OPERATIONS = {"push-batch", "push-applied", "push-visible", "clock", "subscribe", "localize"}
TABLE_OPERATIONS = {"pull", "push", "push-batch", "push-applied", "push-visible", "clock", "subscribe", "localize", "idle-server"}


class BenchTest(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.open_lab()
        cls.machine, = cls.lab.network(1)

    def bench(self, command, options):
        """Runs a command of bench, and returns the JSON that it has written."""
        self.machine.run(f"{command} {options} --json /bench.json", BENCH_DEADLINE_S)
        return json.loads(self.machine.run("cat /bench.json", shown=False))

    def check_figures(self, result):
        name = f"{result['operation']} of {result['bytes']} bytes"
        times = [result[key] for key in ("min_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns")]
        self.assertGreater(times[0], 0, name)
        self.assertEqual(times, sorted(times), name)
        self.assertGreater(result["messages_per_second"], 0, name)
        self.assertGreater(sum(bucket[2] for bucket in result["histogram"]), 0, name)
        for yardstick in result["yardsticks"]:
            for key in ("value", "ours", "ratio"):
                self.assertTrue(math.isfinite(yardstick[key]) and yardstick[key] > 0, f"{name}: {yardstick}")

    def test_transport_beside_perftest(self):
        # Each side has a processor of its own. If two sides that poll share one, the figures are those of the
        # scheduler.
        listener = self.machine.start(f"taskset 1 verbena bench --no-secret --listen :{PORT}")
        listener.wait_for("listening at verbs:", 60)
        sizes = (8, 65536)
        report = self.bench("taskset 2 verbena bench", f"--no-secret --connect {self.machine.address()}:{PORT} --perftest "
                            f"--operations {','.join(TOOLS)} --sizes {','.join(map(str, sizes))} --depth 16 "
                            "--seconds 0.2 --rounds 1")
        self.assertEqual((report["schema"], report["device"], report["mtu_bytes"]), (2, "rxe0 port 1", 4096))
        self.assertEqual({(result["operation"], result["bytes"]) for result in report["results"]},
                         {(operation, size) for operation in TOOLS for size in sizes})
        for result in report["results"]:
            self.check_figures(result)
            self.assertEqual(result["stream"], {"connections": 1, "depth": 16, "batch": 4})
            self.assertEqual(tuple(yardstick["name"] for yardstick in result["yardsticks"]),
                             TOOLS[result["operation"]], report["notes"])
            for yardstick in result["yardsticks"]:
                if yardstick["name"] in BUDGETS and (result["bytes"] >= 65536 or yardstick["name"] == "ib_read_lat"):
                    self.assertEqual(yardstick["budget"], BUDGETS[yardstick["name"]])

    def test_tables_over_several_connections(self):
        report = self.bench("verbena bench", "--transport verbs --operations read,read-batch,"
                            f"{','.join(sorted(TABLE_OPERATIONS))} --sizes 64 --connections 3 --seconds 0.1")
        self.assertEqual({result["operation"] for result in report["results"]},
                         TABLE_OPERATIONS | {"read", "read-batch"})
        for result in report["results"]:
            self.check_figures(result)
            if result["operation"] in SENDING_OPERATIONS:
                posted = result["posted"]
                self.assertGreater(posted["bytes"], 0, posted)
                self.assertGreaterEqual(posted["requests"], posted["doorbells"], posted)
            if result["operation"] == "push-batch":
                # A key before each row, and some headers: no byte twice.
                self.assertLess(posted["bytes"], 1.05 * result["bytes"])
                self.assertGreaterEqual(posted["bytes"], result["bytes"])

    def test_nobody_there_is_an_error(self):
        job = self.machine.start(f"verbena bench --no-secret --connect {self.machine.address()}:1")
        self.assertEqual(job.wait(60), 1)
        self.assertIn(f"verbena: error: verbs:{self.machine.address()}:1", job.text())

    def test_other_side_killed_is_an_error(self):
        for operation in ("read", "write-notify", "clock"):
            listener = self.machine.start(f"verbena bench --no-secret --listen :{PORT}")
            listener.wait_for("listening at verbs:", 60)
            job = self.machine.start(f"verbena bench --no-secret --connect {self.machine.address()}:{PORT} --seconds 60 "
                                     f"--operations {operation} --sizes 64")
            sent = self.machine.sent_packets()
            self.machine.wait_sent_packets(sent + 100)
            listener.kill()
            self.assertEqual(job.wait(45), 1, job.text())  # --seconds is 60
            self.assertIn("verbena: error: ", job.text())


if __name__ == "__main__":
    case.main()
