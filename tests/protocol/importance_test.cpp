#include "protocol/importance.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace verbena::protocol {
namespace {

template <class Value, std::size_t kWidth>
double change(const std::array<Value, kWidth>& row, const std::array<Value, kWidth>& update) {
  return relative_change(value_type_of<Value>(), kWidth, reinterpret_cast<const std::byte*>(row.data()),
                         reinterpret_cast<const std::byte*>(update.data()));
}

TEST(ImportanceTest, IsThePartOfTheUpdate) {
  EXPECT_DOUBLE_EQ((change<float, 2>({3, -3}, {-1, 1})), 0.25);
  EXPECT_DOUBLE_EQ((change<double, 1>({9}, {1})), 0.1);
  EXPECT_DOUBLE_EQ((change<std::int32_t, 2>({0, 0}, {1, 0})), 1);
  EXPECT_DOUBLE_EQ((change<std::int64_t, 2>({5, 5}, {0, 0})), 0);
  EXPECT_DOUBLE_EQ((change<std::int32_t, 1>({std::numeric_limits<std::int32_t>::min()}, {0})), 0);
}

TEST(ImportanceTest, OfWhatIsNoNumberIsNothing) {
  EXPECT_EQ((change<float, 1>({std::numeric_limits<float>::quiet_NaN()}, {1})), 0);
  EXPECT_EQ((change<float, 1>({1}, {std::numeric_limits<float>::infinity()})), 0);
  EXPECT_EQ((change<float, 1>({0}, {0})), 0);
}

TEST(ImportanceTest, ClassesAreOrdersOfMagnitude) {
  EXPECT_EQ(importance_class(0.6), importance_class(0.9));
  EXPECT_GT(importance_class(0.6), importance_class(0.4));
  EXPECT_GT(importance_class(1e-300), importance_class(0));
  EXPECT_GT(importance_class(std::numeric_limits<double>::infinity()), importance_class(1e300));
}

}  // namespace
}  // namespace verbena::protocol
