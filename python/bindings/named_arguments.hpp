// Keyword arguments as fields of the library's options, by their names there.
#pragma once

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "python/bindings/errors.hpp"
#include <verbena/network.hpp>

namespace verbena::python {

namespace py = pybind11;

/// Each argument is taken once; what nobody has taken is a mistake.
class NamedArguments {
 public:
  /// `call`: what errors name.
  NamedArguments(std::string call, const py::kwargs& arguments)
      : call_(std::move(call)), left_(py::reinterpret_steal<py::dict>(PyDict_Copy(arguments.ptr()))) {}

  /// Sets `field` if there is such an argument. TypeError if it is of another type.
  template <class Field>
  void take(const char* name, Field& field) {
    if (!left_.contains(name)) return;
    const py::object given = left_.attr("pop")(name);
    try {
      field = given.cast<Field>();
    } catch (const py::cast_error&) {
      throw py::type_error(call_ + "(): " + name + " cannot be " + py::repr(given).cast<std::string>());
    }
  }
  /// TypeError if arguments are left.
  void end() const {
    if (left_.empty()) return;
    throw py::type_error(call_ + "() got an unexpected keyword argument " +
                         py::repr((*left_.begin()).first).cast<std::string>());
  }

 private:
  std::string call_;
  py::dict left_;
};

/// Of servers. A text is none, though Python takes it for a list of its letters.
inline std::vector<std::string> addresses_of(const py::object& servers) {
  if (py::isinstance<py::str>(servers))
    refuse("servers: a list of addresses is expected, [\"" + servers.cast<std::string>() +
           "\"], and not a text");
  try {
    return servers.cast<std::vector<std::string>>();
  } catch (const py::cast_error&) {
    throw py::type_error("servers cannot be " + py::repr(servers).cast<std::string>());
  }
}

inline void take_network(NamedArguments& arguments, NetworkOptions& network) {
  arguments.take("secret_file", network.secret_file);
  arguments.take("no_secret", network.no_secret);
  arguments.take("tls", network.tls);
  arguments.take("device", network.device);
  arguments.take("device_port", network.device_port);
  arguments.take("shares_cores", network.shares_cores);
}

}  // namespace verbena::python
