#include "apps/mf/mf.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "apps/data/generate_ratings.hpp"
#include "apps/data/ratings.hpp"
#include "apps/mf/trainer.hpp"
#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using verbena::testing::contents;

constexpr double kNoise = 0.3;

class MfTest : public JobTest {
 protected:
  MfTest() {
    GenerateRatingsOptions options{.users = 400, .items = 300, .ratings = 40'000, .rank = 3};
    options.noise = kNoise;
    options.skew = 0.5;
    const absl::Status status = generate_ratings(options, data());
    EXPECT_TRUE(status.ok()) << status;
  }

  [[nodiscard]] std::string data() const { return path("ratings"); }

  /// An application with --data and these options.
  [[nodiscard]] std::unique_ptr<Application> parsed(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--data", data()});
    return with_options(make_mf(), std::move(arguments));
  }
  const Parsed parsed_ = [this](std::vector<std::string> arguments) { return parsed(std::move(arguments)); };
  [[nodiscard]] double test_rmse(const std::vector<std::string>& arguments) const {
    const std::unique_ptr<Application> application = parsed(arguments);
    Recorder recorder;
    const absl::Status status = run_baseline(*application, recorder);
    EXPECT_TRUE(status.ok()) << status;
    return application->objectives(recorder.reports.back().sums).at("test_rmse");
  }
};

TEST_F(MfTest, RecoversPlantedFactors) {
  const double rmse =
      test_rmse({"--rank", "3", "--iterations", "60", "--learning-rate", "0.05", "--regularization", "0.02"});
  EXPECT_LT(rmse, 1.1 * kNoise);
  EXPECT_GT(rmse, 0.95 * kNoise) << "better than the noise allows: test ratings were trained on";
}

TEST_F(MfTest, DefaultsDoForARangeOfScales) {
  // The same ratings, a hundred times as large. They must give the same model, in other units.
  const double rmse = test_rmse({});
  std::ifstream in(data());
  std::ofstream out(path("scaled"));
  std::string user;
  std::string item;
  double value = 0;
  while (in >> user >> item >> value) out << user << '\t' << item << '\t' << 100 * value << '\n';
  out.close();
  std::filesystem::rename(path("scaled"), data());
  EXPECT_NEAR(test_rmse({}), 100 * rmse, rmse);
}

TEST_F(MfTest, ReportsEveryIterationAndEvaluatesWhenAsked) {
  Recorder recorder;
  expect_evaluations_when_due(parsed_, recorder, "test_rmse");
  EXPECT_NEAR(recorder.reports.at(0).items, 36'000, 500);
}

TEST_F(MfTest, ObjectivesAreRootMeanSquares) {
  const auto application = parsed({});
  const auto objectives = application->objectives(
      {{"test_squared_error", 18}, {"test_ratings", 2}, {"train_squared_error", 16}, {"train_ratings", 4}});
  EXPECT_EQ(objectives, (std::map<std::string, double>{{"test_rmse", 3}, {"train_rmse", 2}}));
  EXPECT_TRUE(application->objectives({}).empty());
  EXPECT_EQ(application->main_objective(), "test_rmse");
}

TEST_F(MfTest, WorksWithoutATest) {
  const auto application = parsed({"--test-fraction", "0", "--iterations", "2"});
  ASSERT_TRUE(application->check(1).ok());
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  EXPECT_EQ(application->main_objective(), "train_rmse");
  EXPECT_EQ(application->objectives(recorder.reports.back().sums).count("train_rmse"), 1U);
  EXPECT_EQ(application->objectives(recorder.reports.back().sums).count("test_rmse"), 0U);
}

/// The rows of a saved file, by id. Checks the header.
std::map<std::string, std::vector<double>> saved_rows(const std::string& path, double& mean) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(std::sscanf(line.c_str(), "# rating = %lf", &mean), 1) << line;
  std::getline(file, line);
  EXPECT_THAT(line, AnyOf("user\tbias\tfactor1\tfactor2", "item\tbias\tfactor1\tfactor2"));
  std::map<std::string, std::vector<double>> rows;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string id;
    fields >> id;
    for (double value = 0; fields >> value;) rows[id].push_back(value);
  }
  return rows;
}

