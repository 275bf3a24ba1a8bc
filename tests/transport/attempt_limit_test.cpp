#include "transport/attempt_limit.hpp"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

using std::chrono::milliseconds;

TEST(AttemptLimitTest, WhoIsSilentIsGivenTwiceAsLong) {
  const absl::Status silent = absl::DeadlineExceededError("nobody has answered");
  AttemptLimit attempt;
  EXPECT_EQ(attempt.next(), milliseconds(50));
  attempt.failed(silent);
  EXPECT_EQ(attempt.next(), milliseconds(100));
  for (int i = 0; i < 10; ++i) attempt.failed(silent);
  EXPECT_EQ(attempt.next(), milliseconds(1000));
  attempt.failed(silent, milliseconds(300));
  EXPECT_EQ(attempt.next(), milliseconds(300));
  attempt.failed(silent, milliseconds(1));
  EXPECT_EQ(attempt.next(), milliseconds(50)) << "never shorter than the first one";
}

TEST(AttemptLimitTest, WhoRefusesIsNot) {
  absl::Status refused = absl::DeadlineExceededError("nobody listens there");
  mark_refusal(refused);
  AttemptLimit attempt;
  attempt.failed(refused);
  EXPECT_EQ(attempt.next(), milliseconds(50));
}

}  // namespace
}  // namespace verbena::transport
