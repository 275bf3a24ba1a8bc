#include "apps/sketch/sampled_counts.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "apps/sketch/sketch_lines.hpp"

namespace verbena::apps::sketch {
namespace {

constexpr Key kManyKeys = 40 * SampledCounts::kMostKeys;

TEST(SampledCountsTest, FewKeysAreCountedExactly) {
  SampledCounts sample;
  for (Key key = 0; key < 100; ++key) {
    for (Key times = 0; times <= key; ++times) sample.add(key);
  }
  EXPECT_EQ(sample.counts().size(), 100U);
  for (const auto& [key, count] : sample.counts()) EXPECT_EQ(count, static_cast<Counter>(key + 1));
}

/// Those that are left have all been counted from the beginning.
TEST(SampledCountsTest, OfManyKeysSomeAreCountedExactly) {
  SampledCounts sample;
  for (int times = 0; times < 2; ++times) {
    for (Key key = 0; key < kManyKeys; ++key) sample.add(key);
  }
  EXPECT_LE(sample.counts().size(), SampledCounts::kMostKeys);
  EXPECT_GT(sample.counts().size(), SampledCounts::kMostKeys / 4);
  for (const auto& [key, count] : sample.counts()) EXPECT_EQ(count, 2);
}

TEST(SampledCountsTest, TheErrorIsInPartsOfTheCounts) {
  constexpr std::uint64_t kLines = 4096;
  Counts counts(kLines);
  SampledCounts sample;
  EXPECT_EQ(sample.relative_error(std::vector<Counter>(kLines * kCounters), kLines), 0);
  for (Key key = 0; key < 50; ++key) {
    for (int times = 0; times < 4; ++times) sample.add(key);
    counts.add(std::vector<Key>{key, key, key});
  }
  std::vector<Counter> counters(kLines * kCounters);
  const Counts::Lines lines = counts.take();
  for (std::size_t i = 0; i < lines.numbers.size(); ++i) {
    for (std::size_t j = 0; j < kCounters; ++j)
      counters[lines.numbers[i] * kCounters + j] = lines.counters[i * kCounters + j];
  }
  EXPECT_NEAR(sample.relative_error(counters, kLines), 0.25, 0.02) << "one of four is not counted yet";
  for (Counter& counter : counters) counter *= 2;
  EXPECT_NEAR(sample.relative_error(counters, kLines), 0.5, 0.02) << "two of four are too many";
}

}  // namespace
}  // namespace verbena::apps::sketch
