// Environment variables, so that tests can give others.
#pragma once

#include <cstdlib>
#include <functional>

namespace verbena::job {

/// The value of an environment variable; null where it is not set.
using Environment = std::function<const char*(const char* variable)>;

/// That of this process.
inline const char* own_environment(const char* variable) {
  return std::getenv(variable);
}

}  // namespace verbena::job
