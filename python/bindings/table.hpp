// Tables as Python sees them.
#pragma once

#include <memory>
#include <string>

#include "python/bindings/open_session.hpp"
#include <verbena/table.hpp>

namespace verbena::python {

struct PythonTable {
  std::shared_ptr<OpenSession> session;
  UntypedTable table;  ///< to be used as long as the session is open
  std::string name;
};

}  // namespace verbena::python
