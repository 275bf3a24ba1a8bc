#include "tests/linearizability/number_history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace verbena::linearizability {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(DigitsTest, SaysWhoHasPushedHowOften) {
  const Digits digits(3, 24);
  EXPECT_EQ(digits.most_pushes(), 127U);
  EXPECT_EQ(digits.pushes_in(0), (std::vector<std::uint64_t>{0, 0, 0}));
  EXPECT_EQ(digits.pushes_in(5 * digits.update(0) + 127 * digits.update(2)),
            (std::vector<std::uint64_t>{5, 0, 127}));
  EXPECT_EQ(digits.pushes_in(2 * 127 * digits.update(1)), (std::vector<std::uint64_t>{0, 254, 0}));
}

TEST(DigitsTest, KnowsWhatNoSumMakes) {
  const Digits digits(3, 24);
  for (const double number : {-1.0, 0.5, std::ldexp(1.0, 24), std::nan(""), HUGE_VAL})
    EXPECT_EQ(digits.pushes_in(number), std::nullopt) << number;
}

/// A history of two workers that push and one that only pulls.
class NumberHistoryTest : public ::testing::Test {
 protected:
  void push(std::uint32_t worker, Time begun, Time ended) {
    history_.begin_push(worker, begun);
    history_.end_pushes(worker, ended);
  }
  /// Worker 2 pulls, and the result holds so many pushes of each worker.
  void pull(Time begun, Time ended, int of_worker_0, int of_worker_1) {
    history_.add_pull(2, begun, ended,
                      of_worker_0 * history_.digits().update(0) + of_worker_1 * history_.digits().update(1));
  }
  NumberHistory history_{Digits(3, 53)};
};

TEST_F(NumberHistoryTest, NothingIsFine) {
  EXPECT_EQ(history_.violation(), std::nullopt);
}

TEST_F(NumberHistoryTest, APushIsSeenAtAnyTimeWhileItLasts) {
  push(0, 10, 20);
  pull(1, 9, 0, 0);
  pull(11, 12, 0, 0);
  pull(11, 13, 1, 0);
  pull(14, 19, 1, 0);
  pull(21, 22, 1, 0);
  EXPECT_EQ(history_.violation(), std::nullopt);
}

TEST_F(NumberHistoryTest, APushThatNeverEndsMayBeSeenOrNot) {
  history_.begin_push(0, 10);
  pull(20, 30, 0, 0);
  EXPECT_EQ(history_.violation(), std::nullopt);
  pull(40, 50, 1, 0);
  EXPECT_EQ(history_.violation(), std::nullopt);
}

TEST_F(NumberHistoryTest, WhatBeginsAtTheTimeOfAnothersEndIsNotLater) {
  push(0, 10, 20);
  pull(20, 30, 0, 0);
  push(1, 35, 40);
  pull(31, 35, 1, 1);
  EXPECT_EQ(history_.violation(), std::nullopt);
}

TEST_F(NumberHistoryTest, AStaleReadIsFound) {
  push(0, 10, 20);
  pull(21, 30, 0, 0);
  EXPECT_THAT(history_.violation(),
              Optional(std::string(
                  "worker 2's pull from 21 to 30 misses push 1 of worker 0, which had ended at 20")));
}

TEST_F(NumberHistoryTest, ALostUpdateIsFound) {
  push(0, 10, 20);
  push(0, 30, 40);
  push(1, 30, 40);
  pull(50, 60, 1, 1);
  EXPECT_THAT(history_.violation(),
              Optional(std::string(
                  "worker 2's pull from 50 to 60 misses push 2 of worker 0, which had ended at 40")));
}

TEST_F(NumberHistoryTest, AnUpdateAppliedTwiceIsFound) {
  push(0, 10, 20);
  pull(30, 40, 2, 0);
  EXPECT_THAT(
      history_.violation(),
      Optional(std::string("worker 2's pull from 30 to 40 holds 2 pushes of worker 0, which has made 1")));
}

TEST_F(NumberHistoryTest, AReadOfTheFutureIsFound) {
  pull(1, 5, 0, 1);
  push(1, 6, 20);
  EXPECT_THAT(
      history_.violation(),
      Optional(std::string("worker 2's pull from 1 to 5 holds push 1 of worker 1, which began only at 6")));
}

TEST_F(NumberHistoryTest, ATornNumberIsFound) {
  history_.add_pull(1, 5, 6, 0.25);
  EXPECT_THAT(history_.violation(),
              Optional(std::string("worker 1's pull from 5 to 6 holds 0.25, which no sum of pushes makes")));
}

