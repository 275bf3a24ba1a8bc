#include "apps/embedding/schedule.hpp"

#include <gtest/gtest.h>

namespace verbena::apps {
namespace {

TEST(PartOfIterationTest, PartsFollowOneAnother) {
  for (const std::size_t size : {0U, 3U, 100U}) {
    std::uint64_t end = 0;
    for (std::size_t part = 0; part < 7; ++part) {
      const ExampleRange range = part_of_iteration(size, part, 7);
      EXPECT_EQ(range.first, end);
      end = range.last;
    }
    EXPECT_EQ(end, size);
  }
}

}  // namespace
}  // namespace verbena::apps
