// Tables as Python sees them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "python/bindings/arrays.hpp"
#include "python/bindings/open_session.hpp"
#include <verbena/table.hpp>

namespace verbena::python {

struct PythonTable {
  std::shared_ptr<OpenSession> session;
  UntypedTable table;  ///< to be used as long as the session is open
  std::string name;
};

/// What knows the table must not be asked once the session is closed: throws then.
inline void check_open(const PythonTable& table) {
  static_cast<void>(table.session->constants());
}

/// Of so many of its rows. REQUIRES: the session is open.
inline RowShape shape_of(const PythonTable& table, std::size_t rows) {
  return {.rows = rows, .width = table.table.width(), .type = table.table.value_type()};
}

}  // namespace verbena::python
