#include "protocol/admission.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "protocol/count_min.hpp"
#include "protocol/placement.hpp"
#include "protocol/random_bits.hpp"
#include "protocol/sparse_index.hpp"

namespace verbena::protocol {
namespace {

class CountMinTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  static std::uint32_t most() { return (1U << GetParam()) - 1; }
};

TEST_P(CountMinTest, NeverCountsTooFew) {
  CountMin counts(GetParam(), /*shift=*/6);
  std::map<std::uint64_t, std::uint32_t> exact;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t thing = random() % 3'000;
    const std::uint32_t times = ++exact[thing];
    EXPECT_GE(counts.add(random_bits(thing)), std::min(times, most() + 1));
  }
  for (const auto& [thing, times] : exact)
    EXPECT_GE(counts.estimate(random_bits(thing)), std::min(times, most()));
}

TEST_P(CountMinTest, IsNearlyRightWithFewThingsALine) {
  CountMin counts(GetParam(), /*shift=*/10);
  const std::uint64_t things = counts.lines() * counts.counters_a_line() / 16;
  std::uint64_t wrong = 0;
  for (std::uint64_t thing = 0; thing < things; ++thing)
    wrong += counts.add(random_bits(thing)) != 1 ? 1U : 0U;
  EXPECT_LT(wrong, things / 200);
}

TEST_P(CountMinTest, StopsAtTheLargestCount) {
  CountMin counts(GetParam(), /*shift=*/0);
  for (std::uint32_t times = 1; times <= most() + 1; ++times) EXPECT_EQ(counts.add(5), times);
  EXPECT_EQ(counts.add(5), most() + 1);
  EXPECT_EQ(counts.estimate(5), most());
}
INSTANTIATE_TEST_SUITE_P(Bits, CountMinTest, ::testing::Values(2, 4, 8));

std::string error_of(std::string_view text) {
  return std::string(AdmissionRule::find(text, 0).status().message());
}

TEST(AdmissionTest, NonsenseIsRefused) {
  EXPECT_THAT(error_of("sometimes"), ::testing::HasSubstr("expected always, count(least=NUMBER)"));
  EXPECT_THAT(error_of("count(least=256)"), ::testing::HasSubstr("expected 1 to 255, found 256"));
  EXPECT_THAT(error_of("count(least=1.5)"), ::testing::HasSubstr("no whole number"));
  EXPECT_THAT(error_of("probability(p=2)"), ::testing::HasSubstr("expected 0 to 1, found 2"));
  EXPECT_THAT(error_of("always(p=2)"), ::testing::HasSubstr("has no parameter \"p\", but none"));
}

/// What was counted is counted on by whoever has the keys then, and is refused if anybody has changed it.
TEST(AdmissionTest, CountsOnFromWhatWasSaved) {
  const AdmissionRule rule = AdmissionRule::find("count(least=3)", 0).value();
  Admission first(rule, /*expected=*/1);
  constexpr Key kKeys = 30'000;
  for (Key key = 0; key < kKeys; ++key) {
    for (Key pushes = 0; pushes < key % 3; ++pushes) static_cast<void>(first.admits(key, {}));
  }
  const std::vector<std::byte> saved = first.save();
  constexpr std::uint64_t kHalf = SparsePlacement::kParts / 2;
  const KeyRange halves[] = {{0, kHalf}, {kHalf, SparsePlacement::kParts}};
  for (const KeyRange parts : halves) {
    Admission half(rule, /*expected=*/1'000'000);
    ASSERT_TRUE(half.load(saved, parts).ok());
    for (Key key = 0; key < kKeys; ++key) {
      if (parts.contains(KeyHash(key).part())) {
        Admission& same = first;
        EXPECT_EQ(half.admits(key, {}), same.admits(key, {})) << key;
      } else if (key % 3 == 2) {
        EXPECT_FALSE(half.admits(key, {})) << "another one's key " << key;
      }
    }
  }
  Admission other(rule, 1);
  EXPECT_EQ(other.load(std::span(saved).first(saved.size() - 1), halves[0]).code(),
            absl::StatusCode::kInvalidArgument);
  std::vector<std::byte> wrong = saved;
  wrong[0] = wrong[1] = std::byte{0xff};  // the part
  EXPECT_EQ(other.load(wrong, halves[0]).code(), absl::StatusCode::kInvalidArgument);
  // A rule that does not count has no use for it.
  Admission always(AdmissionRule{}, 1);
  EXPECT_TRUE(always.load(saved, halves[0]).ok());
  EXPECT_TRUE(always.save().empty());
}

