#include "apps/resuming/stop_agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace verbena::apps {
namespace {

TEST(StopAgreementTest, OneWorkerStopsAtOnce) {
  std::atomic<std::uint64_t> word = 0;
  EXPECT_EQ(StopAgreement(word, 1).ask(5, false), 5);
}

TEST(StopAgreementTest, TheLastOneToAskDecides) {
  std::atomic<std::uint64_t> word = 0;
  StopAgreement one(word, 2);
  StopAgreement other(word, 2);
  EXPECT_EQ(one.ask(3, false), std::nullopt) << "the other may be in the middle of one";
  EXPECT_EQ(other.ask(3, false), 4) << "the first has begun it";
  EXPECT_EQ(one.ask(4, false), 4);
}

TEST(StopAgreementTest, NobodyHasBegunALaterOne) {
  std::atomic<std::uint64_t> word = 0;
  StopAgreement fast(word, 3);
  StopAgreement slow(word, 3);
  StopAgreement late(word, 3);
  EXPECT_EQ(fast.ask(10, false), std::nullopt);
  EXPECT_EQ(fast.ask(11, false), std::nullopt) << "it counts once";
  EXPECT_EQ(slow.ask(2, false), std::nullopt);
  EXPECT_EQ(late.ask(7, false), 12);
  EXPECT_EQ(slow.ask(3, false), 12);
  EXPECT_EQ(fast.ask(12, false), 12);
}

TEST(StopAgreementTest, WhoeverEndsUndecidedEndsAsUsual) {
  std::atomic<std::uint64_t> word = 0;
  StopAgreement one(word, 2);
  StopAgreement other(word, 2);
  EXPECT_EQ(other.ask(18, false), std::nullopt);
  EXPECT_EQ(one.ask(20, true), 20) << "the other has begun at most the last one, too";
  std::atomic<std::uint64_t> again = 0;
  StopAgreement first(again, 2);
  StopAgreement second(again, 2);
  EXPECT_EQ(first.ask(20, true), std::nullopt);
  EXPECT_EQ(second.ask(18, false), std::nullopt) << "the first may have left";
  EXPECT_EQ(second.ask(20, true), std::nullopt);
}

TEST(StopAgreementTest, WhoeverHasFinishedIsNotWaitedFor) {
  std::atomic<std::uint64_t> word = 0;
  StopAgreement one(word, 2);
  StopAgreement other(word, 2);
  EXPECT_EQ(other.ask(18, false), std::nullopt);
  one.finish();
  EXPECT_EQ(other.ask(19, false), std::nullopt);
  EXPECT_EQ(other.ask(20, true), std::nullopt);
}

/// As under BSP: a worker's iteration needs those that the others have had before. Nobody waits for ever, and
/// all end after the same one.
TEST(StopAgreementTest, NobodyWaitsForAnAnswer) {
  constexpr std::uint32_t kWorkers = 4;
  constexpr std::int64_t kIterations = 1'000'000;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::atomic<std::uint64_t> word = 0;
    std::vector<std::atomic<std::int64_t>> done(kWorkers);
    std::vector<std::int64_t> ended(kWorkers);
    std::vector<std::thread> workers;
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      workers.emplace_back([&, rank] {
        StopAgreement agreement(word, kWorkers);
        std::mt19937_64 random(seed * kWorkers + rank);
        const auto told = static_cast<std::int64_t>(1 + random() % 20);  // after which it wants to stop
        std::optional<std::int64_t> last;
        for (std::int64_t iteration = 1; iteration <= kIterations; ++iteration) {
          for (const auto& other : done) {
            while (other < iteration - 1) std::this_thread::yield();
          }
          done[rank] = iteration;
          if (iteration >= told && !last) last = agreement.ask(iteration, iteration == kIterations);
          if (last == iteration) break;
        }
        ended[rank] = done[rank];
      });
    }
    for (std::thread& worker : workers) worker.join();
    EXPECT_EQ(std::count(ended.begin(), ended.end(), ended[0]), kWorkers) << seed;
    EXPECT_LT(ended[0], 40);
  }
}

}  // namespace
}  // namespace verbena::apps
