#include "apps/ctr/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "apps/ctr/block_trainer.hpp"
#include "apps/ctr/evaluation.hpp"
#include "apps/ctr/model.hpp"
#include "apps/ctr/results.hpp"
#include "apps/ctr/trainer.hpp"
#include "apps/data/score_histogram.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "base/return_if_error.hpp"
#include "protocol/initial_values.hpp"

namespace verbena::apps::ctr {

namespace {

constexpr std::uint64_t kStartBytes = 16 << 20;  ///< of parameters that a worker sets at a time

/// In a checkpoint's tables, it has been.
bool starts_from_model(const WorkerRun& run) {
  return !run.options.start.empty() && run.checkpoints.resumed() == nullptr;
}

/// Each worker sets its share of the parameters, some at a time.
absl::Status start_from_model(const WorkerRun& run, Parameters& parameters) {
  const absl::StatusOr<TrainedModel> model = load_start(run.options);
  if (!model.ok()) return model.status();
  const Member& member = run.member;
  const std::uint64_t at_once =
      std::max<std::uint64_t>(kStartBytes / (16 + 8 * model->rank()), 1) * member.workers;
  std::vector<Key> keys;
  Numbers numbers;
  std::uint64_t count = 0;
  absl::Status status;
  const auto set = [&] {
    if (status.ok()) status = parameters.start_from(keys, numbers);
    keys.clear();
    numbers = {};
  };
  model->for_each([&](Key key, float weight, std::span<const float> factors) {
    if (count++ % member.workers == member.rank) {
      keys.push_back(key);
      numbers.weights.push_back(weight);
      numbers.factors.insert(numbers.factors.end(), factors.begin(), factors.end());
    }
    if (count % at_once == 0) set();
  });
  set();
  return status;
}

}  // namespace

absl::StatusOr<TrainedModel> load_start(const Options& options) {
  absl::StatusOr<TrainedModel> model = TrainedModel::load(options.start);
  if (model.ok() && model->rank() != options.factors()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a model of rank {}, expected {}, the --rank of this training", options.start,
                    model->rank(), options.factors()));
  }
  return model;
}

absl::Status train(const WorkerRun& run, const Input& input, StreamedParameters& parameters) {
  const Options& options = run.options;
  if (starts_from_model(run)) RETURN_IF_ERROR(start_from_model(run, parameters));
  Machine machine(options.factors(), static_cast<float>(options.factor_regularization));
  const Schedule schedule{.passes = options.chosen_passes(),
                          .clocks_per_pass = run.member.most_batches(input.train_examples, input.batch),
                          .has_test = input.test_examples > 0,
                          .test_every = options.test_every};
  const auto initial =
      protocol::InitialValues::find(options.rules().initial_factors, options.seed, ValueType::kFloat).value();
  ScoreHistogram scores;
  Evaluation evaluation(machine, initial, *input.test, parameters, run.is_first(), scores);
  Trainer trainer(schedule, machine, *input.train, parameters, evaluation);
  RETURN_IF_ERROR(trainer.run(run.reporter, run.stop, run.checkpoints));
  RETURN_IF_ERROR(parameters.barrier());  // for the model that is saved
  return run.is_first() ? present(run, input, parameters, scores) : absl::OkStatus();
}

absl::Status train_blocks(const WorkerRun& run, const Input& input, BlockParameters& parameters,
                          std::int64_t delay) {
  const Options& options = run.options;
  if (starts_from_model(run)) RETURN_IF_ERROR(start_from_model(run, parameters));
  Machine machine(0, 0);
  const protocol::InitialValues no_factors;
  ScoreHistogram scores;
  Evaluation evaluation(machine, no_factors, *input.test, parameters, run.is_first(), scores);
  BlockTrainer trainer({.l1 = options.chosen_l1(),
                        .delay = delay,
                        .most_passes = options.chosen_passes(),
                        .tolerance = options.tolerance,
                        .kkt_ratio = options.kkt_ratio,
                        .examples = input.train_examples,
                        .has_test = input.test_examples > 0,
                        .test_every = options.test_every,
                        .is_fresh = options.start.empty()},
                       input.columns, input.plan.blocks(), parameters, evaluation, run.is_first());
  RETURN_IF_ERROR(trainer.run(run.reporter, run.stop, run.checkpoints));
  if (!run.is_first()) return absl::OkStatus();
  run.reporter.print(trainer.has_converged() ? "the last pass hardly lowered the objective"
                                             : "more --passes would lower the objective further");
  run.reporter.summary("blocks", input.plan.blocks());
  run.reporter.summary(kBlocksOfFeatures, input.plan.blocks() - 1);
  run.reporter.summary("converged", trainer.has_converged());
  return present(run, input, parameters, scores);
}

}  // namespace verbena::apps::ctr
