#include "apps/launcher/rank_chains.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;

TEST(FormChainsTest, CopiesAreOnOtherHosts) {
  // As processes that go to hosts in turn are: the copy of server 0 that comes first is on its host.
  const std::vector<std::string> two = {"a", "b", "a", "b", "a", "b"};
  const FormedChains formed = form_chains(two, 2, 1);
  EXPECT_TRUE(formed.are_apart);
  EXPECT_THAT(formed.ranks, ElementsAre(ElementsAre(0, 3), ElementsAre(1, 2)));
  // The only copy that server 1 could have is the first that server 0 would take.
  const std::vector<std::string> tight = {"a", "b", "c", "b", "w"};
  const FormedChains moved = form_chains(tight, 2, 1);
  EXPECT_TRUE(moved.are_apart);
  EXPECT_THAT(moved.ranks, ElementsAre(ElementsAre(0, 3), ElementsAre(1, 2)));
}

TEST(FormChainsTest, AsFarAsThereAreHosts) {
  const std::vector<std::string> one = {"a", "a", "a", "a"};
  EXPECT_FALSE(form_chains(one, 1, 1).are_apart);
  EXPECT_THAT(form_chains(one, 1, 1).ranks, ElementsAre(ElementsAre(0, 1)));
  EXPECT_TRUE(form_chains(one, 2, 0).are_apart);
  // Two copies of each of two servers on three hosts, whose processes come in any order.
  std::vector<std::string> hosts = {"c", "a", "a", "b", "b", "c"};
  std::sort(hosts.begin() + 2, hosts.end());
  do {
    const FormedChains formed = form_chains(hosts, 2, 2);
    std::set<std::uint32_t> all;
    for (const std::vector<std::uint32_t>& ranks : formed.ranks) {
      std::set<std::string> of_chain;
      for (const std::uint32_t rank : ranks) of_chain.insert(hosts[rank]);
      EXPECT_EQ(of_chain.size(), 3U);
      all.insert(ranks.begin(), ranks.end());
    }
    EXPECT_TRUE(formed.are_apart);
    EXPECT_EQ(all.size(), hosts.size());
  } while (std::next_permutation(hosts.begin() + 2, hosts.end()));
}

}  // namespace
}  // namespace verbena::apps
