#include "apps/conditions/slowdown.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "apps/conditions/fields.hpp"

namespace verbena::apps {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A worker's time. It passes only when the test says so.
class Time {
 public:
  SlowdownClock clock() {
    return {.now = [this] { return now_; },
            .processor_time = [this] { return processor_time_; },
            .sleep =
                [this](nanoseconds time) {
                  slept_.push_back(time);
                  now_ += time + oversleep_;
                }};
  }
  void compute(nanoseconds time) {
    now_ += time;
    processor_time_ += time;
  }
  /// Another process runs on the processor meanwhile.
  void lose_processor(nanoseconds time) { now_ += time; }
  void set_oversleep(nanoseconds time) { oversleep_ = time; }
  [[nodiscard]] const std::vector<nanoseconds>& slept() const { return slept_; }
  [[nodiscard]] nanoseconds now() const { return now_; }

 private:
  nanoseconds now_{17};
  nanoseconds processor_time_{5};
  nanoseconds oversleep_{0};
  std::vector<nanoseconds> slept_;
};

SlowRule factor(std::optional<std::uint32_t> worker, double times) {
  return {.worker = worker, .factor = times};
}

TEST(SlowdownTest, AMiniBatchLastsItsFactorTimesItsProcessorTime) {
  Time time;
  Slowdown slowdown({factor(1, 3)}, 1, time.clock());
  time.compute(milliseconds(7));  // before the mini-batch
  slowdown.computing_begins();
  time.compute(milliseconds(2));
  slowdown.computing_ends(1);
  EXPECT_THAT(time.slept(), ElementsAre(milliseconds(4)));
}

TEST(SlowdownTest, OthersAreNotSlowed) {
  Time time;
  Slowdown other({factor(1, 3)}, 0, time.clock());
  Slowdown nobody;
  for (Slowdown* slowdown : {&other, &nobody}) {
    slowdown->computing_begins();
    time.compute(milliseconds(2));
    slowdown->computing_ends(1);
    slowdown->clock_ends();
  }
  EXPECT_THAT(time.slept(), IsEmpty());
}

TEST(SlowdownTest, FactorsOfOneWorkerAreMultiplied) {
  Time time;
  Slowdown slowdown({factor(std::nullopt, 4), factor(1, 3), factor(2, 5)}, 1, time.clock());
  slowdown.computing_begins();
  time.compute(milliseconds(1));
  slowdown.computing_ends(1);
  EXPECT_THAT(time.slept(), ElementsAre(milliseconds(11)));
}

TEST(SlowdownTest, WaitingForAProcessorIsPartOfTheTimeAndIsNotStretched) {
  Time time;
  Slowdown slowdown({factor(0, 3)}, 0, time.clock());
  slowdown.computing_begins();
  time.compute(milliseconds(1));
  time.lose_processor(milliseconds(1));
  slowdown.computing_ends(1);
  slowdown.computing_begins();
  time.compute(milliseconds(1));
  time.lose_processor(milliseconds(50));
  slowdown.computing_ends(1);
  EXPECT_THAT(time.slept(), ElementsAre(milliseconds(1)));
}

TEST(SlowdownTest, ItemsTakeTheirTimeWhateverTheProcessorNeeds) {
  Time time;
  const SlowRule item{.item = microseconds(10)};
  Slowdown slowdown({item, factor(0, 3)}, 0, time.clock());
  for (const nanoseconds needed : {microseconds(50), microseconds(250)}) {
    const nanoseconds start = time.now();
    slowdown.computing_begins();
    time.compute(needed);
    slowdown.computing_ends(100);
    EXPECT_EQ(time.now() - start, microseconds(3000));
  }
  Slowdown alone({item}, 2, time.clock());
  const nanoseconds start = time.now();
  alone.computing_begins();
  time.compute(microseconds(200));
  alone.computing_ends(10);  // longer than the 10 µs that the rule gives each item
  EXPECT_EQ(time.now() - start, microseconds(200));
}

TEST(SlowdownTest, WhatASleepIsTooLongTheNextIsShorter) {
  Time time;
  time.set_oversleep(microseconds(300));
  Slowdown slowdown({factor(0, 2)}, 0, time.clock());
  const nanoseconds start = time.now();
  for (int batch = 0; batch < 100; ++batch) {
    slowdown.computing_begins();
    time.compute(microseconds(50));
    slowdown.computing_ends(1);
  }
  EXPECT_GE(time.now() - start, microseconds(100 * 100));
  EXPECT_LT(time.now() - start, microseconds(100 * 100 + 300));
}

TEST(SlowdownTest, ABeginningWithoutAnEndCountsForNothing) {
  Time time;
  Slowdown slowdown({factor(0, 2)}, 0, time.clock());
  slowdown.computing_begins();
  time.compute(milliseconds(9));
  slowdown.computing_begins();
  time.compute(milliseconds(1));
  slowdown.computing_ends(1);
  EXPECT_THAT(time.slept(), ElementsAre(milliseconds(1)));
}

TEST(SlowdownTest, PausesAreSpread) {
  const SlowRule rule{.pause = milliseconds(200), .every = 20};
  std::vector<std::vector<int>> paused_at(4);
  for (std::uint32_t worker = 0; worker < 4; ++worker) {
    Time time;
    Slowdown slowdown({rule}, worker, time.clock());
    for (int clock = 1; clock <= 40; ++clock) {
      const std::size_t before = time.slept().size();
      slowdown.clock_ends();
      if (time.slept().size() > before) paused_at[worker].push_back(clock);
    }
    for (const nanoseconds length : time.slept()) EXPECT_EQ(length, milliseconds(200));
  }
  EXPECT_THAT(paused_at,
              ElementsAre(ElementsAre(20, 40), ElementsAre(8, 28), ElementsAre(16, 36), ElementsAre(3, 23)));
}

TEST(ParseSlowTest, ReadsAllKinds) {
  const auto lasting = parse_slow("worker=1,factor=3");
  ASSERT_TRUE(lasting.ok()) << lasting.status();
  EXPECT_EQ(lasting->worker, 1U);
  EXPECT_EQ(lasting->factor, 3);
  EXPECT_EQ(lasting->every, 0);
  const auto item = parse_slow("worker=all,item=250ns");
  ASSERT_TRUE(item.ok()) << item.status();
  EXPECT_EQ(item->item, nanoseconds(250));
  const auto pauses = parse_slow("every=20,pause=1.5ms,worker=all");
  ASSERT_TRUE(pauses.ok()) << pauses.status();
  EXPECT_EQ(pauses->worker, std::nullopt);
  EXPECT_EQ(pauses->factor, 1);
  EXPECT_EQ(pauses->pause, microseconds(1500));
  EXPECT_EQ(pauses->every, 20);
  EXPECT_EQ(pauses->competitors, 0U);
  const auto load = parse_slow("worker=2,competitors=3,core=1");
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->competitors, 3U);
  EXPECT_EQ(load->core, 1U);
  EXPECT_EQ(parse_slow("worker=2,competitors=3")->core, std::nullopt);
}

