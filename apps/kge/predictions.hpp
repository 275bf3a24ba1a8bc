// What `verbena run kge --load --ask` does: it trains nothing, but answers questions with saved embeddings.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "apps/application.hpp"

namespace verbena::apps::kge {

struct PredictionOptions {
  std::string load;  ///< PREFIX of the saved embeddings
  std::string data;  ///< folder of triples that are known and no answers; may be empty
  /// A file of lines head<TAB>relation<TAB>tail. "?" for the head or the tail asks for the best answers;
  /// without it, for the triple's score.
  std::string ask;
  std::string predict;  ///< where to write triples and their scores; empty: they are printed
  std::int64_t top_answers = 10;
};

/// Reads all that predict() will read. INVALID_ARGUMENT, in one line; errors of the files.
absl::Status check(const PredictionOptions& options);

/// Writes a line head<TAB>relation<TAB>tail<TAB>score for each triple that was given, and for each answer,
/// the best first. CANCELLED when `stop` is set, and then writes nothing.
absl::Status predict(const PredictionOptions& options, Reporter& reporter, const std::atomic<bool>& stop);

}  // namespace verbena::apps::kge
