#include <gtest/gtest.h>

#include <verbena/session.hpp>

namespace verbena {
namespace {

TEST(DurationHistogramTest, AQuantileIsAtMostAQuarterTooHigh) {
  for (double seconds = 3e-9; seconds < 1e4; seconds *= 1.07) {
    DurationHistogram one;
    one.add(seconds);
    const double found = *one.quantile_seconds(0.5);
    EXPECT_GE(found, seconds - 1e-9) << seconds;
    EXPECT_LE(found, 1.25 * seconds + 1e-9) << seconds;
  }
}

TEST(DurationHistogramTest, QuantilesAreOfAllThatWasAdded) {
  DurationHistogram fast;
  for (int n = 0; n < 90; ++n) fast.add(1e-5);
  DurationHistogram all;
  for (int n = 0; n < 10; ++n) all.add(1e-2);
  all.merge(fast);
  EXPECT_NEAR(*all.quantile_seconds(0.5), 1.1e-5, 0.15e-5);
  EXPECT_NEAR(*all.quantile_seconds(0.9), 1.1e-5, 0.15e-5);
  EXPECT_NEAR(*all.quantile_seconds(0.91), 1.1e-2, 0.15e-2);
  EXPECT_NEAR(*all.quantile_seconds(1), 1.1e-2, 0.15e-2);
}

TEST(DurationHistogramTest, NothingHasNoQuantile) {
  DurationHistogram none;
  none.merge({});
  EXPECT_FALSE(none.quantile_seconds(0.5).has_value());
  none.add(-1);
  none.add(0);
  EXPECT_LE(*none.quantile_seconds(0.99), 1e-9);
  none.add(1e300);
  EXPECT_GT(*none.quantile_seconds(1), 1e8);
}

}  // namespace
}  // namespace verbena
