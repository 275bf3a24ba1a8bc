#include "apps/ctr/ctr.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/ctr/batches.hpp"
#include "apps/ctr/block_parameters.hpp"
#include "apps/ctr/block_trainer.hpp"
#include "apps/ctr/columns.hpp"
#include "apps/ctr/evaluation.hpp"
#include "apps/ctr/model.hpp"
#include "apps/ctr/model_file.hpp"
#include "apps/ctr/parameters.hpp"
#include "apps/ctr/trainer.hpp"
#include "apps/data/dealing.hpp"
#include "apps/data/examples.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/random.hpp"
#include "apps/data/score_histogram.hpp"
#include "apps/enough_memory.hpp"
#include "apps/options/numbers.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "consistency/rules.hpp"
#include "protocol/eviction.hpp"
#include "protocol/filter_rule.hpp"
#include "protocol/push_encoding.hpp"

namespace verbena::apps {
namespace {

using namespace ctr;

constexpr std::string_view kFtrl = "ftrl";
constexpr std::string_view kBlock = "block";
constexpr std::int64_t kMostBatch = 1 << 20;
constexpr std::int64_t kMostBlocksGiven = 4096;
constexpr std::int64_t kMostBlockPasses = 100;  ///< if --passes does not say
constexpr std::int64_t kMostPasses = 1'000'000;
constexpr std::int64_t kMostMinCount = 255;
constexpr std::uint64_t kStartBytes = 16 << 20;  ///< of parameters that a worker sets at a time
constexpr double kMostNumber = 1e30;  // single precision has room for its square root's and its steps
constexpr std::size_t kTestBatch = 1000;
constexpr std::size_t kCalibrationGroups = 10;
constexpr const char* kNeedsLessMemory = "fewer examples or a smaller --rank";
/// The length of a model file's shortest line, and of a prediction's.
constexpr std::uint64_t kMinRowBytes = 6;
constexpr std::uint64_t kMinPredictionBytes = 2;

/// About how many different keys there are, by linear counting (Whang et al., TODS'90): which bits of a table
/// are set by their hashes. Within some per cent up to some hundred million keys.
class DistinctKeys {
 public:
  DistinctKeys() : bits_(kBits) {}
  void add(Key key) {
    const std::size_t bit = mix(key) % kBits;
    if (!bits_[bit]) ++set_;
    bits_[bit] = true;
  }
  [[nodiscard]] double count() const {
    const double share_left = std::max(1.0 - static_cast<double>(set_) / kBits, 1.0 / kBits);
    return -kBits * std::log(share_left);
  }

 private:
  static constexpr std::size_t kBits = std::size_t{1} << 26;  // 8 MB
  std::vector<bool> bits_;
  std::size_t set_ = 0;
};

/// What one process needs of the input, ready for training.
struct Job {
  MiniBatches train;  ///< or `columns`, with the block solver
  Columns columns;
  BlockPlan plan;
  MiniBatches test;
  ExamplesRead read;                 ///< of all that trains or tests
  std::uint64_t train_examples = 0;  ///< of all workers
  std::uint64_t test_examples = 0;
};

class ClickThrough final : public Application {
 public:
  [[nodiscard]] std::string_view name() const override { return "ctr"; }
  [[nodiscard]] std::string_view description() const override {
    return "click-through rates: logistic regression, or factorization machines";
  }
  [[nodiscard]] std::string_view throughput_unit() const override { return "examples"; }
  [[nodiscard]] std::string_view main_objective() const override {
    return !load_.empty() ? "test_log_loss" : has_blocks() ? kObjective : kProgressiveLoss;
  }
  [[nodiscard]] std::string default_consistency(bool /*is_one_node*/) const override {
    return has_blocks() ? "bsp" : "ssp:1";
  }
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const override {
    if (option == "passes") return std::to_string(passes());
    if (option == "l1") return fmt::format("{}", l1());
    return std::nullopt;
  }
  [[nodiscard]] std::int64_t iterations() const override {
    if (!load_.empty()) return 0;
    return has_blocks() ? passes() : passes() * kPartsOfPass;
  }

