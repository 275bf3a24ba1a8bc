#include "worker/fixed/sparse_numbers.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace verbena::worker {
namespace {

/// Keys that are counted, that are far apart, that differ in their highest bits only, and any.
std::uint64_t key_of(std::uint64_t kind, std::uint64_t n) {
  switch (kind) {
    case 0:
      return n;
    case 1:
      return n << 32;
    case 2:
      return n << 52 | 7;
    default:
      return n * 0xff51afd7ed558ccd;
  }
}

class SparseNumbersTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SparseNumbersTest, DoesWhatAMapDoes) {
  std::mt19937_64 random(GetParam());
  SparseNumbers numbers;
  std::map<std::uint64_t, std::uint32_t> expected;
  std::vector<std::uint64_t> seen;
  for (int round = 0; round < 60; ++round) {
    // Some clocks have many keys, most have few.
    const std::uint64_t keys = round % 20 == 10 ? 4000 : 300;
    for (std::uint32_t step = 1; step <= 2 * keys; ++step) {
      const std::uint64_t key = key_of(GetParam(), random() % keys);
      seen.push_back(key);
      numbers.prefetch(key);
      switch (random() % 4) {
        case 0:
          numbers.set(key, step);
          expected[key] = step;
          break;
        case 1:
          numbers.erase(key);
          expected.erase(key);
          break;
        default: {
          const auto [found, is_new] = expected.try_emplace(key, step);
          ASSERT_EQ(numbers.find_or_set(key, step), is_new ? 0 : found->second);
          break;
        }
      }
    }
    for (const std::uint64_t key : seen) {
      const auto found = expected.find(key);
      ASSERT_EQ(numbers.find(key), found == expected.end() ? 0 : found->second) << "round " << round;
    }
    if (round % 3 == 0) continue;
    numbers.clear();
    expected.clear();
    for (const std::uint64_t key : seen) ASSERT_EQ(numbers.find(key), 0U);
    seen.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(Keys, SparseNumbersTest, ::testing::Range<std::uint64_t>(0, 4));

}  // namespace
}  // namespace verbena::worker
