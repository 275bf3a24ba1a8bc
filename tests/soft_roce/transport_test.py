"""Our own transport over soft-RoCE: the contract tests, with the device of one virtual machine."""

import xml.etree.ElementTree

import case

SUITE_DEADLINE_S = 300


class TransportTest(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.open_lab()
        cls.machine, = cls.lab.network(1)

    def test_contract(self):
        job = self.machine.start("transport_device_test --gtest_output=xml:/results.xml")
        status = job.wait(SUITE_DEADLINE_S)
        results = xml.etree.ElementTree.fromstring(self.machine.read_file("/results.xml"))
        self.assertGreater(int(results.get("tests")), 0, "there is no device")
        self.assertEqual(status, 0)


if __name__ == "__main__":
    case.main()