  void add_options(CLI::App& command) override;
  [[nodiscard]] Files files() const override;
  absl::Status check(std::uint32_t workers) override;
  [[nodiscard]] absl::Status check_consistency(const ConsistencyModel& consistency) const override {
    const consistency::Rules rules = consistency::rules_of(consistency);
    if (rules.needs_sums()) {
      return absl::InvalidArgumentError(
          "--consistency: ctr pushes gradients, of which this model cannot bound or weigh the sums");
    }
    if (has_blocks() && (rules.read_bound == consistency::kNoBound || rules.acknowledges_at_once())) {
      return absl::InvalidArgumentError(
          "--consistency: --solver block must know after how many clocks it sees a step: expected bsp, "
          "ssp:N, "
          "essp:N or bounded-delay:N");
    }
    return absl::OkStatus();
  }
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override;
  absl::Status run_worker(WorkerContext& context) const override {
    return with_enough_memory(kNeedsLessMemory, [&] { return run_as_worker(context); });
  }
  absl::Status run_baseline(BaselineContext& context) const override {
    return with_enough_memory(kNeedsLessMemory, [&] { return run_alone(context); });
  }

 private:
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(rank_); }
  [[nodiscard]] bool has_blocks() const { return solver_ == kBlock; }
  [[nodiscard]] std::int64_t passes() const {
    if (passes_ > 0) return passes_;
    return has_blocks() ? kMostBlockPasses : 1;
  }
  [[nodiscard]] double l1() const {
    if (!std::isnan(l1_)) return l1_;
    return has_blocks() ? 1 : 0;
  }
  [[nodiscard]] Rules rules() const;
  [[nodiscard]] bool is_test(std::uint64_t number) const {
    return test_data_.empty() && to_unit_interval(mix(seed_ ^ mix(number))) < test_fraction_;
  }
  absl::Status check_options() const;
  absl::Status check_block_options() const;
  absl::Status check_data() const;
  absl::StatusOr<ExamplesRead> read(const std::vector<std::string>& paths,
                                    absl::FunctionRef<absl::Status(const Example&)> use,
                                    const ReadProgress& progress = {}) const;
  absl::StatusOr<ExamplesRead> read_all(absl::FunctionRef<absl::Status(const Example&, bool)> use,
                                        const ReadProgress& progress = {}) const;
  absl::StatusOr<Job> load_job(const Member& member, Reporter& reporter) const;
  absl::Status run_as_worker(WorkerContext& context) const;
  absl::Status run_alone(BaselineContext& context) const;
  absl::Status train(const Job& job, const Member& member, StreamedParameters& parameters, Reporter& reporter,
                     const std::atomic<bool>& stop) const;
  absl::Status train_blocks(const Job& job, const Member& member, BlockParameters& parameters,
                            std::int64_t delay, Reporter& reporter, const std::atomic<bool>& stop) const;
  [[nodiscard]] absl::StatusOr<TrainedModel> load_start() const;
  absl::Status start_from_model(const Member& member, Parameters& parameters) const;
  absl::Status present(const Job& job, Parameters& parameters, const ScoreHistogram& scores,
                       Reporter& reporter, const std::atomic<bool>& stop) const;
  absl::Status predict(TrainedModel& model, const std::vector<std::string>& paths, ScoreHistogram& scores,
                       Reporter& reporter, const std::atomic<bool>& stop) const;
  absl::Status use_loaded(const Member& member, Reporter& reporter, const std::atomic<bool>& stop) const;
  static absl::Status report_memory(Parameters& parameters, Reporter& reporter);
  static void report_calibration(const ScoreHistogram& scores, Reporter& reporter);

