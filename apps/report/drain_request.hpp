// What `verbena cluster drain` asks the launcher of a run on this host, and what that answers. Both lie in
// the run's store, as JSON, under keys that end in the same mark.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::apps {

/// Where they lie in the store, before the mark.
inline constexpr const char* kDrainsPrefix = "drains/";
inline constexpr const char* kDrainedPrefix = "drained/";

/// A process of a server is to step aside.
struct DrainRequest {
  std::uint32_t server = 0;
  std::optional<std::uint32_t> copy;  ///< nullopt: the one that serves

  bool operator==(const DrainRequest&) const = default;
};

std::string encode(const DrainRequest& request);
/// INVALID_ARGUMENT: it is none.
absl::StatusOr<DrainRequest> decode_drain_request(std::string_view text);

/// What has become of it, for people; an error: why it has not stepped aside.
std::string encode_drain_answer(const absl::StatusOr<std::string>& answer);
absl::StatusOr<std::string> decode_drain_answer(std::string_view text);

}  // namespace verbena::apps
