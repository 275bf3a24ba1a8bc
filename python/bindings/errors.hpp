// How a status becomes an exception of the package (python/verbena/_errors.py).
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::python {

/// Throws what stands for `status`, if it is not OK: the exception of its code or, if a signal's handler has
/// raised one while the call waited, that one. REQUIRES: this thread has the interpreter's lock.
void check(const absl::Status& status);

/// Throws InvalidArgumentError, for arguments that are found wrong before the library sees them.
[[noreturn]] void refuse(const std::string& why);

/// "ValueError: the text", whatever the text has in it; without one, if the exception cannot say it.
/// REQUIRES: the interpreter's lock; no exception is set.
std::string text_of_exception(const pybind11::handle& raised);

template <class Value>
Value value_of(absl::StatusOr<Value> result) {
  check(result.status());
  return *std::move(result);
}

}  // namespace verbena::python
