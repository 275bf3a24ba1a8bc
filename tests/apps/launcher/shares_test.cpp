#include "apps/launcher/shares.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// By server: the hosts of its chain, the first one serves. Rank 0 is the first server's first copy, and
/// cannot move.
std::vector<Holding> holdings_of(const std::vector<std::vector<std::string>>& servers) {
  std::vector<Holding> all;
  for (std::uint32_t server = 0; server < servers.size(); ++server) {
    for (std::size_t copy = 0; copy < servers[server].size(); ++copy) {
      all.push_back({.server = server,
                     .rank = static_cast<std::uint32_t>(all.size()),
                     .host = servers[server][copy],
                     .can_move = !all.empty(),
                     .serves = copy == 0});
    }
  }
  return all;
}

TEST(SharesTest, FewestMoveThatMakeTheLoadEven) {
  // Four and four, and a third host: two move, of eight, and then there are three, three and two.
  const auto eight = holdings_of({{"a"}, {"a"}, {"a"}, {"a"}, {"b"}, {"b"}, {"b"}, {"b"}});
  EXPECT_THAT(share_of("c", eight, 1, std::nullopt), ElementsAre(Transfer{1, 1}, Transfer{4, 4}));
  // Two and two: one moves, and another one would make it no better.
  EXPECT_THAT(share_of("c", holdings_of({{"a"}, {"a"}, {"b"}, {"b"}}), 1, std::nullopt),
              ElementsAre(Transfer{1, 1}));
  EXPECT_THAT(share_of("c", holdings_of({{"a"}, {"b"}}), 1, std::nullopt), IsEmpty());
  EXPECT_THAT(share_of("b", holdings_of({{"a"}, {"b"}, {"b"}}), 1, std::nullopt), IsEmpty());
}

TEST(SharesTest, SoManyIfItIsSaid) {
  const auto four = holdings_of({{"a"}, {"a"}, {"b"}, {"b"}});
  EXPECT_EQ(share_of("c", four, 1, 2).size(), 2U);
  EXPECT_EQ(share_of("c", four, 1, 3).size(), 3U);
  EXPECT_EQ(share_of("c", four, 1, 9).size(), 3U) << "rank 0 cannot move";
}

TEST(SharesTest, NoHostGetsTwoOfAServer) {
  const auto two = holdings_of({{"a", "b"}, {"b", "a"}});
  const auto moves = share_of("c", two, 2, 9);
  ASSERT_EQ(moves.size(), 2U);
  EXPECT_NE(moves[0].server, moves[1].server);
  EXPECT_THAT(share_of("b", two, 2, 9), IsEmpty());
}

TEST(SharesTest, ServersThatLackACopyComeFirst) {
  EXPECT_THAT(share_of("c", holdings_of({{"a", "b"}, {"b"}}), 2, std::nullopt),
              ElementsAre(Transfer{1, std::nullopt}));
  // But not on a host that has it.
  EXPECT_THAT(share_of("b", holdings_of({{"a", "b"}, {"b"}}), 2, std::nullopt), IsEmpty());
}

/// So that one host does not serve all that others only follow.
TEST(SharesTest, WhatServesStaysSpread) {
  const auto all = holdings_of({{"a", "b"}, {"b", "a"}, {"b", "a"}, {"a", "b"}});
  for (const Transfer& transfer : share_of("c", all, 2, std::nullopt)) {
    ASSERT_TRUE(transfer.replaces);
    EXPECT_FALSE(all[*transfer.replaces].serves) << transfer.server;
  }
}

/// Whatever there is, no more than an even share moves; and nobody has two more than the host that joins, and
/// could give one, unless that has its share.
TEST(SharesTest, TheLoadIsBoundedWhateverThereIs) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    const std::size_t hosts = 1 + random() % 5;
    const std::size_t servers = 1 + random() % 12;
    const std::size_t copies = 1 + random() % std::min<std::size_t>(hosts, 2);
    std::vector<std::vector<std::string>> chains(servers);
    for (std::vector<std::string>& chain : chains) {
      const std::size_t first = random() % hosts;
      for (std::size_t copy = 0; copy < copies; ++copy)
        chain.emplace_back(1, static_cast<char>('a' + (first + copy) % hosts));
    }
    const std::vector<Holding> all = holdings_of(chains);
    const auto moves = share_of("z", all, static_cast<std::uint32_t>(copies), std::nullopt);
    std::map<std::string, std::size_t> loads;
    std::map<std::string, bool> can_give;
    for (const Holding& holding : all) ++loads[holding.host];
    const std::size_t share = (all.size() + loads.size()) / (loads.size() + 1);
    for (const Transfer& move : moves) --loads[all[*move.replaces].host];
    for (const Holding& holding : all) {
      const bool has_moved = std::ranges::any_of(moves, [&](const Transfer& move) {
        return move.replaces == holding.rank || move.server == holding.server;
      });
      can_give[holding.host] |= holding.can_move && !has_moved;
    }
    EXPECT_LE(moves.size(), share);
    for (const auto& [host, load] : loads) {
      EXPECT_TRUE(!can_give[host] || load <= moves.size() + 1 || moves.size() == share)
          << host << " has " << load;
    }
  }
}

TEST(RefugeTest, TheLeastLoadedHostThatMayTakeIt) {
  const auto all = holdings_of({{"a"}, {"a"}, {"b"}, {"c"}, {"c"}});
  EXPECT_EQ(refuge_of(all[3], all, {}), "b");
  EXPECT_EQ(refuge_of(all[3], all, {"b"}), "a");
  EXPECT_EQ(refuge_of(all[3], all, {"a", "b"}), std::nullopt);
  const auto pairs = holdings_of({{"a", "b"}, {"b", "c"}});
  EXPECT_EQ(refuge_of(pairs[1], pairs, {}), "c") << "one of the server is on a";
}

}  // namespace
}  // namespace verbena::apps
