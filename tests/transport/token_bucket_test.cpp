#include "transport/token_bucket.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace verbena::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr TimePoint kStart{std::chrono::hours(5)};

TEST(TokenBucketTest, IsFullThenEmptyThenFillsAtItsRate) {
  TokenBucket bucket(1e6, kStart);  // a byte a microsecond
  EXPECT_EQ(bucket.burst_bytes(), 10'000);
  EXPECT_TRUE(bucket.is_full());
  EXPECT_EQ(bucket.due(), TimePoint::max());
  bucket.take(10'000);
  EXPECT_TRUE(bucket.is_empty());
  EXPECT_TRUE(bucket.refill(kStart + microseconds(1)));
  EXPECT_EQ(bucket.level(), 1);
  EXPECT_FALSE(bucket.refill(kStart + milliseconds(9)));
  EXPECT_EQ(bucket.level(), 9'000);
  EXPECT_TRUE(bucket.refill(kStart + milliseconds(10)));
  EXPECT_TRUE(bucket.is_full());
  EXPECT_FALSE(bucket.refill(kStart + std::chrono::hours(1))) << "it is full: it takes no more than a burst";
  EXPECT_EQ(bucket.level(), 10'000);
}

TEST(TokenBucketTest, OwesAtMostABurst) {
  TokenBucket bucket(1e6, 100, kStart);
  bucket.take(1'000'000);
  EXPECT_EQ(bucket.level(), -100);
  EXPECT_FALSE(bucket.refill(kStart + microseconds(100)));
  EXPECT_TRUE(bucket.refill(kStart + microseconds(101)));
  EXPECT_FALSE(bucket.is_empty());
}

TEST(TokenBucketTest, PartsOfBytesAreNotLost) {
  TokenBucket bucket(1e6, 1'000, kStart);
  bucket.take(1'000);
  // Each refill of 700 ns is less than a byte.
  for (int i = 1; i <= 1'000; ++i) bucket.refill(kStart + i * nanoseconds(700));
  EXPECT_GE(bucket.level(), 699);
  EXPECT_LE(bucket.level(), 700);
}

TEST(TokenBucketTest, IsDueWhenRefillSaysSo) {
  for (const double rate : {1.0, 3.0, 7e5, 1e9 / 3, 25e9}) {
    TokenBucket bucket(rate, 1'000, kStart);
    for (const std::size_t taken : {1U, 999U, 1'000U, 1'500U}) {
      bucket.take(taken);
      int steps = 0;
      for (; !bucket.is_full(); ++steps) {
        const TimePoint due = bucket.due();
        ASSERT_TRUE(bucket.refill(due)) << rate << " bytes a second, " << taken << " taken";
      }
      EXPECT_LE(steps, 2) << "due once when it is not empty any more, once when it is full";
    }
  }
}

TEST(TokenBucketTest, ManyTakeWhileOneRefills) {
  TokenBucket bucket(1e9, 1'000'000, kStart);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int taken = 0; taken < 100'000; ++taken) bucket.take(3);
    });
  for (int i = 1; i <= 1'000; ++i) bucket.refill(kStart + i * nanoseconds(100));
  for (std::thread& thread : threads) thread.join();
  // The bucket was full; 900,000 bytes were taken, and at most 100,000 refilled.
  EXPECT_GE(bucket.level(), 100'000);
  EXPECT_LE(bucket.level(), 200'000);
}

}  // namespace
}  // namespace verbena::transport
