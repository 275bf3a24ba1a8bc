// Table: pulls, pushes, and all that concerns rows.
#include "python/bindings/table.hpp"

#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "python/bindings/arrays.hpp"
#include "python/bindings/definitions.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/held_rows.hpp"
#include "python/bindings/pending.hpp"
#include "python/bindings/records.hpp"
#include <verbena/row_handles.hpp>
#include <verbena/sampling.hpp>

namespace verbena::python {
namespace {

constexpr auto kNested = OpenSession::Place::kNested;

/// The caller's, or a new one.
py::array rows_for(const PythonTable& table, std::size_t rows, const py::object& out) {
  const RowShape shape = shape_of(table, rows);
  return out.is_none() ? new_rows(shape) : rows_to_fill(out, shape);
}

py::array pull_keys(const PythonTable& table, const GivenKeys& keys, const py::object& out) {
  py::array values = rows_for(table, keys.size(), out);
  const std::span<std::byte> bytes = writable_bytes(values);
  check(table.session->use([&](Session&) { return table.table.pull(keys.keys(), bytes); }, kNested));
  return values;
}

py::array pull(const PythonTable& table, const py::object& keys, const py::object& out) {
  check_open(table);
  // Mostly they are: to ask first whether they are handles would cost a tenth of a short call.
  const bool are_keys = py::isinstance<py::array>(keys);
  if (are_keys || !py::isinstance<RowHandles>(keys)) return pull_keys(table, GivenKeys(keys), out);
  auto& handles = keys.cast<RowHandles&>();
  py::array values = rows_for(table, handles.size(), out);
  const std::span<std::byte> bytes = writable_bytes(values);
  check(table.session->use([&](Session&) { return table.table.pull(handles, bytes); }, kNested));
  return values;
}

py::array pull_sample(const PythonTable& table, const Sample& sample, const py::object& out) {
  check_open(table);
  py::array values = rows_for(table, sample.keys().size(), out);
  const std::span<std::byte> bytes = writable_bytes(values);
  check(table.session->use([&](Session&) { return table.table.pull(sample.keys(), bytes); }, kNested));
  return values;
}

/// Seconds that so many pulls take here, without Python in between: what python/benchmarks compares its own
/// to.
double seconds_of_pulls(const PythonTable& table, const py::object& keys, const py::object& out,
                        std::uint64_t count) {
  check_open(table);
  const GivenKeys given(keys);
  py::array values = rows_for(table, given.size(), out);
  const std::span<std::byte> bytes = writable_bytes(values);
  const auto start = std::chrono::steady_clock::now();
  check(table.session->use([&](Session&) {
    absl::Status status;
    for (std::uint64_t i = 0; i < count && status.ok(); ++i) status = table.table.pull(given.keys(), bytes);
    return status;
  }));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void push(const PythonTable& table, const py::object& keys, const py::object& updates) {
  check_open(table);
  const GivenKeys given(keys);
  const py::array rows = rows_to_read(updates, shape_of(table, given.size()));
  check(table.session->use([&](Session&) { return table.table.push(given.keys(), bytes_of(rows)); }));
}

PythonPending pull_async(const PythonTable& table, const py::object& keys, const py::object& out,
                         const py::iterable& after) {
  check_open(table);
  const GivenKeys given(keys);
  py::array values = rows_for(table, given.size(), out);
  const std::span<std::byte> bytes = writable_bytes(values);
  const OperationOptions options = operations_after(*table.session, after);
  Pending pull =
      table.session->use([&](Session&) { return table.table.pull_async(given.keys(), bytes, options); });
  return begun(table.session, std::make_shared<PendingState>(std::move(pull), std::move(values)));
}

PythonPending push_async(const PythonTable& table, const py::object& keys, const py::object& updates,
                         const py::iterable& after) {
  check_open(table);
  const GivenKeys given(keys);
  const py::array rows = rows_to_read(updates, shape_of(table, given.size()));
  const OperationOptions options = operations_after(*table.session, after);
  Pending push = table.session->use(
      [&](Session&) { return table.table.push_async(given.keys(), bytes_of(rows), options); });
  return begun(table.session, std::make_shared<PendingState>(std::move(push), py::object()));
}

PythonPending localize(const PythonTable& table, const py::object& keys, const py::iterable& after) {
  check_open(table);
  const GivenKeys given(keys);
  const OperationOptions options = operations_after(*table.session, after);
  Pending moves = table.session->use([&](Session&) { return table.table.localize(given.keys(), options); });
  return begun(table.session, std::make_shared<PendingState>(std::move(moves), py::object()));
}

RowHandles locate(const PythonTable& table, const py::object& keys) {
  check_open(table);
  const GivenKeys given(keys);
  return value_of(table.session->use([&](Session&) { return table.table.locate(given.keys()); }, kNested));
}

void intent(const PythonTable& table, const py::object& keys, std::int64_t from, std::int64_t to) {
  check_open(table);
  const GivenKeys given(keys);
  check(table.session->use([&](Session&) { return table.table.intent(given.keys(), from, to); }));
}

bool is_here(const PythonTable& table, Key key) {
  return table.session->look([&](const Session&) {
    if (table.table.rows() == 0) refuse("is_here(): rows of sparse tables do not move");
    if (key >= table.table.rows()) {
      refuse("key " + std::to_string(key) + ": the table \"" + table.name + "\" has " +
             std::to_string(table.table.rows()) + " rows");
    }
    return table.table.is_here(key);
  });
}

/// Keys of a call of a function, of which None are all.
struct CallArguments {
  CallArguments(const py::object& given, const py::object& given_numbers) {
    if (!given.is_none()) keys.emplace(given);
    if (!given_numbers.is_none()) numbers = numbers_of(given_numbers, "numbers");
  }
  [[nodiscard]] Keys rows() const { return keys ? keys->keys() : Keys(kAllKeys); }
  std::optional<GivenKeys> keys;
  std::vector<double> numbers;
};

py::object call(const PythonTable& table, const std::string& function, const py::object& keys,
                const py::object& numbers) {
  check_open(table);
  const CallArguments given(keys, numbers);
  return python_result(value_of(
      table.session->use([&](Session&) { return table.table.call(function, given.rows(), given.numbers); })));
}

PythonPending call_async(const PythonTable& table, const std::string& function, const py::object& keys,
                         const py::object& numbers, const py::iterable& after) {
  check_open(table);
  const CallArguments given(keys, numbers);
  const OperationOptions options = operations_after(*table.session, after);
  PendingResult begun_call = table.session->use(
      [&](Session&) { return table.table.call_async(function, given.rows(), given.numbers, options); });
  return begun(table.session, std::make_shared<PendingState>(std::move(begun_call)));
}

KeyRange scanned_range(const py::object& keys) {
  return keys.is_none() ? kAllKeys : range_of(keys);
}

/// Rows of a scan, one after the other.
class ScannedRows {
 public:
  explicit ScannedRows(const RowShape& one) : one_(one) {}
  void add(Key key, const std::byte* values) {
    keys_.push_back(key);
    values_.insert(values_.end(), values, values + one_.width * value_bytes(one_.type));
  }
  [[nodiscard]] std::size_t size() const { return keys_.size(); }
  /// (keys, values), and begins anew. REQUIRES: the interpreter's lock
  py::tuple take() {
    py::array values = new_rows({.rows = keys_.size(), .width = one_.width, .type = one_.type});
    const std::span<std::byte> bytes = writable_bytes(values);
    if (!bytes.empty()) std::memcpy(bytes.data(), values_.data(), bytes.size());
    py::tuple taken = py::make_tuple(copy_of(keys_), std::move(values));
    keys_.clear();
    values_.clear();
    return taken;
  }

 private:
  RowShape one_;
  std::vector<Key> keys_;
  std::vector<std::byte> values_;
};

py::tuple scan(const PythonTable& table, const py::object& keys) {
  check_open(table);
  const KeyRange range = scanned_range(keys);
  ScannedRows rows(shape_of(table, 1));
  check(table.session->use([&](Session&) {
    return table.table.scan(range, [&](Key key, const std::byte* values) {
      rows.add(key, values);
      return absl::OkStatus();
    });
  }));
  return rows.take();
}

void scan_batches(const PythonTable& table, const py::function& use, const py::object& keys,
                  std::size_t batch) {
  check_open(table);
  if (batch == 0) refuse("batch: 1 row or more is expected");
  const KeyRange range = scanned_range(keys);
  ScannedRows rows(shape_of(table, 1));
  // What `use` raises stays with the thread until check() finds it.
  const auto hand_over = [&]() -> absl::Status {
    const Locked locked;
    const OpenSession::CallingBack calling_back(*table.session);
    try {
      const py::tuple taken = rows.take();
      use(taken[0], taken[1]);
      return absl::OkStatus();
    } catch (py::error_already_set& raised) {
      raised.restore();
      return absl::CancelledError("what the scan has called has raised an exception");
    }
  };
  check(table.session->use([&](Session&) -> absl::Status {
    absl::Status status = table.table.scan(range, [&](Key key, const std::byte* values) {
      rows.add(key, values);
      return rows.size() < batch ? absl::OkStatus() : hand_over();
    });
    return status.ok() && rows.size() > 0 ? hand_over() : status;
  }));
}

py::dict memory(const PythonTable& table) {
  check_open(table);
  return memory_record(value_of(table.session->use([&](Session&) { return table.table.memory(); })));
}

Sample prepare_sample(const PythonTable& table, const KeyDistribution& distribution, std::size_t count,
                      std::mt19937_64& random, std::int64_t from, std::int64_t to, double preference) {
  check_open(table);
  const SampleOptions options{.from = from, .to = to, .preference = preference};
  // Other threads may draw with the generator while this one has given up the interpreter's lock.
  std::mt19937_64 own = random;
  Sample sample = value_of(table.session->use(
      [&](Session&) { return table.table.prepare_sample(distribution, count, own, options); }));
  random = own;
  return sample;
}

}  // namespace

void define_table(py::module_& module) {
  const py::tuple none;
  py::class_<RowHandles>(module, "RowHandles", "Keys of a sparse table, with the places of their rows.")
      .def_property_readonly("keys", [](const RowHandles& handles) { return copy_of(handles.keys()); })
      .def("__len__", &RowHandles::size);
  py::class_<PythonTable>(module, "Table", "Rows of numbers, by key.")
      .def("pull", &pull, py::arg("keys"), py::arg("out") = py::none(),
           "Returns the rows of the keys, [n, width], in a new array or in `out`.")
      .def("_seconds_of_pulls", &seconds_of_pulls, py::arg("keys"), py::arg("out"), py::arg("count"))
      .def("push", &push, py::arg("keys"), py::arg("updates"),
           "Gives the rows of the keys to the table's rule, which adds them if it has no other.")
      .def("pull_async", &pull_async, py::arg("keys"), py::arg("out") = py::none(), py::arg("after") = none,
           "As pull(); the array is complete when the operation has ended.")
      .def("push_async", &push_async, py::arg("keys"), py::arg("updates"), py::arg("after") = none)
      .def("locate", &locate, py::arg("keys"), "For sparse tables: handles, which pull() takes for keys.")
      .def("scan", &scan, py::arg("keys") = py::none(),
           "For sparse tables: all rows that there are, as (keys, values).")
      .def("scan_batches", &scan_batches, py::arg("use"), py::arg("keys") = py::none(),
           py::arg("batch") = std::size_t{65'536}, "For sparse tables: calls use(keys, values) for all rows.")
      .def("call", &call, py::arg("function"), py::arg("keys") = py::none(), py::arg("numbers") = py::none(),
           "The servers do something with the rows of the keys, or with all.")
      .def("call_async", &call_async, py::arg("function"), py::arg("keys") = py::none(),
           py::arg("numbers") = py::none(), py::arg("after") = none)
      .def("memory", &memory, "What the table takes on all servers.")
      .def("localize", &localize, py::arg("keys"), py::arg("after") = none,
           "For dynamic tables: moves the rows here.")
      .def("intent", &intent, py::arg("keys"), py::arg("start"), py::arg("stop"),
           "For dynamic tables: this worker will use the rows in its clocks from start to stop - 1.")
      .def("is_here", &is_here, py::arg("key"), "For dynamic tables: whether the row lies on this node.")
      .def("hold", &hold, py::arg("keys"),
           "For dynamic tables: takes those rows that lie on this node and are free, to be changed in place.")
      .def("prepare_sample", &prepare_sample, py::arg("distribution"), py::arg("count"), py::arg("random"),
           py::arg("start") = 0, py::arg("stop") = 0, py::arg("preference") = 0.0, "Draws keys.")
      .def("pull_sample", &pull_sample, py::arg("sample"), py::arg("out") = py::none(),
           "As pull() of the sample's keys.")
      .def(
          "staleness",
          [](const PythonTable& table) {
            return table.session->look(
                [&](const Session&) { return staleness_record(table.table.staleness()); });
          },
          "How stale the rows were that were pulled.")
      .def_readonly("name", &PythonTable::name)
      .def_property_readonly("rows",
                             [](const PythonTable& table) {
                               check_open(table);
                               return table.table.rows();
                             })
      .def_property_readonly("width",
                             [](const PythonTable& table) {
                               check_open(table);
                               return table.table.width();
                             })
      .def_property_readonly("dtype", [](const PythonTable& table) {
        check_open(table);
        return dtype_of(table.table.value_type());
      });
}

}  // namespace verbena::python
