// What word2vec does unless it is told otherwise, for itself and for those who train the same in other ways.
#pragma once

#include <cstdint>

namespace verbena::apps::word2vec::usual {

inline constexpr std::int64_t kMinCount = 5;
inline constexpr std::int64_t kDimension = 100;
inline constexpr std::int64_t kWindow = 5;
inline constexpr std::int64_t kNegatives = 5;
inline constexpr double kSubsample = 1e-4;
inline constexpr double kLearningRate = 0.05;
inline constexpr double kHeldOut = 0.05;  ///< share of the documents

}  // namespace verbena::apps::word2vec::usual
