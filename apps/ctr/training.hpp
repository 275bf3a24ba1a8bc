// Training a model, by either solver, from the beginning or from a model that was saved, up to its files.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/ctr/block_parameters.hpp"
#include "apps/ctr/input.hpp"
#include "apps/ctr/model_file.hpp"
#include "apps/ctr/options.hpp"
#include "apps/ctr/parameters.hpp"
#include "apps/ctr/worker_run.hpp"

namespace verbena::apps::ctr {

/// What the summary says of --blocks, which the data may decide.
inline constexpr const char* kBlocksOfFeatures = "blocks_of_features";

/// The model of --start. Errors as TrainedModel::load(); INVALID_ARGUMENT: it is of another rank.
absl::StatusOr<TrainedModel> load_start(const Options& options);

/// By FTRL, and Adagrad for factors. Errors as Trainer::run(), and of the files.
absl::Status train(const WorkerRun& run, const Input& input, StreamedParameters& parameters);
/// By the block solver. `delay`: clocks after which a step is seen (BlockOptions::delay).
absl::Status train_blocks(const WorkerRun& run, const Input& input, BlockParameters& parameters,
                          std::int64_t delay);

}  // namespace verbena::apps::ctr
