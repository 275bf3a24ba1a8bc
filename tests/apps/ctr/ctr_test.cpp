// ctr in the plain loop and with the workers of a real job.
#include "apps/ctr/ctr.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "apps/ctr/batches.hpp"
#include "apps/ctr/model_file.hpp"
#include "apps/ctr/options.hpp"
#include "apps/data/examples.hpp"
#include "apps/data/generate_clicks.hpp"
#include "apps/data/score_histogram.hpp"
#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::Contains;
using ::testing::MatchesRegex;
using ::testing::Not;
using verbena::testing::contents;

/// Few fields with strong weights and factors, so that few examples teach much.
GenerateClicksOptions clicks() {
  GenerateClicksOptions options;
  options.examples = 20'000;
  options.fields = 6;
  options.weights = 0.6;
  options.factors = 0.6;
  options.bias = -0.5;
  return options;
}

class CtrTest : public JobTest {
 protected:
  CtrTest() {
    const auto truth = generate_clicks(clicks(), data());
    EXPECT_TRUE(truth.ok()) << truth.status();
  }
  [[nodiscard]] std::string data() const { return path("clicks"); }
  [[nodiscard]] std::unique_ptr<Application> parsed(
      std::vector<std::string> arguments,
      const std::vector<std::pair<std::string, std::string>>& defaults = {}) const {
    arguments.insert(arguments.begin(), {"--data", data()});
    return with_options(make_ctr(), std::move(arguments), defaults);
  }
  const Parsed parsed_ = [this](std::vector<std::string> arguments) {
    return parsed(std::move(arguments), {{"--batch", "100"}});
  };
  [[nodiscard]] std::map<std::string, double> alone(const std::vector<std::string>& arguments) const {
    const std::unique_ptr<Application> application = parsed_(arguments);
    return train_alone(*application);
  }
};

TEST_F(CtrTest, FactorsFindWhatWeightsCannot) {
  const auto weights = alone({"--passes", "3"});
  const auto factors = alone({"--passes", "3", "--rank", "4", "--factor-rate", "0.1"});
  EXPECT_GT(weights.at("test_auc"), 0.6);
  EXPECT_GT(factors.at("test_auc"), weights.at("test_auc") + 0.02);
  EXPECT_LT(factors.at("test_log_loss"), weights.at("test_log_loss"));
}

TEST_F(CtrTest, ProgressiveLossIsThatOfExamplesNotLearntYet) {
  const std::unique_ptr<Application> application = parsed_({"--passes", "2"});
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  ASSERT_EQ(recorder.reports.size(), 20U);
  const auto loss = [&](std::size_t part) {
    return application->objectives(recorder.reports[part].sums).at("progressive_log_loss");
  };
  EXPECT_GT(loss(0), loss(9));
  EXPECT_LT(loss(10), loss(0)) << "the second pass knows the examples";
  // The test is made after each pass.
  for (std::size_t part = 0; part < 20; ++part) {
    EXPECT_EQ(application->objectives(recorder.reports[part].sums).count("test_auc"),
              part % 10 == 9 ? 1U : 0U);
  }
  double items = 0;
  for (std::size_t part = 0; part < 10; ++part) items += recorder.reports[part].items;
  EXPECT_EQ(items, recorder.summaries.at("train_examples").get<double>());
}

TEST_F(CtrTest, NothingIsKnownBeforeTheFirstStep) {
  const std::unique_ptr<Application> application = parsed({}, {{"--batch", "20000"}});
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  EXPECT_NEAR(application->objectives(recorder.reports.back().sums).at("progressive_log_loss"), std::log(2),
              1e-9);
}

