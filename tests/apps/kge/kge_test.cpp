// kge as a plain loop, and as workers of a real job.
#include "apps/kge/kge.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using verbena::testing::contents;

constexpr int kEntities = 60;
constexpr int kIterations = 30;

/// A clock with 60 numbers and the relations "+1", "+2", "+5" and "-1": each number has each, and every tenth of
/// these facts is left to the valid and the test triples. They follow from the others.
class KgeTest : public JobTest {
 protected:
  KgeTest() {
    std::ofstream train(path("train.txt"));
    std::ofstream valid(path("valid.txt"));
    std::ofstream test(path("test.txt"));
    int number = 0;
    for (const int distance : {1, 2, 5, -1}) {
      for (int n = 0; n < kEntities; ++n, ++number) {
        std::ofstream& file = number % 20 == 7 ? valid : number % 20 == 17 ? test : train;
        file << fmt::format("n{}\t{:+}\tn{}\n", n, distance, (n + distance + kEntities) % kEntities);
      }
    }
  }

  /// An application that has parsed `arguments`, and for a small graph what they leave open.
  [[nodiscard]] std::unique_ptr<Application> parsed(std::vector<std::string> arguments) const {
    const std::vector<std::pair<std::string, std::string>> small = {
        {"--data", folder_.path().string()},
        {"--dimension", "32"},
        {"--iterations", std::to_string(kIterations)},
        {"--regularization", "0.05"},
        {"--clocks-per-iteration", "4"},
        {"--batch", "8"}};
    return with_options(make_kge(), std::move(arguments), small);
  }
  [[nodiscard]] std::map<std::string, double> objectives(const std::vector<std::string>& arguments) const {
    return train_alone(*parsed(arguments));
  }
  [[nodiscard]] std::string saved(const std::string& prefix) const {
    return contents(prefix + ".entities.tsv") + contents(prefix + ".relations.tsv");
  }
  /// Trains with some workers; what was saved.
  std::string train(const ConsistencyModel& model, std::uint32_t workers, const std::string& name,
                    ReadPath read_path = ReadPath::kAuto) {
    const auto application = parsed({"--output", path(name)});
    objectives_ =
        JobTest::train(*application, {.consistency = model, .workers = workers, .read_path = read_path});
    return saved(path(name));
  }

  std::map<std::string, double> objectives_;
};

TEST_F(KgeTest, LearnsWhatFollows) {
  EXPECT_GT(objectives({}).at("test_mrr"), 0.8);
  EXPECT_GT(objectives({"--loss", "logistic", "--regularization", "0.01"}).at("test_mrr"), 0.6);
  EXPECT_GT(objectives({"--share-negatives", "8"}).at("test_mrr"), 0.8);
  EXPECT_GT(objectives({"--model", "rescal", "--dimension", "20"}).at("test_mrr"), 0.6);
}

TEST_F(KgeTest, DistMultKnowsNoDirection) {
  // "+1" and "-1" are the same to it.
  EXPECT_LT(objectives({"--model", "distmult"}).at("test_mrr"), 0.8);
}

TEST_F(KgeTest, EvaluatesWhenAsked) {
  const auto application = parsed({"--iterations", "7", "--evaluate-every", "3"});
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  ASSERT_EQ(recorder.reports.size(), 7U);
  for (std::size_t n = 0; n < 7; ++n) {
    const auto found = application->objectives(recorder.reports[n].sums);
    EXPECT_EQ(recorder.reports[n].items, 216);
    EXPECT_EQ(found.count("train_loss"), 1U);
    EXPECT_EQ(found.count("valid_mrr"), n + 1 == 3 || n + 1 == 6 || n + 1 == 7 ? 1U : 0U) << n;
    EXPECT_EQ(found.count("test_mrr"), n + 1 == 7 ? 1U : 0U) << n;
  }
  EXPECT_EQ(objectives({"--iterations", "2"}).count("valid_mrr"), 0U);
}

TEST_F(KgeTest, ObjectivesAreMeansOverQuestions) {
  const auto found = parsed({})->objectives({{"loss", 6},
                                             {"questions", 3},
                                             {"test_reciprocal_ranks", 1},
                                             {"test_hits_at_1", 0},
                                             {"test_hits_at_3", 2},
                                             {"test_hits_at_10", 4},
                                             {"test_ranked_questions", 4}});
  EXPECT_EQ(found, (std::map<std::string, double>{{"train_loss", 2},
                                                  {"test_mrr", 0.25},
                                                  {"test_hits_at_1", 0},
                                                  {"test_hits_at_3", 0.5},
                                                  {"test_hits_at_10", 1}}));
}

