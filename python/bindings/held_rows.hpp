// Rows held in place, as arrays that are harmless once the rows are given back.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "python/bindings/arrays.hpp"
#include "python/bindings/open_session.hpp"
#include "python/bindings/table.hpp"
#include <verbena/table.hpp>

namespace verbena::python {

namespace py = pybind11;

/// What Table.hold() has taken, until release(), or until the session or the object ends.
class PythonHeldRows {
 public:
  /// `places`: of each key's row, nullptr where it was not taken.
  PythonHeldRows(std::shared_ptr<OpenSession> session, HeldRows held, const RowShape& one,
                 const std::vector<std::byte*>& places);
  ~PythonHeldRows();
  PythonHeldRows(const PythonHeldRows&) = delete;
  PythonHeldRows& operator=(const PythonHeldRows&) = delete;

  /// Gives the rows back. Arrays of them that are still there become copies that cannot be written to. Arrays
  /// that numpy has made of those do not; returns whether there are none, and if there are, tells the
  /// session. Done again, it does nothing. REQUIRES: the thread owns the session, which is open.
  bool release();
  /// For each key an array, or None. Throws if they have been given back.
  [[nodiscard]] const std::vector<py::object>& rows() const;
  [[nodiscard]] const std::shared_ptr<OpenSession>& session() const { return session_; }
  [[nodiscard]] bool is_released() const { return is_released_; }

 private:
  std::shared_ptr<OpenSession> session_;
  HeldRows held_;
  bool is_released_ = false;
  /// The base of all arrays of rows, and so of all that numpy makes of these without a copy.
  py::array base_;
  std::vector<py::object> rows_;
};

std::shared_ptr<PythonHeldRows> hold(const PythonTable& table, const py::object& keys);

}  // namespace verbena::python