TEST_F(CtrTest, NeedsSumsOfNobody) {
  const std::unique_ptr<Application> application = parsed_({});
  EXPECT_TRUE(application->check_consistency(Bsp{}).ok());
  EXPECT_EQ(application->check_consistency(Vap{.value_bound = 1}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CtrTest, L1MakesWeightsZero) {
  const auto nonzero = [&](const std::string& l1) {
    const std::unique_ptr<Application> application = parsed_({"--l1", l1});
    Recorder recorder;
    EXPECT_TRUE(run_baseline(*application, recorder).ok());
    return recorder.summaries.at("nonzero_weights").get<double>();
  };
  EXPECT_LT(nonzero("3"), nonzero("0") / 4);
}

TEST_F(CtrTest, RunsAreEqual) {
  const auto saved = [&](const std::string& seed) {
    std::ignore = alone({"--rank", "2", "--seed", seed, "--output", path("model")});
    return contents(path("model"));
  };
  const std::string first = saved("5");
  EXPECT_GT(first.size(), 1000U);
  EXPECT_EQ(saved("5"), first);
  EXPECT_NE(saved("6"), first);
}

TEST_F(CtrTest, StopsWithoutFiles) {
  expect_to_stop_without_files(parsed_, {"--test-data", data(), "--predict", path("predictions")});
  EXPECT_FALSE(std::filesystem::exists(path("predictions")));
}

/// The test of a run, and what its saved model does with the same examples, in double precision.
TEST_F(CtrTest, LoadedModelPredictsTheSame) {
  const std::string later = path("later");
  auto other = clicks();
  other.days = 2;
  ASSERT_TRUE(generate_clicks(other, later).ok());
  const auto trained = alone({"--rank", "2", "--passes", "2", "--factor-deviation", "0.5", "--test-data",
                              later + ".2", "--output", path("model"), "--predict", path("predicted")});
  const std::unique_ptr<Application> application =
      with_options(make_ctr(), {"--data", later + ".2", "--load", path("model"), "--predict", path("again")});
  ASSERT_TRUE(application->check(1).ok());
  EXPECT_EQ(application->iterations(), 0);
  const auto loaded = train_alone(*application);
  EXPECT_NEAR(loaded.at("test_log_loss"), trained.at("test_log_loss"), 1e-4);
  EXPECT_NEAR(loaded.at("test_auc"), trained.at("test_auc"), 1e-4);
  const std::string predicted = contents(path("predicted"));
  EXPECT_EQ(std::count(predicted.begin(), predicted.end(), '\n'), 10'000);
  EXPECT_EQ(contents(path("again")), predicted);
  train(*application, {.workers = 3});
  EXPECT_EQ(contents(path("again")), predicted);
}

/// Of examples with only one label there is none, and that is said.
TEST_F(CtrTest, SaysWhyThereIsNoAuc) {
  std::ignore = alone({"--output", path("model")});
  const auto lines = [&](const std::vector<std::string>& arguments) {
    Recorder recorder;
    const auto application = with_options(make_ctr(), arguments);
    EXPECT_TRUE(run_baseline(*application, recorder).ok());
    const bool is_said = std::any_of(recorder.lines.begin(), recorder.lines.end(),
                                     [](const std::string& line) { return line.starts_with("no AUC"); });
    EXPECT_NE(application->objectives(recorder.reports.back().sums).contains("test_auc"), is_said);
    return recorder.lines;
  };
  std::ofstream(path("positive")) << "1 0:1:1\n1 0:2:1\n";
  std::ofstream(path("other")) << "0 0:1:1\n";
  const std::string loaded = path("model");
  EXPECT_THAT(lines({"--data", path("positive"), "--load", loaded}),
              Contains("no AUC, since each example of the test is positive"));
  EXPECT_THAT(lines({"--data", path("other"), "--load", loaded}),
              Contains("no AUC, since no example of the test is positive"));
  EXPECT_THAT(lines({"--data", data(), "--test-data", path("other")}),
              Contains("no AUC, since no example of the test is positive"));
  std::ignore = lines({"--data", data(), "--load", loaded});
  std::ignore = lines({"--data", data()});
}

/// As the summary says it, with the line on which predictions are right. What is no calibration is not drawn.
TEST_F(CtrTest, CalibrationIsDrawn) {
  const std::unique_ptr<Application> application = parsed_({});
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  const std::vector<ModelChart> charts = application->charts(recorder.summaries);
  ASSERT_EQ(charts.size(), 1U);
  ASSERT_EQ(charts[0].curves.series.size(), 2U);
  std::vector<std::pair<double, double>> expected;
  double most = 0;
  for (const nlohmann::json& group : recorder.summaries.at("calibration")) {
    expected.emplace_back(group.at("mean_prediction"), group.at("positive_share"));
    most = std::max({most, expected.back().first, expected.back().second});
  }
  EXPECT_GT(expected.size(), 5U);
  EXPECT_TRUE(std::is_sorted(expected.begin(), expected.end()));
  EXPECT_EQ(charts[0].curves.series[0].points, expected);
  const std::vector<std::pair<double, double>> diagonal = {{0, 0}, {most, most}};
  EXPECT_EQ(charts[0].curves.series[1].points, diagonal);

  const auto summary_with = [](const nlohmann::json& calibration) {
    return nlohmann::json{{"calibration", calibration}};
  };
  for (const char* const other :
       {"null", "7", "\"x\"", "[]", "[7]", "[{}]", R"([{"mean_prediction": 1, "positive_share": null}])"})
    EXPECT_TRUE(application->charts(summary_with(nlohmann::json::parse(other))).empty()) << other;
  EXPECT_TRUE(application->charts(nlohmann::json::object()).empty()) << "there was no test";
}

TEST_F(CtrTest, RefusesWhatItCannotDo) {
  std::ofstream(path("of rank 1")) << "# verbena ctr: rank 1\n0:1\t1\t2\n";
  std::ofstream(path("one label")) << "1 0:1:1\n1 0:2:1\n";
  expect_refusals(
      parsed_,
      {{{"--test-fraction", "1"}, "--test-fraction: expected"},
       {{"--batch", "-1"}, "--batch: expected 0 to 1048576, found -1"},
       {{"--passes", "-1"}, "--passes: expected 0 to"},
       {{"--solver", "newton"}, "--solver: expected ftrl or block"},
       {{"--solver", "block", "--rank", "2"}, "--rank: --solver block"},
       {{"--storage", "disk"}, "--storage: expected memory or files, found disk"},
       {{"--solver", "block", "--storage", "files"}, "--storage: expected memory with --solver"},
       {{"--solver", "block", "--filter", "int8"}, "--filter: --solver block"},
       {{"--blocks", "-1"}, "--blocks: expected 0 to"},
       {{"--kkt", "-1"}, "--kkt: expected 0 to"},
       {{"--rank", "-1"}, "--rank: expected 0 to"},
       {{"--alpha", "0"}, "--alpha: expected more than 0"},
       {{"--l1", "-1"}, "--l1: expected 0 to"},
       {{"--format", "csv"}, "libffm"},
       {{"--format", "libsvm"}, "clicks:1: expected"},
       {{"--test-data", path("none")}, "none"},
       {{"--predict", path("p")}, "--predict: expected"},
       {{"--rank", "2", "--factor-deviation", "1e39"}, "--factor-deviation: expected 0 to"},
       {{"--start", path("none")}, "none"},
       {{"--start", path("of rank 1"), "--rank", "2"}, "of rank 1: a model of rank 1, expected 2"},
       {{"--filter", "some"}, "expected none, significant"},
       {{"--eviction", "some"}, "expected never, age"},
       {{"--solver", "block", "--eviction", "age"}, "--eviction: --solver block"},
       {{"--eviction", "lru(most_mb=0.0001)"},
        "--eviction: expected most_mb to be 1 or more, or nearly no feature gets a weight, found lru("},
       {{"--eviction", "age(most_mb=1e-9)"}, "--eviction: expected most_mb to be 1 or more"},
       {{"--encoding", "zip"}, "expected auto, records or packed"},
       {{"--test-every", "0"}, "--test-every: expected 1 or more"},
       {{"--admission", "sometimes"}, "expected always, count(least=NUMBER) or probability(p=NUMBER)"},
       {{"--admission", "probability(p=2)"}, "expected 0 to 1, found 2"},
       {{"--solver", "block", "--admission", "always"}, "--admission: --solver block"},
       {{"--min-count", "0"}, "--min-count: expected 1 to 255, found 0"},
       {{"--factor-min-count", "256"}, "--factor-min-count: expected 1 to 255"}});
  expect_refusals(
      [this](std::vector<std::string> arguments) { return parsed(std::move(arguments)); },
      {{{"--load", path("none")}, "none"},
       {{"--load", path("m"), "--test-data", data()}, "--test-data: expected only without --load"}});
  const auto application = with_options(make_ctr(), {"--data", path("one label")});
  EXPECT_THAT(std::string(application->check(1).message()),
              ::testing::HasSubstr("expected examples of both labels to be trained, found"));
}

/// Where hardly any example is left to be trained, the error says where the others have gone.
TEST_F(CtrTest, SaysWhichExamplesAreForTheTest) {
  std::ofstream(path("two labels")) << "1 0:1:1\n0 0:2:1\n";
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--data", path("two labels")});
    return std::string(with_options(make_ctr(), arguments)->check(1).message());
  };
  const std::string expected =
      path("two labels") + ": expected examples of both labels to be trained, found ";
  EXPECT_EQ(error({"--test-fraction", "0.999999"}),
            expected + "0 positive and 0 others; --test-fraction 0.999999 has taken 2 for the test");
  std::ofstream(path("two labels")) << "1 0:1:1\n1 0:2:1\n";
  EXPECT_EQ(error({"--test-fraction", "0"}), expected + "2 positive and 0 others");
  EXPECT_EQ(error({"--test-data", data()}), expected + "2 positive and 0 others");
}

/// All that do nothing for the same reason are named at once.
TEST_F(CtrTest, RefusesOptionsThatWouldDoNothing) {
  expect_refusals(
      parsed_,
      {{{"--solver", "block", "--alpha", "0.1"}, "--alpha: expected only with --solver ftrl"},
       {{"--solver", "block", "--beta", "2", "--alpha", "1"}, "--alpha, --beta: expected only with --solver"},
       {{"--solver", "block", "--l2", "1"}, "--l2: --solver block"},
       {{"--solver", "block", "--factor-rate", "1"}, "--factor-rate: expected only with a --rank above 0"},
       {{"--admission", "always", "--min-count", "1", "--rank", "2", "--factor-min-count", "2"},
        "--factor-min-count, --min-count: expected only without --admission"},
       {{"--kkt", "10"}, "--kkt: expected only with --solver block"},
       {{"--blocks", "3", "--tolerance", "0"}, "--blocks, --tolerance: expected only with --solver block"},
       {{"--factor-deviation", "1"}, "--factor-deviation: expected only with a --rank above 0"},
       {{"--factor-min-count", "2"}, "--factor-min-count: expected only with a --rank above 0"},
       {{"--factor-regularization", "0"}, "--factor-regularization: expected only with a --rank above 0"},
       {{"--test-data", data(), "--test-fraction", "0.1"},
        "--test-fraction: expected only without --test-data"},
       {{"--test-fraction", "0", "--test-every", "2"}, "--test-every: expected only with a test"},
       {{"--load", path("m"), "--output", path("o")}, "--batch, --output: expected only without --load"},
       {{"--load", path("m"), "--solver", "block", "--rank", "8"},
        "--batch, --rank, --solver: expected only without --load"},
       {{"--load", path("m"), "--test-data", data()}, "--batch, --test-data: expected only without --load"},
       {{"--format", "svm"}, "--format: expected a format of examples"},
       {{"--load", path("m"), "--start", path("o"), "--seed", "1"},
        "--batch, --seed, --start: expected only without --load"}});
  EXPECT_TRUE(check_options(parsed_, {"--solver", "block", "--kkt", "3", "--rank", "0"}, 1).ok());
  EXPECT_TRUE(check_options(parsed_, {"--rank", "2", "--factor-rate", "0.1", "--alpha", "1"}, 1).ok());
  EXPECT_TRUE(check_options(parsed_, {"--test-data", data(), "--test-every", "2"}, 1).ok());
  EXPECT_TRUE(check_options(parsed_, {"--test-data", data(), "--test-fraction", "0"}, 1).ok());
}

/// Whatever it is, also the usual one: labels say what is positive.
TEST_F(CtrTest, OnlyRatingsHaveAUseForPositive) {
  const std::string only =
      "--positive: expected only with a table of ratings, whose examples have no labels; ";
  expect_refusals(parsed_, {{{"--positive", "4"}, only + data() + " is LIBFFM"}});
  const absl::Status loaded =
      with_options(make_ctr(), {"--data", data(), "--positive", "1", "--load", path("model")})->check(1);
  EXPECT_EQ(std::string(loaded.message()), only + data() + " is LIBFFM");
  std::ofstream ratings(path("ratings"));
  for (int i = 0; i < 100; ++i) ratings << i % 10 << "\t" << i % 7 << "\t" << 1 + i % 5 << "\t1\n";
  ratings.close();
  const auto checked = with_options(make_ctr(), {"--data", path("ratings"), "--positive", "3"})->check(1);
  EXPECT_TRUE(checked.ok()) << checked;
}

/// The plain loop has no such things, and no others are refused.
TEST_F(CtrTest, RefusesWhatThePlainLoopHasNot) {
  const auto error = [&](const std::vector<std::string>& arguments) {
    return std::string(parsed_(arguments)->check_baseline().message());
  };
  EXPECT_EQ(error({"--filter", "int8"}),
            "--filter: expected none with --baseline, which has no other, found int8");
  EXPECT_EQ(error({"--eviction", "age"}),
            "--eviction: expected never with --baseline, which has no other, found age");
  EXPECT_EQ(error({"--encoding", "packed"}),
            "--encoding: expected auto with --baseline, which has no other, found packed");
  EXPECT_EQ(error({"--filter", "none", "--min-count", "2"}), "");
}

/// The keys of one format mean nothing in another.
TEST_F(CtrTest, FilesOfDifferentFormatsAreRefused) {
  const std::string libsvm = path("libsvm");
  std::ofstream(libsvm) << "1 1:1\n0 2:1\n";
  const std::string data_first = libsvm + ":1: expected LIBFFM, as in " + data() + ", found LIBSVM";
  const auto arguments = [&](std::vector<std::string> files) {
    return [files](std::vector<std::string> more) {
      more.insert(more.begin(), files.begin(), files.end());
      return with_options(make_ctr(), std::move(more));
    };
  };
  expect_refusals(arguments({"--data", data(), libsvm}), {{{}, data_first}});
  expect_refusals(arguments({"--data", data(), "--test-data", libsvm}), {{{}, data_first}});
  expect_refusals(arguments({"--data", data(), "--test-data", data(), libsvm}), {{{}, data_first}});
  expect_refusals(arguments({"--data", libsvm, "--test-data", data()}),
                  {{{}, data() + ":1: expected LIBSVM, as in " + libsvm + ", found LIBFFM"},
                   {{"--format", "libsvm"}, data() + ":1: expected index:value"},
                   {{"--format", "libffm"}, libsvm + ":1: expected field:index:value"}});
}

/// Training goes on where it ended; the plain loop and workers alike.
TEST_F(CtrTest, StartsFromASavedModel) {
  const std::string model = path("model");
  const std::vector<std::string> shape = {"--rank", "2", "--factor-min-count", "1", "--alpha", "0.01"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), shape.begin(), shape.end());
    return more;
  };
  const auto once = alone(with({"--output", model}));
  const auto first_loss = [&](const std::vector<std::string>& arguments, const Job* job) {
    const auto application = parsed_(arguments);
    if (job != nullptr) {
      train(*application, *job);
      // What all workers have seen.
      std::map<std::string, double> sums;
      for (const Recorder& recorder : recorders_) {
        for (const auto& [name, value] : recorder.reports[0].sums) sums[name] += value;
      }
      return application->objectives(sums).at("progressive_log_loss");
    }
    Recorder recorder;
    EXPECT_TRUE(run_baseline(*application, recorder).ok());
    return application->objectives(recorder.reports[0].sums).at("progressive_log_loss");
  };
  const double fresh = first_loss(shape, nullptr);
  const double resumed = first_loss(with({"--start", model}), nullptr);
  EXPECT_LT(resumed, fresh - 0.02);
  EXPECT_LT(alone(with({"--start", model})).at("test_log_loss"), once.at("test_log_loss"));
  for (const ConsistencyModel& consistency : {ConsistencyModel(Bsp{}), ConsistencyModel(Ssp{1})}) {
    const Job job{.consistency = consistency, .workers = 3};
    EXPECT_NEAR(first_loss(with({"--start", model}), &job), resumed, 0.01);
  }
}

