"""What the public headers offer to programs in C++ is there in Python, too, or is named here with the reason why not."""

import ast
import re
import unittest

import jobs
import verbena

HEADERS = jobs.ROOT / "include" / "verbena"
STUBS = ast.parse((jobs.ROOT / "python" / "verbena" / "_verbena.pyi").read_text(encoding="utf-8"))

# Names of C++ that are others in Python.
RENAMED = {"key_space": "sparse", "allocation": "dynamic", "from": "start", "to": "stop", "range": "keys", "next": "__next__",
           "untyped_table": "table"}
# What is not there.
NOT_IN_PYTHON = {
    "SessionOptions": {
        "on_wait": "the package itself looks at the interpreter's signals meanwhile",
        "transport": "for this project's own tests",
        "configuration": "for this project's own programs",
    },
    "ServerOptions": {
        "configuration": "for this project's own programs",
        "joins": "for this project's own programs",
    },
    "ObserverOptions": {"transport": "for this project's own tests"},
    "Table": {
        "prefetch": "it would cost more than it saves",
        "untyped": "tables are of any type",
    },
    "UntypedTable": {
        "prefetch": "it would cost more than it saves",
        "value_type": "`dtype` says it",
    },
    "ObservedTable": {
        "number": "tables are known by their names",
        "type": "options have it",
    },
}


def text_of(header):
    """Without comments."""
    return re.sub(r"//.*", "", (HEADERS / header).read_text(encoding="utf-8"))


def body_of(header, name):
    found = re.search(rf"^(?:class|struct)(?: \[\[nodiscard\]\])? {name}(?: final)?(?: : public \w+)? {{$(.*?)^}};",
                      text_of(header), re.M | re.S)
    assert found is not None, f"{name} is not in {header}"
    return found[1].split(" private:")[0]


def fields_of(header, name):
    """Of a structure of options or counts; not its functions."""
    found = re.findall(r"^  [\w:]+(?:<.*>)? (\w+)\s*(?:=[^;]*|\{[^;]*)?;", body_of(header, name), re.M)
    assert found, f"{name} has no fields"
    return found


def functions_of(header, name):
    body = re.sub(r"\{[^{}]*\}", ";", body_of(header, name))
    found = re.findall(r"^  (?:\[\[nodiscard\]\] )?(?:static )?(?:const )?[\w:]+(?:<[^;()]*>)?[&*]? (\w+)\(", body, re.M)
    assert found, f"{name} has no functions"
    return set(found) - {"operator", name}


def stub(name):
    (found,) = [each for each in STUBS.body if getattr(each, "name", None) == name]
    return found


def members(name):
    return {each.name for each in stub(name).body if isinstance(each, ast.FunctionDef)}


def parameters(function, of=None):
    node = stub(function) if of is None else next(
        each for each in stub(of).body if getattr(each, "name", None) == function)
    return {each.arg for each in node.args.args + node.args.kwonlyargs}


class Whole(unittest.TestCase):
    def check(self, name, offered, there):
        lacks = NOT_IN_PYTHON.get(name, {})
        for each in sorted(offered):
            with self.subTest(of=name, what=each):
                self.assertEqual(RENAMED.get(each, each) in there, each not in lacks)
        self.assertLessEqual(set(lacks), set(offered), f"{name} does not have these any more")

    def test_options(self):
        network = set(fields_of("network.hpp", "NetworkOptions"))
        connect = parameters("connect")
        self.check("SessionOptions", set(fields_of("session.hpp", "SessionOptions")) - {"network"} | network, connect)
        # What the job says is not the program's to say.
        self.assertEqual(connect - parameters("init"), {"servers", "rank", "workers", "node"})
        self.check("TableOptions", fields_of("session.hpp", "TableOptions"), parameters("table", "Session"))
        self.check("CheckpointOptions", fields_of("session.hpp", "CheckpointOptions"), parameters("checkpoint", "Session"))
        self.check("IterationReport", fields_of("session.hpp", "IterationReport"), parameters("report", "Session"))
        self.check("ServerOptions", set(fields_of("server.hpp", "ServerOptions")) - {"network"} | network,
                   parameters("__init__", "Server"))
        self.check("ObserverOptions", set(fields_of("observer.hpp", "ObserverOptions")) - {"network"} | network,
                   parameters("__init__", "Observer"))
        self.check("OperationOptions", fields_of("table.hpp", "OperationOptions"), parameters("pull_async", "Table"))
        self.check("SampleOptions", fields_of("sampling.hpp", "SampleOptions"), parameters("prepare_sample", "Table"))
        cursor = {each for each in re.findall(r"    std::uint64_t (\w+)", body_of("data_cursor.hpp", "DataCursor"))}
        self.assertEqual(len(cursor), 3)
        self.check("DataCursor::Options", cursor, parameters("__init__", "DataCursor"))

    def test_calls(self):
        module = {each.name for each in STUBS.body if isinstance(each, ast.FunctionDef)}
        # Making sessions is the module's.
        self.check("Session", functions_of("session.hpp", "Session") - {"connect", "from_environment"}, members("Session"))
        self.assertLessEqual({"connect", "init", "newest_checkpoint", "read_checkpoint"}, module)
        self.check("Table", functions_of("table.hpp", "Table"), members("Table"))
        self.check("UntypedTable", functions_of("table.hpp", "UntypedTable"), members("Table"))
        self.check("Pending", functions_of("table.hpp", "Pending"), members("Pending"))
        self.check("HeldRows", functions_of("table.hpp", "HeldRows"), members("HeldRows"))
        self.check("DataCursor", functions_of("data_cursor.hpp", "DataCursor"), members("DataCursor"))
        self.check("KeyDistribution", functions_of("sampling.hpp", "KeyDistribution"), members("KeyDistribution"))
        self.check("Sample", functions_of("sampling.hpp", "Sample"), members("Sample"))
        self.check("Observer", functions_of("observer.hpp", "Observer") - {"connect"}, members("Observer"))

    def test_what_is_told(self):
        self.check("CheckpointSummary", fields_of("session.hpp", "CheckpointSummary"), set(verbena.CheckpointSummary._fields))
        self.check("FunctionResult", fields_of("server_function.hpp", "FunctionResult"), set(verbena.FunctionResult._fields))
        self.check("ObservedJob", fields_of("observer.hpp", "ObservedJob"), set(verbena.ObservedJob._fields))
        self.check("ObservedTable", fields_of("observer.hpp", "ObservedTable"), {*members("ObservedTable"), "options"})
        with jobs.alone() as session:
            table = session.table("rows", rows=4)
            self.check("SessionStatistics", fields_of("session.hpp", "SessionStatistics"), set(session.statistics()))
            self.check("StalenessHistogram", fields_of("session.hpp", "StalenessHistogram"), set(table.staleness()))
            self.check("TableMemory", fields_of("server_function.hpp", "TableMemory"), set(table.memory()))


if __name__ == "__main__":
    unittest.main()
