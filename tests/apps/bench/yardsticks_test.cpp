// Yardsticks do what they are named after: a loop that does less would make what is measured beside it look
// slow.
#include "apps/bench/yardsticks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace verbena::apps::bench {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;

constexpr TimingOptions kShort = {.seconds = 0.01};

TEST(YardsticksTest, RowsHandedOverAreAdded) {
  std::vector<float> sums;
  const Samples samples = time_hand_over(kShort, 20, 3, &sums);
  ASSERT_EQ(sums.size(), 60U);
  // Each operation adds 1 to all, and those of the warm-up do, too.
  EXPECT_THAT(sums, AllOf(Each(sums.front()), Each(Ge(static_cast<float>(samples.operations())))));
  EXPECT_GT(samples.operations(), 0U);
}

TEST(YardsticksTest, AnAnswerIsWhatTheRowHasComeTo) {
  std::vector<float> last;
  const Samples samples = time_answers(kShort, 2, 3, &last);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_GT(last[0], static_cast<float>(samples.operations()));
  EXPECT_EQ(last[1], last[0]);
  EXPECT_EQ(last[2], 1) << "nothing is added to it";
  EXPECT_GT(samples.operations(), 0U);
  EXPECT_FALSE(time_answers(kShort, 0, kMostFloatsOfAnswer, &last).empty());
  EXPECT_EQ(last, std::vector<float>(kMostFloatsOfAnswer, 1));
}

/// Looking at the clock is no part of what takes less than a tenth of a microsecond.
TEST(YardsticksTest, RoundTripsAndAnswersAreTimedByBatches) {
  TimingOptions long_batches = kShort;
  long_batches.batch_nanoseconds = 1e9;  // however long one takes where cores are few
  for (const Samples& samples : {time_core_round_trip(long_batches), time_answers(long_batches, 2, 2)}) {
    std::uint64_t timed = 0;
    for (const Samples::Bucket& bucket : samples.histogram()) timed += bucket.samples;
    EXPECT_GT(samples.operations(), timed);
  }
}

TEST(YardsticksTest, RowsAreAddedInAPlainLoop) {
  const std::vector<std::uint64_t> keys = {3, 1};
  std::vector<float> sums;
  const Samples samples = time_row_additions(kShort, keys, 2, &sums);
  ASSERT_EQ(sums.size(), 8U);
  EXPECT_EQ(sums[0] + sums[1] + sums[4] + sums[5], 0) << "not of these keys";
  EXPECT_EQ(sums[2], sums[3]);
  EXPECT_EQ(sums[6], sums[7]);
  EXPECT_GE(sums[2] + sums[6], static_cast<float>(samples.operations()));
  EXPECT_NEAR(sums[6], sums[2], 1) << "in turn";
  EXPECT_GT(samples.operations(), 0U);
}

}  // namespace
}  // namespace verbena::apps::bench
