// What an attempt to connect that came too late says of the other host: that it has answered, and nobody
// listens there, or nothing. Who tries again need not wait for longer at a time in the first case.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace verbena::transport {

inline constexpr absl::string_view kRefusal = "verbena/refusal";

/// Of an error that Transport::connect() returns.
inline void mark_refusal(absl::Status& error) {
  error.SetPayload(kRefusal, absl::Cord());
}
[[nodiscard]] inline bool is_refusal(const absl::Status& error) {
  return error.GetPayload(kRefusal).has_value();
}

}  // namespace verbena::transport
