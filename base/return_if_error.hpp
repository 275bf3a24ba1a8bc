// What follows nearly every call that can fail.
#pragma once

#include "absl/status/status.h"

/// Returns the status of an expression from the enclosing function, unless it is OK. Variadic, because an
/// expression may have commas that no parentheses enclose.
#define RETURN_IF_ERROR(...)                                                              \
  do {                                                                                    \
    if (absl::Status error_to_return = (__VA_ARGS__); !error_to_return.ok()) [[unlikely]] \
      return error_to_return;                                                             \
  } while (false)