/// What is kept back is sent in the end, also without a test.
TEST_F(CtrTest, FiltersKeepGradientsBack) {
  const auto model_with = [&](const std::string& filter, const std::string& test_fraction) {
    const auto application =
        parsed_({"--filter", filter, "--test-fraction", test_fraction, "--output", path("model")});
    train(*application, {.consistency = Bsp{}, .workers = 2});
    return contents(path("model"));
  };
  const std::string all = model_with("none", "0.2");
  EXPECT_EQ(model_with("significant(least=0)", "0.2"), all);
  EXPECT_NE(model_with("significant(least=3)", "0.2"), all);
  const std::string at_the_end = model_with("significant(least=1e9)", "0");
  EXPECT_GT(std::count(at_the_end.begin(), at_the_end.end(), '\n'),
            std::count(all.begin(), all.end(), '\n') / 2);
}

/// What eviction has cost is said in one line for each table.
TEST_F(CtrTest, SaysHowManyRowsHaveGone) {
  const auto lines_with = [&](const std::string& eviction) {
    const auto application =
        parsed_({"--eviction", eviction, "--rank", "8", "--factor-min-count", "1", "--test-fraction", "0"});
    train(*application, {.consistency = Bsp{}});
    return recorders_[0].lines;
  };
  const auto rows = [](const std::string& then) {
    return Contains(MatchesRegex("ctr.factors: [0-9]+ rows are left" + then));
  };
  EXPECT_THAT(lines_with("age(clocks=20)"), rows(", [0-9]+ or more have gone"));
  EXPECT_THAT(lines_with("age(most_mb=1)"),
              rows("; [0-9]+ gradients were dropped, since there was no room for a row of their key"));
  EXPECT_THAT(lines_with("age(most_mb=1000)"), Not(rows(".*")));
}