  std::vector<std::string> data_;
  std::vector<std::string> test_data_;
  std::string format_ = "auto";
  std::string load_;
  std::string output_;
  std::string predict_;
  double positive_ = 4;
  double test_fraction_ = 0.1;
  std::string solver_{kFtrl};
  std::int64_t blocks_ = 0;
  double kkt_ratio_ = 10;
  double tolerance_ = 1e-5;
  std::int64_t passes_ = 0;
  std::int64_t test_every_ = 1;
  std::int64_t batch_ = 1000;
  std::int64_t rank_ = 0;
  double alpha_ = 0.1;
  double beta_ = 1;
  double l1_ = std::numeric_limits<double>::quiet_NaN();  ///< not given
  double l2_ = 0;
  double factor_rate_ = 0.05;
  double factor_deviation_ = 0.01;
  double factor_regularization_ = 0;
  std::uint64_t seed_ = 1;
  std::int64_t min_count_ = 1;
  std::int64_t factor_min_count_ = 10;
  std::string start_;
  std::string eviction_{protocol::kEvictNever};
  std::string filter_{protocol::kNoFilter};
  std::string encoding_{protocol::kUsualEncoding};
};

Files ClickThrough::files() const {
  Files files;
  for (const std::string& path : data_) files.reads("--data", path);
  for (const std::string& path : test_data_) files.reads("--test-data", path);
  files.reads("--load", load_);
  files.reads("--start", start_);
  files.writes("--output", output_);
  files.writes("--predict", predict_);
  return files;
}

void ClickThrough::add_options(CLI::App& command) {
  command
      .add_option(
          "--data", data_,
          "examples: LIBSVM, LIBFFM, Criteo's TSV, Avazu's CSV, Vowpal Wabbit, or ratings; gzip of any; "
          "several files, such as days, are read in this order (docs/data.md)")
      ->required()
      ->type_name("FILE");
  command.add_option("--test-data", test_data_, "examples for the test, instead of a share of --data")
      ->type_name("FILE");
  add_number(command, "--test-fraction", test_fraction_,
             "share of the examples of --data that is not trained, but predicted")
      ->capture_default_str();
  command.add_option("--format", format_, "auto, libsvm, libffm, criteo, avazu, vw or ratings")
      ->capture_default_str()
      ->type_name("FORMAT");
  add_number(command, "--positive", positive_, "of ratings: those from this one on are positive")
      ->capture_default_str();
  command
      .add_option(
          "--solver", solver_,
          "how a logistic regression is trained: ftrl, mini-batch by mini-batch; block, to the least of "
          "log loss and --l1, by block proximal gradient")
      ->capture_default_str()
      ->type_name("ftrl|block");
  add_number(command, "--passes", passes_,
             "passes over the examples; 0: one, and with --solver block as many as it takes, at most 100")
      ->capture_default_str();
  add_number(command, "--test-every", test_every_,
             "passes after which the model is tested; the last one is in any case")
      ->capture_default_str();
  add_number(
      command, "--batch", batch_,
      "examples that are dealt to the workers in turn; without --solver block, of a mini-batch, which is a "
      "worker's clock")
      ->capture_default_str();
  add_number(command, "--rank", rank_,
             "factors of a feature in a factorization machine; 0: logistic regression")
      ->capture_default_str();
  add_number(
      command, "--blocks", blocks_,
      "of --solver block: into how many the features are divided; 0: one for each slot, at most 64, or 16 "
      "if there are no slots")
      ->capture_default_str();
  add_number(
      command, "--kkt", kkt_ratio_,
      "of --solver block: features whose weights will hardly leave 0 soon are left out, fewer if this is "
      "larger; 0: none")
      ->capture_default_str();
  add_number(command, "--tolerance", tolerance_,
             "of --solver block: training ends when a pass makes the objective less by a smaller share")
      ->capture_default_str();
  add_number(command, "--alpha", alpha_, "of FTRL: how fast weights are learnt")->capture_default_str();
  add_number(command, "--beta", beta_, "of FTRL: larger: slower at first")->capture_default_str();
  add_number(
      command, "--l1", l1_,
      "larger: more weights are 0; with --solver block, how much a weight costs [default: 0, and 1 with "
      "--solver block]");
  add_number(command, "--l2", l2_, "of FTRL: larger: smaller weights")->capture_default_str();
  add_number(command, "--factor-rate", factor_rate_, "learning rate of the factors, by Adagrad")
      ->capture_default_str();
  add_number(command, "--factor-deviation", factor_deviation_, "standard deviation of what factors begin as")
      ->capture_default_str();
  add_number(command, "--factor-regularization", factor_regularization_,
             "half of it times the factors' squares is added to the loss for each use of a feature")
      ->capture_default_str();
  add_number(command, "--min-count", min_count_,
             "a feature gets a weight with so many mini-batches that have it; before it counts as 0")
      ->capture_default_str();
  add_number(command, "--factor-min-count", factor_min_count_,
             "the same for its factors, which it gets no sooner than its weight")
      ->capture_default_str();
  command
      .add_option(
          "--eviction", eviction_,
          "when a feature loses its weight and factors again: never, age(clocks=1000) (mini-batches "
          "without it), count(least=1,half_life=1000), norm(least=0.001,clocks=100), lru(most_mb=1000); "
          "each with most_mb, for each of the two tables; --baseline has none (docs/sparse.md)")
      ->capture_default_str()
      ->type_name("EVICTION");
  command
      .add_option("--filter", filter_,
                  "which gradients of a mini-batch wait for those of later ones: none, significant(least=1), "
                  "top(share=0.1), random(share=0.5), bf16, int8, significant+int8; --baseline has none "
                  "(docs/consistency.md)")
      ->capture_default_str()
      ->type_name("FILTER");
  command
      .add_option("--encoding", encoding_,
                  "in which bytes gradients travel: auto, records, packed, packed(lists=1000000) for several "
                  "passes, or packed(zstd=1) for slow networks (docs/sparse.md)")
      ->capture_default_str()
      ->type_name("ENCODING");
  add_number(command, "--seed", seed_, "of the first factors and of the examples for the test")
      ->capture_default_str();
  command.add_option("--output", output_, "save the model, as text")->type_name("FILE");
  command.add_option("--start", start_, "train on from a model that --output has saved, of the same --rank")
      ->type_name("FILE");
  command
      .add_option("--load", load_, "a model that --output has saved: nothing is trained, --data is the test")
      ->type_name("FILE");
  command
      .add_option(
          "--predict", predict_,
          "write the probability that it is positive for each example of --test-data (with --load: of "
          "--data), one a line; labels are needed there, too")
      ->type_name("FILE");
}

absl::Status ClickThrough::check_options() const {
  const auto invalid = [](std::string_view expected, auto found) {
    return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
  };
  RETURN_IF_ERROR(parse_example_format(format_).status());
  if (!(test_fraction_ >= 0 && test_fraction_ < 1))
    return invalid("--test-fraction: expected 0 or more and less than 1", test_fraction_);
  if (!std::isfinite(positive_)) return invalid("--positive: expected a number", positive_);
  if (passes_ < 0 || passes_ > kMostPasses)
    return invalid(fmt::format("--passes: expected 0 to {}", kMostPasses), passes_);
  RETURN_IF_ERROR(check_block_options());
  if (test_every_ < 1) return invalid("--test-every: expected 1 or more", test_every_);
  if (batch_ < 1 || batch_ > kMostBatch)
    return invalid(fmt::format("--batch: expected 1 to {}", kMostBatch), batch_);
  if (rank_ < 0 || rank_ > static_cast<std::int64_t>(kMostRank))
    return invalid(fmt::format("--rank: expected 0 to {}", kMostRank), rank_);
  if (!(alpha_ > 0 && alpha_ <= kMostNumber))
    return invalid(fmt::format("--alpha: expected more than 0 and at most {}", kMostNumber), alpha_);
  const std::pair<std::string_view, double> others[] = {{"--beta", beta_},
                                                        {"--l1", l1()},
                                                        {"--l2", l2_},
                                                        {"--factor-rate", factor_rate_},
                                                        {"--factor-deviation", factor_deviation_},
                                                        {"--factor-regularization", factor_regularization_}};
  for (const auto& [name, value] : others) {
    if (!(value >= 0 && value <= kMostNumber))
      return invalid(fmt::format("{}: expected 0 to {}", name, kMostNumber), value);
  }
  RETURN_IF_ERROR(protocol::FilterRule::find(filter_).status());
  RETURN_IF_ERROR(protocol::EvictionRule::find(eviction_).status());
  RETURN_IF_ERROR(protocol::PushEncoding::find(encoding_).status());
  for (const std::string& rule : {rules().weights, rules().factors}) {
    const auto found = protocol::UpdateRule::find(
        rule, ValueType::kFloat, static_cast<std::uint32_t>(std::max(rank_, std::int64_t{kPair})));
    RETURN_IF_ERROR(found.status());
  }
  RETURN_IF_ERROR(protocol::InitialValues::find(rules().initial_factors, seed_, ValueType::kFloat).status());
  if (!predict_.empty() && load_.empty() && test_data_.empty()) {
    return absl::InvalidArgumentError(
        "--predict: expected --test-data, whose examples are predicted, or --load, which predicts --data");
  }
  if (!load_.empty() && !test_data_.empty())
    return absl::InvalidArgumentError("--test-data: with --load, --data is the test");
  for (const auto& [name, file] : {std::pair("--output", output_), std::pair("--start", start_)}) {
    if (!load_.empty() && !file.empty())
      return absl::InvalidArgumentError(fmt::format("{}: with --load, nothing is trained", name));
  }
  for (const auto& [name, count] :
       {std::pair("--min-count", min_count_), std::pair("--factor-min-count", factor_min_count_)}) {
    if (count < 1 || count > kMostMinCount)
      return invalid(fmt::format("{}: expected 1 to {}", name, kMostMinCount), count);
  }
  return absl::OkStatus();
}

absl::Status ClickThrough::check_block_options() const {
  if (solver_ != kFtrl && solver_ != kBlock)
    return absl::InvalidArgumentError(fmt::format("--solver: expected ftrl or block, found {}", solver_));
  if (blocks_ < 0 || blocks_ > kMostBlocksGiven)
    return absl::InvalidArgumentError(
        fmt::format("--blocks: expected 0 to {}, found {}", kMostBlocksGiven, blocks_));
  for (const auto& [name, value] : {std::pair("--kkt", kkt_ratio_), std::pair("--tolerance", tolerance_)}) {
    if (!(value >= 0 && value <= kMostNumber)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: expected 0 to {}, found {}", name, kMostNumber, value));
    }
  }
  if (!has_blocks()) return absl::OkStatus();
  if (l1() == 0) {
    return absl::InvalidArgumentError(
        "--l1: expected more than 0 with --solver block, or there may be no least objective");
  }
  for (const auto& [name, is_usual] :
       {std::pair("--rank", rank_ == 0), std::pair("--min-count", min_count_ == 1),
        std::pair("--eviction", eviction_ == protocol::kEvictNever),
        std::pair("--filter", filter_ == protocol::kNoFilter), std::pair("--l2", l2_ == 0)}) {
    if (!is_usual) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: --solver block trains a logistic regression with --l1, and has no other choice", name));
    }
  }
  return absl::OkStatus();
}

