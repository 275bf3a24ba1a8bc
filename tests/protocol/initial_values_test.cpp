// What rows of sparse tables hold before the first push.
#include "protocol/initial_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace verbena::protocol {
namespace {

std::vector<float> values_of(const InitialValues& initial, Key key, std::uint32_t width) {
  std::vector<float> values(width, -1);
  initial.write(key, ValueType::kFloat, width, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

InitialValues found(std::string_view text, std::uint64_t seed = 0) {
  return InitialValues::find(text, seed, ValueType::kFloat).value();
}

TEST(InitialValuesTest, ZerosAndConstantsAreWhatTheySay) {
  EXPECT_THAT(values_of(InitialValues(), 7, 2), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(values_of(found("zero"), 7, 2), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(values_of(found("constant(value=0.5)"), 7, 2), ::testing::ElementsAre(0.5F, 0.5F));
  EXPECT_TRUE(found("constant").is_zero());
  std::int64_t whole = 0;
  InitialValues::find("constant(value=-3)", 0, ValueType::kInt64)
      .value()
      .write(7, ValueType::kInt64, 1, reinterpret_cast<std::byte*>(&whole));
  EXPECT_EQ(whole, -3);
}

/// Bits that a test can hold to: another process, or another version, must compute the same.
TEST(InitialValuesTest, AreAFunctionOfSeedAndKeyAlone) {
  const InitialValues initial = found("uniform(low=0,high=1)", 3);
  EXPECT_EQ(values_of(initial, 5, 4), values_of(found("uniform(low=0,high=1)", 3), 5, 4));
  EXPECT_NE(values_of(initial, 5, 4), values_of(initial, 6, 4));
  EXPECT_NE(values_of(initial, 5, 4), values_of(found("uniform(low=0,high=1)", 4), 5, 4));
  const std::vector<float> wide = values_of(initial, 5, 4);
  EXPECT_EQ(values_of(initial, 5, 2), std::vector<float>(wide.begin(), wide.begin() + 2));
}

TEST(InitialValuesTest, HaveTheirDistribution) {
  constexpr std::uint32_t kWidth = 8;
  constexpr Key kKeys = 20'000;
  constexpr double kCount = kWidth * kKeys;
  const auto moments = [&](const InitialValues& initial) {
    double sum = 0;
    double squares = 0;
    double neighbours = 0;  // of one key, and of one key and the next
    float before = 0;
    for (Key key = 0; key < kKeys; ++key) {
      for (const float value : values_of(initial, key, kWidth)) {
        sum += value;
        squares += static_cast<double>(value) * value;
        neighbours += static_cast<double>(value) * before;
        before = value;
      }
    }
    return std::array<double, 3>{sum / kCount, squares / kCount, neighbours / kCount};
  };
  const auto [normal_mean, normal_square, normal_neighbours] =
      moments(found("normal(mean=0,deviation=2)", 11));
  EXPECT_NEAR(normal_mean, 0, 5 * 2 / std::sqrt(kCount));
  EXPECT_NEAR(normal_square, 4, 5 * 4 * std::sqrt(2 / kCount));
  EXPECT_NEAR(normal_neighbours, 0, 5 * 4 / std::sqrt(kCount));
  const auto [mean, square, product] = moments(found("uniform(low=-3,high=3)", 11));
  EXPECT_NEAR(mean, 0, 5 * std::sqrt(3 / kCount));
  EXPECT_NEAR(square, 3, 5 * std::sqrt(7.2 / kCount));
  EXPECT_NEAR(product, 0, 5 * 3 / std::sqrt(kCount));
}

TEST(InitialValuesTest, WhatCannotBeIsRefused) {
  const auto error = [](std::string_view text, ValueType type = ValueType::kFloat) {
    return std::string(InitialValues::find(text, 0, type).status().message());
  };
  EXPECT_THAT(error("glorot"), ::testing::HasSubstr("expected zero, constant, uniform or normal"));
  EXPECT_THAT(error("normal(deviation=-1)"), ::testing::HasSubstr("expected 0 to"));
  EXPECT_THAT(error("normal(width=1)"), ::testing::HasSubstr("no parameter \"width\", but mean, deviation"));
  EXPECT_THAT(error("uniform(low=1,high=0)"), ::testing::HasSubstr("above high"));
  EXPECT_THAT(error("normal", ValueType::kInt32), ::testing::HasSubstr("not whole numbers"));
  EXPECT_THAT(error("constant(value=0.5)", ValueType::kInt64), ::testing::HasSubstr("not whole numbers"));
  EXPECT_THAT(error("constant(value=0.5"), ::testing::HasSubstr("no \")\""));
}

}  // namespace
}  // namespace verbena::protocol
