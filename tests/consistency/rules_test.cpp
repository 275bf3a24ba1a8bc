#include "consistency/rules.hpp"

#include <gtest/gtest.h>

#include <random>

#include "consistency/vector_clock.hpp"

namespace verbena::consistency {
namespace {

// "All updates of clocks ≤ c − s − 1" is a min clock of c − s: spelled out here as the definition has it.
TEST(RulesTest, MinClockNeededIsTheDefinition) {
  for (std::uint32_t staleness = 0; staleness < 5; ++staleness) {
    for (Clock reader = 0; reader < 10; ++reader) {
      const Clock newest_promised = reader - static_cast<Clock>(staleness) - 1;
      EXPECT_EQ(min_clock_needed(consistency::staleness(Ssp{staleness}), reader),
                std::max<Clock>(0, newest_promised + 1));
      EXPECT_EQ(consistency::staleness(Essp{staleness}), staleness);
    }
  }
  EXPECT_EQ(min_clock_needed(staleness(Bsp{}), 4), 4);
}

TEST(RulesTest, WhoWaitsAndWhatIsHeldBack) {
  EXPECT_TRUE(holds_updates_back(Bsp{}) && waits_at_clock(Bsp{}) && !pushes_eagerly(Bsp{}));
  EXPECT_TRUE(!holds_updates_back(Ssp{}) && !waits_at_clock(Ssp{}) && !pushes_eagerly(Ssp{}));
  EXPECT_TRUE(!holds_updates_back(Essp{}) && !waits_at_clock(Essp{}) && pushes_eagerly(Essp{}));
}

TEST(RulesTest, ClockDifferentialOfBspIsMinusOne) {
  EXPECT_EQ(clock_differential(5, 5), -1);
  EXPECT_EQ(clock_differential(3, 5), -3);
}

TEST(VectorClockTest, MinFollowsTheSlowest) {
  VectorClock clocks(3);
  EXPECT_FALSE(clocks.advance(0, 1));
  EXPECT_FALSE(clocks.advance(1, 1));
  EXPECT_EQ(clocks.min(), 0);
  EXPECT_TRUE(clocks.advance(2, 1));
  EXPECT_EQ(clocks.min(), 1);
  EXPECT_FALSE(clocks.advance(2, 5));
  EXPECT_TRUE(clocks.advance(0, VectorClock::kLeft) || clocks.min() == 1);
  EXPECT_TRUE(clocks.advance(1, VectorClock::kLeft));
  EXPECT_EQ(clocks.min(), 5);
}

TEST(VectorClockTest, AgreesWithTheDefinitionWhateverTheOrder) {
  std::mt19937 random(1);
  VectorClock clocks(7);
  std::vector<Clock> expected(7, 0);
  for (int step = 0; step < 2000; ++step) {
    const auto worker = static_cast<std::uint32_t>(random() % 7);
    const Clock before = *std::min_element(expected.begin(), expected.end());
    expected[worker] += static_cast<Clock>(random() % 3);
    const Clock after = *std::min_element(expected.begin(), expected.end());
    EXPECT_EQ(clocks.advance(worker, expected[worker]), after > before);
    EXPECT_EQ(clocks.min(), after);
  }
}

}  // namespace
}  // namespace verbena::consistency
