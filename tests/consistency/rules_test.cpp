#include <gtest/gtest.h>

#include <random>

#include "consistency/in_transit_bound.hpp"
#include "consistency/model.hpp"
#include "consistency/vector_clock.hpp"
#include "consistency/weight_of_means.hpp"

namespace verbena::consistency {
namespace {

// The definition says "all updates of clocks ≤ c − s − 1", which is a min clock of c − s.
TEST(RulesTest, MinClockNeededIsTheDefinition) {
  for (std::uint32_t staleness = 0; staleness < 5; ++staleness) {
    for (Clock reader = 0; reader < 10; ++reader) {
      const Clock newest_promised = reader - static_cast<Clock>(staleness) - 1;
      for (const ConsistencyModel& model : std::initializer_list<ConsistencyModel>{
               Ssp{staleness}, Essp{staleness}, BoundedDelay{staleness}}) {
        EXPECT_EQ(min_clock_needed(rules_of(model).read_bound, reader),
                  std::max<Clock>(0, newest_promised + 1));
      }
    }
  }
  EXPECT_EQ(min_clock_needed(rules_of(Bsp{}).read_bound, 4), 4);
  for (const ConsistencyModel& model : std::initializer_list<ConsistencyModel>{Asp{}, Sequential{}, Vap{}})
    EXPECT_EQ(min_clock_needed(rules_of(model).read_bound, 1'000'000), 0) << to_string(model);
}

// The table of models in docs/consistency.md, line by line.
TEST(RulesTest, WhoWaitsAndWhatIsHeldBack) {
  EXPECT_EQ(rules_of(Bsp{}), (Rules{.read_bound = 0, .clock_bound = 0, .holds_updates_back = true}));
  EXPECT_EQ(rules_of(ABsp{}),
            (Rules{.read_bound = 0, .clock_bound = 0, .holds_updates_back = true, .ends_early = true}));
  EXPECT_EQ(rules_of(ABsp{Updates::kMeans}), (Rules{.read_bound = 0,
                                                    .clock_bound = 0,
                                                    .holds_updates_back = true,
                                                    .ends_early = true,
                                                    .weighs_means = true}));
  EXPECT_EQ(rules_of(Ssp{3}), (Rules{.read_bound = 3}));
  EXPECT_EQ(rules_of(Essp{3}), (Rules{.read_bound = 3, .pushes_eagerly = true}));
  EXPECT_EQ(rules_of(BoundedDelay{3}), (Rules{.read_bound = 3, .clock_bound = 3}));
  EXPECT_EQ(rules_of(Asp{}), (Rules{.cache = CacheRule::kForOneClock}));
  EXPECT_EQ(rules_of(Sequential{}), (Rules{.cache = CacheRule::kNever, .pushes_at_once = true}));
  EXPECT_EQ(rules_of(Vap{2.5}), (Rules{.cache = CacheRule::kNever, .value_bound = 2.5}));
  EXPECT_TRUE(rules_of(Sequential{}).acknowledges_at_once());
  EXPECT_TRUE(rules_of(Vap{2.5}).acknowledges_at_once());
  EXPECT_FALSE(rules_of(Bsp{}).acknowledges_at_once());
  for (const Rules& rules : {rules_of(Asp{}), rules_of(Sequential{}), rules_of(Vap{2.5})})
    EXPECT_TRUE(rules.lets_workers_drift());
  for (const Rules& rules :
       {rules_of(Bsp{}), rules_of(ABsp{}), rules_of(Ssp{3}), rules_of(Essp{3}), rules_of(BoundedDelay{3})})
    EXPECT_FALSE(rules.lets_workers_drift());
}

TEST(RulesTest, InTransitBoundIsShared) {
  EXPECT_EQ(in_transit_bound(6, 3, 0), 2);
  EXPECT_EQ(in_transit_bound(6, 3, 3), 1);
  EXPECT_EQ(in_transit_bound(1, 1, 99), 0.1);
}

TEST(RulesTest, MeansWeighWhatTheirExamplesDo) {
  // The share of the processed examples over the share of the planned ones: (n_p / Σn) / (D_p / ΣD).
  EXPECT_DOUBLE_EQ(weight_of_means({.processed = 10, .planned = 60}, {.processed = 40, .planned = 100}),
                   (10.0 / 40) / (60.0 / 100));
  EXPECT_DOUBLE_EQ(weight_of_means({.processed = 30, .planned = 40}, {.processed = 40, .planned = 100}),
                   (30.0 / 40) / (40.0 / 100));
  EXPECT_EQ(weight_of_means({.processed = 0, .planned = 40}, {.processed = 40, .planned = 100}), 0);
}

TEST(RulesTest, EqualSharesWeighExactlyOne) {
  for (std::uint64_t planned = 1; planned < 50; ++planned) {
    const ExampleCounts all{.processed = 3 * planned + 77, .planned = 3 * planned + 77};
    EXPECT_EQ(weight_of_means({.processed = planned, .planned = planned}, all), 1);
    EXPECT_EQ(
        weight_of_means({.processed = planned, .planned = 3 * planned}, {.processed = 49, .planned = 3 * 49}),
        1);
  }
  EXPECT_EQ(weight_of_means({.processed = kMaxExamples, .planned = kMaxExamples},
                            {.processed = 4096 * kMaxExamples, .planned = 4096 * kMaxExamples}),
            1);
  EXPECT_EQ(weight_of_means({}, {.processed = 3, .planned = 9}), 1) << "a worker that takes no part";
  EXPECT_EQ(weight_of_means({.planned = 9}, {.planned = 18}), 1) << "nobody has processed anything";
}

TEST(RulesTest, ClockDifferentialOfBspIsMinusOne) {
  EXPECT_EQ(clock_differential(5, 5), -1);
  EXPECT_EQ(clock_differential(3, 5), -3);
}

TEST(VectorClockTest, MinFollowsTheSlowest) {
  VectorClock clocks(3);
  EXPECT_FALSE(clocks.advance(0, 1));
  EXPECT_FALSE(clocks.advance(1, 1));
  EXPECT_EQ(clocks.min(), 0);
  EXPECT_TRUE(clocks.advance(2, 1));
  EXPECT_EQ(clocks.min(), 1);
  EXPECT_FALSE(clocks.advance(2, 5));
  EXPECT_TRUE(clocks.advance(0, VectorClock::kLeft) || clocks.min() == 1);
  EXPECT_TRUE(clocks.advance(1, VectorClock::kLeft));
  EXPECT_EQ(clocks.min(), 5);
}

TEST(VectorClockTest, AgreesWithTheDefinitionWhateverTheOrder) {
  std::mt19937 random(1);
  VectorClock clocks(7);
  std::vector<Clock> expected(7, 0);
  for (int step = 0; step < 2000; ++step) {
    const auto worker = static_cast<std::uint32_t>(random() % 7);
    const Clock before = *std::min_element(expected.begin(), expected.end());
    expected[worker] += static_cast<Clock>(random() % 3);
    const Clock after = *std::min_element(expected.begin(), expected.end());
    EXPECT_EQ(clocks.advance(worker, expected[worker]), after > before);
    EXPECT_EQ(clocks.min(), after);
  }
}

}  // namespace
}  // namespace verbena::consistency
