// This worker's examples, mini-batch by mini-batch.
#include <memory>
#include <optional>

#include "python/bindings/definitions.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/open_session.hpp"
#include <verbena/data_cursor.hpp>

namespace verbena::python {
namespace {

struct PythonCursor {
  std::shared_ptr<OpenSession> session;
  DataCursor cursor;
};

PythonCursor make_cursor(const std::shared_ptr<OpenSession>& session, std::uint64_t examples,
                         std::uint64_t mini_batch, std::uint64_t first) {
  const DataCursor::Options options{.examples = examples, .mini_batch = mini_batch, .first = first};
  return session->use([&](Session& own) { return PythonCursor{session, DataCursor(own, options)}; });
}

/// nullopt: the iteration is over.
std::optional<ExampleRange> next_batch(PythonCursor& cursor) {
  const ExampleRange batch = value_of(cursor.session->use([&](Session&) { return cursor.cursor.next(); }));
  return batch.empty() ? std::nullopt : std::optional(batch);
}

py::object python_range(const ExampleRange& batch) {
  return py::module_::import("builtins").attr("range")(batch.first, batch.last);
}

}  // namespace

void define_data_cursor(py::module_& module) {
  py::class_<PythonCursor>(
      module, "DataCursor",
      "The mini-batches of an iteration, as ranges of examples: iterate over it in each.")
      .def(py::init(&make_cursor), py::arg("session"), py::arg("examples"), py::arg("mini_batch") = 1,
           py::arg("first") = 0)
      .def("__iter__", [](const py::object& self) { return self; })
      .def("__next__",
           [](PythonCursor& cursor) {
             const std::optional<ExampleRange> batch = next_batch(cursor);
             if (!batch) throw py::stop_iteration();
             return python_range(*batch);
           })
      .def_property_readonly("left", [](const PythonCursor& cursor) { return cursor.cursor.left(); })
      .def_property_readonly("next_example",
                             [](const PythonCursor& cursor) { return cursor.cursor.next_example(); });
}

}  // namespace verbena::python