Rules ClickThrough::rules() const {
  return {.weights = has_blocks()
                         ? fmt::format("proximal(l1={})", l1())
                         : fmt::format("ftrl(alpha={},beta={},l1={},l2={})", alpha_, beta_, l1(), l2_),
          .factors = fmt::format("adagrad(rate={},initial=1)", factor_rate_),
          .initial_factors = fmt::format("normal(deviation={})", factor_deviation_),
          .rank = static_cast<std::uint32_t>(rank_),
          .seed = seed_,
          .weight_admission = fmt::format("count(least={})", min_count_),
          .factor_admission = fmt::format("count(least={})", std::max(min_count_, factor_min_count_)),
          .eviction = eviction_,
          .filter = filter_,
          .encoding = encoding_};
}

absl::StatusOr<ExamplesRead> ClickThrough::read(const std::vector<std::string>& paths,
                                                absl::FunctionRef<absl::Status(const Example&)> use,
                                                const ReadProgress& progress) const {
  return read_examples({.paths = paths, .format = *parse_example_format(format_), .positive = positive_}, use,
                       progress);
}

/// Calls use(example, whether it is for the test) for the examples of --data, then for those of --test-data.
absl::StatusOr<ExamplesRead> ClickThrough::read_all(absl::FunctionRef<absl::Status(const Example&, bool)> use,
                                                    const ReadProgress& progress) const {
  const bool is_all_test = !load_.empty();
  absl::StatusOr<ExamplesRead> read = this->read(
      data_, [&](const Example& example) { return use(example, is_all_test || is_test(example.number)); },
      progress);
  if (!read.ok() || test_data_.empty()) return read;
  const absl::StatusOr<ExamplesRead> test = this->read(
      test_data_, [&](const Example& example) { return use(example, true); }, progress);
  if (!test.ok()) return test;
  read->examples += test->examples;
  read->positives += test->positives;
  read->features += test->features;
  if (test->format != read->format) read->format += ", test: " + test->format;
  return read;
}

