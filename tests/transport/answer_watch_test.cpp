// When a peer's device counts as silent, and when as gone. The test says what time it is.
#include "transport/verbs/answer_watch.hpp"

#include <gtest/gtest.h>

namespace verbena::transport::verbs {
namespace {

using std::chrono::milliseconds;
using Finding = AnswerWatch::Finding;

constexpr auto kPatience = milliseconds(400);

/// Looks every 100 ms, which is often enough to count.
class AnswerWatchTest : public ::testing::Test {
 protected:
  Finding look(bool awaits_report) { return look_after(milliseconds(100), awaits_report); }
  Finding look_after(Duration pause, bool awaits_report) {
    now_ += pause;
    return watch_.look(now_, kPatience, awaits_report);
  }
  /// Which of so many looks is the first with this finding, counted from 1; 0: none is.
  int first_finding(Finding finding, int looks, bool awaits_report) {
    for (int i = 1; i <= looks; ++i) {
      if (look(awaits_report) == finding) return i;
    }
    return 0;
  }

  TimePoint now_{std::chrono::seconds(1)};
  AnswerWatch watch_{now_};
};

TEST_F(AnswerWatchTest, AsksAfterAQuarterOfThePatienceAndAgainUntilThereIsAnAnswer) {
  EXPECT_EQ(look(false), Finding::kFine);
  EXPECT_EQ(look(false), Finding::kSilent);
  EXPECT_EQ(look(false), Finding::kSilent) << "the question found no room, or was never posted";
  watch_.on_completion();
  EXPECT_EQ(look(false), Finding::kFine);
  EXPECT_EQ(look(false), Finding::kFine);
  EXPECT_EQ(look(false), Finding::kSilent);
}

TEST_F(AnswerWatchTest, ThePatienceBeginsWhenSomethingIsFirstSeenWaiting) {
  EXPECT_EQ(first_finding(Finding::kGone, 10, true), 6) << "more than 400 ms after the first look";
}

TEST_F(AnswerWatchTest, EachCompletionBeginsThePatienceAnew) {
  EXPECT_EQ(first_finding(Finding::kGone, 5, true), 0);
  watch_.on_completion();
  EXPECT_EQ(look(true), Finding::kFine);
  EXPECT_EQ(first_finding(Finding::kGone, 10, true), 6);
}

TEST_F(AnswerWatchTest, NothingOutstandingIsNoReasonToMissThePeer) {
  EXPECT_EQ(first_finding(Finding::kGone, 5, true), 0);
  look(false);
  EXPECT_EQ(first_finding(Finding::kGone, 10, true), 6);
}

TEST_F(AnswerWatchTest, TimeInWhichNobodyLookedDoesNotCount) {
  EXPECT_EQ(first_finding(Finding::kGone, 5, true), 0);
  EXPECT_EQ(look_after(10 * kPatience, true), Finding::kFine);
  EXPECT_EQ(first_finding(Finding::kGone, 10, true), 5);
}

}  // namespace
}  // namespace verbena::transport::verbs
