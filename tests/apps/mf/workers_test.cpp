// mf with the workers of a real job.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "apps/data/generate_ratings.hpp"
#include "apps/mf/mf.hpp"
#include "base/word_copy.hpp"
#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

constexpr double kRatings = 40'000;
constexpr int kIterations = 20;

class MfWorkersTest : public JobTest {
 protected:
  MfWorkersTest() {
    const GenerateRatingsOptions options{.users = 400, .items = 300, .ratings = 40'000, .rank = 3};
    const absl::Status status = generate_ratings(options, folder_.path("ratings"));
    EXPECT_TRUE(status.ok()) << status;
  }

  /// Trains, and returns what was saved.
  std::string train(const ConsistencyModel& model, std::uint32_t workers,
                    const std::vector<std::string>& more = {}, ReadPath read_path = ReadPath::kAuto) {
    const std::string prefix = folder_.path(to_string(model));
    std::vector<std::string> arguments = {"--data",       folder_.path("ratings"),     "--rank",   "3",
                                          "--iterations", std::to_string(kIterations), "--output", prefix};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto application = with_options(make_mf(), arguments);
    objectives_ = JobTest::train(
        *application, {.consistency = model, .workers = workers, .read_path = read_path, .slow = slow_});
    return testing::contents(prefix + ".users.tsv") + testing::contents(prefix + ".items.tsv");
  }

  std::vector<SlowRule> slow_;
  std::map<std::string, double> objectives_;
};

TEST_F(MfWorkersTest, AloneABspIsBsp) {
  const std::string bsp = train(Bsp{}, 1);
  EXPECT_GT(bsp.size(), 1000U);
  EXPECT_EQ(train(ABsp{}, 1), bsp);
}

TEST_F(MfWorkersTest, TheSameBitsHoweverRowsAreRead) {
  const auto saved = [](const std::string& prefix) {
    return testing::contents(prefix + ".users.tsv") + testing::contents(prefix + ".items.tsv");
  };
  // Either each worker pulls and pushes a block of its own in each clock, or several workers share one block,
  // and their updates are added.
  for (const char* blocks : {"0", "1"}) {
    const Parsed parsed = [&](std::vector<std::string> arguments) {
      return with_options(make_mf(), std::move(arguments),
                          {{"--data", folder_.path("ratings")},
                           {"--rank", "3"},
                           {"--iterations", "3"},
                           {"--learning-rate", "0.01"},
                           {"--clocks-per-iteration", blocks}});
    };
    expect_the_same_bits_however_read(parsed, saved);
  }
}

TEST_F(MfWorkersTest, TheSameBitsWhenResumed) {
  const auto saved = [](const std::string& prefix) {
    return testing::contents(prefix + ".users.tsv") + testing::contents(prefix + ".items.tsv");
  };
  const Parsed parsed = [&](std::vector<std::string> arguments) {
    return with_options(make_mf(), std::move(arguments),
                        {{"--data", folder_.path("ratings")}, {"--rank", "3"}, {"--iterations", "8"}});
  };
  expect_the_same_bits_when_resumed(parsed, saved, {}, 2);
  expect_the_same_bits_in_two_halves(parsed, saved, {"--iterations", "3"}, {"--iterations", "6"});
}

TEST_F(MfWorkersTest, GoesOnUnderEveryModel) {
  const auto parsed = [&](const std::string& allocation) {
    return with_options(make_mf(), {"--data", folder_.path("ratings"), "--rank", "3", "--iterations", "20",
                                    "--allocation", allocation});
  };
  for (const auto& [allocation, model] : {std::pair<const char*, ConsistencyModel>("static", Ssp{1}),
                                          {"static", ABsp{}},
                                          {"static", Sequential{}},
                                          {"localize", Sequential{}},
                                          {"intent", Asp{}}}) {
    SCOPED_TRACE(std::string(allocation) + " " + to_string(model));
    const auto application = parsed(allocation);
    const double whole = JobTest::train(*application, {.consistency = model, .workers = 3}).at("test_rmse");
    const auto found = stop_and_resume(*application, {.consistency = model, .workers = 3}, 3);
    EXPECT_NEAR(found.at("test_rmse"), whole, 0.1 * whole);
  }
}

TEST_F(MfWorkersTest, IdleWorkersChangeLittle) {
  std::ofstream file(folder_.path("one user"));
  for (int item = 0; item < 200; ++item) file << fmt::format("user\titem{}\t{}\n", item, item * 7 % 5);
  file.close();
  const Parsed parsed = [&](std::vector<std::string> arguments) {
    return with_options(make_mf(), std::move(arguments),
                        {{"--data", folder_.path("one user")}, {"--rank", "3"}, {"--iterations", "10"}});
  };
  // With more workers, blocks of items are trained in another order.
  expect_idle_workers_to_change_little(parsed, "train_rmse", 0.05);
}

TEST_F(MfWorkersTest, TrainsThoughIterationsEndEarly) {
  train(Bsp{}, 3);
  const double bsp = objectives_.at("test_rmse");
  for (std::size_t iteration = 1; iteration <= kIterations; ++iteration)
    EXPECT_NEAR(items(iteration), 0.9 * kRatings, 500) << "all ratings but the test ratings";
  train(ABsp{}, 3);
  for (const Recorder& recorder : recorders_) {
    for (const IterationReport& report : recorder.reports) EXPECT_GT(report.items, 0);
  }
  // However late a worker is, it trains at least one mini-batch of each of its blocks.
  EXPECT_LT(objectives_.at("test_rmse"), 1.5 * bsp);
}

std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar("\t\n "))) {
    double number = 0;
    if (absl::SimpleAtod(word, &number)) numbers.push_back(number);
  }
  return numbers;
}