/// An encoding changes nothing; several passes without a test between them need no barrier.
TEST_F(CtrTest, GradientsTravelInFewBytes) {
  const auto model_with = [&](const std::string& encoding, const std::string& test_every) {
    const auto application = parsed_({"--encoding", encoding, "--passes", "3", "--filter", "int8", "--rank",
                                      "2", "--test-every", test_every, "--output", path("model")});
    train(*application, {.consistency = Bsp{}, .workers = 2});
    return contents(path("model"));
  };
  const std::string records = model_with("records", "1");
  EXPECT_EQ(model_with("packed", "1"), records);
  EXPECT_EQ(model_with("packed(lists=1000000)", "1"), records);
  EXPECT_NE(model_with("packed", "3"), records) << "what is kept back travels later";
}

/// What `file` costs: the log loss of all examples and l1 · |w| of all weights, and how far the weights are
/// from the least of it: the largest difference of a derivative from what it would be there.
struct Cost {
  double objective = 0;
  double distance = 0;
};
Cost cost_of(const std::string& file, const std::string& examples, double l1) {
  auto model = ctr::TrainedModel::load(file);
  EXPECT_TRUE(model.ok()) << model.status();
  Cost cost;
  std::map<Key, double> gradients;
  const auto read = read_examples({.paths = {examples}}, [&](const Example& example) {
    const double score = model->score(example);
    cost.objective += logistic_loss(score, example.is_positive);
    const double slope = logistic(score) - (example.is_positive ? 1 : 0);
    gradients[ctr::kBias] += slope;
    for (const Feature& feature : example.features)
      gradients[feature.key] += slope * static_cast<double>(feature.value);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read.status();
  std::map<Key, double> weights;
  model->for_each(
      [&](Key key, float weight, std::span<const float>) { weights[key] = static_cast<double>(weight); });
  for (const auto& [key, gradient] : gradients) {
    const double weight = weights[key];
    cost.objective += l1 * std::abs(weight);
    const double beyond =
        weight == 0 ? std::max(std::abs(gradient) - l1, 0.0) : std::abs(gradient + std::copysign(l1, weight));
    cost.distance = std::max(cost.distance, beyond);
  }
  return cost;
}

/// The block solver finds the least, with and without the filter, and with any number of workers and blocks.
TEST_F(CtrTest, BlocksFindTheLeastObjective) {
  const auto arguments = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--solver", "block", "--l1", "5", "--test-fraction", "0", "--tolerance", "1e-7",
                             "--passes", "1000", "--output", path("model")});
    return more;
  };
  const double least = alone(arguments({"--kkt", "0"})).at("objective");
  const Cost cost = cost_of(path("model"), data(), 5);
  EXPECT_NEAR(cost.objective, least, 1e-5 * least) << "single precision is saved";
  EXPECT_LT(cost.distance, 1) << "that of the bias is 10,000 at first";
  for (const std::string blocks : {"0", "1", "3"}) {
    const auto filtered = alone(arguments({"--blocks", blocks}));
    EXPECT_NEAR(filtered.at("objective"), least, 5e-5 * least) << blocks << " blocks";
  }
  std::vector<std::pair<ConsistencyModel, std::uint32_t>> jobs = {
      {BoundedDelay{2}, 3}, {Bsp{}, 3}, {Ssp{1}, 2}, {Essp{1}, 1}};
