#include "apps/ctr/ctr.hpp"

#include <optional>
#include <string>
#include <vector>

#include "apps/ctr/block_parameters.hpp"
#include "apps/ctr/block_trainer.hpp"
#include "apps/ctr/evaluation.hpp"
#include "apps/ctr/input.hpp"
#include "apps/ctr/model_file.hpp"
#include "apps/ctr/options.hpp"
#include "apps/ctr/parameters.hpp"
#include "apps/ctr/results.hpp"
#include "apps/ctr/trainer.hpp"
#include "apps/ctr/training.hpp"
#include "apps/ctr/worker_run.hpp"
#include "apps/data/output_file.hpp"
#include "apps/enough_memory.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "consistency/rules.hpp"

namespace verbena::apps {
namespace {

using namespace ctr;

/// The length of a model file's shortest line, and of a prediction's.
constexpr std::uint64_t kMinRowBytes = 6;
constexpr std::uint64_t kMinPredictionBytes = 2;

class ClickThrough final : public Application {
 public:
  [[nodiscard]] std::string_view name() const override { return "ctr"; }
  [[nodiscard]] std::string_view description() const override {
    return "click-through rates: logistic regression, or factorization machines";
  }
  [[nodiscard]] std::string_view throughput_unit() const override { return "examples"; }
  [[nodiscard]] std::string_view main_objective() const override {
    return !options_.trains() ? "test_log_loss" : options_.has_blocks() ? kObjective : kProgressiveLoss;
  }
  [[nodiscard]] std::string default_consistency(bool /*is_one_node*/,
                                                std::uint32_t /*workers*/) const override {
    return options_.has_blocks() ? "bsp" : "ssp:1";
  }
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const override {
    return options_.chosen(option);
  }
  [[nodiscard]] bool leaves_open(std::string_view option) const override {
    return options_.leaves_open(option);
  }
  [[nodiscard]] bool has_sparse_tables() const override { return true; }
  [[nodiscard]] std::vector<ChoiceOption> choices() const override {
    return {{"batch", kBatchOfExamples}, {"blocks", kBlocksOfFeatures}};
  }
  [[nodiscard]] std::int64_t iterations() const override {
    if (!options_.trains()) return 0;
    return options_.has_blocks() ? options_.chosen_passes() : options_.chosen_passes() * kPartsOfPass;
  }

  [[nodiscard]] bool can_be_resumed() const override { return options_.trains(); }
  /// The block solver has the scores of its examples.
  [[nodiscard]] bool can_replace_workers() const override {
    return options_.trains() && !options_.has_blocks();
  }
  [[nodiscard]] bool may_change_on_resume(std::string_view option) const override {
    return option == "passes" || option == "test-every";
  }

  absl::Status goes_on_from(const std::map<std::string, std::string>& notes) override {
    options_.goes_on_from(notes);
    return absl::OkStatus();
  }

  void add_options(CLI::App& command) override { options_.add_to(command); }
  [[nodiscard]] Files files() const override { return options_.files(); }
  absl::Status check(std::uint32_t /*workers*/) override {
    RETURN_IF_ERROR(options_.check());
    return with_enough_memory(options_.what_needs_less_memory(), [&] { return check_files(); });
  }
  [[nodiscard]] absl::Status check_consistency(const ConsistencyModel& consistency) const override;
  [[nodiscard]] absl::Status check_baseline() const override { return options_.check_baseline(); }
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override;
  [[nodiscard]] std::vector<ModelChart> charts(const nlohmann::json& model_summary) const override {
    return result_charts(model_summary);
  }
  absl::Status run_worker(WorkerContext& context) const override {
    return with_enough_memory(options_.what_needs_less_memory(), [&] { return run_as_worker(context); });
  }
  absl::StatusOr<std::unique_ptr<ReadAhead>> read_ahead(std::uint32_t worker, std::uint32_t workers,
                                                        Reporter& reporter) const override {
    if (!options_.trains()) return nullptr;
    std::unique_ptr<ReadAhead> read;
    RETURN_IF_ERROR(with_enough_memory(options_.what_needs_less_memory(), [&] {
      absl::StatusOr<Input> input = load_input(options_, {.rank = worker, .workers = workers}, reporter);
      if (!input.ok()) return input.status();
      read = std::make_unique<ReadAheadOf<Input>>(*std::move(input));
      return absl::OkStatus();
    }));
    return read;
  }
  absl::Status run_baseline(BaselineContext& context) const override {
    return with_enough_memory(options_.what_needs_less_memory(), [&] { return run_alone(context); });
  }