/// One worker at a time trains a block, and always in the same order. So the result does not depend on
/// whether rows move; except that those that stay are added to, which rounds.
TEST_F(MfWorkersTest, BlocksThatMoveAreTrainedAsThoseThatStay) {
  const std::vector<std::string> localize = {"--allocation", "localize", "--evaluate-every", "10"};
#ifdef VERBENA_SANITIZED
  constexpr std::array kBlocks = {"9"};
#else
  constexpr std::array kBlocks = {"3", "7", "9", "12"};
#endif
  for (const std::string blocks : kBlocks) {
    SCOPED_TRACE(blocks + " blocks");
    const std::string stayed = train(Bsp{}, 3, {"--clocks-per-iteration", blocks, "--evaluate-every", "10"});
    EXPECT_GT(stayed.size(), 1000U);
    std::vector<std::string> arguments = localize;
    arguments.insert(arguments.end(), {"--clocks-per-iteration", blocks});
    slow_ = {};
    const std::string moved = train(Sequential{}, 3, arguments);
    EXPECT_THAT(numbers_in(moved), Pointwise(DoubleNear(1e-3), numbers_in(stayed)));
    // The pauses reveal a worker that begins too early or waits too little.
    slow_ = {{.worker = 1, .pause = std::chrono::milliseconds(1), .every = 2}};
    EXPECT_EQ(train(Sequential{}, 3, arguments), moved);
    EXPECT_EQ(train(Sequential{}, 3, arguments, ReadPath::kCached), moved);
    if (blocks != "9") continue;
    EXPECT_EQ(train(Sequential{}, 3, localize), moved) << "9 blocks are the default";
  }
}

TEST_F(MfWorkersTest, RowsAreTrainedWhereTheyHaveMovedTo) {
  constexpr std::uint64_t kItems = 300;
  constexpr std::uint32_t kWorkers = 2;
  train(Sequential{}, kWorkers,
        {"--allocation", "localize", "--evaluate-every", std::to_string(kIterations)});
  std::uint64_t moves = 0;
  for (const SessionStatistics& statistics : statistics_) {
    // Each worker has trained every block in each iteration. Half of the rows begin on its node. For the
    // evaluation and for saving, about half are read from the other node.
    EXPECT_GE(statistics.rows_pulled_locally, kIterations * kItems);
    EXPECT_LE(statistics.rows_pulled_remotely, 4 * kItems);
    EXPECT_GE(statistics.rows_pushed_locally, kIterations * kItems);
    EXPECT_LE(statistics.rows_pushed_remotely, kItems);
    moves += statistics.rows_localized;
    // One for each localize() that brought a block.
    std::uint64_t counted = 0;
    for (const std::uint64_t count : statistics.move_times.counts) counted += count;
    EXPECT_GE(counted, kIterations * 3U);
    EXPECT_LE(counted, kIterations * 6U);
  }
  // Each block goes back and forth between the two workers. Only at the very first it may be there already.
  EXPECT_GE(moves, (kWorkers * kIterations - 1) * kItems - kItems);
  EXPECT_LE(moves, kWorkers * kIterations * kItems);
}

TEST_F(MfWorkersTest, BlocksThatAreSaidBeforehandAreNearInTime) {
  train(Bsp{}, 2);
  const double bsp = objectives_.at("test_rmse");
  train(Asp{}, 2, {"--allocation", "intent", "--evaluate-every", std::to_string(kIterations)});
  EXPECT_NEAR(objectives_.at("test_rmse"), bsp, 0.05 * bsp);
  for (const SessionStatistics& statistics : statistics_) {
    const std::uint64_t near = statistics.rows_pulled_locally + statistics.rows_pulled_from_replicas;
    EXPECT_GT(statistics.rows_moved_by_intent, 0U);
    EXPECT_GT(near, 5 * statistics.rows_pulled_remotely);
  }
}

/// Rows that are here are trained, and not added to: the model has the bits of the plain loop's.
TEST_F(MfWorkersTest, AloneBlocksAreThePlainLoops) {
#if VERBENA_WORDS_ARE_ATOMIC
  GTEST_SKIP() << "under the thread sanitizer, rows are copied and added to";
#endif
  const std::string prefix = folder_.path("alone");
  const auto alone =
      with_options(make_mf(), {"--data", folder_.path("ratings"), "--rank", "3", "--iterations",
                               std::to_string(kIterations), "--output", prefix});
  train_alone(*alone);
  const std::string plain =
      testing::contents(prefix + ".users.tsv") + testing::contents(prefix + ".items.tsv");
  EXPECT_EQ(train(Sequential{}, 1, {"--allocation", "localize"}), plain);
  // Some rows may come late, and are copied.
  EXPECT_THAT(numbers_in(train(Asp{}, 1, {"--allocation", "intent"})),
              Pointwise(DoubleNear(1e-3), numbers_in(plain)));
}

TEST_F(MfWorkersTest, MiniBatchesThatArePulledAndPushedLearnAsMuch) {
  train(Bsp{}, 3);
  const double bsp = objectives_.at("test_rmse");
#ifdef VERBENA_SANITIZED
  constexpr std::array kBatches = {"50", "1024"};
#else
  constexpr std::array kBatches = {"1", "50", "1024"};
#endif
  for (const char* const batch : kBatches) {
    train(Sequential{}, 3, {"--batch", batch});
    EXPECT_NEAR(objectives_.at("test_rmse"), bsp, 0.05 * bsp) << batch;
    EXPECT_NEAR(items(kIterations), 0.9 * kRatings, 500);
  }
}

}  // namespace
}  // namespace verbena::apps
