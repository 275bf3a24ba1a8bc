// What `verbena run mf --load` does: it trains nothing, but predicts ratings with a saved model, and says
// which items it would recommend.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "apps/application.hpp"

namespace verbena::apps::mf {

struct PredictionOptions {
  std::string load;             ///< PREFIX of the saved model; empty: a model is trained instead
  std::string data;             ///< ratings; may be empty
  std::string recommend;        ///< users, separated by commas, whose best items are printed
  std::string recommendations;  ///< a file of the best items of these users, or of all if there are none
  std::string predict;          ///< a file of the predicted rating for each rating of `data`
  std::int64_t top_items = 10;  ///< of a user
};

/// Reads all that predict() will read. INVALID_ARGUMENT, in one line; errors of the files.
absl::Status check(const PredictionOptions& options);

/// Items that `data` has for a user are not recommended to that user. The ratings of `data` are the test: its
/// sums are reported as iteration 0. CANCELLED when `stop` is set, and then writes nothing.
absl::Status predict(const PredictionOptions& options, Reporter& reporter, const std::atomic<bool>& stop);

}  // namespace verbena::apps::mf
