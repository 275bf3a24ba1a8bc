// Looking at a job without taking part in it.
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "python/bindings/arrays.hpp"
#include "python/bindings/definitions.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/lock.hpp"
#include "python/bindings/named_arguments.hpp"
#include "python/bindings/pending.hpp"
#include "python/bindings/records.hpp"
#include "python/bindings/signals.hpp"
#include <verbena/observer.hpp>

namespace verbena::python {
namespace {

/// Threads take turns: while one waits for an answer, another one's call waits for it.
class PythonObserver {
 public:
  explicit PythonObserver(std::unique_ptr<Observer> observer)
      : process_(process_number()), observer_(std::move(observer)) {}
  ~PythonObserver() {
    if (process_ != process_number()) static_cast<void>(observer_.release());  // it is the parent's
  }
  PythonObserver(const PythonObserver&) = delete;
  PythonObserver& operator=(const PythonObserver&) = delete;

  template <class Use>
  auto use(Use&& use) {
    if (process_ != process_number()) {
      check(absl::FailedPreconditionError(
          "this observer belongs to the process that has made it, and a child that it has forked has none: "
          "it needs an observer of its own"));
    }
    const Unlocked unlocked;
    const std::scoped_lock lock(mutex_);
    return use(*observer_);
  }

 private:
  const std::uint64_t process_;
  std::mutex mutex_;
  std::unique_ptr<Observer> observer_;
};

std::unique_ptr<PythonObserver> make_observer(const py::object& servers, const py::kwargs& given) {
  ObserverOptions options{.servers = addresses_of(servers)};
  NamedArguments arguments("Observer", given);
  arguments.take("timeout_ms", options.timeout_ms);
  take_network(arguments, options.network);
  arguments.end();
  absl::StatusOr<std::unique_ptr<Observer>> observer = absl::UnknownError("");
  {
    const Unlocked unlocked;
    observer = Observer::connect(options);
  }
  return std::make_unique<PythonObserver>(value_of(std::move(observer)));
}

py::object job_record(PythonObserver& observer) {
  const ObservedJob job = value_of(observer.use([](Observer& own) { return own.job(); }));
  return py::module_::import("verbena._records")
      .attr("ObservedJob")(job.servers, job.workers, job.workers_left, job.clock);
}

py::dict options_record(const ObservedTable& table) {
  py::dict record;
  record["rows"] = table.options.rows;
  record["width"] = table.options.width;
  record["dtype"] = dtype_of(table.type);
  record["consistency"] = to_string(table.options.consistency);
  record["sparse"] = table.options.key_space == KeySpace::kSparse;
  record["dynamic"] = table.options.allocation == Allocation::kDynamic;
  record["rule"] = table.options.rule;
  record["expected_rows"] = table.options.expected_rows;
  record["initial"] = table.options.initial;
  record["seed"] = table.options.seed;
  record["admission"] = table.options.admission;
  record["eviction"] = table.options.eviction;
  return record;
}

/// `given`: one of the job's tables, or its name.
ObservedTable table_of(PythonObserver& observer, const py::object& given) {
  if (!py::isinstance<py::str>(given)) return given.cast<ObservedTable>();
  const auto name = given.cast<std::string>();
  std::string others;
  for (const ObservedTable& table : value_of(observer.use([](Observer& own) { return own.tables(); }))) {
    if (table.options.name == name) return table;
    others += (others.empty() ? "; there are \"" : ", \"") + table.options.name + "\"";
  }
  check(absl::NotFoundError("there is no table \"" + name + "\"" +
                            (others.empty() ? ", nor any other" : others)));
  return {};
}

py::object call_observed(PythonObserver& observer, const py::object& table, const std::string& function,
                         const py::object& keys) {
  const ObservedTable called = table_of(observer, table);
  std::optional<GivenKeys> given;
  if (!keys.is_none()) given.emplace(keys);
  const Keys rows = given ? given->keys() : Keys(kAllKeys);
  return python_result(
      value_of(observer.use([&](Observer& own) { return own.call(called, function, rows); })));
}

py::tuple scan_observed(PythonObserver& observer, const py::object& given) {
  const ObservedTable table = table_of(observer, given);
  std::vector<Key> keys;
  std::vector<double> values;
  check(observer.use([&](Observer& own) {
    return own.scan(table, [&](Key key, std::span<const double> row) {
      keys.push_back(key);
      values.insert(values.end(), row.begin(), row.end());
      return absl::OkStatus();
    });
  }));
  const auto rows = static_cast<py::ssize_t>(keys.size());
  py::array numbers = copy_of(values);
  return py::make_tuple(copy_of(keys),
                        numbers.reshape({rows, static_cast<py::ssize_t>(table.options.width)}));
}

}  // namespace

void define_observer(py::module_& module) {
  py::class_<ObservedTable>(module, "ObservedTable", "A table of a job that is looked at.")
      .def_property_readonly("name", [](const ObservedTable& table) { return table.options.name; })
      .def_property_readonly("options", &options_record);
  py::class_<PythonObserver>(module, "Observer", "Looks at a running job, without being one of its workers.")
      .def(py::init(&make_observer), py::arg("servers"))
      .def("job", &job_record, "How the job is.")
      .def("tables",
           [](PythonObserver& observer) {
             return value_of(observer.use([](Observer& own) { return own.tables(); }));
           })
      .def("call", &call_observed, py::arg("table"), py::arg("function"), py::arg("keys") = py::none(),
           "As Table.call(), of functions that change no rows.")
      .def(
          "memory",
          [](PythonObserver& observer, const py::object& given) {
            const ObservedTable table = table_of(observer, given);
            return memory_record(value_of(observer.use([&](Observer& own) { return own.memory(table); })));
          },
          py::arg("table"))
      .def("scan", &scan_observed, py::arg("table"), "All rows, as (keys, values), values as float64.");
}

}  // namespace verbena::python
