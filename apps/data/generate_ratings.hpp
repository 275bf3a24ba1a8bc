// Ratings with a known answer: `verbena generate mf`.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

/// A rating is mean + p_user · q_item + noise, where p · q has deviation `signal`: no model has a smaller
/// RMSE on held-out ratings than `noise`.
struct GenerateRatingsOptions {
  std::int64_t users = 10'000;
  std::int64_t items = 2'000;
  std::int64_t ratings = 1'000'000;
  std::int64_t rank = 8;
  double mean = 3.5;
  double signal = 1.0;
  double noise = 0.5;
  double skew = 0.8;  ///< the n-th most popular item is rated ∝ n^−skew; the same for users, half as skewed
  std::uint64_t seed = 1;

  void add_options(CLI::App& command);
};

/// Writes "user<TAB>item<TAB>rating" lines; the file is there whole or not at all. INVALID_ARGUMENT for
/// options out of range and for what cannot be written.
absl::Status generate_ratings(const GenerateRatingsOptions& options, const std::string& path);

}  // namespace verbena::apps