TEST_F(KgeTest, GoesOnFromWhatWasSaved) {
  const double mrr = objectives({"--output", path("model")}).at("test_mrr");
  const std::vector<std::string> little = {"--iterations", "1", "--learning-rate", "1e-9"};
  EXPECT_LT(objectives(little).at("test_mrr"), 0.5 * mrr);
  std::vector<std::string> loaded = little;
  loaded.insert(loaded.end(), {"--load", path("model")});
  EXPECT_NEAR(objectives(loaded).at("test_mrr"), mrr, 1e-3);
  ASSERT_TRUE(parsed(loaded)->check(2).ok());
  loaded.insert(loaded.end(), {"--dimension", "30"});  // not that of the file
  EXPECT_THAT(std::string(parsed(loaded)->check(2).message()), HasSubstr("model.entities.tsv:1: expected"));
}

TEST_F(KgeTest, TwoRunsGiveTheSameFiles) {
  const auto save = [&](const std::string& name, const std::string& seed) {
    EXPECT_FALSE(objectives({"--iterations", "3", "--output", path(name), "--seed", seed}).empty());
    return saved(path(name));
  };
  const std::string first = save("a", "1");
  EXPECT_GT(first.size(), 60U * 32 * 5);
  EXPECT_TRUE(first == save("b", "1"));
  EXPECT_FALSE(first == save("c", "2"));
}

TEST_F(KgeTest, TwoWorkersUnderBspGiveTheSameFilesTwice) {
  const std::string first = train(Bsp{}, 2, "a");
  EXPECT_GT(first.size(), 60U * 32 * 5);
  EXPECT_EQ(objectives_.count("test_hits_at_10"), 1U);
  EXPECT_GT(objectives_.at("test_mrr"), 0.6);
  EXPECT_TRUE(first == train(Bsp{}, 2, "b"));
  // Rows that come later than they are asked for.
  EXPECT_TRUE(train(Bsp{}, 2, "c", ReadPath::kCached) == train(Bsp{}, 2, "d", ReadPath::kCached));
}

TEST_F(KgeTest, OneWorkerLearnsWhatThePlainLoopDoes) {
  const double alone = objectives({}).at("test_mrr");
  train(Bsp{}, 1, "worker");
  EXPECT_NEAR(objectives_.at("test_mrr"), alone, 0.1);
  EXPECT_GT(objectives_.at("test_mrr"), 0.7);
}

TEST_F(KgeTest, TrainsUnderEveryModel) {
  for (const ConsistencyModel& model :
       {ConsistencyModel(Ssp{.staleness = 1}), ConsistencyModel(Essp{.staleness = 1}),
        ConsistencyModel(ABsp{}), ConsistencyModel(Asp{}), ConsistencyModel(Sequential{})}) {
    train(model, 3, "model");
    EXPECT_GT(objectives_.at("test_mrr"), 0.3) << consistency::to_string(model);
  }
}

TEST_F(KgeTest, LearnsWithRowsThatMove) {
  // Of so few rows each mini-batch needs few, or all nodes want all rows all the time.
  for (const std::string lookahead : {"0", "1", "3"}) {
    const auto application = parsed({"--allocation", "localize", "--lookahead", lookahead, "--batch", "1",
                                     "--negatives", "1", "--iterations", "60"});
    ASSERT_TRUE(application->check_consistency(Sequential{}).ok());
    ASSERT_TRUE(application->check(3).ok());
    const auto found = JobTest::train(*application, {.consistency = Sequential{}, .workers = 3});
    EXPECT_GT(found.at("test_mrr"), 0.3) << lookahead;
    EXPECT_GT(statistics_[0].rows_localized + statistics_[2].rows_localized, 0U) << "they are of one node";
    EXPECT_GT(statistics_[1].rows_localized, 0U);
  }
  // Without others, rows come once.
  JobTest::train(*parsed({"--allocation", "localize"}), {.consistency = Sequential{}, .workers = 1});
  EXPECT_EQ(statistics_[0].rows_localized, 32U) << "of the second server: 30 entities and 2 relations";
}

TEST_F(KgeTest, LearnsWithIntents) {
  for (const std::string lookahead : {"0", "1", "6"}) {
    const auto application = parsed({"--allocation", "intent", "--lookahead", lookahead});
    ASSERT_TRUE(application->check_consistency(Asp{}).ok());
    ASSERT_TRUE(application->check(3).ok());
    const auto found = JobTest::train(*application, {.consistency = Asp{}, .workers = 3});
    EXPECT_GT(found.at("test_mrr"), 0.3) << lookahead;
  }
  // Without others, rows come once.
  JobTest::train(*parsed({"--allocation", "intent"}), {.consistency = Asp{}, .workers = 1});
  EXPECT_EQ(statistics_[0].rows_moved_by_intent, 32U) << "of the second server: 30 entities and 2 relations";
}

