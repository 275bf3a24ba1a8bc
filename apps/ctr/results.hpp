// What a run leaves: the model's file, predictions, and what the summary says of both.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/status/status.h"
#include "apps/chart.hpp"
#include "apps/ctr/input.hpp"
#include "apps/ctr/parameters.hpp"
#include "apps/ctr/worker_run.hpp"
#include "apps/data/score_histogram.hpp"

namespace verbena::apps::ctr {

/// Saves and reports what was trained. Called by the first worker, when all have finished training. `scores`:
/// of the newest test, of all workers. Errors as TrainedModel::of(), of read_examples() and of the files.
absl::Status present(const WorkerRun& run, const Input& input, Parameters& parameters,
                     const ScoreHistogram& scores);

/// Tests the model of --load on --data, and predicts: the first worker does, while it reads the examples.
absl::Status use_loaded(const WorkerRun& run);

/// What the summary says, drawn: calibration. As Application::charts().
std::vector<ModelChart> result_charts(const nlohmann::json& model_summary);

}  // namespace verbena::apps::ctr
