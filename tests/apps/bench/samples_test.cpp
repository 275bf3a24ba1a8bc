#include "apps/bench/samples.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/bench/stopwatch.hpp"

namespace verbena::apps::bench {
namespace {

Samples from_one_to(int count, double unit) {
  Samples samples;
  for (int i = 1; i <= count; ++i) samples.add(i * unit);
  return samples;
}

TEST(SamplesTest, PercentilesAreThoseOfTheSamples) {
  for (const double unit : {0.1, 1.0, 17.3, 1e6}) {
    const Samples samples = from_one_to(1000, unit);
    EXPECT_EQ(samples.percentile(0), unit);
    EXPECT_EQ(samples.percentile(1), 1000 * unit);
    for (const double fraction : {0.01, 0.25, 0.5, 0.9, 0.99, 0.999}) {
      EXPECT_NEAR(samples.percentile(fraction) / unit, 1000 * fraction, 2 + fraction) << unit;
    }
  }
}

TEST(SamplesTest, OneSampleIsExact) {
  Samples samples;
  samples.add(123.456);
  for (const double fraction : {0.0, 0.5, 1.0}) EXPECT_EQ(samples.percentile(fraction), 123.456);
}

TEST(SamplesTest, TakesWhatIsOutOfAllBounds) {
  Samples samples;
  samples.add(-1);
  samples.add(0);
  samples.add(1e30);
  EXPECT_EQ(samples.percentile(0), -1);
  EXPECT_EQ(samples.percentile(1), 1e30);
}

TEST(SamplesTest, BatchesCountTheirOperations) {
  Samples samples;
  samples.add(10, 5);   // 5 operations in 50 ns
  samples.add(30, 15);  // 15 operations in 450 ns
  EXPECT_EQ(samples.operations(), 20U);
  EXPECT_DOUBLE_EQ(samples.operations_per_second(), 20 / 500e-9);
}

TEST(SamplesTest, MergedAreAsIfAddedTogether) {
  Samples merged = from_one_to(10, 1);
  merged.merge(Samples());
  Samples more;
  more.add(0.5);
  more.add(500, 3);
  merged.merge(more);
  EXPECT_EQ(merged.operations(), 14U);
  EXPECT_EQ(merged.percentile(0), 0.5);
  EXPECT_EQ(merged.percentile(1), 500);
  Samples into_empty;
  into_empty.merge(merged);
  EXPECT_EQ(into_empty.percentile(0.5), merged.percentile(0.5));
}

TEST(SamplesTest, AHistogramIsNearlyTheSamples) {
  const Samples samples = from_one_to(5000, 0.37);
  Samples again;
  for (const Samples::Bucket& bucket : samples.histogram()) again.add_bucket(bucket);
  EXPECT_EQ(again.operations(), 5000U);
  for (const double fraction : {0.1, 0.5, 0.99})
    EXPECT_NEAR(again.percentile(fraction), samples.percentile(fraction),
                0.05 * samples.percentile(fraction));
}

TEST(SamplesTest, HistogramHoldsEverySampleInItsBucket) {
  Samples samples = from_one_to(5000, 0.37);
  samples.add(1e9);
  std::uint64_t counted = 0;
  double end = 0;
  for (const Samples::Bucket& bucket : samples.histogram()) {
    EXPECT_GE(bucket.low_ns, end);
    EXPECT_LT(bucket.low_ns, bucket.high_ns);
    EXPECT_LE(bucket.high_ns, bucket.low_ns * (1 + 1.0 / 16) + 0.001);
    counted += bucket.samples;
    end = bucket.high_ns;
  }
  EXPECT_EQ(counted, 5001U);
  EXPECT_GT(end, 1e9);
  EXPECT_TRUE(Samples().histogram().empty());
}

TEST(StopwatchTest, AgreesWithTheSystemsClock) {
  const auto begin = std::chrono::steady_clock::now();
  const Stopwatch watch;
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) {
  }
  const double measured = watch.nanoseconds();
  const double real =
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LE(measured, real * 1.02);
  EXPECT_GE(measured, 19e6);
}

TEST(TimingTest, ReportsTheShareAsked) {
  const TimingOptions whole{.seconds = 0.01, .batch_nanoseconds = 0};
  TimingOptions half = whole;
  half.reported_share = 0.5;
  const auto operation = [] {
    const Stopwatch watch;
    while (watch.nanoseconds() < 100'000) {
    }
  };
  EXPECT_GE(time_plain(whole, operation).percentile(0), 100'000);
  EXPECT_GE(time_plain(half, operation).percentile(0), 50'000);
  EXPECT_LT(time_plain(half, operation).percentile(0), 100'000);
}

TEST(TimingTest, EndsAtTheFirstError) {
  int calls = 0;
  Samples samples;
  const absl::Status status = time_operation(
      {.seconds = 0.01},
      [&] {
        ++calls;
        return absl::InternalError("broken");
      },
      samples);
  EXPECT_EQ(status.message(), "broken");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace verbena::apps::bench