absl::Status ClickThrough::check_data() const {
  std::uint64_t train[2] = {0, 0};  // by label
  std::uint64_t test = 0;
  DistinctKeys keys;
  const absl::StatusOr<ExamplesRead> read = read_all([&](const Example& example, bool is_test) {
    if (is_test) ++test;
    if (!is_test) ++train[example.is_positive ? 1 : 0];
    for (const Feature& feature : example.features) keys.add(feature.key);
    return absl::OkStatus();
  });
  if (!read.ok()) return read.status();
  if (load_.empty() && (train[0] == 0 || train[1] == 0)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected examples of both labels to be trained, found {} positive and {} others",
                    data_[0], train[1], train[0]));
  }
  if (test == 0 && (test_fraction_ > 0 || !test_data_.empty())) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected enough examples for some to be tested (a larger --test-fraction, or 0 for "
                    "no test), found {}",
                    data_[0], read->examples));
  }
  // The examples as they are trained; for each key the index, the row and what the rule keeps of it, and the
  // first worker's copy of the model.
  const double rank = static_cast<double>(rank_);
  const double bytes = (has_blocks() ? 26 : 8) * static_cast<double>(read->features) +
                       (has_blocks() ? 48 : 8) * static_cast<double>(read->examples) +
                       keys.count() * (100 + 16 * rank);
  RETURN_IF_ERROR(
      check_memory(load_.empty() ? bytes : 0,
                   fmt::format("{} features of about {:.0f} kinds then need", read->features, keys.count()),
                   rank_ > 0 ? "fewer examples or a smaller --rank" : "fewer examples"));
  if (!output_.empty()) RETURN_IF_ERROR(OutputFile::check(output_, kMinRowBytes));
  if (!predict_.empty()) RETURN_IF_ERROR(OutputFile::check(predict_, kMinPredictionBytes * test));
  if (!load_.empty()) RETURN_IF_ERROR(TrainedModel::load(load_).status());
  return start_.empty() ? absl::OkStatus() : load_start().status();
}

