#include "python/bindings/errors.hpp"

#include <pybind11/pybind11.h>

namespace verbena::python {

namespace py = pybind11;

void check(const absl::Status& status) {
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (status.ok()) return;
  const py::object kind =
      py::module_::import("verbena._errors").attr("of_code")(static_cast<int>(status.code()));
  const py::str message(std::string(status.message()));
  PyErr_SetObject(kind.ptr(), message.ptr());
  throw py::error_already_set();
}

void refuse(const std::string& why) {
  check(absl::InvalidArgumentError(why));
  throw py::value_error(why);  // never: the status is an error
}

}  // namespace verbena::python
