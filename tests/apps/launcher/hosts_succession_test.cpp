#include "apps/launcher/hosts_succession.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

/// A rendezvous of which rank 0's side is here, and all others hear at once.
class FakeNews final : public job::PeerNews {
 public:
  void listen(Listener to) override { listener = std::move(to); }
  void outlive(const std::vector<std::uint32_t>& ranks) override { outlived = ranks; }
  void tell(const std::string& news) override { listener.on_news(news); }
  void say(const std::string& word) override { listener.on_word(5, word); }
  void dismiss(std::uint32_t rank, const std::string& why) override {
    dismissed.push_back(std::to_string(rank) + ": " + why);
  }

  Listener listener;
  std::vector<std::uint32_t> outlived;
  std::vector<std::string> dismissed;
};

/// Two servers, each with a copy: ranks 0 and 3, 1 and 2.
class HostsSuccessionTest : public ::testing::Test {
 protected:
  void meet() { told_.begin({"place 0", "place 1", "place 2", "place 3"}); }
  [[nodiscard]] bool rings() const {
    std::vector<pollfd> wanted;
    succession_->add_descriptors(wanted);
    return ::poll(wanted.data(), wanted.size(), 0) > 0;
  }
  static transport::TimePoint now() { return std::chrono::steady_clock::now(); }

  const RankChains chains_ = {{0, 3}, {1, 2}};
  FakeNews news_;
  const std::unique_ptr<HostsSuccession> succession_ = *HostsSuccession::make(chains_, news_);
  ToldConfiguration told_{chains_, news_, succession_->listener(),
                          [this](const cluster::Configuration& first) { succession_->begin(first); }};
  const std::shared_ptr<cluster::ConfigurationSource> source_ = told_.source();
};

TEST_F(HostsSuccessionTest, AllKnowTheFirstConfigurationWhenTheyHaveMet) {
  source_->poll(now());
  EXPECT_EQ(source_->newest().number, 0U);
  EXPECT_TRUE(absl::IsFailedPrecondition(succession_->go_on_without(1, "").status()));
  EXPECT_FALSE(succession_->chains());
  meet();
  meet();
  source_->poll(now());
  EXPECT_EQ(source_->newest().number, 1U);
  EXPECT_EQ(source_->decided(), 1U);
  EXPECT_FALSE(source_->ends_who_is_left_out());
  EXPECT_THAT(source_->newest().servers,
              ElementsAre(ElementsAre("place 0", "place 3"), ElementsAre("place 1", "place 2")));
  EXPECT_THAT(news_.outlived, ElementsAre(3, 1, 2));
}

TEST_F(HostsSuccessionTest, GoesOnWithoutOneThatIsGone) {
  meet();
  EXPECT_FALSE(rings());
  news_.listener.on_gone(1, "it is gone");
  EXPECT_TRUE(rings());
  const auto losses = succession_->take_losses();
  EXPECT_FALSE(rings());
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].rank, 1U);
  const auto next = succession_->go_on_without(1, "server 1 is gone");
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(*next, "the run goes on with the last copy of server 1 (configuration 2)");
  EXPECT_THAT(news_.dismissed, ElementsAre("1: server 1 is gone"));
  EXPECT_EQ(source_->decided(), 2U);
  source_->poll(now());
  EXPECT_THAT(source_->newest().servers,
              ElementsAre(ElementsAre("place 0", "place 3"), ElementsAre("place 2")));
  const auto chains = succession_->chains();
  ASSERT_TRUE(chains);
  EXPECT_EQ(chains->number, 2U);
  EXPECT_EQ(chains->servers[1][0].rank, 2U);
  EXPECT_EQ(chains->servers[1][0].copy, 1U);
  EXPECT_TRUE(absl::IsDataLoss(succession_->go_on_without(2, "").status()));
}

TEST_F(HostsSuccessionTest, WhoIsSuspectedIsLostOnce) {
  meet();
  source_->poll(now());
  for (int i = 0; i < 3; ++i) source_->suspect("place 2", "\"silent\"");
  EXPECT_EQ(source_->next_poll(), transport::TimePoint::min());
  const auto losses = succession_->take_losses();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].rank, 2U);
  EXPECT_THAT(losses[0].why, HasSubstr("shows no sign of life (\"silent\")"));
  source_->suspect("somewhere else", "");
  for (const char* const word :
       {"", "{}", "[1]", "{\"suspect\": 3, \"why\": \"x\"}", "{\"suspect\": \"place 1\"}"})
    news_.listener.on_word(1, word);
  EXPECT_THAT(succession_->take_losses(), IsEmpty());
}

TEST_F(HostsSuccessionTest, ASuspicionNeverCostsTheLastCopy) {
  meet();
  source_->poll(now());
  // Both at once, and the one that is surely gone is heard of last.
  source_->suspect("place 2", "silent");
  news_.listener.on_gone(1, "it is gone");
  const auto losses = succession_->take_losses();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].rank, 1U);
  ASSERT_TRUE(succession_->go_on_without(1, "").ok());
  // The last one, and one that has no place any more.
  const std::shared_ptr<cluster::ConfigurationSource> of_another = told_.source();
  of_another->suspect("place 2", "silent");
  of_another->suspect("place 1", "silent");
  EXPECT_THAT(succession_->take_losses(), IsEmpty());
  news_.listener.on_gone(2, "it is gone");
  EXPECT_EQ(succession_->take_losses().size(), 1U);
}

TEST_F(HostsSuccessionTest, OfTwoThatAreSuspectedAtOnceOneIsKept) {
  meet();
  source_->poll(now());
  source_->suspect("place 1", "silent");
  source_->suspect("place 2", "silent");
  const auto losses = succession_->take_losses();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].rank, 1U);
}

TEST_F(HostsSuccessionTest, NewsThatAreOldOrNoneChangeNothing) {
  meet();
  ASSERT_TRUE(succession_->go_on_without(3, "").ok());
  for (const std::string& news :
       {std::string("nonsense"),
        encode(cluster::Configuration{.number = 1, .servers = {{"x"}, {"y"}}, .joining = {}})})
    news_.tell(news);
  source_->poll(now());
  EXPECT_EQ(source_->newest().number, 2U);
  EXPECT_THAT(source_->newest().servers[0], ElementsAre("place 0"));
}

TEST_F(HostsSuccessionTest, RankZeroAndWorkersAreNeeded) {
  meet();
  EXPECT_THAT(std::string(succession_->go_on_without(0, "").status().message()), HasSubstr("leads"));
  EXPECT_THAT(std::string(succession_->go_on_without(4, "").status().message()), HasSubstr("no server"));
}

}  // namespace
}  // namespace verbena::apps