#ifdef VERBENA_SANITIZED
  jobs.resize(1);
#endif
  for (const auto& [consistency, workers] : jobs) {
    const std::unique_ptr<Application> application = parsed_(arguments({}));
    EXPECT_TRUE(application->check_consistency(consistency).ok());
    const auto trained = train(*application, {.consistency = consistency, .workers = workers});
    EXPECT_NEAR(trained.at("objective"), least, 5e-5 * least) << to_string(consistency);
  }
}

TEST_F(CtrTest, SaysWhatWasLeftToIt) {
  const std::unique_ptr<Application> streamed = parsed_({});
  EXPECT_EQ(streamed->chosen("passes"), "1");
  EXPECT_EQ(streamed->chosen("l1"), "0");
  EXPECT_EQ(streamed->chosen("alpha"), std::nullopt);
  const std::unique_ptr<Application> blocks = parsed_({"--solver", "block"});
  EXPECT_EQ(streamed->chosen("kkt"), "") << "it does nothing";
  EXPECT_EQ(blocks->chosen("kkt"), std::nullopt);
  EXPECT_EQ(blocks->chosen("alpha"), "");
  EXPECT_EQ(blocks->chosen("passes"), "100");
  EXPECT_EQ(blocks->chosen("l1"), "1");
  EXPECT_EQ(parsed_({"--solver", "block", "--l1", "3"})->chosen("l1"), "3");
  EXPECT_FALSE(check_options(parsed_, {"--solver", "block", "--l1", "0"}, 1).ok());
}

TEST_F(CtrTest, BlocksLeaveMostKeysOut) {
  const std::unique_ptr<Application> application =
      parsed_({"--solver", "block", "--l1", "20", "--passes", "5", "--test-fraction", "0.1"});
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  EXPECT_EQ(recorder.summaries.at("blocks").get<int>(), 7);
  const auto last = application->objectives(recorder.reports.back().sums);
  EXPECT_GT(last.at("test_auc"), 0.6);
  EXPECT_LT(application->objectives(recorder.reports[3].sums).at("share_of_keys_active"), 0.5);
  EXPECT_EQ(last.at("share_of_keys_active"), 1) << "in the last pass all are looked at";
  EXPECT_EQ(application->objectives(recorder.reports[0].sums).at("share_of_keys_pushed"), 1);
  EXPECT_LT(last.at("share_of_keys_pushed"), 0.7) << "of all passes";
  EXPECT_FALSE(application->check_consistency(Asp{}).ok());
  EXPECT_FALSE(application->check_consistency(Sequential{}).ok());
}

