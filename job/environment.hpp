// Access to environment variables, so that tests can supply others.
#pragma once

#include <cstdlib>
#include <functional>

namespace verbena::job {

/// The value of an environment variable; nullptr if it is not set.
using Environment = std::function<const char*(const char* variable)>;

/// The environment of this process.
inline const char* own_environment(const char* variable) {
  return std::getenv(variable);
}

}  // namespace verbena::job
