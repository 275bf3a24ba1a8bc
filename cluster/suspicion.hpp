// What a process says to whoever decides about configurations, where there is no store that it could put it
// into (stored_configuration.hpp): the process at an address shows no sign of life.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace verbena::cluster {

struct Suspicion {
  std::string address;
  std::string why;

  bool operator==(const Suspicion&) const = default;
};

/// JSON, in one line. Bytes that are not UTF-8 are replaced.
std::string encode(const Suspicion& suspicion);
/// INVALID_ARGUMENT: it is none.
absl::StatusOr<Suspicion> decode_suspicion(std::string_view text);

}  // namespace verbena::cluster
