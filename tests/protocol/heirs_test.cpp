#include "protocol/heirs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace verbena::protocol {
namespace {

TEST(HeirsTest, EachServerIsTheHomeOfItsOwnKeysAtFirst) {
  const Heirs heirs(3);
  for (std::uint32_t server = 0; server < 3; ++server) {
    EXPECT_EQ(heirs.of(server), server);
    EXPECT_FALSE(heirs.is_gone(server));
  }
  EXPECT_EQ(heirs.gone(), 0U);
}

TEST(HeirsTest, TheNextOneInherits) {
  Heirs heirs(4);
  EXPECT_TRUE(heirs.lose(1));
  EXPECT_FALSE(heirs.lose(1)) << "that was known";
  EXPECT_EQ(heirs.of(1), 2U);
  EXPECT_TRUE(heirs.lose(3));
  EXPECT_EQ(heirs.of(3), 0U) << "after the last one comes the first";
  EXPECT_TRUE(heirs.lose(2)) << "with what it had inherited";
  EXPECT_EQ(heirs.of(1), 0U);
  EXPECT_EQ(heirs.of(2), 0U);
  EXPECT_EQ(heirs.of(0), 0U);
  EXPECT_EQ(heirs.gone(), 3U);
  EXPECT_TRUE(heirs.lose(0)) << "nobody is left, and nobody inherits";
}

/// All who know of the same deaths name the same servers, in whatever order they have heard of them.
TEST(HeirsTest, TheOrderOfDeathsDoesNotMatter) {
  std::array<std::uint32_t, 4> gone = {0, 2, 3, 5};
  do {
    Heirs heirs(6);
    for (const std::uint32_t server : gone) heirs.lose(server);
    const std::array<std::uint32_t, 6> expected = {1, 1, 4, 4, 4, 1};
    for (std::uint32_t server = 0; server < 6; ++server) EXPECT_EQ(heirs.of(server), expected[server]);
  } while (std::next_permutation(gone.begin(), gone.end()));
}

}  // namespace
}  // namespace verbena::protocol