/// Training goes on from a saved model, and is at its end at once.
TEST_F(CtrTest, BlocksStartFromASavedModel) {
  const std::vector<std::string> shape = {"--solver", "block", "--l1", "2", "--test-fraction", "0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), shape.begin(), shape.end());
    return more;
  };
  const double least = alone(with({"--output", path("model")})).at("objective");
  const auto application = parsed_(with({"--start", path("model"), "--passes", "1"}));
  EXPECT_NEAR(train(*application, {.consistency = Bsp{}, .workers = 2}).at("objective"), least, 1e-4 * least);
  EXPECT_NEAR(alone(with({"--start", path("model"), "--passes", "1"})).at("objective"), least, 1e-4 * least);
}

/// Some workers have nothing to set, and no feature has factors.
TEST_F(CtrTest, StartsFromASmallModel) {
  std::ofstream(path("small")) << "# verbena ctr: rank 2\n0:1\t1\t0\t0\n";
  const auto application = parsed_({"--rank", "2", "--start", path("small")});
  EXPECT_GT(train(*application, {.consistency = Bsp{}, .workers = 3}).at("test_auc"), 0.6);
  EXPECT_GT(alone({"--rank", "2", "--start", path("small")}).at("test_auc"), 0.6);
}

/// Features that came too seldom have no weight, and others no factors.
TEST_F(CtrTest, RareFeaturesGetNoRows) {
  const auto lines_of = [&](const std::vector<std::string>& counts) {
    std::vector<std::string> arguments = {"--rank", "2", "--output", path("model")};
    arguments.insert(arguments.end(), counts.begin(), counts.end());
    std::ignore = alone(arguments);
    const std::string model = contents(path("model"));
    const auto without_factors = [&] {
      std::size_t count = 0;
      for (std::size_t at = 0; (at = model.find("\t0\t0\n", at)) != std::string::npos; ++at) ++count;
      return count;
    };
    return std::pair(std::count(model.begin(), model.end(), '\n'), without_factors());
  };
  const auto all = lines_of({"--factor-min-count", "1"});
  const auto with_factors_of_some = lines_of({"--factor-min-count", "20"});
  const auto some = lines_of({"--min-count", "3", "--factor-min-count", "3"});
  EXPECT_EQ(with_factors_of_some.first, all.first);
  EXPECT_LE(all.second, 1U) << "the bias";
  EXPECT_GT(with_factors_of_some.second, 10U);
  EXPECT_LT(some.first, all.first);
}

/// By chance, the same in the plain loop and with a worker: weights, and with them the factors.
TEST_F(CtrTest, FeaturesGetRowsByAdmission) {
  const auto model_with = [&](const std::vector<std::string>& admission, bool in_tables) {
    // A second pass begins at a clock that tells how many barriers there were.
    std::vector<std::string> arguments = {"--rank", "2", "--passes", "2", "--output", path("model")};
    arguments.insert(arguments.end(), admission.begin(), admission.end());
    const std::unique_ptr<Application> application = parsed_(arguments);
    if (in_tables) {
      train(*application, {.consistency = Bsp{}});
    } else {
      train_alone(*application);
    }
    return contents(path("model"));
  };
  const auto features = [](const std::string& model) {
    return static_cast<double>(std::count(model.begin(), model.end(), '\n'));
  };
  const std::string always = model_with({"--admission", "always"}, false);
  const std::string some = model_with({"--admission", "probability(p=0.1)"}, false);
  EXPECT_EQ(model_with({"--admission", "probability(p=0.1)"}, true), some);
  EXPECT_LT(features(some), features(always) / 2);
  EXPECT_GT(features(some), features(always) / 20);
  EXPECT_EQ(model_with({"--admission", "count(least=3)"}, false),
            model_with({"--min-count", "3", "--factor-min-count", "3"}, false));
}

TEST_F(CtrTest, SaysThatItDiverges) {
  // Labels that a weight of any size predicts better, with values that make each step enormous.
  std::ofstream file(path("huge"));
  for (int i = 0; i < 1000; ++i) file << (i % 2 == 0 ? "1 1:3e38 2:3e38\n" : "0 1:-3e38 2:3e38\n");
  file.close();
  const auto application =
      with_options(make_ctr(), {"--data", path("huge"), "--alpha", "1e20", "--batch", "10"});
  Recorder recorder;
  const absl::Status status = run_baseline(*application, recorder);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
}

// ---- with workers

TEST_F(CtrTest, OneWorkerIsThePlainLoopUnderBsp) {
  const std::vector<std::string> arguments = {"--rank", "2", "--output", path("model")};
  const auto plain = alone(arguments);
  const std::string saved = contents(path("model"));
  const std::unique_ptr<Application> application = parsed_(arguments);
  const auto trained = train(*application, {.consistency = Bsp{}});
  EXPECT_EQ(contents(path("model")), saved);
  EXPECT_EQ(trained, plain);
}

