"""Update rules: what the servers make of pushes is what numpy computes by the formulas of <verbena/update_rule.hpp>."""

import os
import re
import unittest

import numpy as np

import jobs
import verbena

ROWS, WIDTH, CLOCKS, WORKERS = 12, 4, 6, 2


def rate_at(clock, rate, decay=1.0, power=0.0):
    return rate * decay**clock / (1 + clock)**power


class Add:
    options = {}

    def __init__(self, shape):
        pass

    def step(self, w, g, clock):
        return w + g


class Sgd:
    options = {"rate": 0.1, "decay": 0.9, "power": 0.5}

    def __init__(self, shape):
        pass

    def step(self, w, g, clock):
        return w - rate_at(clock, **self.options) * g


class Momentum:
    options = {"rate": 0.1, "momentum": 0.8}

    def __init__(self, shape):
        self.m = np.zeros(shape)

    def step(self, w, g, clock):
        self.m = self.options["momentum"] * self.m + g
        return w - self.options["rate"] * self.m


class Adagrad:
    options = {"rate": 0.1, "initial": 0.25, "epsilon": 1e-6, "decay": 0.95}

    def __init__(self, shape):
        self.n = np.zeros(shape)

    def step(self, w, g, clock):
        self.n = self.n + g**2
        rate = rate_at(clock, self.options["rate"], self.options["decay"])
        return w - rate * g / (np.sqrt(self.options["initial"] + self.n) + self.options["epsilon"])


class RowwiseAdagrad:
    options = {"rate": 0.1}

    def __init__(self, shape):
        self.n = np.zeros((shape[0], 1))

    def step(self, w, g, clock):
        self.n = self.n + (g**2).mean(axis=1, keepdims=True)
        return w - self.options["rate"] * g / (np.sqrt(self.n) + 1e-8)


class Adam:
    options = {"rate": 0.05, "beta1": 0.8, "beta2": 0.95}

    def __init__(self, shape):
        self.m = np.zeros(shape)
        self.v = np.zeros(shape)

    def step(self, w, g, clock):
        beta1, beta2 = self.options["beta1"], self.options["beta2"]
        self.m = beta1 * self.m + (1 - beta1) * g
        self.v = beta2 * self.v + (1 - beta2) * g**2
        t = clock + 1
        corrected = np.sqrt(1 - beta2**t) / (1 - beta1**t)
        return w - self.options["rate"] * corrected * self.m / (np.sqrt(self.v) + 1e-8)


class Ftrl:
    options = {"alpha": 0.2, "beta": 0.5, "l1": 0.3, "l2": 0.1}

    def __init__(self, shape):
        self.z = None
        self.n = np.zeros(shape)

    def weights(self):
        alpha, beta, l1, l2 = self.options.values()
        step = -(self.z - np.sign(self.z) * l1) / ((beta + np.sqrt(self.n)) / alpha + l2)
        return np.where(np.abs(self.z) <= l1, 0, step)

    def step(self, w, g, clock):
        alpha, beta, l1, l2 = self.options.values()
        if self.z is None:  # what gives the first weights
            self.z = -w * (beta / alpha + l2) - np.sign(w) * l1
        sigma = (np.sqrt(self.n + g**2) - np.sqrt(self.n)) / alpha
        self.z = self.z + g - sigma * w
        self.n = self.n + g**2
        return self.weights()


