#include "apps/mf/model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace verbena::apps::mf {
namespace {

std::vector<float> numbers(std::size_t count) {
  std::vector<float> result(count);
  std::iota(result.begin(), result.end(), 1.0F);
  return result;
}

TEST(FactorRowsTest, PackAndUnpackAreInverse) {
  for (const RowFormat& format : {RowFormat{1, true}, RowFormat{16, false}, RowFormat{19, true}}) {
    FactorRows rows(5, format);
    const std::vector<float> values = numbers(3 * format.width());
    rows.unpack(values, 2);
    std::vector<float> packed(values.size());
    rows.pack(packed, 2);
    EXPECT_EQ(packed, values);
    rows.pack(packed);
    EXPECT_EQ(packed[0], 0);
    EXPECT_EQ(packed[2 * format.width()], values[0]);
  }
}

TEST(FactorRowsTest, DifferenceIsFromThePackedRows) {
  const RowFormat format{3, true};
  FactorRows rows(2, format);
  rows.unpack(std::vector<float>{10, 20, 30, 40}, 1);
  std::vector<float> packed = {1, 2, 3, 4};
  rows.difference(packed, 1);
  EXPECT_EQ(packed, (std::vector<float>{9, 18, 27, 36}));
}

TEST(FactorRowsTest, RowsAreAligned) {
  FactorRows rows(3, {5, true});
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rows.rows(row).factors) % kRowAlignment, 0U);
  }
}

TEST(InitialRowTest, DependsOnAllArgumentsAndIsSmall) {
  const RowFormat format{64, true};
  const auto row = [&](std::uint64_t seed, Side side, std::uint64_t id) {
    std::vector<float> packed(format.width(), 7.0F);
    initial_row(format, seed, side, id, packed);
    return packed;
  };
  const std::vector<float> one = row(1, Side::kUser, 5);
  EXPECT_EQ(one, row(1, Side::kUser, 5));
  EXPECT_NE(one, row(2, Side::kUser, 5));
  EXPECT_NE(one, row(1, Side::kItem, 5));
  EXPECT_NE(one, row(1, Side::kUser, 6));
  EXPECT_EQ(one.back(), 0) << "the bias begins at 0";
  double sum = 0;
  double squares = 0;
  for (std::uint64_t id = 0; id < 1000; ++id) {
    for (const float value : row(1, Side::kItem, id)) {
      sum += double{value};
      squares += double{value} * double{value};
    }
  }
  EXPECT_NEAR(sum / 64'000, 0, 3e-4);
  EXPECT_NEAR(std::sqrt(squares / 1000), 0.1, 1e-3) << "the mean length of a row";
}

}  // namespace
}  // namespace verbena::apps::mf
