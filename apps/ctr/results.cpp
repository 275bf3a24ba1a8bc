#include "apps/ctr/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/ctr/evaluation.hpp"
#include "apps/ctr/model_file.hpp"
#include "apps/data/output_file.hpp"
#include "apps/table_memory.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::ctr {

namespace {

constexpr std::size_t kCalibrationGroups = 10;
// Names in the summary.
constexpr const char* kCalibration = "calibration";
constexpr const char* kMeanPrediction = "mean_prediction";
constexpr const char* kPositiveShare = "positive_share";

/// Scores the examples of these files, and writes their probabilities if --predict asks for them.
absl::Status predict(const WorkerRun& run, TrainedModel& model, const std::vector<std::string>& paths,
                     ScoreHistogram& scores) {
  absl::StatusOr<OutputFile> file = absl::UnknownError("not asked for");
  if (!run.options.predict.empty()) {
    file = OutputFile::create(run.options.predict);
    if (!file.ok()) return file.status();
  }
  const absl::StatusOr<ExamplesRead> read = read_examples(
      examples_in(run.options, paths),
      [&](const Example& example) -> absl::Status {
        if (run.stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
        const double score = model.score(example);
        scores.add(score, example.is_positive);
        if (!file.ok()) return absl::OkStatus();
        file->write(fmt::format("{}\n", logistic(score)));
        return file->status();
      },
      [&](double done, double total) { run.reporter.progress("predicting", done, total); });
  if (!read.ok()) return read.status();
  run.reporter.summary("format", read->format);
  return file.ok() ? file->commit() : absl::OkStatus();
}

/// AUC is of pairs of a positive example and another one.
void report_missing_auc(const ScoreHistogram& scores, Reporter& reporter) {
  if (scores.examples() == 0 || scores.auc()) return;
  reporter.print(fmt::format("no AUC, since {} of the test is positive",
                             scores.positives() > 0 ? "each example" : "no example"));
}

void report_calibration(const ScoreHistogram& scores, Reporter& reporter) {
  if (scores.examples() == 0) return;
  nlohmann::json groups = nlohmann::json::array();
  std::string predicted = "predicted";
  std::string found = "found    ";
  for (const ScoreHistogram::CalibrationGroup& group : scores.calibration(kCalibrationGroups)) {
    groups.push_back({{"examples", group.examples},
                      {kMeanPrediction, group.mean_prediction},
                      {kPositiveShare, group.positive_share}});
    predicted += fmt::format(" {:6.4f}", group.mean_prediction);
    found += fmt::format(" {:6.4f}", group.positive_share);
  }
  reporter.print("positive, of equal parts of the test in the order of their predictions:");
  reporter.print(predicted);
  reporter.print(found);
  reporter.summary(kCalibration, std::move(groups));
}

absl::Status report_memory(Parameters& parameters, Reporter& reporter) {
  const absl::StatusOr<Parameters::MemoryOfTables> tables = parameters.memory();
  if (!tables.ok()) return tables.status();
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, memory] : *tables) {
    const auto mb = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
    std::string text = fmt::format("{}: {:.1f} MB on the servers", name, mb(memory.bytes()));
    if (memory.rows > 0) {
      text += fmt::format(", {:.0f} bytes a row",
                          static_cast<double>(memory.bytes()) / static_cast<double>(memory.rows));
    }
    reporter.print(
        fmt::format("{}: values {:.1f}, state {:.1f}, index {:.1f}, counts of keys {:.1f}, books {:.1f} MB",
                    text, mb(memory.value_bytes), mb(memory.state_bytes), mb(memory.index_bytes),
                    mb(memory.count_bytes), mb(memory.book_bytes)));
    // Places of rows that went are used again, so that those that are not are all that is known.
    const std::uint64_t gone = memory.rows_waiting + memory.rows_free;
    std::string left = fmt::format("{}: {} rows are left", name, memory.rows);
    if (gone > 0) left += fmt::format(", {} or more have gone", gone);
    if (memory.refused > 0) {
      left += fmt::format("; {} gradients were dropped, since there was no room for a row of their key",
                          memory.refused);
    }
    if (gone > 0 || memory.refused > 0) reporter.print(left);
    all[name] = to_json(memory);
  }
  if (!all.empty()) reporter.summary("server_memory", std::move(all));
  return absl::OkStatus();
}

}  // namespace

absl::Status present(const WorkerRun& run, const Input& input, Parameters& parameters,
                     const ScoreHistogram& scores) {
  const Options& options = run.options;
  absl::StatusOr<TrainedModel> model = TrainedModel::of(parameters, options.factors());
  if (!model.ok()) return model.status();
  if (!options.predict.empty()) {
    ScoreHistogram again;
    RETURN_IF_ERROR(predict(run, *model, options.test_data, again));
  }
  if (!options.output.empty()) RETURN_IF_ERROR(model->save(options.output));
  const ModelSize size = model->size();
  Reporter& reporter = run.reporter;
  reporter.print(fmt::format("{} keys, {} weights are not 0", size.keys, size.nonzero_weights));
  reporter.summary("format", input.read.format);
  reporter.summary("rank", options.rank);
  reporter.summary(kBatchOfExamples, input.batch);
  reporter.summary("train_examples", input.train_examples);
  reporter.summary("test_examples", input.test_examples);
  if (!options.streams()) reporter.summary("features", input.read.features);
  reporter.summary("keys", size.keys);
  reporter.summary("nonzero_weights", size.nonzero_weights);
  report_missing_auc(scores, reporter);
  report_calibration(scores, reporter);
  return report_memory(parameters, reporter);
}

absl::Status use_loaded(const WorkerRun& run) {
  IterationReport report{.iteration = 0};
  if (run.is_first()) {
    absl::StatusOr<TrainedModel> model = TrainedModel::load(run.options.load);
    if (!model.ok()) return model.status();
    ScoreHistogram scores;
    RETURN_IF_ERROR(predict(run, *model, run.options.data, scores));
    report.sums[kTestLoss] = scores.log_loss_sum();
    report.sums[kTestExamples] = static_cast<double>(scores.examples());
    if (const std::optional<double> auc = scores.auc()) report.sums[kTestAuc] = *auc;
    const ModelSize size = model->size();
    run.reporter.summary("rank", model->rank());
    run.reporter.summary("test_examples", scores.examples());
    run.reporter.summary("keys", size.keys);
    run.reporter.summary("nonzero_weights", size.nonzero_weights);
    report_missing_auc(scores, run.reporter);
    report_calibration(scores, run.reporter);
  }
  run.reporter.iteration(report);
  return absl::OkStatus();
}

std::vector<ModelChart> result_charts(const nlohmann::json& model_summary) {
  const auto groups = model_summary.find(kCalibration);
  if (groups == model_summary.end()) return {};
  Series found{.label = "a part of the test", .points = {}};
  double end = 0;
  try {
    for (const nlohmann::json& group : *groups) {
      const auto predicted = group.at(kMeanPrediction).get<double>();
      const auto positive = group.at(kPositiveShare).get<double>();
      found.points.emplace_back(predicted, positive);
      end = std::max({end, predicted, positive});
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  if (found.points.empty()) return {};
  Series right{.label = "right predictions", .points = {{0, 0}, {end, end}}, .dashed = true};
  return {{.title = "Calibration",
           .curves = {.x_label = "mean prediction",
                      .y_label = "share of positives",
                      .series = {std::move(found), std::move(right)}},
           .note = "The test's examples in ten parts of about equal size, in the order of their predictions: "
                   "the share of positive ones that each part was predicted to have, and the one that it "
                   "has."}};
}

}  // namespace verbena::apps::ctr