TEST_F(NumberHistoryTest, ReadsThatDisagreeAreFound) {
  push(0, 10, 100);
  push(1, 10, 100);
  pull(20, 31, 1, 0);
  EXPECT_EQ(history_.violation(), std::nullopt);
  pull(20, 30, 0, 1);
  EXPECT_THAT(
      history_.violation(),
      Optional(std::string("worker 2's pull from 20 to 31 holds push 1 of worker 0 and misses push 1 of "
                           "worker 1; worker 2's pull from 20 to 30 has it the other way round")));
}

TEST_F(NumberHistoryTest, AReadThatGoesBackIsFound) {
  push(0, 10, 100);
  pull(20, 30, 1, 0);
  pull(25, 40, 0, 0);  // the two pulls overlap
  EXPECT_EQ(history_.violation(), std::nullopt);
  pull(31, 50, 0, 0);
  EXPECT_THAT(
      history_.violation(),
      Optional(std::string("worker 2's pull from 31 to 50 misses push 1 of worker 0, which worker 2's pull "
                           "from 20 to 30 held")));
}

TEST_F(NumberHistoryTest, AnEffectBeforeItsCauseIsFound) {
  push(0, 10, 20);
  push(1, 30, 40);
  pull(5, 50, 0, 1);
  EXPECT_THAT(
      history_.violation(),
      Optional(std::string("worker 2's pull from 5 to 50 holds push 1 of worker 1, which began at 30, and "
                           "misses push 1 of worker 0, which had ended at 20")));
}

TEST_F(NumberHistoryTest, TheFirstToEndIsTold) {
  push(0, 10, 20);
  push(1, 10, 20);
  pull(30, 60, 0, 0);
  pull(5, 26, 0, 1);
  pull(6, 25, 1, 0);
  EXPECT_THAT(history_.violation(), Optional(::testing::StartsWith("worker 2's pull from 5 to 26")));
}

// ---- against a search of all orders

struct Operation {
  std::uint32_t worker = 0;
  bool pushes = false;
  Time begun = 0;
  Time ended = 0;
  double number = 0;  ///< what a pull returns
};

/// Searches all orders, as Wing & Gong do: next comes any operation that no other remaining one comes before.
bool has_order(const Digits& digits, const std::vector<Operation>& left, double number) {
  if (left.empty()) return true;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const Operation& next = left[i];
    if (std::any_of(left.begin(), left.end(), [&](const Operation& one) { return one.ended < next.begun; }))
      continue;
    if (!next.pushes && next.number != number) continue;
    std::vector<Operation> rest = left;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    if (has_order(digits, rest, number + (next.pushes ? digits.update(next.worker) : 0))) return true;
  }
  return false;
}

/// Random operations. Workers push and pull, each one operation after the other; what pulls return is right
/// or nearly right.
std::vector<Operation> some_operations(const Digits& digits, std::mt19937_64& random) {
  const auto below = [&](std::uint64_t bound) {
    return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
  };
  std::vector<Operation> operations;
  std::vector<Time> free(digits.workers(), 0);
  for (std::uint64_t more = 4 + below(5); more > 0; --more) {
    const auto worker = static_cast<std::uint32_t>(below(digits.workers()));
    const Time begun = free[worker] + 1 + below(4);
    free[worker] = begun + 1 + below(12);
    operations.push_back({.worker = worker, .pushes = below(2) == 0, .begun = begun, .ended = free[worker]});
  }
  std::map<Time, const Operation*> effects;
  for (const Operation& one : operations)
    effects.emplace(100 * (one.begun + below(one.ended - one.begun + 1)) + below(100), &one);
  for (Operation& one : operations) {
    if (one.pushes) continue;
    for (const auto& [when, other] : effects) {
      if (other == &one && below(3) > 0) break;
      if (other->pushes && below(8) > 0) one.number += digits.update(other->worker);
      if (other == &one) break;
    }
  }
  return operations;
}

TEST(NumberHistorySearchTest, FindsAnOrderWhereThereIsOne) {
  const Digits digits(3, 53);
  std::mt19937_64 random(7);
  int sound = 0;
  constexpr int kRounds = 20'000;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Operation> operations = some_operations(digits, random);
    NumberHistory history(digits);
    for (const Operation& one : operations) {
      if (one.pushes) {
        history.begin_push(one.worker, one.begun);
        history.end_pushes(one.worker, one.ended);
      } else {
        history.add_pull(one.worker, one.begun, one.ended, one.number);
      }
    }
    const bool expected = has_order(digits, operations, 0);
    const std::optional<std::string> violation = history.violation();
    ASSERT_EQ(!violation.has_value(), expected) << "round " << round << ": " << violation.value_or("");
    sound += expected ? 1 : 0;
  }
  EXPECT_GT(sound, kRounds / 5);
  EXPECT_LT(sound, kRounds * 4 / 5);
}

}  // namespace
}  // namespace verbena::linearizability
