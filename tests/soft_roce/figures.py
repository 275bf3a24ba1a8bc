"""Measures the transport beside perftest, and what a worker posts, in one virtual machine. Not a test: the times are
those of an emulator. Prints the tables of docs/benchmarks.md. From the root of the tree:

  python3 -B tests/soft_roce/figures.py build/release/tests/soft_roce/image --program build/release/bin/verbena
"""

import json

import case
import vm

PORT = 7471
DEADLINE_S = 900
BESIDE_PERFTEST = ("--perftest --operations read,write,write-notify --sizes 8,65536,1048576 --depth 16 --seconds 0.4 "
                   "--rounds 5")
POSTED = "--operations push-batch,push-applied,clock,subscribe,localize"
LARGE_BYTES = 65536


def size_text(size):
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def time_text(time_ns):
    return f"{time_ns / 1e3:.1f} µs" if time_ns < 1e6 else f"{time_ns / 1e6:.1f} ms"


def budget_text(yardstick):
    if "budget" not in yardstick:
        return "–"
    sign = "≤" if yardstick["figure"] == "p50_ns" else "≥"
    return f"{sign} {yardstick['budget']}: {'kept' if yardstick['kept'] else 'missed'}"


class Figures(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.open_lab()
        cls.machine, = cls.lab.network(1)

    def bench(self, options):
        """Measures beside another side, each on a processor of its own. Returns what bench has written as JSON."""
        listener = self.machine.start(f"taskset 1 verbena bench --no-secret --listen :{PORT}")
        listener.wait_for("listening at verbs:", vm.RUN_DEADLINE_S)
        self.machine.run(f"taskset 2 verbena bench --no-secret --connect {self.machine.address()}:{PORT} {options} "
                         "--json /bench.json", DEADLINE_S)
        listener.kill()
        return json.loads(self.machine.run("cat /bench.json", shown=False))

    def test_1_beside_perftest(self):
        report = self.bench(BESIDE_PERFTEST)
        print("\n| operation | size | figure | ours | beside | ours ÷ perftest's | budget |\n|---|---|---|---|---|---|---|")
        for result in report["results"]:
            for yardstick in result["yardsticks"]:
                is_latency = yardstick["figure"] == "p50_ns"
                if not is_latency and result["bytes"] < LARGE_BYTES:
                    continue  # a rate, not a bandwidth
                ours = time_text(yardstick["ours"]) if is_latency else f"{yardstick['ours']:.0f} MB/s"
                print(f"| `{result['operation']}` | {size_text(result['bytes'])} | {'p50' if is_latency else 'bandwidth'} "
                      f"| {ours} | `{yardstick['name']}` | {yardstick['ratio']:.2f} | {budget_text(yardstick)} |")
        print("\n".join(report["notes"]))

    def test_2_posted(self):
        print("\n| operation | requests | bytes | doorbells | bytes a row |\n|---|---|---|---|---|")
        for result in self.bench(POSTED)["results"]:
            posted, rows = result["posted"], result.get("keys", 0)
            a_row = f"{posted['bytes'] / rows:.1f}" if rows else "–"
            print(f"| `{result['operation']}` | {posted['requests']:.2f} | {posted['bytes']:.0f} | {posted['doorbells']:.2f} "
                  f"| {a_row} |")


if __name__ == "__main__":
    case.main()