absl::StatusOr<TrainedModel> ClickThrough::load_start() const {
  absl::StatusOr<TrainedModel> model = TrainedModel::load(start_);
  if (model.ok() && model->rank() != rank()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: a model of rank {}, expected {}, the --rank of this training", start_, model->rank(), rank()));
  }
  return model;
}

absl::Status ClickThrough::check(std::uint32_t /*workers*/) {
  RETURN_IF_ERROR(check_options());
  return with_enough_memory(kNeedsLessMemory, [&] { return check_data(); });
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
  }
  if (const auto auc = sums.find(kTestAuc); auc != sums.end()) result["test_auc"] = auc->second;
  return result;
}

absl::StatusOr<Job> ClickThrough::load_job(const Member& member, Reporter& reporter) const {
  Job job{.train = MiniBatches(static_cast<std::size_t>(batch_)),
          .columns = {},
          .plan = {},
          .test = MiniBatches(kTestBatch)};
  absl::StatusOr<ExamplesRead> read = read_all(
      [&](const Example& example, bool is_test) {
        const std::uint64_t number = is_test ? job.test_examples++ : job.train_examples++;
        if (is_test && member.has(number, kTestBatch)) job.test.add(example);
        if (!is_test && has_blocks()) {
          for (const Feature& feature : example.features) job.plan.add(feature.key);
        }
        const bool trains = !is_test && member.has(number, static_cast<std::uint64_t>(batch_));
        if (trains && has_blocks()) job.columns.add(example);
        if (trains && !has_blocks()) job.train.add(example);
        return absl::OkStatus();
      },
      [&](double done, double total) { reporter.progress("reading examples", done, total); });
  if (!read.ok()) return read.status();
  job.read = *std::move(read);
  job.train.finish();
  job.plan.finish(static_cast<std::uint32_t>(blocks_));
  job.columns.finish(job.plan);
  job.test.finish();
  return job;
}

absl::Status ClickThrough::run_as_worker(WorkerContext& context) const {
  Session& session = context.session;
  const Member member{session.rank(), session.workers()};
  if (!load_.empty()) return use_loaded(member, context.reporter, context.stop);
  const absl::StatusOr<Job> job = load_job(member, context.reporter);
  if (!job.ok()) return job.status();
  if (has_blocks()) {
    absl::StatusOr<BlockTableParameters> parameters =
        BlockTableParameters::open(session, context.consistency, rules(), context.watch);
    if (!parameters.ok()) return parameters.status();
    return train_blocks(*job, member, *parameters, consistency::rules_of(context.consistency).read_bound,
                        context.reporter, context.stop);
  }
  absl::StatusOr<TableParameters> parameters =
      TableParameters::open(session, context.consistency, rules(), context.watch);
  if (!parameters.ok()) return parameters.status();
  return train(*job, member, *parameters, context.reporter, context.stop);
}

absl::Status ClickThrough::run_alone(BaselineContext& context) const {
  if (!load_.empty()) return use_loaded({}, context.reporter, context.stop);
  const absl::StatusOr<Job> job = load_job({}, context.reporter);
  if (!job.ok()) return job.status();
  if (has_blocks()) {
    BlockLocalParameters parameters(rules());
    return train_blocks(*job, {}, parameters, /*delay=*/0, context.reporter, context.stop);
  }
  LocalParameters parameters(rules());
  return train(*job, {}, parameters, context.reporter, context.stop);
}

