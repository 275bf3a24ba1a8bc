"""The examples with PyTorch learn as much as the same in plain PyTorch."""

import importlib.util
import re
import sys
import unittest

import jobs


class Examples(unittest.TestCase):
    def check(self, first_at_least, least_drop, *example):
        """The loss: before it has learned much, and how far it falls, as a share of that."""
        alone, together = jobs.run_example(*example)
        print(alone, together, sep="\n")

        def losses(name, output):
            return [float(loss) for loss in re.findall(name + r", pass \d+: loss ([0-9.]+)", output)]

        plain, ours, both = (losses(*each) for each in (("plain PyTorch", alone), ("Verbena", alone), ("Verbena", together)))
        self.assertEqual(len(plain), len(ours), alone)
        for one, other in zip(plain, ours):
            self.assertLess(abs(one - other), 0.01 * one, alone)
        self.assertGreaterEqual(len(both), 2, together)
        for each in (plain, both):
            self.assertGreater(each[0], first_at_least, alone)
            self.assertLess(each[-1], (1 - least_drop) * each[0], together)

    def test_of_the_documents(self):
        text = (jobs.ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        (program,) = re.findall("^```python\n(import torch, verbena[^`]*)^```$", text, re.MULTILINE)
        self.assertEqual(jobs.run_script(program), "torch.Size([1, 16]) True\n")

    def test_two_tower(self):
        self.check(4, 0.1, "two_tower.py")

    def test_complex(self):
        self.check(1, 0.1, "complex.py", str(jobs.ROOT / "data" / "wn18rr"))


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("skipped: the examples with PyTorch: it is not there (scripts/setup installs it)")
        sys.exit(jobs.SKIPPED)
    unittest.main()
