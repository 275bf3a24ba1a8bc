// The best of all answers, by their scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace verbena::apps {

/// A score for what must not be among the best.
inline constexpr float kNoAnswer = -std::numeric_limits<float>::infinity();

/// The places of the `count` largest scores, the largest first; among equal ones, the smaller place first.
/// Scores that are infinite or none are left out, so that there may be fewer.
std::vector<std::uint32_t> best(std::span<const float> scores, std::size_t count);

}  // namespace verbena::apps
