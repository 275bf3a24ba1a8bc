#include "apps/resuming/hand_over.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>

namespace verbena::apps {
namespace {

/// One process of two workers.
class HandOverTest : public ::testing::Test {
 protected:
  bool is_wanted_ = false;
  bool may_begin_ = true;
  std::int64_t asked_for_ = 0;  ///< whether they may after that
  HandOver hand_over_{2, [this] { return is_wanted_; },
                      [this](std::int64_t after) {
                        asked_for_ = after;
                        return may_begin_;
                      }};
};

TEST_F(HandOverTest, NobodyStepsAsideAsLongAsNobodyWantsIt) {
  for (const std::int64_t iteration : {1, 2, 3}) {
    for (const std::uint32_t worker : {0U, 1U})
      EXPECT_EQ(hand_over_.ask(worker, iteration, iteration == 3), HandOver::Turn::kStays);
  }
  EXPECT_FALSE(hand_over_.is_over());
}

/// The one that is behind comes to where the other one is: that one may need it there.
TEST_F(HandOverTest, AllStepAsideAfterTheLargestThatOneHasBegun) {
  EXPECT_EQ(hand_over_.ask(0, 5, false), HandOver::Turn::kStays);
  EXPECT_EQ(hand_over_.ask(1, 5, false), HandOver::Turn::kStays);
  EXPECT_EQ(hand_over_.ask(1, 6, false), HandOver::Turn::kStays);
  is_wanted_ = true;
  EXPECT_EQ(hand_over_.ask(0, 6, false), HandOver::Turn::kGoesOn) << "the other one has begun 7";
  EXPECT_EQ(asked_for_, 7);
  is_wanted_ = false;
  EXPECT_EQ(hand_over_.ask(1, 7, false), HandOver::Turn::kStepsAside) << "there is no way back";
  EXPECT_FALSE(hand_over_.is_over());
  EXPECT_EQ(hand_over_.ask(0, 7, true), HandOver::Turn::kStepsAside) << "also after the last one";
  EXPECT_TRUE(hand_over_.is_over());
}

TEST_F(HandOverTest, NotBeforeAllAreWhereTheOnesBeforeThemWere) {
  is_wanted_ = true;
  EXPECT_EQ(hand_over_.ask(0, 5, false), HandOver::Turn::kStays) << "the other one may have begun any";
  EXPECT_EQ(hand_over_.ask(1, 4, false), HandOver::Turn::kGoesOn);
  EXPECT_EQ(hand_over_.ask(1, 5, false), HandOver::Turn::kGoesOn);
  EXPECT_EQ(hand_over_.ask(0, 6, false), HandOver::Turn::kStepsAside);
  EXPECT_EQ(hand_over_.ask(1, 6, false), HandOver::Turn::kStepsAside);
}

TEST_F(HandOverTest, NotIfItMayNotBeOrOneHasTrainedToTheEnd) {
  is_wanted_ = true;
  may_begin_ = false;
  EXPECT_EQ(hand_over_.ask(0, 1, false), HandOver::Turn::kStays);
  EXPECT_EQ(hand_over_.ask(1, 1, false), HandOver::Turn::kStays);
  may_begin_ = true;
  EXPECT_EQ(hand_over_.ask(0, 2, true), HandOver::Turn::kStays);
  EXPECT_EQ(hand_over_.ask(1, 2, false), HandOver::Turn::kStays);
  EXPECT_EQ(hand_over_.ask(1, 3, true), HandOver::Turn::kStays);
  EXPECT_FALSE(hand_over_.is_over());
}

/// Workers that drift apart, in any order: all step aside after the same iteration, or none does.
TEST(HandOverOrders, AllAfterTheSameOne) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    constexpr std::size_t kWorkers = 3;
    constexpr std::int64_t kLast = 6;
    bool is_wanted = false;
    HandOver hand_over(
        kWorkers, [&] { return is_wanted; }, [](std::int64_t) { return true; });
    std::array<std::int64_t, kWorkers> done{};
    std::array<std::int64_t, kWorkers> left{};  ///< after which one
    const auto is_there = [&](std::size_t worker) { return left[worker] == 0 && done[worker] < kLast; };
    while (is_there(0) || is_there(1) || is_there(2)) {
      is_wanted |= random() % 6 == 0;
      const std::size_t worker = random() % kWorkers;
      if (!is_there(worker)) continue;
      const std::int64_t iteration = ++done[worker];
      const HandOver::Turn turn =
          hand_over.ask(static_cast<std::uint32_t>(worker), iteration, iteration == kLast);
      if (turn == HandOver::Turn::kStepsAside) left[worker] = iteration;
    }
    const bool all_are_alike = left[0] == left[1] && left[1] == left[2];
    ASSERT_TRUE(all_are_alike) << "seed " << seed << ": " << left[0] << ' ' << left[1] << ' ' << left[2];
    ASSERT_EQ(hand_over.is_over(), left[0] != 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace verbena::apps
