#include "python/bindings/errors.hpp"

#include <string_view>

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

std::string text_of_exception(const py::handle& raised) {
  std::string kind = Py_TYPE(raised.ptr())->tp_name;
  kind.erase(0, kind.rfind('.') + 1);  // of classes that are written in C it has the module in front
  const auto text = py::reinterpret_steal<py::object>(PyObject_Str(raised.ptr()));
  const auto bytes = py::reinterpret_steal<py::object>(
      text ? PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace") : nullptr);
  if (!bytes) {
    PyErr_Clear();
    return kind;
  }
  return kind + ": " + std::string(std::string_view(py::reinterpret_borrow<py::bytes>(bytes)));
}

}  // namespace verbena::python