struct CountedTimes {
  std::uint32_t least = 0;
  std::uint64_t bytes_a_key = 0;  ///< with as many keys as the sketches suit
};
class CountingTest : public ::testing::TestWithParam<CountedTimes> {};

TEST_P(CountingTest, CountsPushes) {
  const auto [least, bytes_a_key] = GetParam();
  Admission admission(AdmissionRule::find(fmt::format("count(least={})", least), 0).value(), /*expected=*/1);
  int early = 0;
  const Key keys = std::min<Key>(300'000, 5'000'000 / least);  // more than it has room for at first
  for (Key key = 0; key < keys; ++key) {
    bool is_early = false;
    for (std::uint32_t push = 1; push < least; ++push) is_early |= admission.admits(key, {});
    early += is_early ? 1 : 0;
    EXPECT_TRUE(admission.admits(key, {})) << key;
  }
  EXPECT_LT(early, static_cast<int>(keys / 20));
  EXPECT_LE(admission.bytes(), keys * 2 * bytes_a_key + 1024 * 1024);
}
INSTANTIATE_TEST_SUITE_P(Least, CountingTest,
                         ::testing::Values(CountedTimes{2, 4}, CountedTimes{4, 4}, CountedTimes{5, 8},
                                           CountedTimes{16, 8}, CountedTimes{17, 16}, CountedTimes{255, 16}));

TEST(AdmissionTest, OnePushCountsNothing) {
  Admission all(AdmissionRule::find("count(least=1)", 0).value(), 1);
  EXPECT_TRUE(all.admits(1, {}));
  EXPECT_EQ(all.bytes(), 0U);
}

/// Counters of 8 bits, whose form had no place for their size.
TEST(AdmissionTest, CountsOnFromWhatAnOlderVersionSaved) {
  std::vector<std::byte> saved(sizeof(std::uint64_t) * 3 + 64);
  const Key key = 17;
  const auto part = static_cast<std::uint32_t>(KeyHash(key).part());
  const std::uint32_t sketches = 1;
  std::memcpy(saved.data(), &part, sizeof part);
  std::memcpy(saved.data() + sizeof part, &sketches, sizeof sketches);
  // All counters of its one line have counted twice.
  std::fill(saved.end() - 64, saved.end(), std::byte{2});
  Admission admission(AdmissionRule::find("count(least=3)", 0).value(), 1);
  ASSERT_TRUE(admission.load(saved, {0, SparsePlacement::kParts}).ok());
  EXPECT_TRUE(admission.admits(key, {}));
  // Two are not enough for four.
  Admission other(AdmissionRule::find("count(least=4)", 0).value(), 1);
  ASSERT_TRUE(other.load(saved, {0, SparsePlacement::kParts}).ok());
  EXPECT_FALSE(other.admits(key, {}));
}

TEST(AdmissionTest, DrawsWithTheProbability) {
  const AdmissionRule rule = AdmissionRule::find("probability(p=0.2)", 7).value();
  const AdmissionRule other = AdmissionRule::find("probability(p=0.2)", 8).value();
  int drawn = 0;
  int differ = 0;
  for (Key key = 0; key < 100; ++key) {
    for (std::uint32_t worker = 0; worker < 10; ++worker) {
      for (std::int64_t clock = 0; clock < 10; ++clock) {
        const bool draws = rule.draws(key, {worker, clock});
        drawn += draws ? 1 : 0;
        differ += draws != other.draws(key, {worker, clock}) ? 1 : 0;
        EXPECT_EQ(draws, rule.draws(key, {worker, clock}));
      }
    }
  }
  EXPECT_NEAR(drawn, 2'000, 200);
  EXPECT_NEAR(differ, 3'200, 300);
  EXPECT_FALSE(AdmissionRule::find("probability(p=0)", 0)->draws(1, {}));
}

}  // namespace
}  // namespace verbena::protocol