class Proximal:
    options = {"l1": 0.2, "damping": 1.5}

    def __init__(self, shape):
        self.most = np.ones((shape[0], shape[1] // 2))

    def step(self, w, g, clock):
        half = w.shape[1] // 2
        gradient, curvature = g[:, :half], self.options["damping"] * g[:, half:]
        old = w[:, :half]
        best = old - gradient / curvature
        best = np.sign(best) * np.maximum(np.abs(best) - self.options["l1"] / curvature, 0)
        moved = np.clip(best - old, -self.most, self.most)
        self.most = np.minimum(5, 2 * np.abs(moved) + 0.1)
        return np.concatenate([old + moved, gradient], axis=1)


RULES = {"add": Add, "sgd": Sgd, "momentum": Momentum, "adagrad": Adagrad, "rowwise-adagrad": RowwiseAdagrad,
         "adam": Adam, "ftrl": Ftrl, "proximal": Proximal}


def updates_of(rule, worker, clock):
    """Of half of the rows: what is not pushed must stay, and what a rule keeps of it, too."""
    random = np.random.default_rng((worker, clock))
    keys = random.permutation(ROWS)[:ROWS // 2]
    updates = random.normal(size=(len(keys), WIDTH))
    if rule == "proximal":  # curvatures are not negative
        updates[:, WIDTH // 2:] = np.abs(updates[:, WIDTH // 2:]) + 0.5
    return keys, updates


def expected(rule, workers, first=0.0):
    """All rows after each clock."""
    model = RULES[rule]((ROWS, WIDTH))
    rows = np.full((ROWS, WIDTH), first)
    after = []
    for clock in range(CLOCKS):
        sums = np.zeros((ROWS, WIDTH))
        pushed = np.zeros(ROWS, dtype=bool)
        for worker in range(workers):
            keys, updates = updates_of(rule, worker, clock)
            sums[keys] += updates
            pushed[keys] = True
        kept = dict(vars(model))
        stepped = model.step(rows, sums, clock)
        rows = np.where(pushed[:, None], stepped, rows)
        for name, value in vars(model).items():  # of rows that nobody has pushed to nothing changes
            before = kept.get(name)
            if before is not None:
                setattr(model, name, np.where(pushed[:, None], value, before))
        after.append(rows)
    return after


def trained(session, rules=tuple(RULES), **options):
    """All rows of a table with each rule after each clock, as the servers have them."""
    tables = {rule: session.table(rule, width=WIDTH, dtype="float64", consistency=verbena.Bsp(),
                                  rule=verbena.named(rule, **RULES[rule].options), **options) for rule in rules}
    after = {rule: [] for rule in rules}
    for clock in range(CLOCKS):
        for rule, table in tables.items():
            table.push(*updates_of(rule, session.rank, clock))
        session.clock()
        for rule, table in tables.items():
            after[rule].append(table.pull(np.arange(ROWS)))
    return after


def check(results, workers, first=0.0):
    """Throws if these are not the rows that numpy computes."""
    for rule, after in results.items():
        for clock, rows in enumerate(expected(rule, workers, first)):
            np.testing.assert_allclose(after[clock], rows, rtol=1e-7, atol=1e-9, err_msg=f"{rule}, after clock {clock}")


# What a program does that nobody has started: its server is in its own process.
ALONE = """
import sys, verbena
sys.path.insert(0, sys.argv[1])
import test_rules
with verbena.init() as session:
    test_rules.check(test_rules.trained(session, rows=test_rules.ROWS), workers=1)
print("as numpy has it")
"""

# The same with what a library of C++ has registered.
OWN = """
import ctypes, sys, verbena
if sys.argv[2] == "first":
    ctypes.CDLL(sys.argv[1])
with verbena.init() as session:
    table = session.table("largest", rows=4, width=2, consistency=verbena.Bsp(), rule="test-maximum")
    table.push([1, 1], [[3, -1], [2, 5]])
    session.clock()
    print(table.pull([1]).tolist(), table.call("test-sum").numbers.tolist())
"""


class Rules(unittest.TestCase):
    def check(self, scheme, first=0.0, **options):
        with jobs.job(scheme, servers=2, workers=WORKERS) as place:
            for results in jobs.in_workers(place, lambda session: trained(session, **options)):
                check(results, WORKERS, first)

    def test_dense(self):
        self.check("shm", rows=ROWS)

    def test_over_tcp(self):
        self.check("tcp", rows=ROWS)

    def test_sparse_with_first_values(self):
        self.check("shm", first=0.75, sparse=True, initial=verbena.named("constant", value=0.75))

    def test_server_in_the_same_process(self):
        self.assertIn("as numpy has it", jobs.run_script(ALONE, os.path.dirname(__file__)))

    def test_each_is_documented_and_tested(self):
        header = (jobs.ROOT / "include" / "verbena" / "update_rule.hpp").read_text(encoding="utf-8")
        formulas = header.split("as what gives the initial w:")[1].split("η = rate")[0]
        named = {line.split()[1] for line in formulas.splitlines() if line.startswith("//   ") and line[5] != " "}
        self.assertEqual(named, set(RULES))

    def test_own_rules_and_functions(self):
        library = os.environ["VERBENA_TEST_RULES"]
        self.assertIn("[[3.0, 5.0]] [8.0]", jobs.run_script(OWN, library, "first"))
        self.assertIn('no update rule "test-maximum" is registered', jobs.run_script(OWN, library, "not", expect=1))

    def test_own_rules_in_servers_by_themselves(self):
        """As docs/python.md has it."""
        library = os.environ["VERBENA_TEST_RULES"]
        text = (jobs.ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        (server,) = re.findall("^```python\n(import ctypes, sys, verbena\n[^`]*)^```$", text, re.MULTILINE)
        address = jobs.free_address("shm")
        variables = {"VERBENA_SERVERS": address, "VERBENA_WORKERS": "2"}
        for rules, expected, status in ((library, "[[3.0, 5.0]] [8.0]", 0), (None, 'no update rule "test-maximum"', 1)):
            program = server.replace('ctypes.CDLL("build/libown_rules.so")', f"ctypes.CDLL({rules!r})")
            running = [jobs.started(program, address)]
            running += [jobs.started(OWN, library, "first", **variables, VERBENA_RANK=str(rank)) for rank in range(2)]
            outputs = [jobs.finish(process) for process in running]
            for process, output in zip(running[1:], outputs[1:]):
                self.assertIn(expected, output)
                self.assertEqual(process.returncode, status, output)


if __name__ == "__main__":
    unittest.main()
