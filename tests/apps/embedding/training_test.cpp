#include "apps/embedding/training.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "apps/divergence.hpp"
#include "tests/apps/application_fixture.hpp"

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Records the calls that it gets.
class WrittenDown final : public RowStore {
 public:
  explicit WrittenDown(std::size_t lookahead) : lookahead_(lookahead) {}
  [[nodiscard]] std::size_t lookahead() const override { return lookahead_; }
  void request(std::span<const NeededRows> /*needed*/) override { calls.emplace_back("request"); }
  absl::StatusOr<std::span<const RowPointers>> open() override {
    calls.emplace_back("open");
    return std::span<const RowPointers>();
  }
  absl::Status close(std::uint64_t items) override {
    calls.push_back(fmt::format("close {}", items));
    return absl::OkStatus();
  }
  absl::Status clock() override {
    calls.emplace_back("clock");
    return absl::OkStatus();
  }
  absl::Status barrier() override {
    calls.emplace_back("barrier");
    std::this_thread::sleep_for(barrier_takes);
    return absl::OkStatus();
  }
  absl::Status read(std::size_t /*table*/, std::size_t /*numbers*/, float* /*to*/) override {
    return absl::OkStatus();
  }

  std::vector<std::string> calls;
  std::chrono::milliseconds barrier_takes{0};
  /// So many barriers ago a worker died whose place this one takes.
  int barriers_to_catch_up = 0;
  [[nodiscard]] bool is_catching_up() const override {
    return std::count(calls.begin(), calls.end(), "barrier") < barriers_to_catch_up;
  }

 private:
  std::size_t lookahead_;
};

class TrainingOfNothing final : public Training {
 public:
  TrainingOfNothing(const ScheduleOptions& options, std::size_t examples, RowStore& rows)
      : Training(options, examples, rows, {}), rows_(rows) {}

  std::vector<ExampleRange> trained;
  std::vector<double> passes;  ///< passes over the data before each prepared mini-batch
  std::size_t most_prepared = 0;
  std::vector<bool> evaluations;  ///< of each, whether it was the last one
  double loss = 1;
  std::chrono::milliseconds evaluation_takes{0};

 private:
  [[nodiscard]] std::string random_state() const override { return {}; }
  bool set_random_state(const std::string& /*text*/) override { return true; }
  void prepare(std::size_t slot, const Place& place) override {
    EXPECT_LT(slot, slots());
    EXPECT_TRUE(prepared_.emplace(slot, place.examples).second) << "slot " << slot << " is in use";
    most_prepared = std::max(most_prepared, prepared_.size());
    passes.push_back(place.passes);
    rows_.request({});
  }
  void train(std::size_t slot, std::span<const RowPointers> /*rows*/,
             std::map<std::string, double>& sums) override {
    const auto found = prepared_.find(slot);
    ASSERT_NE(found, prepared_.end());
    trained.push_back(found->second);
    prepared_.erase(found);
    sums[kLoss] += loss;
  }
  absl::Status evaluate(bool last, Reporter& /*reporter*/, const std::atomic<bool>& /*stop*/,
                        std::map<std::string, double>& /*sums*/) override {
    evaluations.push_back(last);
    std::this_thread::sleep_for(evaluation_takes);
    return absl::OkStatus();
  }

  RowStore& rows_;
  std::map<std::size_t, ExampleRange> prepared_;
};

TEST(TrainingTest, OneStepAfterTheOther) {
  WrittenDown rows(0);
  const ScheduleOptions options{.iterations = 1, .batch = 3, .clocks_per_iteration = 2};
  TrainingOfNothing training(options, 10, rows);
  Recorder recorder;
  ASSERT_TRUE(training.run(recorder, recorder.stop).ok());
  EXPECT_THAT(rows.calls, ElementsAre("request", "open", "close 3", "request", "open", "close 2", "clock",
                                      "request", "open", "close 3", "request", "open", "close 2", "clock"));
  EXPECT_EQ(recorder.reports[0].items, 10);
}

TEST(TrainingTest, TheNextMiniBatchIsRequestedWhileOneIsOpen) {
  WrittenDown rows(1);
  const ScheduleOptions options{.iterations = 1, .batch = 5};
  TrainingOfNothing training(options, 15, rows);
  Recorder recorder;
  ASSERT_TRUE(training.run(recorder, recorder.stop).ok());
  EXPECT_THAT(rows.calls, ElementsAre("request", "open", "request", "close 5", "open", "request", "close 5",
                                      "open", "close 5", "clock"));
}