absl::Status ClickThrough::train(const Job& job, const Member& member, StreamedParameters& parameters,
                                 Reporter& reporter, const std::atomic<bool>& stop) const {
  if (!start_.empty()) RETURN_IF_ERROR(start_from_model(member, parameters));
  Machine machine(rank(), static_cast<float>(factor_regularization_));
  const Schedule schedule{
      .passes = passes(),
      .clocks_per_pass = member.most_batches(job.train_examples, static_cast<std::uint64_t>(batch_)),
      .has_test = job.test_examples > 0,
      .test_every = test_every_};
  const auto initial =
      protocol::InitialValues::find(rules().initial_factors, seed_, ValueType::kFloat).value();
  ScoreHistogram scores;
  Evaluation evaluation(machine, initial, job.test, parameters, member.rank == 0, scores);
  Trainer trainer(schedule, machine, job.train, parameters, evaluation);
  RETURN_IF_ERROR(trainer.run(reporter, stop));
  RETURN_IF_ERROR(parameters.barrier());  // for the model that is saved
  return member.rank == 0 ? present(job, parameters, scores, reporter, stop) : absl::OkStatus();
}

absl::Status ClickThrough::train_blocks(const Job& job, const Member& member, BlockParameters& parameters,
                                        std::int64_t delay, Reporter& reporter,
                                        const std::atomic<bool>& stop) const {
  if (!start_.empty()) RETURN_IF_ERROR(start_from_model(member, parameters));
  Machine machine(0, 0);
  const protocol::InitialValues no_factors;
  ScoreHistogram scores;
  Evaluation evaluation(machine, no_factors, job.test, parameters, member.rank == 0, scores);
  BlockTrainer trainer({.l1 = l1(),
                        .delay = delay,
                        .most_passes = passes(),
                        .tolerance = tolerance_,
                        .kkt_ratio = kkt_ratio_,
                        .examples = job.train_examples,
                        .has_test = job.test_examples > 0,
                        .test_every = test_every_,
                        .is_fresh = start_.empty()},
                       job.columns, job.plan.blocks(), parameters, evaluation, member.rank == 0);
  RETURN_IF_ERROR(trainer.run(reporter, stop));
  if (member.rank != 0) return absl::OkStatus();
  reporter.print(trainer.has_converged() ? "the last pass hardly lowered the objective"
                                         : "more --passes would lower the objective further");
  reporter.summary("blocks", job.plan.blocks());
  reporter.summary("converged", trainer.has_converged());
  reporter.summary("share_of_keys_pushed", trainer.share_pushed());
  return present(job, parameters, scores, reporter, stop);
}

/// Each worker sets its share of the parameters, some at a time.
absl::Status ClickThrough::start_from_model(const Member& member, Parameters& parameters) const {
  const absl::StatusOr<TrainedModel> model = load_start();
  if (!model.ok()) return model.status();
  const std::uint64_t at_once = std::max<std::uint64_t>(kStartBytes / (16 + 8 * rank()), 1) * member.workers;
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

/// The model file and the predictions; all workers have finished training.
absl::Status ClickThrough::present(const Job& job, Parameters& parameters, const ScoreHistogram& scores,
                                   Reporter& reporter, const std::atomic<bool>& stop) const {
  absl::StatusOr<TrainedModel> model = TrainedModel::of(parameters, rank());
  if (!model.ok()) return model.status();
  if (!predict_.empty()) {
    ScoreHistogram again;
    RETURN_IF_ERROR(predict(*model, test_data_, again, reporter, stop));
  }
  if (!output_.empty()) RETURN_IF_ERROR(model->save(output_));
  const ModelSize size = model->size();
  reporter.print(fmt::format("{} keys, {} weights are not 0", size.keys, size.nonzero_weights));
  reporter.summary("format", job.read.format);
  reporter.summary("rank", rank_);
  reporter.summary("train_examples", job.train_examples);
  reporter.summary("test_examples", job.test_examples);
  reporter.summary("features", job.read.features);
  reporter.summary("keys", size.keys);
  reporter.summary("nonzero_weights", size.nonzero_weights);
  report_calibration(scores, reporter);
  return report_memory(parameters, reporter);
}

absl::Status ClickThrough::report_memory(Parameters& parameters, Reporter& reporter) {
  const absl::StatusOr<Parameters::MemoryOfTables> tables = parameters.memory();
  if (!tables.ok()) return tables.status();
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, memory] : *tables) {
    const auto mb = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
    reporter.print(fmt::format(
        "{}: {:.1f} MB on the servers, {:.0f} bytes a row: values {:.1f}, state {:.1f}, index {:.1f}, counts "
        "of "
        "keys {:.1f}, books {:.1f} MB",
        name, mb(memory.bytes()),
        static_cast<double>(memory.bytes()) / static_cast<double>(std::max<std::uint64_t>(memory.rows, 1)),
        mb(memory.value_bytes), mb(memory.state_bytes), mb(memory.index_bytes), mb(memory.count_bytes),
        mb(memory.book_bytes)));
    if (memory.refused > 0)
      reporter.print(
          fmt::format("{}: {} times a key got no row, since the memory was used up", name, memory.refused));
    all[name] = {{"rows", memory.rows},
                 {"rows_waiting", memory.rows_waiting},
                 {"rows_free", memory.rows_free},
                 {"value_bytes", memory.value_bytes},
                 {"state_bytes", memory.state_bytes},
                 {"index_bytes", memory.index_bytes},
                 {"count_bytes", memory.count_bytes},
                 {"book_bytes", memory.book_bytes},
                 {"refused", memory.refused}};
  }
  if (!all.empty()) reporter.summary("server_memory", std::move(all));
  return absl::OkStatus();
}

