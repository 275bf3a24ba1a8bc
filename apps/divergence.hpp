// Training that reaches numbers that are NaN or infinite is a separate kind of failure, with its own exit
// status.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace verbena::apps {

/// An objective or a parameter is NaN or infinite. OUT_OF_RANGE, which means this and nothing else in a run.
inline absl::Status diverged(std::string_view message) {
  return absl::OutOfRangeError(absl::string_view(message.data(), message.size()));
}
inline bool is_diverged(const absl::Status& status) {
  return absl::IsOutOfRange(status);
}

/// The error for a model that is not saved because it has diverged.
inline constexpr const char* kNoNumbers =
    "the model has diverged, some of its numbers are infinite or none; a lower learning rate may help";

inline bool all_finite(std::span<const float> numbers) {
  return std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); });
}

}  // namespace verbena::apps
