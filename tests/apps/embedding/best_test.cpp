#include "apps/embedding/best.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BestTest, TheLargestComeFirstAndTheSmallerPlaceAmongEqualOnes) {
  const std::vector<float> scores = {1, 3, -2, 3, 0};
  EXPECT_THAT(best(scores, 3), ElementsAre(1, 3, 0));
  EXPECT_THAT(best(scores, 99), ElementsAre(1, 3, 0, 4, 2));
  EXPECT_THAT(best(scores, 0), IsEmpty());
  EXPECT_THAT(best({}, 3), IsEmpty());
}

TEST(BestTest, WhatIsNoNumberIsNoAnswer) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(best(std::vector<float>{kNoAnswer, 1, std::nanf(""), kInfinity, 2}, 9), ElementsAre(4, 1));
}

}  // namespace
}  // namespace verbena::apps
