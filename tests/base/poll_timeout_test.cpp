// How long poll(2) is to wait.
#include "base/poll_timeout.hpp"

#include <gtest/gtest.h>

namespace verbena::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

TEST(PollTimeoutTest, IsNeitherLessThanNothingNorMoreThanTheMost) {
  EXPECT_EQ(poll_timeout_ms(Clock::time_point::min(), seconds(1)), 0);
  EXPECT_EQ(poll_timeout_ms(Clock::now() - seconds(1), seconds(1)), 0);
  EXPECT_EQ(poll_timeout_ms(Clock::now() + seconds(9), seconds(1)), 1000);
  EXPECT_EQ(poll_timeout_ms(Clock::time_point::max(), seconds(1)), 1000);
  // Rounded up, or one would poll in vain until it is time.
  EXPECT_EQ(poll_timeout_ms(Clock::now() + std::chrono::microseconds(900'100), seconds(2)), 901);
}

}  // namespace
}  // namespace verbena::base