/// Workers have different numbers of mini-batches. Each example is trained and tested once a pass, and what
/// they have counted together is what the saved model does.
TEST_F(CtrTest, WorkersShareTheExamples) {
  const auto application = parsed_(
      {"--batch", "700", "--passes", "2", "--rank", "2", "--test-data", data(), "--output", path("model")});
  const auto trained = train(*application, {.consistency = Bsp{}, .workers = 3});
  double first_pass = 0;
  for (std::size_t part = 1; part <= 10; ++part) first_pass += items(part);
  EXPECT_EQ(first_pass, 20'000);
  double tested = 0;
  for (const Recorder& recorder : recorders_) tested += recorder.reports.back().sums.at("test_examples");
  EXPECT_EQ(tested, 20'000);
  double calibrated = 0;
  for (const auto& group : recorders_[0].summaries.at("calibration"))
    calibrated += group.at("examples").get<double>();
  EXPECT_EQ(calibrated, 20'000);
  const auto loaded = train_alone(*with_options(make_ctr(), {"--data", data(), "--load", path("model")}));
  EXPECT_NEAR(loaded.at("test_auc"), trained.at("test_auc"), 1e-4);
  EXPECT_NEAR(loaded.at("test_log_loss"), trained.at("test_log_loss"), 1e-4);
}

/// The generated examples in Vowpal Wabbit's format. The first file has just ones, the second, which is
/// packed, values and weights that are not 1 in its last quarter.
std::vector<std::string> in_two_files(const std::string& generated, const std::string& path) {
  std::istringstream lines(generated);
  std::vector<std::string> examples;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string label;
    words >> label;
    std::string example = label == "1" ? "1" : "-1";
    const bool is_late = examples.size() > 15'000;
    if (is_late && examples.size() % 3 == 0) example += " 0.5";
    example += " |f";
    for (std::string feature; words >> feature;) {
      example += ' ' + feature.substr(0, feature.rfind(':'));
      std::replace(example.end() - static_cast<std::ptrdiff_t>(feature.rfind(':')), example.end(), ':', '_');
      if (is_late && examples.size() % 5 == 0) example += ":1.5";
    }
    examples.push_back(example + '\n');
  }
  std::ofstream first(path + ".vw");
  gzFile second = gzopen((path + ".vw.gz").c_str(), "wb");
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (i < examples.size() / 2) first << examples[i];
    if (i >= examples.size() / 2) gzputs(second, examples[i].c_str());
  }
  gzclose(second);
  return {path + ".vw", path + ".vw.gz"};
}

/// Bit for bit, in the plain loop and with workers of which one has fewer mini-batches, whether the examples
/// of the test are in the same files or in others.
TEST_F(CtrTest, ExamplesInFilesTrainTheSame) {
  const std::vector<std::string> files = in_two_files(contents(data()), path("clicks"));
  constexpr std::uint32_t kPlainLoop = 0;
  struct Trained {
    std::string model;
    std::vector<double> items;  ///< of all workers' iterations
    std::vector<std::map<std::string, double>> sums;
    bool operator==(const Trained&) const = default;
  };
  const auto trained = [&](const std::string& storage, const std::vector<std::string>& test,
                           std::uint32_t workers) {
    const std::string model = path("model in " + storage);
    std::filesystem::remove(model);
    std::vector<std::string> arguments = {"--data",  files[0],   files[1], "--storage", storage,
                                          "--batch", "700",      "--rank", "2",         "--passes",
                                          "2",       "--output", model};
    arguments.insert(arguments.end(), test.begin(), test.end());
    const auto application = with_options(make_ctr(), arguments);
    if (workers == kPlainLoop) {
      recorders_ = std::vector<Recorder>(1);
      EXPECT_TRUE(run_baseline(*application, recorders_[0]).ok());
    } else {
      train(*application, {.consistency = Bsp{}, .workers = workers});
    }
    Trained all{.model = contents(model)};
    for (const Recorder& recorder : recorders_) {
      for (const IterationReport& report : recorder.reports) {
        all.items.push_back(report.items);
        all.sums.push_back(report.sums);
      }
    }
    return all;
  };
  const std::vector<std::vector<std::string>> tests = {{"--test-fraction", "0.2"}, {"--test-data", files[1]}};
  for (const std::vector<std::string>& test : tests) {
    for (const std::uint32_t workers : {kPlainLoop, 3U}) {
      const Trained in_memory = trained("memory", test, workers);
      EXPECT_GT(in_memory.model.size(), 1000U);
      EXPECT_TRUE(trained("files", test, workers) == in_memory) << test[0] << ", " << workers << " workers";
    }
  }
}

/// By many examples or by one: workers would have different numbers of mini-batches, or train something else.
TEST_F(CtrTest, AFileThatChangesDuringTrainingIsAnError) {
  const std::string text = contents(data());
  const std::string line = text.substr(0, text.find('\n') + 1);
  const std::string changing = path("changing");
  for (const std::string& other : {text + text, text + line, text.substr(line.size())}) {
    std::ofstream(changing) << text;
    const auto application =
        with_options(make_ctr(), {"--data", changing, "--storage", "files", "--passes", "2"});
    Recorder recorder;
    recorder.after_iteration = [&](std::int64_t iteration) {
      if (iteration == 10) std::ofstream(changing) << other;  // the pass has been read
    };
    const absl::Status status = run_baseline(*application, recorder);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(
        std::string(status.message()),
        ::testing::AllOf(::testing::HasSubstr(changing), ::testing::HasSubstr("as before the training")));
  }
}

/// Such as on hosts with different files: they would wait for each other.
TEST_F(CtrTest, WorkersWithDifferentExamplesAreTold) {
  const std::string text = contents(data());
  const auto all = [&](const std::string& name, const std::string& content) {
    std::ofstream(path(name)) << content;
    return with_options(make_ctr(), {"--data", path(name)});
  };
  const auto one = all("one", text);
  const auto other = all("other", text.substr(text.find('\n') + 1));
  const auto result =
      verbena::testing::run_cluster({.servers = 1, .workers = 2}, [&](Session& session) -> absl::Status {
        Recorder recorder;
        const std::atomic<bool> stop = false;
        TrainingWatch watch;
        Checkpoints none;
        WorkerContext context{.session = session,
                              .consistency = Ssp{1},
                              .reporter = recorder,
                              .stop = stop,
                              .watch = watch,
                              .checkpoints = none};
        return (session.rank() == 0 ? one : other)->run_worker(context);
      });
  EXPECT_THAT(verbena::testing::message_of(result.first_error()),
              ::testing::HasSubstr("all need the same files"));
}

TEST_F(CtrTest, TheSameBitsHoweverRowsAreRead) {
  expect_the_same_bits_however_read(
      [&](std::vector<std::string> arguments) {
        return parsed(std::move(arguments), {{"--batch", "500"}, {"--rank", "2"}});
      },
      contents);
}

TEST(BatchForTest, APassHasEnoughClocks) {
  EXPECT_EQ(ctr::kBatchSize.of(0, 1), 10U);
  EXPECT_EQ(ctr::kBatchSize.of(15'000, 1), 50U);
  EXPECT_EQ(ctr::kBatchSize.of(15'000, 2), 25U);
  EXPECT_EQ(ctr::kBatchSize.of(15'000, 64), 10U);
  EXPECT_EQ(ctr::kBatchSize.of(299'999, 1), 999U);
  EXPECT_EQ(ctr::kBatchSize.of(300'000, 1), 1'000U);
  EXPECT_EQ(ctr::kBatchSize.of(100'000'000, 1), 1'000U);
  for (const std::uint32_t workers : {1U, 2U, 7U}) {
    const std::uint64_t enough = ctr::kBatchSize.examples_that_decide(workers);
    EXPECT_EQ(ctr::kBatchSize.of(enough, workers), 1'000U) << workers;
    EXPECT_EQ(ctr::kBatchSize.of(enough - workers, workers), 999U) << workers;
  }
}

/// Counted in the files, or before they are read.
TEST_F(CtrTest, TheDataDecidesTheMiniBatchesUnlessTheyAreSaid) {
  const auto batch = [&](const std::vector<std::string>& more, std::uint32_t workers) {
    const auto application = parsed(more);
    train(*application, {.consistency = Ssp{1}, .workers = workers});
    const Recorder& first = recorders_[0];
    const auto clocks = first.summaries.at("train_examples").get<double>() /
                        first.summaries.at("batch").get<double>() / workers;
    EXPECT_GE(clocks, 300);
    return first.summaries.at("batch");
  };
  EXPECT_EQ(batch({"--test-fraction", "0"}, 1), 66);
  EXPECT_EQ(batch({"--test-fraction", "0"}, 2), 33);
  EXPECT_EQ(batch({"--test-fraction", "0", "--storage", "files"}, 2), 33);
  EXPECT_EQ(batch({"--test-data", data()}, 2), 33) << "those of the test do not count";
  EXPECT_EQ(batch({"--test-fraction", "0", "--batch", "60"}, 1), 60);
}

TEST_F(CtrTest, SaysWhatMiniBatchesItHas) {
  EXPECT_EQ(parsed({})->chosen("batch"), std::nullopt) << "not before the data is read";
  EXPECT_EQ(parsed({"--batch", "0"})->chosen("batch"), std::nullopt);
  EXPECT_TRUE(parsed({"--batch", "0"})->leaves_open("batch"));
  EXPECT_FALSE(parsed({"--batch", "7"})->leaves_open("batch"));
  EXPECT_EQ(parsed({"--solver", "block"})->chosen("batch"), "1000") << "dealt";
  const auto resumed = parsed({});
  for (const char* wrong : {"many", "0", "-1", "2000000"}) {
    ASSERT_TRUE(resumed->goes_on_from({{"--batch", wrong}}).ok());
    EXPECT_EQ(resumed->chosen("batch"), std::nullopt) << wrong;
  }
  ASSERT_TRUE(resumed->goes_on_from({{"--batch", "70"}}).ok());
  EXPECT_EQ(resumed->chosen("batch"), "70");
  train(*resumed, {.consistency = Bsp{}, .workers = 2, .checkpoints = {.folder = path("saved"), .every = 5}});
  EXPECT_EQ(recorders_[0].summaries.at("batch"), 70);
  EXPECT_EQ(newest_checkpoint(path("saved"))->notes.at("--batch"), "70");
  EXPECT_FALSE(resumed->may_change_on_resume("batch"));
}

TEST_F(CtrTest, TheSameBitsWhenResumed) {
  // A pass has ten iterations: so one ends within the first pass, and one at its end.
  for (const std::int64_t stop_after : {3, 8}) {
    expect_the_same_bits_when_resumed(
        [&](std::vector<std::string> arguments) {
          return parsed(std::move(arguments), {{"--batch", "500"}, {"--rank", "2"}, {"--passes", "2"}});
        },
        contents, {}, stop_after);
  }
}

TEST_F(CtrTest, TheSameBitsInTwoHalves) {
  expect_the_same_bits_in_two_halves(
      [&](std::vector<std::string> arguments) {
        return parsed(std::move(arguments), {{"--batch", "500"}, {"--rank", "2"}});
      },
      contents, {"--passes", "1"}, {"--passes", "2"});
}

TEST_F(CtrTest, TheSameBitsWhenResumedInBlocks) {
  expect_the_same_bits_when_resumed(
      [&](std::vector<std::string> arguments) {
        return parsed(std::move(arguments), {{"--solver", "block"}, {"--tolerance", "0"}, {"--passes", "8"}});
      },
      contents, {}, 2);
}

TEST_F(CtrTest, LearnsUnderEveryModel) {
  expect_to_learn_under_every_model(parsed_, "test_auc", 0.6);
}

TEST_F(CtrTest, IdleWorkersChangeLittle) {
  expect_idle_workers_to_change_little(
      [&](std::vector<std::string> arguments) {
        return with_options(
            make_ctr(), std::move(arguments),
            {{"--data", data()}, {"--batch", "20000"}, {"--passes", "5"}, {"--test-fraction", "0"}});
      },
      "progressive_log_loss", 0.05);
}

}  // namespace
}  // namespace verbena::apps
