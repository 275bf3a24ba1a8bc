#include "python/bindings/held_rows.hpp"

#include <utility>

#include "python/bindings/definitions.hpp"
#include "python/bindings/errors.hpp"

namespace verbena::python {
namespace {

/// The array lies elsewhere from now on: in a copy, which nobody else has. What was made of it before does
/// not.
void move_away(const py::object& row) {
  py::array copy(row.attr("copy")());
  auto* const array = py::detail::array_proxy(row.ptr());
  array->data = static_cast<char*>(copy.mutable_data());
  array->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  Py_DECREF(std::exchange(array->base, copy.release().ptr()));
}

py::object row_of(const PythonHeldRows& held, py::ssize_t i) {
  const auto size = static_cast<py::ssize_t>(held.rows().size());
  if (i < -size || i >= size) throw py::index_error("there is no such row");
  return held.rows()[static_cast<std::size_t>(i < 0 ? i + size : i)];
}

py::object iterator_of(const PythonHeldRows& held) {
  py::list rows;
  for (const py::object& row : held.rows()) rows.append(row);
  return py::iter(rows);
}

/// Which keys' rows were taken.
py::array taken(const PythonHeldRows& held) {
  py::array_t<bool> are_taken(static_cast<py::ssize_t>(held.rows().size()));
  bool* next = are_taken.mutable_data();
  for (const py::object& row : held.rows()) *next++ = !row.is_none();
  return are_taken;
}

/// Returns whether no array lies in the rows any more.
bool give_back(PythonHeldRows& held) {
  if (held.is_released()) return true;
  return held.session()->look([&](const Session&) { return held.release(); });
}

void release_rows(PythonHeldRows& held) {
  if (give_back(held)) return;
  PyErr_SetString(
      PyExc_BufferError,
      "the rows have been given back, but an array that was made of one of them (a part of it, for "
      "example) is still there: it must not be used any more");
  throw py::error_already_set();
}

/// The end of "with". An exception goes its way, whatever its frames still hold.
void leave_block(PythonHeldRows& held, const py::object& kind, const py::object& /*raised*/,
                 const py::object& /*traceback*/) {
  if (kind.is_none()) {
    release_rows(held);
  } else {
    give_back(held);
  }
}

}  // namespace

PythonHeldRows::PythonHeldRows(std::shared_ptr<OpenSession> session, HeldRows held, const RowShape& one,
                               const std::vector<std::byte*>& places)
    : session_(std::move(session)),
      held_(std::move(held)),
      base_(new_rows({.rows = 0, .width = one.width, .type = one.type})) {
  const auto width = static_cast<py::ssize_t>(one.width);
  rows_.reserve(places.size());
  for (std::byte* const place : places) {
    if (place == nullptr) {
      rows_.emplace_back(py::none());
    } else {
      rows_.emplace_back(py::array(dtype_of(one.type), py::array::ShapeContainer{width}, {}, place, base_));
    }
  }
}

PythonHeldRows::~PythonHeldRows() {
  if (is_released_ || !session_->is_open()) return;
  py::error_scope others;  // what is raised where the last reference goes away
  try {
    if (session_->is_own()) {
      release();
    } else {
      session_->note_seen(base_);  // the library keeps the rows, too
    }
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "rows that were held could not be given back");
    PyErr_WriteUnraisable(nullptr);
  }
}

bool PythonHeldRows::release() {
  if (is_released_) return true;
  for (const py::object& row : rows_) {
    if (!row.is_none() && row.ref_count() > 1) move_away(row);
  }
  rows_.clear();
  check(held_.release());
  is_released_ = true;
  if (base_.ref_count() == 1) return true;
  session_->note_seen(base_);
  return false;
}

const std::vector<py::object>& PythonHeldRows::rows() const {
  if (is_released_) check(absl::FailedPreconditionError("these rows have been given back"));
  return rows_;
}

std::shared_ptr<PythonHeldRows> hold(const PythonTable& table, const py::object& keys) {
  check_open(table);
  const GivenKeys given(keys);
  std::vector<std::byte*> places(given.size());
  HeldRows taken =
      value_of(table.session->use([&](Session&) { return table.table.hold(given.keys(), places); }));
  auto held = std::make_shared<PythonHeldRows>(table.session, std::move(taken), shape_of(table, 1), places);
  table.session->note_held(held);
  return held;
}

void define_held_rows(py::module_& module) {
  py::class_<PythonHeldRows, std::shared_ptr<PythonHeldRows>>(
      module, "HeldRows", "Rows of a dynamic table, to be read and changed where they lie.")
      .def("__len__", [](const PythonHeldRows& held) { return held.rows().size(); })
      .def("__getitem__", &row_of, py::arg("i"), "Of the i-th key an array of its row, or None.")
      .def("__iter__", &iterator_of)
      .def_property_readonly("taken", &taken)
      .def("release", &release_rows, "Gives the rows back. Done again, it does nothing.")
      .def("__enter__", [](const std::shared_ptr<PythonHeldRows>& held) { return held; })
      .def("__exit__", &leave_block);
}

}  // namespace verbena::python