TEST_F(MfTest, TheSavedModelPredictsAsReported) {
  const auto application = parsed({"--rank", "2", "--iterations", "5", "--output", path("model")});
  ASSERT_TRUE(application->check(1).ok());
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  double mean = 0;
  auto users = saved_rows(path("model.users.tsv"), mean);
  auto items = saved_rows(path("model.items.tsv"), mean);
  const Ratings ratings = *read_ratings({.path = data()});
  ASSERT_EQ(users.size(), ratings.user_names.size());
  ASSERT_EQ(items.size(), ratings.item_names.size());
  double sum = 0;
  for (const Rating& rating : ratings.test) {
    const std::vector<double>& user = users[ratings.user_names[rating.user]];
    const std::vector<double>& item = items[ratings.item_names[rating.item]];
    ASSERT_EQ(user.size(), 3U);
    ASSERT_EQ(item.size(), 3U);
    const double predicted = mean + user[0] + item[0] + user[1] * item[1] + user[2] * item[2];
    sum += std::pow(double{rating.value} - predicted, 2);
  }
  const double rmse = std::sqrt(sum / static_cast<double>(ratings.test.size()));
  EXPECT_NEAR(rmse, application->objectives(recorder.reports.back().sums).at("test_rmse"), 1e-5);
}

/// Trains a small model, and uses it as `verbena run mf --load` does.
TEST_F(MfTest, SavesArraysWhenAsked) {
  for (const std::string kind : {"npy", "safetensors"}) {
    const auto application =
        parsed({"--rank", "2", "--iterations", "1", "--output", path("arrays"), "--output-format", kind});
    ASSERT_TRUE(application->check(1).ok());
    Recorder recorder;
    ASSERT_TRUE(run_baseline(*application, recorder).ok());
  }
  EXPECT_EQ(std::filesystem::file_size(path("arrays.users.npy")), 128 + 400 * 2 * sizeof(float));
  EXPECT_TRUE(std::filesystem::exists(path("arrays.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(path("arrays.users.tsv")));
}

class MfUseTest : public MfTest {
 protected:
  MfUseTest() {
    EXPECT_TRUE(
        run_baseline(*parsed({"--rank", "2", "--iterations", "5", "--output", path("model")}), ignored_)
            .ok());
  }
  /// An application that uses the model. Without --data, unless the arguments have it.
  [[nodiscard]] std::unique_ptr<Application> using_model(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--load", path("model")});
    return with_options(make_mf(), std::move(arguments));
  }
  /// Checks and runs it.
  std::map<std::string, double> use(const std::vector<std::string>& arguments, Recorder& recorder) {
    const auto application = using_model(arguments);
    EXPECT_EQ(application->iterations(), 0);
    const absl::Status checked = application->check(1);
    EXPECT_TRUE(checked.ok()) << checked;
    const absl::Status status = run_baseline(*application, recorder);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(recorder.reports.size(), 1U);
    return application->objectives(recorder.reports.at(0).sums);
  }

 private:
  Recorder ignored_;
};

TEST_F(MfUseTest, PredictsEachRatingInItsOrder) {
  std::ofstream(data(), std::ios::app) << "stranger\t7\t2\n7\tnews\t3\n";
  Recorder recorder;
  const double rmse = use({"--data", data(), "--predict", path("predicted")}, recorder).at("test_rmse");
  double mean = 0;
  auto users = saved_rows(path("model.users.tsv"), mean);
  auto items = saved_rows(path("model.items.tsv"), mean);
  users["stranger"] = items["news"] = {0, 0, 0};
  std::ifstream ratings(data());
  std::ifstream predictions(path("predicted"));
  double squares = 0;
  int count = 0;
  std::string user;
  std::string item;
  for (double value = 0, predicted = 0; ratings >> user >> item >> value && predictions >> predicted;
       ++count) {
    const std::vector<double>& u = users.at(user);
    const std::vector<double>& i = items.at(item);
    ASSERT_NEAR(predicted, mean + u[0] + i[0] + u[1] * i[1] + u[2] * i[2], 1e-5);
    squares += std::pow(value - predicted, 2);
  }
  EXPECT_EQ(count, 40'002);
  EXPECT_FALSE(predictions >> user) << "more predictions than ratings";
  EXPECT_NEAR(rmse, std::sqrt(squares / count), 1e-6);
  EXPECT_EQ(recorder.summaries.at("test_ratings"), count);
}

TEST_F(MfUseTest, RecommendsTheBestItemsThatTheUserDoesNotHave) {
  Recorder recorder;
  use({"--data", data(), "--recommendations", path("all"), "--top-items", "3"}, recorder);
  EXPECT_THAT(recorder.lines, ::testing::IsEmpty());
  double mean = 0;
  const auto users = saved_rows(path("model.users.tsv"), mean);
  const auto items = saved_rows(path("model.items.tsv"), mean);
  std::map<std::string, std::set<std::string>> known;
  std::ifstream ratings(data());
  std::string user;
  std::string item;
  for (double value = 0; ratings >> user >> item >> value;) known[user].insert(item);
  std::map<std::string, std::vector<std::pair<double, std::string>>> recommended;
  std::ifstream lines(path("all"));
  for (double value = 0; lines >> user >> item >> value;) recommended[user].emplace_back(value, item);
  ASSERT_EQ(recommended.size(), users.size());
  for (const auto& [name, u] : users) {
    std::vector<double> others;
    for (const auto& [other, i] : items) {
      if (!known[name].contains(other)) others.push_back(mean + u[0] + i[0] + u[1] * i[1] + u[2] * i[2]);
    }
    std::sort(others.rbegin(), others.rend());
    const auto& found = recommended[name];
    ASSERT_EQ(found.size(), std::min<std::size_t>(others.size(), 3)) << name;
    for (std::size_t n = 0; n < found.size(); ++n) {
      EXPECT_NEAR(found[n].first, others[n], 1e-4);
      EXPECT_FALSE(known[name].contains(found[n].second)) << name << " has " << found[n].second;
    }
  }
  // For some users, it is also printed, and the file has them alone.
  Recorder some;
  use({"--data", data(), "--recommend", "7,12", "--recommendations", path("some"), "--top-items", "3"}, some);
  EXPECT_THAT(some.lines, ::testing::SizeIs(3)) << "and what stands there";
  const std::string best = recommended["12"][0].second;
  EXPECT_THAT(some.lines.at(2), ::testing::StartsWith(fmt::format("{:<12} {} ", 12, best)));
  EXPECT_EQ(some.summaries.at("recommendations").at("12").at(0), best);
  EXPECT_THAT(contents(path("all")), HasSubstr(contents(path("some")).substr(0, 20)));
  EXPECT_EQ(std::ranges::count(contents(path("some")), '\n'), 6);
}

TEST_F(MfUseTest, WorkersOfOtherRanksHaveNothingToDo) {
  const auto application = using_model({"--recommend", "7"});
  JobTest::train(*application, {.workers = 2});
  EXPECT_THAT(recorders_[0].lines, ::testing::SizeIs(2));
  EXPECT_THAT(recorders_[1].lines, ::testing::IsEmpty());
  EXPECT_EQ(recorders_[1].reports.at(0).iteration, 0);
}

TEST_F(MfUseTest, RefusesWhatDoesNothing) {
  const Parsed using_it = [&](std::vector<std::string> arguments) {
    return using_model(std::move(arguments));
  };
  expect_refusals(
      using_it,
      {{{}, "--load: expected --data, whose ratings are predicted, --recommend or --recommendations"},
       {{"--data", data(), "--rank", "2", "--iterations", "3"},
        "--iterations, --rank: expected only without --load, which trains nothing"},
       {{"--data", data(), "--no-biases"}, "--no-biases: expected only without --load"},
       {{"--data", data(), "--top-items", "3"},
        "--top-items: expected only with --recommend or --recommendations"},
       {{"--recommend", "7", "--top-items", "0"}, "--top-items: expected 1 or more, found 0"},
       {{"--recommend", "7", "--predict", path("p")}, "--predict: expected --data"},
       {{"--recommend", "7,nobody"},
        "--recommend: expected users of the model, separated by commas, found \"nobody\""},
       {{"--recommend", "7", "--data", path("none")}, path("none")},
       {{"--recommend", "7", "--recommendations", path("missing/file")}, path("missing")}});
  expect_refusals(parsed_, {{{"--recommend", "7"}, "--recommend: expected only with --load"},
                            {{"--predict", path("p")}, "--predict: expected only with --load"}});
  std::filesystem::remove(path("model.items.tsv"));
  EXPECT_THAT(std::string(using_model({"--recommend", "7"})->check(1).message()),
              HasSubstr("model.items.tsv"));
}

/// A user or item without a training rating has no factors and no bias, so only the mean and the other side's
/// bias predict its ratings. With workers this is the same as in the plain loop.
TEST_F(MfTest, NoFactorsAreMadeUpOfWhoIsNotTrained) {
  {
    std::ofstream file(data(), std::ios::app);
    for (int n = 0; n < 200; ++n) file << fmt::format("stranger{}\t{}\t1\n{}\tnews{}\t1\n", n, n, n, n);
  }
  const std::vector<std::string> arguments = {"--rank",          "2",   "--iterations", "5",
                                              "--test-fraction", "0.4", "--output",     path("model")};
  const Ratings ratings = *read_ratings({.path = data(), .test_fraction = 0.4});
  const auto is_untrained = [](std::uint64_t trained) { return trained == 0; };
  const auto untrained_users =
      std::count_if(ratings.user_train.begin(), ratings.user_train.end(), is_untrained);
  const auto untrained_items =
      std::count_if(ratings.item_train.begin(), ratings.item_train.end(), is_untrained);
  ASSERT_GT(untrained_users, 40);
  ASSERT_GT(untrained_items, 40);
  const auto check = [&](const Recorder& recorder) {
    EXPECT_EQ(recorder.summaries.at("untrained_users"), untrained_users);
    EXPECT_EQ(recorder.summaries.at("untrained_items"), untrained_items);
    EXPECT_THAT(recorder.lines, ::testing::Contains(HasSubstr("are in the test only")));
    double mean = 0;
    auto users = saved_rows(path("model.users.tsv"), mean);
    auto items = saved_rows(path("model.items.tsv"), mean);
    const std::vector<double> zeros(3);
    for (std::size_t user = 0; user < ratings.user_names.size(); ++user)
      EXPECT_EQ(users[ratings.user_names[user]] == zeros, ratings.user_train[user] == 0);
    for (std::size_t item = 0; item < ratings.item_names.size(); ++item)
      EXPECT_EQ(items[ratings.item_names[item]] == zeros, ratings.item_train[item] == 0);
  };
  const auto application = parsed(arguments);
  Recorder alone;
  ASSERT_TRUE(run_baseline(*application, alone).ok());
  check(alone);
  std::filesystem::remove(path("model.users.tsv"));
  std::filesystem::remove(path("model.items.tsv"));
  train(*application, {.workers = 3});
  check(recorders_[0]);
}

TEST_F(MfTest, TwoRunsGiveTheSameFiles) {
  const auto saved = [](const std::string& prefix) {
    return contents(prefix + ".users.tsv") + contents(prefix + ".items.tsv");
  };
  expect_runs_to_be_equal(parsed_, saved, 700U * 17 * 5);
}

TEST_F(MfTest, StopsWhenAskedAndWritesNothing) {
  expect_to_stop_without_files(parsed_);
}

TEST_F(MfTest, StopsAfterTheLastIterationToo) {
  expect_to_stop_without_files(parsed_, {"--iterations", "2"});
}

TEST_F(MfTest, SaysWhenItDiverges) {
  expect_to_say_that_it_diverges(*parsed({"--learning-rate", "20", "--regularization", "0", "--decay", "1"}));
}

TEST_F(MfTest, RefusesImpossibleOptions) {
  const Refusals refusals = {
      {{"--rank", "0"}, "--rank: expected 1 to 65535, found 0"},
      {{"--rank", "100000"}, "--rank: expected 1 to 65535"},
      {{"--iterations", "0"}, "--iterations: a whole number from 1 to "},
      {{"--learning-rate", "0"}, "--learning-rate: expected a number above 0, found 0"},
      {{"--learning-rate", "nan"}, "--learning-rate"},
      {{"--decay", "1.5"}, "--decay"},
      {{"--decay", "0"}, "--decay"},
      {{"--regularization", "-1"}, "--regularization"},
      {{"--regularization", "1000"}, "--regularization"},
      {{"--test-fraction", "1"}, "--test-fraction"},
      {{"--test-fraction", "-0.1"}, "--test-fraction"},
      {{"--test-fraction", "0.000001"}, "--test-fraction"},
      {{"--evaluate-every", "0"}, "--evaluate-every"},
      {{"--clocks-per-iteration", "-1"}, "--clocks-per-iteration: expected 0 to 100000, found -1"},
      {{"--clocks-per-iteration", "100001"}, "--clocks-per-iteration: expected 0 to 100000, found 100001"},
      {{"--allocation", "intent", "--lookahead", "2"},
       "--lookahead: expected 0 to 1 with --allocation intent"},
      {{"--clocks-per-iteration", "3", "--allocation", "localize"},
       "expected a block of items for each of the 4 workers, found 3"},
      {{"--allocation", "dynamic"}, "--allocation: expected auto, static, localize or intent, found dynamic"},
      {{"--batch", "0"}, "--batch: expected 1 to 1048576, found 0"},
      {{"--output", path("missing/model")}, path("missing")},
      {{"--output-format", "npy"}, "--output-format: expected only with --output"},
      {{"--output", path("model"), "--output-format", "pickle"},
       "--output-format: expected text, npy or safetensors, found pickle"},
  };
  expect_refusals(parsed_, refusals);
  EXPECT_TRUE(parsed({"--clocks-per-iteration", "1"})->check(4).ok());
  EXPECT_TRUE(parsed({"--clocks-per-iteration", "4", "--allocation", "localize"})->check(4).ok());
}

TEST_F(MfTest, SaysWhatItChooses) {
  const auto chosen = [&](const JobShape& shape, std::string_view option) {
    const std::unique_ptr<Application> application = parsed({});
    application->set_job_shape(shape);
    return application->chosen(option).value_or("nothing");
  };
  EXPECT_EQ(chosen({Sequential{}, 4, 2}, "allocation"), "localize");
  EXPECT_EQ(chosen({Sequential{}, 4, 2}, "lookahead"), "1");
  EXPECT_EQ(chosen({Sequential{}, 4, 1}, "lookahead"), "0") << "the next block is still another worker's";
  EXPECT_EQ(chosen({Bsp{}, 4, 2}, "lookahead"), "") << "nothing is asked for ahead";
  EXPECT_EQ(chosen({Sequential{}, 4, 2}, "clocks-per-iteration"), "12");
  EXPECT_EQ(chosen({Sequential{}, 4, 1}, "clocks-per-iteration"), "4");
  EXPECT_EQ(chosen({Ssp{.staleness = 2}, 4, 1}, "clocks-per-iteration"), "12");
  EXPECT_EQ(chosen({Bsp{}, 1, 1}, "clocks-per-iteration"), "1");
  EXPECT_EQ(chosen({Bsp{}, 4, 1}, "rank"), "nothing");
  EXPECT_EQ(parsed({})->chosen("clocks-per-iteration"), std::nullopt) << "no job is decided yet";
}

TEST_F(MfTest, RefusesToLookAheadForNothing) {
  const auto refusal = [&](std::vector<std::string> arguments, const JobShape& shape) {
    arguments.insert(arguments.end(), {"--lookahead", "1"});
    const std::unique_ptr<Application> application = parsed(arguments);
    application->set_job_shape(shape);
    return std::string(application->check_consistency(shape.consistency).message());
  };
  EXPECT_EQ(
      refusal({}, {Sequential{}, 4, 1}),
      "--lookahead: expected 0 with 4 blocks of items for 4 workers, of which none is free while one is "
      "trained, or --clocks-per-iteration 8 or more; found 1");
  EXPECT_EQ(refusal({"--clocks-per-iteration", "8"}, {Sequential{}, 4, 1}), "");
  EXPECT_EQ(refusal({}, {Sequential{}, 4, 2}), "");
  EXPECT_EQ(refusal({}, {Asp{}, 4, 1}), "") << "an intent is said ahead in any case";
  EXPECT_EQ(refusal({"--allocation", "static"}, {Sequential{}, 4, 1}), "") << "for mini-batches";
  EXPECT_EQ(refusal({}, {Bsp{}, 4, 2}),
            "--lookahead: expected 0 with --consistency bsp and --allocation static, where no rows are asked "
            "for ahead; found 1");
}

TEST_F(MfTest, SaysWhatIsLeftToIt) {
  const auto open = [&](const std::vector<std::string>& arguments) {
    const std::unique_ptr<Application> application = parsed(arguments);
    application->set_job_shape({Sequential{}, 4, 2});
    std::vector<std::string> names;
    for (const ChoiceOption& choice : application->choices()) {
      if (application->leaves_open(choice.option)) names.emplace_back(choice.option);
    }
    return names;
  };
  EXPECT_THAT(open({}), ElementsAre("allocation", "lookahead", "clocks-per-iteration"));
  EXPECT_THAT(open({"--allocation", "auto", "--clocks-per-iteration", "0"}),
              ElementsAre("allocation", "lookahead", "clocks-per-iteration"));
  EXPECT_THAT(open({"--allocation", "localize", "--clocks-per-iteration", "12", "--lookahead", "1"}),
              ElementsAre());
}

TEST_F(MfTest, RowsThatMoveNeedTheirModel) {
  expect_allocations_to_need_their_model(parsed_);
}

TEST_F(MfTest, RefusesBadData) {
  std::ofstream(data(), std::ios::app) << "1\t2\n";
  const absl::Status malformed = parsed({})->check(1);
  EXPECT_EQ(malformed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(malformed.message()), HasSubstr(data() + ":40001: expected"));
  std::filesystem::remove(data());
  EXPECT_EQ(parsed({})->check(1).code(), absl::StatusCode::kNotFound);
}

TEST_F(MfTest, GivenSplitsAreTrainedAndTestedAsTheyAre) {
  // The split that a run makes by itself, written into two files. They must give the same training.
  const Ratings whole = *read_ratings({.path = data()});
  const auto write = [&](const std::string& name, const std::vector<Rating>& ratings) {
    std::ofstream file(path(name));
    for (const Rating& one : ratings) {
      file << whole.user_names[one.user] << ' ' << whole.item_names[one.item] << ' ' << one.value << '\n';
    }
  };
  write("u1.base", whole.train);
  write("u1.test", whole.test);
  const auto split = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"--train-data", path("u1.base"), "--test-data", path("u1.test"), "--iterations", "20"});
    return with_options(make_mf(), more);
  };
  const auto application = split({});
  EXPECT_EQ(application->main_objective(), "test_rmse");
  const absl::Status status = application->check(1);
  ASSERT_TRUE(status.ok()) << status;
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  EXPECT_EQ(recorder.summaries.at("train_ratings"), whole.train.size());
  EXPECT_EQ(recorder.summaries.at("test_ratings"), whole.test.size());
  EXPECT_EQ(recorder.summaries.at("format"), "user, item, rating, separated by blanks");
  EXPECT_LT(application->objectives(recorder.reports.back().sums).at("test_rmse"), 1.5 * kNoise);

  EXPECT_THROW(split({"--data", data()}), CLI::ExcludesError);
  EXPECT_THROW(split({"--test-fraction", "0.1"}), CLI::ExcludesError);
  EXPECT_THROW(with_options(make_mf(), {"--train-data", data()}), CLI::RequiresError);
  EXPECT_THROW(with_options(make_mf(), {"--test-data", data()}), CLI::RequiresError);
  EXPECT_THAT(std::string(with_options(make_mf(), {})->check(1).message()),
              HasSubstr("--data: expected a file of ratings, or --train-data and --test-data"));
}

TEST_F(MfTest, RefusesMoreThanTheMemory) {
  std::ofstream file(data());
  for (int n = 0; n < 10'000; ++n) file << n << '\t' << n << "\t1\n";
  file.close();
  const absl::Status status = parsed({"--rank", "65535"})->check(4096);  // each worker has rows of its own
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a smaller --rank"));
}

/// Records the blocks that are announced, by the clock at which they are to begin, and the blocks that begin.
class ForeseenItems final : public mf::ItemStore {
 public:
  using Blocks = std::map<std::int64_t, std::pair<Key, Key>>;
  explicit ForeseenItems(mf::FactorRows& rows) : items_(rows) {}
  absl::Status block_begins(Upcoming upcoming) override {
    for (std::size_t ahead = 0; ahead < 8; ++ahead) {
      const UpcomingBlock block = upcoming(ahead);
      if (block.rows.size() == 0) continue;
      const std::pair<Key, Key> rows(block.rows.range().first, block.rows.range().last);
      if (ahead == 0) begun[clock_] = rows;
      const auto known = foreseen.try_emplace(clock_ + block.clocks, rows).first;
      EXPECT_EQ(known->second, rows);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<mf::Rows> read(std::uint32_t first, std::uint32_t last) override {
    return items_.read(first, last);
  }
  absl::StatusOr<mf::Rows> open(std::uint32_t first, std::uint32_t last) override {
    return items_.open(first, last);
  }
  absl::Status close(std::uint64_t trained) override { return items_.close(trained); }
  absl::Status clock() override {
    ++clock_;
    return absl::OkStatus();
  }
  absl::Status barrier() override { return clock(); }

  Blocks foreseen;
  Blocks begun;

 private:
  mf::LocalItems items_;
  std::int64_t clock_ = 100;
};

TEST_F(MfTest, ABlockBeginsWhenItWasSaidTo) {
  const mf::RowFormat format{3, true};
  const mf::TrainingOptions options{.iterations = 5, .evaluate_every = 2};
  Ratings ratings = *read_ratings({.path = data()});
  const mf::ItemLayout layout = mf::lay_out_items(ratings.item_train, 3);
  mf::FactorRows items(ratings.item_names.size(), format);
  mf::FactorRows users(ratings.user_names.size(), format);
  const mf::TileLimits limits{50, 40};
  const mf::TrainingData training{mf::sort_into_blocks(ratings.train, layout, users.size(), limits, 1),
                                  mf::sort_into_blocks(ratings.test, layout, users.size(), limits, 1), 0, 1};
  ForeseenItems store(items);
  Recorder recorder;
  ASSERT_TRUE(mf::Trainer(options, training, users, store, 1.0).run(recorder, recorder.stop).ok());
  EXPECT_EQ(store.begun.size(), 5U * 3);
  EXPECT_EQ(store.begun, store.foreseen);
}

/// Does what a server does under BSP, for workers that are threads: holds the updates of a clock back until
/// all workers have finished it, and then adds them in the order of the workers.
class BspItems {
 public:
  BspItems(mf::FactorRows& rows, std::uint32_t workers)
      : rows_(rows), updates_(workers), barrier_(workers, Apply{this}) {}

  class Worker final : public mf::ItemStore {
   public:
    Worker(BspItems& server, std::uint32_t rank)
        : server_(server), rank_(rank), local_(server.rows_.size(), server.rows_.format()) {}
    absl::StatusOr<mf::Rows> read(std::uint32_t first, std::uint32_t last) override {
      return open(first, last);
    }
    absl::StatusOr<mf::Rows> open(std::uint32_t first, std::uint32_t last) override {
      first_ = first;
      packed_.resize((last - first) * local_.format().width());
      server_.rows_.pack(packed_, first);
      local_.unpack(packed_);
      return local_.rows();
    }
    absl::Status close(std::uint64_t /*trained*/) override {
      local_.difference(packed_);
      server_.updates_[rank_].push_back({first_, packed_});
      return absl::OkStatus();
    }
    absl::Status clock() override { return barrier(); }
    absl::Status barrier() override {
      server_.barrier_.arrive_and_wait();
      return absl::OkStatus();
    }

   private:
    BspItems& server_;
    std::uint32_t rank_;
    mf::FactorRows local_;
    std::uint32_t first_ = 0;
    std::vector<float> packed_;
  };

 private:
  struct Update {
    std::uint32_t first;
    std::vector<float> values;
  };
  struct Apply {
    BspItems* server;
    void operator()() noexcept {
      for (std::vector<Update>& updates : server->updates_) {
        for (const Update& update : updates) {
          std::vector<float> rows(update.values.size());
          server->rows_.pack(rows, update.first);
          for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += update.values[i];
          server->rows_.unpack(rows, update.first);
        }
        updates.clear();
      }
    }
  };

  mf::FactorRows& rows_;
  std::vector<std::vector<Update>> updates_;
  std::barrier<Apply> barrier_;
};

class ParallelTest : public MfTest {
 protected:
  /// Trains with `workers` threads over BspItems. Returns the test RMSE; `final_items` gets the items' rows
  /// at the end.
  double train(std::uint32_t workers, std::vector<float>& final_items) {
    const mf::RowFormat format{3, true};
    const mf::TrainingOptions options{.iterations = 40, .learning_rate = 0.05, .regularization = 0.02};
    Ratings whole = *read_ratings({.path = data()});
    const mf::ItemLayout layout = mf::lay_out_items(whole.item_train, workers);
    mf::FactorRows items(whole.item_names.size(), format);
    for (std::uint32_t item = 0; item < items.size(); ++item) {
      std::vector<float> packed(format.width());
      mf::initial_row(format, 1, mf::Side::kItem, item, packed);
      items.unpack(packed, layout.row_of_item[item]);
    }
    BspItems server(items, workers);
    std::vector<Recorder> recorders(workers);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      threads.emplace_back([&, rank] {
        Ratings part = *read_ratings({.path = data(), .part = rank, .parts = workers});
        for (auto* ratings : {&part.train, &part.test}) {
          for (Rating& rating : *ratings) {
            rating.user /= workers;
            rating.value -= static_cast<float>(whole.train_mean);
          }
        }
        mf::FactorRows users((whole.user_names.size() + workers - 1) / workers, format);
        for (std::size_t row = 0; row < users.size(); ++row) {
          std::vector<float> packed(format.width());
          mf::initial_row(format, 1, mf::Side::kUser, row * workers + rank, packed);
          users.unpack(packed, row);
        }
        const mf::TileLimits limits{50, 40};
        const mf::TrainingData training{mf::sort_into_blocks(part.train, layout, users.size(), limits, 1),
                                        mf::sort_into_blocks(part.test, layout, users.size(), limits, 1),
                                        rank, workers};
        BspItems::Worker store(server, rank);
        EXPECT_TRUE(mf::Trainer(options, training, users, store, 1.0)
                        .run(recorders[rank], recorders[rank].stop)
                        .ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::map<std::string, double> sums;
    for (const Recorder& recorder : recorders) {
      for (const auto& [name, value] : recorder.reports.back().sums) sums[name] += value;
    }
    final_items.resize(items.size() * format.width());
    items.pack(final_items);
    return make_mf()->objectives(sums).at("test_rmse");
  }
};

TEST_F(ParallelTest, WorkersConvergeAsOneDoes) {
  std::vector<float> items;
  const double alone = train(1, items);
  EXPECT_LT(alone, 1.15 * kNoise);
  EXPECT_NEAR(train(2, items), alone, 0.01 * alone);
  EXPECT_NEAR(train(4, items), alone, 0.01 * alone);
}

TEST_F(ParallelTest, IsDeterministic) {
  std::vector<float> first;
  std::vector<float> second;
  EXPECT_EQ(train(3, first), train(3, second));
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace verbena::apps
