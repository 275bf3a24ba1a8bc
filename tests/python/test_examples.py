"""The examples learn what they should."""

import re
import unittest

import jobs


class Examples(unittest.TestCase):
    def test_the_ten_lines(self):
        for document in ("README.md", "docs/python.md"):
            text = (jobs.ROOT / document).read_text(encoding="utf-8")
            (program,) = re.findall("^```python\n([^`]*verbena.init\\(\\)[^`]*)^```$", text, re.MULTILINE)
            output = jobs.run_script(program).split("\n")
            self.assertEqual(output[-3:-1], ["[[  3.   6.   9.  12.]", " [ 30.  60.  90. 120.]]"], output)

    def test_matrix_factorization(self):
        example = jobs.ROOT / "python" / "examples" / "matrix_factorization.py"
        data = jobs.ROOT / "data" / "kjv-chapters.tsv.gz"
        port = jobs.free_port()
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "VERBENA_NO_SECRET": "1"}
        alone = jobs.started(example, str(data))
        together = [jobs.started(example, str(data), **variables, RANK=str(rank)) for rank in range(2)]
        for process in (alone, together[0], together[1]):
            output = jobs.finish(process, timeout=280)
            self.assertEqual(process.returncode, 0, output)
            if process is together[1]:
                continue
            errors = [float(error) for error in re.findall(r"root mean square error ([0-9.]+)", output)]
            self.assertGreaterEqual(len(errors), 5, output)
            self.assertLess(errors[-1], 0.42, output)
            self.assertLess(errors[-1], 0.8 * errors[0], output)


if __name__ == "__main__":
    unittest.main()