TEST(ParseSlowTest, SaysWhatWasExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "worker=R|all,factor=F or"},
      {"3", "worker=R|all,factor=F or"},
      {"factor=3", "worker=R|all,factor=F or"},
      {"worker=1", "worker=R|all,factor=F or"},
      {"worker=1,pause=1s", "worker=R|all,factor=F or"},
      {"worker=1,factor=2,every=3", "worker=R|all,factor=F or"},
      {"worker=one,factor=2", "worker=one: a worker's rank"},
      {"worker=-1,factor=2", "worker=-1: a worker's rank"},
      {"worker=1,factor=0.5", "factor=0.5: a number from 1 to 1000"},
      {"worker=1,factor=nan", "factor=nan: a number from 1"},
      {"worker=1,factor=", "factor=: a number from 1"},
      {"worker=1,item=3", "item=3: a time such as 500ns"},
      {"worker=1,item=0s", "item=0s: a time"},
      {"worker=1,item=2s", "of at most 1s"},
      {"worker=1,pause=3,every=2", "pause=3: a time such as 200ms"},
      {"worker=1,pause=0s,every=2", "pause=0s: a time"},
      {"worker=1,pause=11s,every=2", "of at most 10s"},
      {"worker=1,pause=1s,every=0", "every=0: a number of clocks"},
      {"worker=1,factor=2,factor=3", "factor= comes twice"},
      {"worker=1,speed=2", "there is no speed="},
      {"worker=1,competitors=0", "competitors=0: a whole number from 1 to 64"},
      {"worker=1,competitors=65", "competitors=65: a whole number from 1 to 64"},
      {"worker=1,competitors=-1", "competitors=-1: a whole number from 1 to 64"},
      {"competitors=1", "worker=R|all,competitors=N[,core=K] is expected"},
      {"worker=1,core=0", "worker=R|all,competitors=N[,core=K] is expected"},
      {"worker=1,competitors=1,core=first", "core=first: a core's number"},
      {"worker=1,factor=2,", "worker=R|all,factor=F or"},
  };
  for (const auto& [text, expected] : cases) {
    const auto rule = parse_slow(text);
    ASSERT_FALSE(rule.ok()) << text;
    EXPECT_EQ(rule.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(rule.status().message()), HasSubstr(expected)) << text;
  }
}

TEST(ParseDurationTest, WantsAUnit) {
  EXPECT_EQ(parse_duration("10us"), microseconds(10));
  EXPECT_EQ(parse_duration("2s"), std::chrono::seconds(2));
  EXPECT_EQ(parse_duration("0.5ns"), nanoseconds(1));
  for (const char* text : {"", "10", "us", "-1us", "1e30s", "10 us", "ms"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace verbena::apps