TEST(TrainingTest, AsManyAsTheStoreLooksAheadAndEachOnce) {
  for (const std::size_t lookahead : {0U, 1U, 2U, 5U, 100U}) {
    WrittenDown rows(lookahead);
    const ScheduleOptions options{.iterations = 2, .batch = 4, .clocks_per_iteration = 3};
    TrainingOfNothing training(options, 51, rows);
    Recorder recorder;
    ASSERT_TRUE(training.run(recorder, recorder.stop).ok());
    EXPECT_LE(training.most_prepared, lookahead + 1);
    EXPECT_EQ(training.most_prepared, std::min<std::size_t>(lookahead + 1, 5))
        << "a clock has only 5 mini-batches";
    std::uint64_t next = 0;
    for (const ExampleRange& batch : training.trained) {
      EXPECT_EQ(batch.first, next);
      next = batch.last % 51;
    }
    EXPECT_EQ(next, 0U);
    EXPECT_EQ(training.trained.size(), 2U * 3 * 5);
    EXPECT_TRUE(std::is_sorted(training.passes.begin(), training.passes.end()));
    EXPECT_EQ(training.passes.front(), 0);
    EXPECT_NEAR(training.passes[15], 1, 1e-9) << "the first of the second pass";
    EXPECT_NEAR(training.passes.back(), 2, 0.05);
  }
}

TEST(TrainingTest, AWorkerWithoutExamplesKeepsTheClock) {
  WrittenDown rows(1);
  const ScheduleOptions options{.iterations = 2, .clocks_per_iteration = 2};
  TrainingOfNothing training(options, 0, rows);
  Recorder recorder;
  ASSERT_TRUE(training.run(recorder, recorder.stop).ok());
  EXPECT_THAT(rows.calls, ElementsAre("clock", "clock", "clock", "clock"));
}

TEST(TrainingTest, EvaluatesNowAndThenAndAtTheEnd) {
  WrittenDown rows(1);
  const ScheduleOptions options{.iterations = 5, .evaluate_every = 2};
  TrainingOfNothing training(options, 1, rows);
  Recorder recorder;
  ASSERT_TRUE(training.run(recorder, recorder.stop).ok());
  EXPECT_THAT(training.evaluations, ElementsAre(false, false, true));
}

TEST(TrainingTest, AnEvaluationIsNoPartOfAnIteration) {
  WrittenDown rows(1);
  const ScheduleOptions options{.iterations = 3, .evaluate_every = 1};
  TrainingOfNothing training(options, 1, rows);
  training.evaluation_takes = std::chrono::milliseconds(200);
  Recorder recorder;
  ASSERT_TRUE(training.run(recorder, recorder.stop).ok());
  ASSERT_EQ(recorder.reports.size(), 3U);
  for (const IterationReport& report : recorder.reports) EXPECT_LT(report.seconds, 0.2);
}

TEST(EvaluateTogetherTest, NobodyTrainsBeforeAllHaveEvaluated) {
  WrittenDown rows(1);
  const auto evaluate = [&] {
    rows.calls.emplace_back("evaluate");
    return absl::OkStatus();
  };
  ASSERT_TRUE(evaluate_together(rows, evaluate).ok());
  EXPECT_THAT(rows.calls, ElementsAre("barrier", "evaluate", "barrier"));
  // The worker before this one has died while it evaluated, after that, and later.
  const std::vector<std::vector<std::string>> expected = {
      {"barrier", "evaluate", "barrier"}, {"barrier", "barrier", "evaluate"}, {"barrier", "barrier"}};
  for (int barriers = 1; barriers <= 3; ++barriers) {
    rows.calls.clear();
    rows.barriers_to_catch_up = barriers;
    ASSERT_TRUE(evaluate_together(rows, evaluate).ok());
    EXPECT_EQ(rows.calls, expected[static_cast<std::size_t>(barriers - 1)]);
  }
}

TEST(TrainingTest, WorkersMeetNowAndThenButNotAtTheEnd) {
  WrittenDown rows(1);
  rows.barrier_takes = std::chrono::milliseconds(20);
  const ScheduleOptions options{.iterations = 4, .barrier_every = 2};
  TrainingOfNothing training(options, 0, rows);
  Recorder recorder;
  ASSERT_TRUE(training.run(recorder, recorder.stop).ok());
  EXPECT_THAT(rows.calls, ElementsAre("clock", "clock", "barrier", "clock", "clock"));
  EXPECT_GE(recorder.reports[1].seconds, 0.02) << "time at the barrier counts";
}

TEST(TrainingTest, EndsWhenItDivergesOrIsToStop) {
  WrittenDown rows(1);
  const ScheduleOptions options{.iterations = 5, .learning_rate = 7};
  TrainingOfNothing training(options, 1, rows);
  Recorder recorder;
  recorder.stop_after = 2;
  EXPECT_EQ(training.run(recorder, recorder.stop).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(training.trained.size(), 2U);
  recorder.stop = false;
  TrainingOfNothing diverges(options, 1, rows);
  diverges.loss = std::nan("");
  const absl::Status status = diverges.run(recorder, recorder.stop);
  EXPECT_TRUE(is_diverged(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("in iteration 1: lower --learning-rate (it is 7)"));
}

}  // namespace
}  // namespace verbena::apps
