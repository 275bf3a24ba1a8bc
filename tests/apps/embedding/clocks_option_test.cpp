#include "apps/embedding/clocks_option.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <vector>

#include "apps/resuming/checkpoints.hpp"
#include "tests/apps/application_fixture.hpp"
#include "tests/cluster/cluster.hpp"

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;

constexpr ClockSize kSize = {.most = 1'000, .most_unseen = 500, .least_of_worker = 10};

TEST(ClocksForTest, OneWorkersAreNoLongerThanTheyMayBe) {
  EXPECT_EQ(clocks_for({.examples = 0}, kSize), 1);
  EXPECT_EQ(clocks_for({.examples = 1'000}, kSize), 1);
  EXPECT_EQ(clocks_for({.examples = 1'001}, kSize), 2);
  EXPECT_EQ(clocks_for({.examples = 64'000}, kSize), 64);
}

TEST(ClocksForTest, ManyWorkersSeeEachOtherMoreOften) {
  EXPECT_EQ(clocks_for({.examples = 64'000, .workers = 2}, kSize), 128);
  EXPECT_EQ(clocks_for({.examples = 64'000, .workers = 9}, kSize), 711) << "not 1024: ten of each";
  EXPECT_EQ(clocks_for({.examples = 64'000, .workers = 5}, kSize), 512);
}

TEST(ClocksForTest, SoMuchMoreOftenAsTheySeeItLater) {
  EXPECT_EQ(clocks_for({.examples = 64'000, .workers = 2, .staleness = 3}, kSize), 512);
  EXPECT_EQ(clocks_for({.examples = 64'000, .workers = 1, .staleness = 3}, kSize), 64) << "there is nobody";
}

TEST(ClocksForTest, WhoSeesMiniBatchesNeedsNoClocksForThat) {
  EXPECT_EQ(clocks_for({.examples = 64'000, .workers = 9, .sees_mini_batches = true}, kSize), 64);
}

TEST(ClocksForTest, SmallDataIsNotCutIntoNothing) {
  EXPECT_EQ(clocks_for({.examples = 100, .workers = 4}, kSize), 1);
  EXPECT_EQ(clocks_for({.examples = 100, .workers = 2}, kSize), 1);
  EXPECT_EQ(clocks_for({.examples = 100, .workers = 2, .staleness = 100}, kSize), 5) << "ten of each";
  EXPECT_EQ(clocks_for({.examples = 3, .workers = 64}, kSize), 1) << "some have none";
}

TEST(ClocksForTest, LargeDataHasNoMoreThanThereMayBe) {
  EXPECT_EQ(clocks_for({.examples = 1'000'000'000'000}, kSize), 100'000);
}

TEST(SeesMiniBatchesTest, WhereUpdatesDoNotWaitForTheClock) {
  EXPECT_TRUE(sees_mini_batches(Sequential{}, RowAllocation::kStatic));
  EXPECT_TRUE(sees_mini_batches(Sequential{}, RowAllocation::kLocalize));
  EXPECT_TRUE(sees_mini_batches(Asp{}, RowAllocation::kIntent)) << "each mini-batch is a clock";
  EXPECT_FALSE(sees_mini_batches(Asp{}, RowAllocation::kStatic));
  EXPECT_FALSE(sees_mini_batches(Bsp{}, RowAllocation::kStatic));
  EXPECT_FALSE(sees_mini_batches(Essp{.staleness = 1}, RowAllocation::kStatic));
}

ClocksOption parsed(const std::vector<std::string>& arguments) {
  CLI::App command;
  ClocksOption option("sheep", kSize);
  option.add(command);
  command.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  return option;
}

TEST(ClocksOptionTest, IsAsGivenElseAsSavedElseByTheData) {
  const ClockedJob job{.examples = 64'000};
  ClocksOption open = parsed({});
  EXPECT_TRUE(open.leaves_open());
  EXPECT_EQ(open.chosen(), std::nullopt);
  EXPECT_EQ(open.clocks(job), 64);
  open.goes_on_from({{"--clocks-per-iteration", "7"}});
  EXPECT_EQ(open.clocks(job), 7);
  EXPECT_EQ(open.chosen(), "7");
  EXPECT_TRUE(parsed({"--clocks-per-iteration=0"}).leaves_open());
  ClocksOption given = parsed({"--clocks-per-iteration=5"});
  EXPECT_FALSE(given.leaves_open());
  given.goes_on_from({{"--clocks-per-iteration", "7"}});
  EXPECT_EQ(given.clocks(job), 5) << "who calls it compares";
  EXPECT_EQ(given.chosen(), std::nullopt) << "it says itself";
}

TEST(ClocksOptionTest, WhatWasNotSavedDecidesNothing) {
  for (const char* wrong : {"", "many", "0", "-1", "100001"}) {
    ClocksOption option = parsed({});
    option.goes_on_from({{"--clocks-per-iteration", wrong}, {"--batch", "7"}});
    EXPECT_EQ(option.clocks({.examples = 64'000}), 64) << wrong;
  }
}

TEST(ClocksOptionTest, WhatCannotBeIsRefused) {
  EXPECT_TRUE(parsed({"--clocks-per-iteration=100000"}).check().ok());
  for (const char* wrong : {"-1", "100001"}) {
    const absl::Status status = parsed({std::string("--clocks-per-iteration=") + wrong}).check();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_EQ(std::string(status.message()),
              std::string("--clocks-per-iteration: expected 0 to 100000, found ") + wrong);
  }
}

/// What each of two workers with so many examples has agreed on, or why it could not.
std::vector<absl::StatusOr<std::int64_t>> agreed(const ConsistencyModel& model, RowAllocation allocation,
                                                 std::vector<std::uint64_t> examples,
                                                 std::vector<Recorder>& recorders) {
  const ClocksOption option = parsed({});
  std::vector<absl::StatusOr<std::int64_t>> found(examples.size(), absl::UnknownError("never"));
  const auto result = verbena::testing::run_cluster(
      {.servers = 1, .workers = static_cast<std::uint32_t>(examples.size())},
      [&](Session& session) -> absl::Status {
        Recorder& recorder = recorders[session.rank()];
        const std::atomic<bool> stop = false;
        TrainingWatch watch;
        Checkpoints none;
        WorkerContext context{.session = session,
                              .consistency = model,
                              .reporter = recorder,
                              .stop = stop,
                              .watch = watch,
                              .checkpoints = none};
        found[session.rank()] = option.agreed(context, examples[session.rank()], allocation);
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  return found;
}

TEST(ClocksOptionTest, WorkersAgree) {
  std::vector<Recorder> recorders(2);
  for (const auto& clocks : agreed(Bsp{}, RowAllocation::kStatic, {64'000, 64'000}, recorders)) {
    ASSERT_TRUE(clocks.ok()) << clocks.status();
    EXPECT_EQ(*clocks, 128);
  }
  EXPECT_EQ(recorders[0].summaries.at(ClocksOption::kInSummary), 128);
  EXPECT_TRUE(recorders[1].summaries.empty());
  for (const auto& clocks : agreed(Ssp{1}, RowAllocation::kStatic, {64'000, 64'000}, recorders))
    EXPECT_EQ(clocks.value_or(0), 256);
  for (const auto& clocks : agreed(Sequential{}, RowAllocation::kLocalize, {64'000, 64'000}, recorders))
    EXPECT_EQ(clocks.value_or(0), 64);
}

TEST(ClocksOptionTest, WhoHasOtherDataIsTold) {
  std::vector<Recorder> recorders(2);
  for (const auto& clocks : agreed(Bsp{}, RowAllocation::kStatic, {64'000, 32'000}, recorders)) {
    EXPECT_EQ(clocks.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(clocks.status().message()), HasSubstr("clocks in a pass over the sheep"));
  }
}

}  // namespace
}  // namespace verbena::apps
