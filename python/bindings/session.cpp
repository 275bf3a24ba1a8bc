// Session, and how one is made.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/bindings/arrays.hpp"
#include "python/bindings/definitions.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/lock.hpp"
#include "python/bindings/named_arguments.hpp"
#include "python/bindings/open_session.hpp"
#include "python/bindings/records.hpp"
#include "python/bindings/table.hpp"
#include <verbena/table.hpp>

namespace verbena::python {
namespace {

ReadPath read_path_of(const std::string& name) {
  if (name == "auto") return ReadPath::kAuto;
  if (name == "in-place") return ReadPath::kInPlace;
  if (name == "cached") return ReadPath::kCached;
  refuse("read_path: \"auto\", \"in-place\" or \"cached\" is expected, not \"" + name + "\"");
}

/// What connect() and init() share.
void take_session_options(NamedArguments& arguments, SessionOptions& options) {
  std::string read_path = "auto";
  arguments.take("read_path", read_path);
  options.read_path = read_path_of(read_path);
  arguments.take("outlives_servers", options.outlives_servers);
  arguments.take("incarnation", options.incarnation);
  arguments.take("timeout_ms", options.timeout_ms);
  arguments.take("clock_timeout_ms", options.clock_timeout_ms);
  arguments.take("silence_timeout_ms", options.silence_timeout_ms);
  arguments.take("resume", options.resume);
  arguments.take("inbox_bytes", options.inbox_bytes);
  arguments.take("push_ring_bytes", options.push_ring_bytes);
  arguments.take("gather_row_bytes", options.gather_row_bytes);
  arguments.take("gather_keys", options.gather_keys);
  arguments.take("update_budget_mb_per_s", options.update_budget_mb_per_s);
  take_network(arguments, options.network);
}

std::shared_ptr<OpenSession> connect(const py::object& servers, const py::kwargs& given) {
  SessionOptions options{.servers = addresses_of(servers)};
  NamedArguments arguments("connect", given);
  arguments.take("rank", options.rank);
  arguments.take("workers", options.workers);
  arguments.take("node", options.node);
  take_session_options(arguments, options);
  arguments.end();
  return OpenSession::open(std::move(options), /*is_told=*/false);
}

std::shared_ptr<OpenSession> init(const py::kwargs& given) {
  SessionOptions options;
  NamedArguments arguments("init", given);
  take_session_options(arguments, options);
  arguments.end();
  return OpenSession::open(std::move(options), /*is_told=*/true);
}

PythonTable open_table(const std::shared_ptr<OpenSession>& session, const std::string& name,
                       const py::kwargs& given) {
  TableOptions options{.name = name, .width = 1};
  NamedArguments arguments("table", given);
  bool is_sparse = false;
  bool is_dynamic = false;
  py::object consistency = py::str(to_string(options.consistency));
  py::object dtype = py::str("float32");
  std::optional<std::uint64_t> cache_rows;
  arguments.take("rows", options.rows);
  arguments.take("width", options.width);
  arguments.take("dtype", dtype);
  arguments.take("consistency", consistency);
  arguments.take("sparse", is_sparse);
  arguments.take("dynamic", is_dynamic);
  arguments.take("rule", options.rule);
  arguments.take("expected_rows", options.expected_rows);
  arguments.take("initial", options.initial);
  arguments.take("seed", options.seed);
  arguments.take("admission", options.admission);
  arguments.take("eviction", options.eviction);
  arguments.take("filter", options.filter);
  arguments.take("encoding", options.encoding);
  arguments.take("cache_rows", cache_rows);
  arguments.end();
  options.consistency = value_of(parse_consistency(py::str(consistency).cast<std::string>()));
  if (is_sparse) options.key_space = KeySpace::kSparse;
  if (is_dynamic) options.allocation = Allocation::kDynamic;
  if (cache_rows) options.cache_rows = *cache_rows;
  const ValueType type = value_type_of_dtype(dtype);
  const auto table = value_of(session->use([&](Session& own) { return own.untyped_table(options, type); }));
  return {session, table, name};
}

void checkpoint(const std::shared_ptr<OpenSession>& session, const std::string& folder,
                const py::bytes& state, const py::kwargs& given) {
  CheckpointOptions options{.folder = folder};
  NamedArguments arguments("checkpoint", given);
  arguments.take("keep", options.keep);
  arguments.take("keep_resumed", options.keep_resumed);
  arguments.take("increments", options.increments);
  arguments.take("notes", options.notes);
  arguments.end();
  const auto text = state.cast<std::string>();
  const auto bytes = std::as_bytes(std::span(text));
  check(session->use([&](Session& own) { return own.checkpoint(options, {bytes.begin(), bytes.end()}); }));
}

py::object resumed_state(const std::shared_ptr<OpenSession>& session) {
  const auto state = value_of(session->use([](Session& own) { return own.resumed_state(); }));
  if (!state) return py::none();
  return py::bytes(reinterpret_cast<const char*>(state->data()), state->size());
}

void report(const std::shared_ptr<OpenSession>& session, std::int64_t iteration, double items, double seconds,
            const std::map<std::string, double>& sums) {
  session->use([&](Session& own) {
    own.report({.iteration = iteration, .items = items, .seconds = seconds, .sums = sums});
  });
}

/// A call of the session's that takes nothing and returns a status.
auto plain(absl::Status (Session::*call)()) {
  return [call](const std::shared_ptr<OpenSession>& session) {
    check(session->use([call](Session& own) { return (own.*call)(); }));
  };
}

/// One that only says something.
template <class Value>
auto says(Value (Session::*call)() const) {
  return [call](const std::shared_ptr<OpenSession>& session) {
    return session->look([call](const Session& own) { return (own.*call)(); });
  };
}

/// One that says what never changes.
template <class Value>
auto constant(Value (Session::*call)() const) {
  return [call](const std::shared_ptr<OpenSession>& session) { return (session->constants().*call)(); };
}

/// Whether it is what sys.exit() raises in a program that has not failed.
bool is_success(const py::object& raised) {
  if (PyErr_GivenExceptionMatches(raised.ptr(), PyExc_SystemExit) == 0) return false;
  const py::object status = raised.attr("code");
  return status.is_none() || (py::isinstance<py::int_>(status) && status.equal(py::int_(0)));
}

/// The end of "with": an exception is a reason to give up.
void leave(const std::shared_ptr<OpenSession>& session, const py::object& /*kind*/, const py::object& raised,
           const py::object& /*traceback*/) {
  session->close(raised.is_none() || is_success(raised) ? std::string() : text_of_exception(raised));
}

template <class Read>
auto read_unlocked(Read&& read) {
  const Unlocked unlocked;
  return read();
}

}  // namespace

void define_session(py::module_& module) {
  py::class_<OpenSession, std::shared_ptr<OpenSession>>(
      module, "Session", "A worker's place in a job. It belongs to the thread that has made it.")
      .def("table", &open_table, py::arg("name"), "Creates or opens a table; all workers do it alike.")
      .def("clock", plain(&Session::clock), "This worker has finished a clock.")
      .def("barrier", plain(&Session::barrier), "clock(), and waits for all workers.")
      .def("poll", plain(&Session::poll), "Does what can be done now, without waiting.")
      .def("checkpoint", &checkpoint, py::arg("folder"), py::arg("state") = py::bytes(),
           "barrier(), and saves all tables, and this worker's state.")
      .def("finish_checkpoint", plain(&Session::finish_checkpoint),
           "Waits until the last checkpoint is written; raises why it was not.")
      .def("resumed_state", &resumed_state, "The state that this worker gave to checkpoint(), or None.")
      .def(
          "limit_lead",
          [](const std::shared_ptr<OpenSession>& session, std::uint32_t clocks) {
            check(session->use([&](Session& own) { return own.limit_lead(clocks); }));
          },
          py::arg("clocks"), "From now on no worker is more than so many clocks ahead of the slowest one.")
      .def(
          "give_up",
          [](const std::shared_ptr<OpenSession>& session, const std::string& why) {
            check(session->use([&](Session& own) { return own.give_up(absl::AbortedError(why)); }));
          },
          py::arg("why"), "Tells all workers that this one cannot go on, and why.")
      .def(
          "step_aside",
          [](const std::shared_ptr<OpenSession>& session) {
            check(session->use([](Session& own) { return own.step_aside(); }));
          },
          "Ends this worker, in whose place another process goes on with the current clock.")
      .def("report", &report, py::arg("iteration"), py::arg("items"), py::arg("seconds"),
           py::arg("sums") = std::map<std::string, double>(), "Tells verbena run of an iteration.")
      .def("take_over", &OpenSession::take_over, "From now on the session belongs to the calling thread.")
      .def(
          "statistics",
          [](const std::shared_ptr<OpenSession>& session) {
            return statistics_record(session->look([](const Session& own) { return own.statistics(); }));
          },
          "What the session has counted.")
      .def(
          "close", [](const std::shared_ptr<OpenSession>& session) { session->close(); },
          "Says goodbye to the servers. Done again, it does nothing.")
      .def("__enter__", [](const std::shared_ptr<OpenSession>& session) { return session; })
      .def("__exit__", &leave)
      .def_property_readonly("closed",
                             [](const std::shared_ptr<OpenSession>& session) { return !session->is_open(); })
      .def_property_readonly("current_clock", says(&Session::current_clock))
      .def_property_readonly("is_catching_up", says(&Session::is_catching_up))
      .def_property_readonly("rank", constant(&Session::rank))
      .def_property_readonly("workers", constant(&Session::workers))
      .def_property_readonly("servers", constant(&Session::servers));
  module.def("connect", &connect, py::arg("servers"),
             "Connects to the servers of a job, as one of its workers.");
  module.def("init", &init,
             "Joins the job that this process was started for; alone, with a server of its own.");
  module.def(
      "newest_checkpoint",
      [](const std::string& folder) {
        std::vector<std::string> damaged;
        const CheckpointSummary newest =
            value_of(read_unlocked([&] { return newest_checkpoint(folder, &damaged); }));
        return checkpoint_record(newest, damaged);
      },
      py::arg("folder"), "The newest whole checkpoint in a folder.");
  module.def(
      "read_checkpoint",
      [](const std::string& path) {
        return checkpoint_record(value_of(read_unlocked([&] { return read_checkpoint(path); })));
      },
      py::arg("path"), "What the checkpoint of this folder says of itself.");
}

}  // namespace verbena::python