void ClickThrough::report_calibration(const ScoreHistogram& scores, Reporter& reporter) {
  if (scores.examples() == 0) return;
  nlohmann::json groups = nlohmann::json::array();
  std::string predicted = "predicted";
  std::string found = "found    ";
  for (const ScoreHistogram::CalibrationGroup& group : scores.calibration(kCalibrationGroups)) {
    groups.push_back({{"examples", group.examples},
                      {"mean_prediction", group.mean_prediction},
                      {"positive_share", group.positive_share}});
    predicted += fmt::format(" {:6.4f}", group.mean_prediction);
    found += fmt::format(" {:6.4f}", group.positive_share);
  }
  reporter.print("positive, of equal parts of the test in the order of their predictions:");
  reporter.print(predicted);
  reporter.print(found);
  reporter.summary("calibration", std::move(groups));
}

/// Scores the examples of these files, and writes their probabilities if --predict asks for them.
absl::Status ClickThrough::predict(TrainedModel& model, const std::vector<std::string>& paths,
                                   ScoreHistogram& scores, Reporter& reporter,
                                   const std::atomic<bool>& stop) const {
  absl::StatusOr<OutputFile> file = absl::UnknownError("not asked for");
  if (!predict_.empty()) {
    file = OutputFile::create(predict_);
    if (!file.ok()) return file.status();
  }
  const absl::StatusOr<ExamplesRead> read = this->read(
      paths,
      [&](const Example& example) -> absl::Status {
        if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
        const double score = model.score(example);
        scores.add(score, example.is_positive);
        if (!file.ok()) return absl::OkStatus();
        file->write(fmt::format("{}\n", logistic(score)));
        return file->status();
      },
      [&](double done, double total) { reporter.progress("predicting", done, total); });
  if (!read.ok()) return read.status();
  reporter.summary("format", read->format);
  return file.ok() ? file->commit() : absl::OkStatus();
}

/// Predicts with a model that was loaded. The first worker does it; the data is streamed.
absl::Status ClickThrough::use_loaded(const Member& member, Reporter& reporter,
                                      const std::atomic<bool>& stop) const {
  IterationReport report{.iteration = 0};
  if (member.rank == 0) {
    absl::StatusOr<TrainedModel> model = TrainedModel::load(load_);
    if (!model.ok()) return model.status();
    ScoreHistogram scores;
    RETURN_IF_ERROR(predict(*model, data_, scores, reporter, stop));
    report.sums[kTestLoss] = scores.log_loss_sum();
    report.sums[kTestExamples] = static_cast<double>(scores.examples());
    if (const std::optional<double> auc = scores.auc()) report.sums[kTestAuc] = *auc;
    const ModelSize size = model->size();
    reporter.summary("rank", model->rank());
    reporter.summary("test_examples", scores.examples());
    reporter.summary("keys", size.keys);
    reporter.summary("nonzero_weights", size.nonzero_weights);
    report_calibration(scores, reporter);
  }
  reporter.iteration(report);
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Application> make_ctr() {
  return std::make_unique<ClickThrough>();
}

}  // namespace verbena::apps
