#include "apps/resuming/stop_gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;
using Turn = StopGate::Turn;

/// One process of two workers.
class StopGateTest : public ::testing::Test {
 protected:
  StopGate gate_{2, /*is_late=*/false, [this](const StopGate::Begun& begun) { answers_.push_back(begun); }};
  std::vector<StopGate::Begun> answers_;
};

TEST_F(StopGateTest, NobodyIsHeldAsLongAsNobodyWantsIt) {
  for (const std::uint32_t worker : {0U, 1U}) {
    gate_.begin(worker, 1, false);
    for (const std::int64_t iteration : {1, 2, 3})
      EXPECT_EQ(*gate_.ends_after(worker, iteration, iteration == 3), false);
  }
  EXPECT_TRUE(answers_.empty());
  EXPECT_FALSE(gate_.is_held());
  EXPECT_EQ(gate_.ended_by(), 0);
}

TEST_F(StopGateTest, AllEndAfterTheSameOne) {
  for (const std::uint32_t worker : {0U, 1U}) gate_.begin(worker, 5, false);
  EXPECT_EQ(*gate_.ask(0, 5, false), Turn::kGoesOn);
  gate_.hold(15);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].iteration, 6) << "it has begun that";
  EXPECT_FALSE(answers_[0].has_finished);
  EXPECT_EQ(*gate_.ask(1, 5, false), Turn::kWaits);
  EXPECT_EQ(*gate_.ask(1, 5, false), Turn::kWaits);
  EXPECT_TRUE(gate_.is_held());
  gate_.end_after(7);
  EXPECT_EQ(*gate_.ask(1, 5, false), Turn::kGoesOn);
  EXPECT_EQ(*gate_.ask(1, 6, false), Turn::kGoesOn);
  EXPECT_EQ(gate_.ended_by(), 0);
  EXPECT_EQ(*gate_.ask(1, 7, true), Turn::kEnds);
  EXPECT_EQ(gate_.ended_by(), 15);
  gate_.release();
  EXPECT_EQ(*gate_.ask(0, 6, false), Turn::kGoesOn);
  EXPECT_EQ(*gate_.ask(0, 7, false), Turn::kEnds) << "what was decided stays";
  EXPECT_EQ(answers_.size(), 1U);
}

TEST_F(StopGateTest, WhoeverHasFinishedOrNotBegunSaysSo) {
  gate_.begin(0, 1, false);
  EXPECT_EQ(*gate_.ask(0, 1, true), Turn::kGoesOn);
  gate_.hold(2);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(answers_[0].has_finished);
  gate_.release();
  gate_.begin(1, 1, false);
  EXPECT_EQ(*gate_.ask(1, 1, true), Turn::kGoesOn);
  EXPECT_EQ(gate_.ended_by(), 0);

  std::vector<StopGate::Begun> answers;
  StopGate other(2, false, [&](const StopGate::Begun& begun) { answers.push_back(begun); });
  other.hold(2);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].iteration, 0);
  EXPECT_FALSE(answers[0].has_finished);
}

/// It answers what that one begins with, at once: if the others were held until that one has come, they would
/// wait for this one, and it for them.
TEST_F(StopGateTest, OneInWhosePlaceAnotherOneIsToBeAnswersForThat) {
  StopGate late(2, /*is_late=*/true, [this](const StopGate::Begun& begun) { answers_.push_back(begun); });
  for (StopGate* const gate : {&gate_, &late}) {
    answers_.clear();
    gate->begin(0, 1, false);
    EXPECT_TRUE(gate->let_another_go_on(4));
    EXPECT_TRUE(answers_.empty());
    gate->hold(15);
    ASSERT_EQ(answers_.size(), 1U);
    EXPECT_EQ(answers_[0].iteration, 5);
    EXPECT_FALSE(answers_[0].has_finished);
  }

  StopGate held(1, false, [this](const StopGate::Begun& begun) { answers_.push_back(begun); });
  held.begin(0, 1, false);
  held.hold(15);
  EXPECT_FALSE(held.let_another_go_on(1));
  EXPECT_EQ(answers_.back().iteration, 1);
  held.release();
  EXPECT_TRUE(held.let_another_go_on(1));
}

/// The one before it may have begun more than all others.
TEST_F(StopGateTest, OneThatIsCatchingUpDoesNotAnswer) {
  StopGate late(2, /*is_late=*/true, [this](const StopGate::Begun& begun) { answers_.push_back(begun); });
  late.hold(15);
  late.begin(0, 1, true);
  late.begin(1, 1, false);
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(*late.ask(0, 8, false), Turn::kWaits) << "it has caught up in that one";
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].iteration, 8);
}

TEST_F(StopGateTest, AnEndThatIsOverIsAnError) {
  gate_.begin(0, 3, false);
  gate_.hold(15);
  gate_.end_after(2);
  const auto turn = gate_.ask(0, 3, false);
  EXPECT_EQ(turn.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(turn.status().message()), HasSubstr("after iteration 2, and 3 is over"));
}

TEST_F(StopGateTest, AWorkerWaitsUntilItIsDecided) {
  for (const bool is_released : {false, true}) {
    StopGate gate(1, false, [](const StopGate::Begun&) {});
    gate.begin(0, 4, false);
    gate.hold(15);
    auto waiting = std::async(std::launch::async, [&] { return gate.ends_after(0, 4, false); });
    EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    if (is_released) {
      gate.release();
    } else {
      gate.end_after(4);
    }
    EXPECT_EQ(*waiting.get(), !is_released);
  }
}

TEST_F(StopGateTest, NobodyWaitsForEver) {
  StopGate gate(
      1, false, [](const StopGate::Begun&) {}, std::chrono::milliseconds(20));
  gate.begin(0, 4, false);
  gate.hold(15);
  const auto late = gate.ends_after(0, 4, false);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("rank 0 has not said within 0.02 s"));
  gate_.hold(15);
  auto waiting = std::async(std::launch::async, [&] { return gate_.ends_after(0, 4, false); });
  gate_.give_up();
  EXPECT_EQ(waiting.get().status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace verbena::apps