 private:
  absl::Status check_files() const;
  absl::Status run_as_worker(WorkerContext& context) const;
  absl::Status run_alone(BaselineContext& context) const;

  Options options_;
};

absl::Status ClickThrough::check_files() const {
  const absl::StatusOr<std::uint64_t> test_examples = check_examples(options_);
  if (!test_examples.ok()) return test_examples.status();
  if (!options_.output.empty()) RETURN_IF_ERROR(OutputFile::check(options_.output, kMinRowBytes));
  if (!options_.predict.empty())
    RETURN_IF_ERROR(OutputFile::check(options_.predict, kMinPredictionBytes * *test_examples));
  if (!options_.trains()) RETURN_IF_ERROR(TrainedModel::load(options_.load).status());
  return options_.start.empty() ? absl::OkStatus() : load_start(options_).status();
}

absl::Status ClickThrough::check_consistency(const ConsistencyModel& consistency) const {
  const consistency::Rules rules = consistency::rules_of(consistency);
  if (rules.needs_sums()) {
    return absl::InvalidArgumentError(
        "--consistency: ctr pushes gradients, of which this model cannot bound or weigh the sums");
  }
  if (options_.has_blocks() && (rules.read_bound == consistency::kNoBound || rules.acknowledges_at_once())) {
    return absl::InvalidArgumentError(
        "--consistency: --solver block must know after how many clocks it sees a step: expected bsp, "
        "ssp:N, "
        "essp:N or bounded-delay:N");
  }
  return absl::OkStatus();
}

std::map<std::string, double> ClickThrough::objectives(const std::map<std::string, double>& sums) const {
  std::map<std::string, double> result;
  const auto mean = [&](const char* name, const char* sum, const char* count) {
    const auto number = sums.find(count);
    if (number != sums.end() && number->second > 0) result[name] = sums.at(sum) / number->second;
  };
  mean("progressive_log_loss", kProgressiveLoss, kProgressiveWeight);
  mean("test_log_loss", kTestLoss, kTestExamples);
  if (const auto objective = sums.find(kObjective); objective != sums.end()) {
    result[kObjective] = objective->second;
    result["share_of_keys_active"] = sums.at(kActiveKeys) / sums.at(kAllKeys);
    result["share_of_keys_pushed"] = sums.at(kPushedKeys) / sums.at(kPassedKeys);
  }
  if (const auto auc = sums.find(kTestAuc); auc != sums.end()) result["test_auc"] = auc->second;
  return result;
}

absl::Status ClickThrough::run_as_worker(WorkerContext& context) const {
  Session& session = context.session;
  const WorkerRun run{.options = options_,
                      .member = {session.rank(), session.workers()},
                      .reporter = context.reporter,
                      .stop = context.stop,
                      .checkpoints = context.checkpoints};
  if (!options_.trains()) return use_loaded(run);
  const absl::StatusOr<Input> input =
      context.take_data([&] { return load_input(options_, run.member, run.reporter); });
  if (!input.ok()) return input.status();
  RETURN_IF_ERROR(check_all_have_read_the_same(session, *input));
  context.checkpoints.note(kBatchNote, std::to_string(input->batch));
  if (options_.has_blocks()) {
    absl::StatusOr<BlockTableParameters> parameters =
        BlockTableParameters::open(session, context.consistency, options_.rules(), context.watch);
    if (!parameters.ok()) return parameters.status();
    return train_blocks(run, *input, *parameters, consistency::rules_of(context.consistency).read_bound);
  }
  absl::StatusOr<TableParameters> parameters =
      TableParameters::open(session, context.consistency, options_.rules(), context.watch);
  if (!parameters.ok()) return parameters.status();
  return train(run, *input, *parameters);
}

absl::Status ClickThrough::run_alone(BaselineContext& context) const {
  Checkpoints none;
  const WorkerRun run{.options = options_,
                      .member = {},
                      .reporter = context.reporter,
                      .stop = context.stop,
                      .checkpoints = none};
  if (!options_.trains()) return use_loaded(run);
  const absl::StatusOr<Input> input = load_input(options_, run.member, run.reporter);
  if (!input.ok()) return input.status();
  if (options_.has_blocks()) {
    BlockLocalParameters parameters(options_.rules());
    return train_blocks(run, *input, parameters, /*delay=*/0);
  }
  LocalParameters parameters(options_.rules());
  RETURN_IF_ERROR(parameters.barrier());  // in which workers would compare what they have read
  return train(run, *input, parameters);
}

}  // namespace

std::unique_ptr<Application> make_ctr() {
  return std::make_unique<ClickThrough>();
}

}  // namespace verbena::apps