TEST_F(KgeTest, WrongAnswersMayBeNearOnes) {
  // What is near depends on the moment where several workers train; not for one, whose rows only ever come.
  const auto saved_with = [&](const std::string& share) {
    const auto application = parsed(
        {"--allocation", "localize", "--lookahead", "0", "--near-negatives", share, "--output", path(share)});
    EXPECT_TRUE(application->check(1).ok());
    EXPECT_GT(JobTest::train(*application, {.consistency = Sequential{}, .workers = 1}).at("test_mrr"), 0.3)
        << share;
    return saved(path(share));
  };
  const std::string with_none = saved_with("0");
  EXPECT_EQ(saved_with("0"), with_none) << "nothing else makes a difference";
  EXPECT_NE(saved_with("1"), with_none);
}

TEST_F(KgeTest, RowsMoveWhereTheModelLetsThem) {
  const auto error = [&](const std::vector<std::string>& arguments, const ConsistencyModel& model) {
    return std::string(parsed(arguments)->check_consistency(model).message());
  };
  EXPECT_EQ(error({}, Bsp{}), "");
  EXPECT_EQ(error({"--allocation", "localize"}, Bsp{}),
            "--allocation localize needs --consistency sequential, found bsp");
  EXPECT_EQ(error({"--allocation", "intent"}, Sequential{}),
            "--allocation intent needs --consistency asp, found sequential");
  EXPECT_EQ(error({"--allocation", "wander"}, Bsp{}),
            "--allocation: expected static, localize or intent, found wander");
}

TEST_F(KgeTest, EachWorkerTrainsItsRelations) {
  train(Bsp{}, 3, "model");
  double items = 0;
  for (const Recorder& recorder : recorders_) items += recorder.reports.front().items;
  EXPECT_EQ(items, 216);
}

TEST_F(KgeTest, StopsWhenAskedAndWritesNothing) {
  const auto application = parsed({"--output", path("model")});
  Recorder recorder;
  recorder.stop_after = 2;
  EXPECT_EQ(run_baseline(*application, recorder).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(recorder.reports.size(), 2U);
  EXPECT_FALSE(std::filesystem::exists(path("model.entities.tsv")));
}

TEST_F(KgeTest, SaysWhenItDiverges) {
  const auto application = parsed({"--learning-rate", "1e30", "--loss", "logistic"});
  Recorder recorder;
  const absl::Status status = run_baseline(*application, recorder);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lower --learning-rate"));
}

TEST_F(KgeTest, RefusesImpossibleOptions) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--model", "transe"}, "--model: expected complex, distmult or rescal, found transe"},
      {{"--loss", "hinge"}, "--loss: expected softmax or logistic, found hinge"},
      {{"--dimension", "0"}, "--dimension: expected 1 to 65535, found 0"},
      {{"--dimension", "31"}, "--dimension: expected an even number for complex, found 31"},
      {{"--model", "rescal", "--dimension", "2000"}, "--dimension: expected 1 to 1024, found 2000"},
      {{"--negatives", "0"}, "--negatives: expected 1 to 65535, found 0"},
      {{"--share-negatives", "0"}, "--share-negatives: expected 1 or more, found 0"},
      {{"--iterations", "0"}, "--iterations: expected 1 or more, found 0"},
      {{"--learning-rate", "nan"}, "--learning-rate: expected a number above 0"},
      {{"--regularization", "-1"}, "--regularization: expected 0 or more, found -1"},
      {{"--relation-regularization", "inf"}, "--relation-regularization: expected 0 or more, found inf"},
      {{"--batch", "0"}, "--batch: expected 1 to 65535, found 0"},
      {{"--clocks-per-iteration", "0"}, "--clocks-per-iteration: expected 1 or more, found 0"},
      {{"--evaluate-every", "-1"}, "--evaluate-every: expected 0 or more, found -1"},
      {{"--near-negatives", "1.5", "--allocation", "intent"}, "--near-negatives: expected 0 to 1, found 1.5"},
      {{"--near-negatives", "1"}, "--near-negatives needs rows that move"},
      {{"--lookahead", "2"}, "--lookahead: expected 0 to 1 with --allocation static, found 2"},
      {{"--lookahead", "-1", "--allocation", "localize"}, "--lookahead: expected 0 to 1000 with"},
      {{"--output", path("missing/model")}, path("missing")},
      {{"--load", path("missing")}, path("missing.entities.tsv")},
  };
  for (const auto& [arguments, expected] : cases) {
    const absl::Status status = parsed(arguments)->check(4);
    EXPECT_THAT(status.code(), AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound))
        << expected;
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
  }
  EXPECT_TRUE(parsed({"--model", "distmult", "--dimension", "31"})->check(4).ok());
}

}  // namespace
}  // namespace verbena::apps
