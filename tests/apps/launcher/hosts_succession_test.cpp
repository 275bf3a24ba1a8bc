#include "apps/launcher/hosts_succession.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "apps/launcher/told_configuration.hpp"
#include "cluster/account.hpp"
#include "cluster/order.hpp"
#include "cluster/word.hpp"

namespace verbena::apps {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A rendezvous of which rank 0's side is here, and all others hear at once.
class FakeNews final : public job::PeerNews {
 public:
  void listen(Listener to) override { listener = std::move(to); }
  void outlive(const std::vector<std::uint32_t>& ranks) override { outlived = ranks; }
  void outlive_leader(std::chrono::milliseconds how_long) override { patience = how_long; }
  std::vector<Returned> returned() override { return {}; }
  void tell(const std::string& news) override { listener.on_news(news); }
  void say(const std::string& word) override { listener.on_word(speaker, word); }
  void dismiss(std::uint32_t rank, const std::string& why) override {
    dismissed.push_back(std::to_string(rank) + ": " + why);
  }

  void release(std::uint32_t rank) override { released.push_back(rank); }
  void tell_one(std::uint32_t rank, const std::string& news) override {
    ordered.push_back(std::to_string(rank) + ": " + news);
  }
  std::uint32_t keep_place() override { return next_place++; }
  Standing standing() override { return stands; }
  void give_place(std::uint32_t added, std::uint32_t rank) override {
    ordered.push_back(std::to_string(added) + " has the place of " + std::to_string(rank));
  }

  Standing stands;
  Listener listener;
  std::chrono::milliseconds patience{0};
  std::uint32_t speaker = 5;  ///< whose words these are
  std::vector<std::uint32_t> outlived;
  std::vector<std::string> dismissed;
  std::vector<std::uint32_t> released;
  std::vector<std::string> ordered;
  std::uint32_t next_place = 100;
};

/// Does as the leader does.
class FakeLeader final : public Leader::Survival::Host {
 public:
  explicit FakeLeader(HostsSuccession& succession) : succession_(succession) {}
  void lose(std::uint32_t rank, const std::string& why) override {
    lost.push_back(std::to_string(rank) + ": " + why);
    next = succession_.go_on_without(rank, why);
  }
  void welcome(std::uint32_t rank, Leader::Member member) override {
    welcomed.push_back(std::to_string(rank) + ": " + member.name);
  }
  void note_joined(std::uint32_t rank) override { joined.push_back(rank); }
  void leave(std::uint32_t rank) override { next = succession_.let_leave(rank); }
  void step_aside(std::uint32_t rank, const std::string& what) override {
    replaced.push_back(std::to_string(rank) + ": " + what);
  }
  void keep_place(std::uint32_t rank) override { kept.push_back(rank); }
  void show(const std::string& line) override { lines.push_back(line); }

  std::vector<std::uint32_t> kept;
  std::vector<std::string> lost;
  std::vector<std::string> welcomed;
  std::vector<std::uint32_t> joined;
  std::vector<std::string> replaced;
  std::vector<std::string> lines;
  absl::StatusOr<std::string> next = absl::UnknownError("nobody was lost");  ///< after the last loss

 private:
  HostsSuccession& succession_;
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
  [[nodiscard]] const cluster::Configuration& newest() {
    source_->poll(now());
    return source_->newest();
  }
  /// The speaker's process has come late.
  void say_it_has_come(const cluster::Arrival& arrival) { news_.say(cluster::encode(arrival)); }
  /// A process comes in the place of rank 1's, and wants to be a copy.
  void let_another_come(const std::string& address) {
    news_.speaker = 1;
    say_it_has_come({.pid = 4711, .host = "node2", .machine = "node2"});
    told_.listens_at(address);
    told_.join();
    succession_->tell(leader_);
  }

  const RankChains chains_ = {{0, 3}, {1, 2}};
  FakeNews news_;
  const std::vector<HostsSuccession::HostOfRank> hosts_ = {{"a", "node1"}, {"b", "node2"}, {"c", "node3"},
                                                           {"c", "node3"}, {"a", "node1"}, {"a", "node1"}};
  const std::unique_ptr<HostsSuccession> succession_ = *HostsSuccession::make(chains_, hosts_, news_);
  ToldConfiguration told_{chains_, news_, succession_->listener(),
                          [this](const cluster::Configuration& first) { succession_->begin(first); }};
  const std::shared_ptr<cluster::ConfigurationSource> source_ = told_.source();
  FakeLeader leader_{*succession_};
};

TEST_F(HostsSuccessionTest, AllKnowTheFirstConfigurationWhenTheyHaveMet) {
  source_->poll(now());
  EXPECT_EQ(source_->newest().number, 0U);
  succession_->tell(leader_);
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
  EXPECT_THAT(news_.outlived, ElementsAre(1, 2, 3));
}

TEST_F(HostsSuccessionTest, GoesOnWithoutOneThatIsGone) {
  meet();
  EXPECT_FALSE(rings());
  news_.listener.on_gone(1, "it is gone");
  EXPECT_TRUE(rings());
  succession_->tell(leader_);
  EXPECT_FALSE(rings());
  EXPECT_THAT(leader_.lost, ElementsAre("1: is gone: it crashed, was killed, or its host is gone"));
  ASSERT_TRUE(leader_.next.ok()) << leader_.next.status();
  EXPECT_EQ(*leader_.next, "the run goes on with the last copy of server 1 (configuration 2)");
  EXPECT_THAT(news_.dismissed, ElementsAre(HasSubstr("1: is gone")));
  EXPECT_EQ(source_->decided(), 2U);
  EXPECT_THAT(newest().servers, ElementsAre(ElementsAre("place 0", "place 3"), ElementsAre("place 2")));
  const auto chains = succession_->chains();
  ASSERT_TRUE(chains);
  EXPECT_EQ(chains->number, 2U);
  EXPECT_EQ(chains->servers[1][0].rank, 2U);
  EXPECT_EQ(chains->servers[1][0].copy, 1U);
  EXPECT_TRUE(absl::IsDataLoss(succession_->go_on_without(2, "").status()));
}

/// Rank 0 hears that when it goes on.
TEST_F(HostsSuccessionTest, WhatWasSaidOfRankZeroWhileItWasStoppedIsOver) {
  meet();
  news_.stands = {.leads = job::PeerNews::Standing::Leads::kPerhaps, .doubted_at = now()};
  EXPECT_EQ(succession_->leads(), Leader::Survival::Leads::kPerhaps);
  news_.stands.leads = job::PeerNews::Standing::Leads::kYes;
  EXPECT_EQ(succession_->leads(), Leader::Survival::Leads::kYes);
  source_->suspect("place 0", "it is stopped");
  source_->suspect("place 1", "it is stopped, too");
  succession_->tell(leader_);
  EXPECT_THAT(leader_.lost, ElementsAre("1: shows no sign of life (it is stopped, too)"));
  EXPECT_EQ(newest().number, 2U);
  news_.stands.doubted_at = now() - std::chrono::minutes(1);
  EXPECT_EQ(succession_->leads(), Leader::Survival::Leads::kYes);
  source_->suspect("place 0", "nobody hears it");
  succession_->tell(leader_);
  EXPECT_THAT(leader_.lost.back(), "0: shows no sign of life (nobody hears it)");
  EXPECT_TRUE(absl::IsFailedPrecondition(leader_.next.status())) << leader_.next.status();
}

TEST_F(HostsSuccessionTest, WhatAProcessSaysToAnotherLeaderIsWhatItKnows) {
  std::vector<std::string> heard;
  bool ends = false;
  told_.outlive_leader(
      {.patience = std::chrono::seconds(7),
       .own = {.pid = 4711, .host = "node2", .machine = "b", .address = {}, .configuration = {}},
       .ends_with_it = [&] { return ends; },
       .on_gone = [&] { heard.emplace_back("nobody leads"); },
       .on_next = [&](const cluster::HasLeader& next) { heard.push_back(next.address + " leads"); }});
  EXPECT_EQ(news_.patience, std::chrono::seconds(7));
  EXPECT_EQ(told_.source()->longest_absence(), std::chrono::seconds(7));
  EXPECT_EQ(source_->longest_absence(), std::chrono::seconds(0));
  EXPECT_EQ(news_.listener.describe(), "") << "before there is a configuration nobody can go on";
  told_.listens_at("place 1");
  meet();
  const auto account = cluster::decode_account(news_.listener.describe());
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_EQ(account->pid, 4711U);
  EXPECT_EQ(account->address, "place 1");
  EXPECT_EQ(account->configuration, newest());
  ends = true;
  EXPECT_EQ(news_.listener.describe(), "") << "it is to end";
  news_.listener.on_leader_gone();
  news_.listener.on_news(cluster::encode(cluster::HasLeader{.address = "there", .machine = "c"}));
  EXPECT_THAT(heard, ElementsAre("nobody leads", "there leads"));
}

/// The next rank 0 does not know of it. A server steps aside by a configuration that all know.
TEST_F(HostsSuccessionTest, AWorkerThatIsToStepAsideForgetsItWithItsLeader) {
  const auto is_told = [&](const cluster::Order& order) { news_.listener.on_news(cluster::encode(order)); };
  is_told(cluster::StepsAside{});
  EXPECT_TRUE(told_.steps_aside());
  is_told(cluster::Stays{});
  EXPECT_FALSE(told_.steps_aside());
  is_told(cluster::StepsAside{});
  news_.listener.on_leader_gone();
  EXPECT_FALSE(told_.steps_aside());
  told_.listens_at("place 1");
  is_told(cluster::StepsAside{});
  news_.listener.on_leader_gone();
  EXPECT_TRUE(told_.steps_aside());
}

/// It is one word, which it has heard or not: whoever leads the run then.
TEST_F(HostsSuccessionTest, OneThatHasGotAPlaceKeepsIt) {
  constexpr milliseconds kAtOnce(0);
  news_.listener.on_news(cluster::encode(cluster::BecomesWorkers{4}));
  const auto task = told_.wait_for_task([] { return false; });
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(std::get<cluster::BecomesWorkers>(*task).rank, 4U);
  EXPECT_FALSE(*told_.wait_for_place(kAtOnce));
  news_.listener.on_place(4);
  EXPECT_TRUE(*told_.wait_for_place(kAtOnce));
  news_.listener.on_leader_gone();
  news_.listener.on_news(cluster::encode(cluster::IsNotNeeded{"no worker is to move any more"}));
  EXPECT_TRUE(*told_.wait_for_place(kAtOnce));
}

TEST_F(HostsSuccessionTest, OneThatIsNotNeededAnyMoreWaitsForNoPlace) {
  news_.listener.on_news(cluster::encode(cluster::BecomesWorkers{4}));
  news_.listener.on_news(cluster::encode(cluster::IsNotNeeded{"no worker is to move any more"}));
  EXPECT_THAT(std::string(told_.wait_for_place(milliseconds(0)).status().message()),
              HasSubstr("no worker is to move any more"));
}

/// The one that led was rank 0, and rank 2 is gone, too. Rank 7 was added, and was joining.
class TakeOverTest : public ::testing::Test {
 protected:
  [[nodiscard]] absl::StatusOr<std::unique_ptr<HostsSuccession>> take_over(
      const std::vector<HostsSuccession::Survivor>& survivors) {
    return HostsSuccession::take_over(chains_, hosts_, news_, survivors, newest_);
  }

  const RankChains chains_ = {{0, 3}, {1, 2}};
  const std::vector<HostsSuccession::HostOfRank> hosts_ = {{"a", "node1"}, {"b", "node2"}, {"c", "node3"},
                                                           {"c", "node3"}, {"a", "node1"}, {"a", "node1"}};
  const cluster::Configuration newest_{
      .number = 5, .servers = {{"place 0", "place 3"}, {"place 1", "place 2"}}, .joining = {"", "place 7"}};
  FakeNews news_;
};

TEST_F(TakeOverTest, WhoIsLeftGoesOn) {
  const auto taken = take_over({{.rank = 1, .address = "place 1", .host = hosts_[1]},
                                {.rank = 3, .address = "place 3", .host = hosts_[3]},
                                {.rank = 4, .address = "", .host = hosts_[4]},
                                {.rank = 7, .address = "place 7", .host = hosts_[0]}});
  ASSERT_TRUE(taken.ok()) << taken.status();
  HostsSuccession& succession = **taken;
  ToldConfiguration told(chains_, news_, succession.listener());
  FakeLeader leader(succession);
  EXPECT_EQ(succession.copy_of(1)->copy, 0U);
  EXPECT_EQ(succession.copy_of(3)->server, 0U);
  EXPECT_EQ(succession.copy_of(3)->copy, 1U);
  for (const std::uint32_t rank : {0U, 2U, 4U, 7U}) EXPECT_FALSE(succession.copy_of(rank)) << rank;
  succession.go_on();
  EXPECT_THAT(news_.outlived, ElementsAre(1, 2, 3, 7));
  EXPECT_THAT(news_.dismissed, ElementsAre(HasSubstr("2: "), HasSubstr("7: "))) << "it had not joined";
  const auto source = told.source();
  source->poll(std::chrono::steady_clock::now());
  EXPECT_EQ(source->newest().number, 1007U) << "none that the other one may have made";
  EXPECT_THAT(source->newest().servers, ElementsAre(ElementsAre("place 3"), ElementsAre("place 1")));
  EXPECT_THAT(source->newest().joining, IsEmpty());
  succession.tell(leader);
  EXPECT_THAT(
      leader.lines,
      ElementsAre("the process of server 0 was lost with rank 0, or while nobody led the run: the run "
                  "goes on with the last copy of server 0 (configuration 1006)",
                  HasSubstr("copy 1 of server 1 was lost with rank 0")));
  // This process's own server joins, and may be lost again.
  news_.speaker = 0;
  news_.say(cluster::encode(cluster::Arrival{.pid = 4711, .host = "node9", .machine = "z"}));
  succession.tell(leader);
  EXPECT_THAT(leader.welcomed, ElementsAre("0: copy 2 of server 0 (rank 0, pid 4711 on node9)"));
  told.listens_at("place 8");
  told.join();
  succession.tell(leader);
  source->has_joined("place 8");
  succession.tell(leader);
  EXPECT_THAT(leader.joined, ElementsAre(0));
  source->suspect("place 8", "it is busy");
  succession.tell(leader);
  EXPECT_THAT(leader.lost, ElementsAre(HasSubstr("0: shows no sign of life")));
  EXPECT_TRUE(leader.next.ok()) << leader.next.status();
  // Another one comes in the place of rank 2, and is a copy of the server that that one had.
  news_.speaker = 2;
  news_.say(cluster::encode(cluster::Arrival{.pid = 4712, .host = "node3", .machine = "c"}));
  succession.tell(leader);
  EXPECT_THAT(leader.welcomed.back(), HasSubstr("2: copy 3 of server 1 (rank 2"));
}

/// Rank 7 was to have the place of rank 4, and read what it needs. Rank 4 may have been told to step aside.
TEST_F(TakeOverTest, WorkersThatMoved) {
  const auto taken = HostsSuccession::take_over(chains_, hosts_, news_,
                                                {{.rank = 1, .address = "place 1", .host = hosts_[1]},
                                                 {.rank = 3, .address = "place 3", .host = hosts_[3]},
                                                 {.rank = 4, .address = "", .host = hosts_[4]},
                                                 {.rank = 5, .address = "", .host = hosts_[5]},
                                                 {.rank = 7, .address = "", .host = hosts_[0]}},
                                                newest_, /*why_workers_stay=*/"");
  ASSERT_TRUE(taken.ok()) << taken.status();
  HostsSuccession& succession = **taken;
  ToldConfiguration told(chains_, news_, succession.listener());
  FakeLeader leader(succession);
  succession.go_on();
  succession.tell(leader);
  EXPECT_THAT(news_.dismissed, ElementsAre(HasSubstr("2: "), HasSubstr("7: "))) << "nobody needs it";
  EXPECT_THAT(news_.ordered, IsEmpty());
  // Rank 4 has stepped aside when rank 0 died, and says so to this one.
  EXPECT_EQ(succession.note_free(4, /*has_stepped_aside=*/true), HostsSuccession::Successor::kIsStarted);
  succession.tell(leader);
  EXPECT_THAT(news_.ordered, ElementsAre("1: " + cluster::encode(cluster::StartsAnother{100})));
  EXPECT_THAT(leader.kept, ElementsAre(4));
  news_.speaker = 100;
  news_.say(cluster::encode(cluster::Arrival{.pid = 4711, .host = "node2", .machine = "b"}));
  succession.tell(leader);
  EXPECT_THAT(news_.ordered,
              ElementsAre(HasSubstr("1: "), "100: " + cluster::encode(cluster::BecomesWorkers{4}),
                          "100 has the place of 4"));
  // Rank 5 has not, and has died since.
  EXPECT_EQ(succession.note_free(5, /*has_stepped_aside=*/false), HostsSuccession::Successor::kNobody);
  succession.tell(leader);
  EXPECT_EQ(news_.ordered.size(), 3U);
}

TEST_F(TakeOverTest, NotWithoutAServer) {
  const auto taken = take_over({{.rank = 1, .address = "place 1", .host = hosts_[1]}});
  EXPECT_TRUE(absl::IsDataLoss(taken.status())) << taken.status();
  EXPECT_EQ(taken.status().message(), "server 0 is lost with all its copies");
}

TEST_F(HostsSuccessionTest, WhoIsSuspectedIsLostOnce) {
  meet();
  source_->poll(now());
  for (int i = 0; i < 3; ++i) source_->suspect("place 2", "\"silent\"");
  EXPECT_EQ(source_->next_poll(), transport::TimePoint::min());
  succession_->tell(leader_);
  EXPECT_THAT(leader_.lost, ElementsAre("2: shows no sign of life (\"silent\")"));
  source_->suspect("somewhere else", "");
  for (const char* const word :
       {"", "{}", "[1]", "{\"suspect\": 3, \"why\": \"x\"}", "{\"suspect\": \"place 1\"}"})
    news_.listener.on_word(1, word);
  succession_->tell(leader_);
  EXPECT_EQ(leader_.lost.size(), 1U);
}

TEST_F(HostsSuccessionTest, ASuspicionNeverCostsTheLastCopy) {
  meet();
  source_->poll(now());
  // Both at once, and the one that is surely gone is heard of last.
  source_->suspect("place 2", "silent");
  news_.listener.on_gone(1, "it is gone");
  succession_->tell(leader_);
  EXPECT_THAT(leader_.lost, ElementsAre(HasSubstr("1: is gone")));
  // The last one, and one that has no place any more.
  const std::shared_ptr<cluster::ConfigurationSource> of_another = told_.source();
  of_another->suspect("place 2", "silent");
  of_another->suspect("place 1", "silent");
  succession_->tell(leader_);
  EXPECT_EQ(leader_.lost.size(), 1U);
  news_.listener.on_gone(2, "it is gone");
  succession_->tell(leader_);
  EXPECT_EQ(leader_.lost.size(), 2U);
}

TEST_F(HostsSuccessionTest, OfTwoThatAreSuspectedAtOnceOneIsKept) {
  meet();
  source_->poll(now());
  source_->suspect("place 1", "silent");
  source_->suspect("place 2", "silent");
  succession_->tell(leader_);
  EXPECT_THAT(leader_.lost, ElementsAre(HasSubstr("1: shows")));
}

TEST_F(HostsSuccessionTest, AnotherProcessOfTheRankJoinsAndCanTakeItsPlace) {
  meet();
  news_.listener.on_gone(1, "it is gone");
  let_another_come("place 4");
  EXPECT_THAT(leader_.welcomed, ElementsAre("1: copy 2 of server 1 (rank 1, pid 4711 on node2)"));
  EXPECT_THAT(newest().servers[1], ElementsAre("place 2"));
  EXPECT_EQ(newest().joining_of(1), "place 4");
  // It is not of the chain yet: the last one of it cannot be lost.
  EXPECT_TRUE(absl::IsDataLoss(succession_->go_on_without(2, "").status()));
  const std::shared_ptr<cluster::ConfigurationSource> its_own = told_.source();
  news_.listener.on_gone(3, "it is gone");
  news_.speaker = 3;
  say_it_has_come({.pid = 4712, .host = "node3", .machine = "node3"});
  its_own->has_joined("place 4");
  succession_->tell(leader_);
  EXPECT_THAT(leader_.joined, IsEmpty()) << "that is another one's address";
  news_.speaker = 1;
  its_own->has_joined("place 4");
  succession_->tell(leader_);
  EXPECT_THAT(leader_.joined, ElementsAre(1));
  EXPECT_THAT(newest().servers[1], ElementsAre("place 2", "place 4"));
  news_.listener.on_gone(2, "it is gone, too");
  succession_->tell(leader_);
  EXPECT_THAT(newest().servers[1], ElementsAre("place 4"));
  ASSERT_TRUE(succession_->chains());
  EXPECT_EQ(succession_->chains()->servers[1][0].rank, 1U);
  EXPECT_EQ(succession_->chains()->servers[1][0].copy, 2U);
}

/// Before it has said where it listens, while it joins, and by a suspicion.
TEST_F(HostsSuccessionTest, OneThatIsGoneBeforeItHasJoinedIsNotMissed) {
  meet();
  news_.listener.on_gone(1, "it is gone");
  news_.speaker = 1;
  say_it_has_come({.pid = 4711, .host = "node2", .machine = "node2"});
  news_.listener.on_gone(1, "it is gone");
  succession_->tell(leader_);
  EXPECT_TRUE(leader_.next.ok()) << leader_.next.status();
  EXPECT_EQ(newest().number, 2U);
  let_another_come("place 4");
  EXPECT_EQ(newest().joining_of(1), "place 4");
  news_.listener.on_gone(1, "it is gone");
  succession_->tell(leader_);
  EXPECT_TRUE(leader_.next.ok()) << leader_.next.status();
  EXPECT_EQ(newest().joining_of(1), "");
  let_another_come("place 5");
  EXPECT_EQ(newest().joining_of(1), "place 5");
  source_->suspect("place 5", "it does not come");
  succession_->tell(leader_);
  EXPECT_THAT(leader_.lost.back(), HasSubstr("1: shows no sign of life (it does not come)"));
  EXPECT_EQ(newest().joining_of(1), "");
  EXPECT_THAT(newest().servers[1], ElementsAre("place 2"));
}

/// Others would take it for the one that is gone.
TEST_F(HostsSuccessionTest, AnAddressCountsOnce) {
  meet();
  news_.listener.on_gone(1, "it is gone");
  let_another_come("place 1");
  EXPECT_THAT(news_.dismissed.back(), HasSubstr("1: another process has been at its address before"));
  EXPECT_EQ(newest().joining_of(1), "");
}

TEST_F(HostsSuccessionTest, WhoIsToEndStepsAsideIfAnotherHasAll) {
  meet();
  int woken = 0;
  told_.wake_by([&] { ++woken; });
  told_.listens_at("place 1");
  news_.speaker = 1;
  EXPECT_TRUE(told_.has_place());
  told_.leave();
  succession_->tell(leader_);
  ASSERT_TRUE(leader_.next.ok()) << leader_.next.status();
  EXPECT_EQ(*leader_.next, "the run goes on with the last copy of server 1 (configuration 2)");
  EXPECT_THAT(newest().servers[1], ElementsAre("place 2"));
  EXPECT_FALSE(told_.has_place());
  EXPECT_EQ(woken, 1);
  EXPECT_THAT(news_.released, ElementsAre(1));
  EXPECT_THAT(news_.dismissed, IsEmpty()) << "it ends by itself";
  // The last one may not; and one that joins is no other one yet.
  news_.speaker = 2;
  told_.leave();
  succession_->tell(leader_);
  EXPECT_TRUE(absl::IsUnavailable(leader_.next.status())) << leader_.next.status();
  EXPECT_THAT(news_.ordered.back(), HasSubstr("starts")) << "another one is made";
  EXPECT_FALSE(succession_->is_being_joined(1));
  let_another_come("place 4");
  EXPECT_TRUE(succession_->is_being_joined(1));
  EXPECT_FALSE(succession_->is_being_joined(0));
  news_.speaker = 2;
  told_.leave();
  succession_->tell(leader_);
  EXPECT_FALSE(leader_.next.ok());
  told_.source()->has_joined("place 4");
  news_.speaker = 1;
  told_.source()->has_joined("place 4");
  news_.speaker = 2;
  told_.leave();
  succession_->tell(leader_);
  succession_->tell(leader_);
  EXPECT_EQ(newest().joining_of(1), "");
}

TEST_F(HostsSuccessionTest, WhoHasNotComeLateCannotJoin) {
  meet();
  news_.speaker = 3;
  told_.listens_at("place 4");
  told_.join();
  news_.speaker = 5;
  say_it_has_come({.pid = 1, .host = "a worker's", .machine = "b"});
  told_.listens_at("place 5");
  told_.join();
  succession_->tell(leader_);
  EXPECT_EQ(newest().number, 1U);
  EXPECT_THAT(leader_.welcomed, IsEmpty());
}

/// It has heard of none.
TEST_F(HostsSuccessionTest, AWorkerThatComesLateHearsOfTheNewestConfiguration) {
  meet();
  ASSERT_TRUE(succession_->go_on_without(3, "").ok());
  std::vector<std::string> told;
  news_.listener.on_news = [&](std::string_view news) { told.emplace_back(news); };
  news_.speaker = 5;
  say_it_has_come({.pid = 4711, .host = "node2", .machine = "b"});
  succession_->tell(leader_);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(*cluster::decode_configuration(told.front()), newest());
  EXPECT_THAT(leader_.welcomed, IsEmpty());
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

/// Four servers without copies: 0 and 1 on a first host, 2 and 3 on a second one; rank 4 is a worker.
class MovesTest : public ::testing::Test {
 protected:
  MovesTest() { told_.begin({"place 0", "place 1", "place 2", "place 3"}); }

  void arrive(std::uint32_t rank, const std::string& host,
              std::optional<std::uint32_t> takes = std::nullopt) {
    news_.speaker = rank;
    news_.say(cluster::encode(cluster::Arrival{.pid = rank, .host = host, .machine = host, .takes = takes}));
    succession_->tell(leader_);
  }
  /// The process of that rank gets all that the server has.
  void join(std::uint32_t rank) {
    const std::string place = "place " + std::to_string(rank);
    news_.speaker = rank;
    told_.listens_at(place);
    told_.join();
    succession_->tell(leader_);
    told_.source()->has_joined(place);
    succession_->tell(leader_);
  }
  void ask_to_leave(std::uint32_t rank) {
    news_.speaker = rank;
    told_.leave();
    succession_->tell(leader_);
  }
  /// As the leader does, again and again.
  void ask_again(std::uint32_t rank) {
    leader_.leave(rank);
    succession_->tell(leader_);
  }
  void lose(std::uint32_t rank) {
    news_.listener.on_gone(rank, "it is gone");
    succession_->tell(leader_);
  }
  [[nodiscard]] std::vector<cluster::Configuration::Chain> servers() {
    source_->poll(std::chrono::steady_clock::now());
    return source_->newest().servers;
  }
  static std::string order(std::uint32_t rank, const cluster::Order& order) {
    return std::to_string(rank) + ": " + cluster::encode(order);
  }

  const RankChains chains_ = {{0}, {1}, {2}, {3}};
  const std::vector<HostsSuccession::HostOfRank> hosts_ = {
      {"a", "a"}, {"a", "a"}, {"b", "b"}, {"b", "b"}, {"a", "a"}};
  FakeNews news_;
  const std::unique_ptr<HostsSuccession> succession_ = *HostsSuccession::make(chains_, hosts_, news_);
  ToldConfiguration told_{chains_, news_, succession_->listener(),
                          [this](const cluster::Configuration& first) { succession_->begin(first); }};
  const std::shared_ptr<cluster::ConfigurationSource> source_ = told_.source();
  FakeLeader leader_{*succession_};
};

TEST_F(MovesTest, AHostThatJoinsTakesItsShare) {
  arrive(5, "c");
  EXPECT_THAT(leader_.welcomed, ElementsAre("5: copy 1 of server 1 (rank 5, pid 5 on c)"));
  EXPECT_THAT(news_.ordered, ElementsAre(order(5, cluster::BecomesCopy{1})));
  EXPECT_THAT(succession_->moves(), ElementsAre("the move of server 1 from a to c copies"));
  EXPECT_THAT(servers(), ElementsAre(ElementsAre("place 0"), ElementsAre("place 1"), ElementsAre("place 2"),
                                     ElementsAre("place 3")));
  join(5);
  EXPECT_THAT(leader_.joined, ElementsAre(5));
  EXPECT_THAT(leader_.replaced,
              ElementsAre("1: steps aside for copy 1 on c: the run goes on with the last copy of server 1 "
                          "(configuration 4)"));
  EXPECT_THAT(servers()[1], ElementsAre("place 5"));
  EXPECT_THAT(news_.ordered.back(), order(1, cluster::StepsAside{}))
      << "before it hears that it has no place";
  EXPECT_THAT(news_.released, ElementsAre(1));
  EXPECT_THAT(succession_->moves(), IsEmpty());
  // The load is as even as can be: 1, 2 and 1.
  arrive(6, "c");
  EXPECT_THAT(news_.ordered.back(), HasSubstr("no host has two more"));
  EXPECT_EQ(leader_.welcomed.size(), 1U);
}

TEST_F(MovesTest, TheProcessesOfAHostThatJoinsComeOneAfterTheOther) {
  arrive(5, "c", 2);
  EXPECT_THAT(succession_->moves(), ElementsAre("the move of server 1 from a to c copies",
                                                "the move of server 2 from b to c waits for its turn"));
  EXPECT_EQ(news_.ordered.size(), 1U);
  join(5);
  EXPECT_EQ(news_.ordered.back(), order(5, cluster::StartsAnother{100}));
  EXPECT_THAT(succession_->moves(), ElementsAre("the move of server 2 from b to c starts a process"));
  arrive(100, "c");
  EXPECT_EQ(news_.ordered.back(), order(100, cluster::BecomesCopy{2}));
  join(100);
  EXPECT_THAT(servers()[2], ElementsAre("place 100"));
  EXPECT_THAT(leader_.replaced.back(), HasSubstr("2: steps aside"));
}

TEST_F(MovesTest, OneThatIsGoneMeanwhileCostsNothing) {
  arrive(5, "c", 2);
  lose(5);
  EXPECT_THAT(leader_.lost, ElementsAre(HasSubstr("5: is gone")));
  EXPECT_TRUE(leader_.next.ok()) << leader_.next.status();
  EXPECT_THAT(leader_.lines.back(),
              HasSubstr("the move of server 2 from b to c comes to nothing: no process is left"));
  EXPECT_THAT(succession_->moves(), IsEmpty());
  // And nobody steps aside for one that is gone after it has joined.
  arrive(6, "c");
  news_.speaker = 6;
  told_.listens_at("place 6");
  told_.join();
  succession_->tell(leader_);
  news_.listener.on_gone(6, "it is gone");
  told_.source()->has_joined("place 6");
  succession_->tell(leader_);
  EXPECT_THAT(leader_.replaced, IsEmpty());
  EXPECT_THAT(servers()[1], ElementsAre("place 1"));
  EXPECT_THAT(news_.released, IsEmpty());
}

TEST_F(MovesTest, OneThatIsToEndIsReplacedOnAnotherHost) {
  ask_to_leave(2);
  EXPECT_TRUE(absl::IsUnavailable(leader_.next.status())) << leader_.next.status();
  EXPECT_EQ(news_.ordered.back(), order(0, cluster::StartsAnother{100})) << "on the other host, not its own";
  EXPECT_THAT(leader_.lines.back(), "the move of server 2 from b to a begins, as its process is to end");
  ask_again(2);
  EXPECT_TRUE(absl::IsUnavailable(leader_.next.status())) << "it waits";
  EXPECT_EQ(news_.ordered.size(), 1U);
  arrive(100, "a");
  join(100);
  EXPECT_THAT(leader_.replaced, ElementsAre(HasSubstr("2: steps aside for copy 1 on a")));
  EXPECT_THAT(servers()[2], ElementsAre("place 100"));
  // Both of a host leave: neither goes to the other.
  ask_to_leave(3);
  EXPECT_TRUE(absl::IsUnavailable(leader_.next.status())) << leader_.next.status();
  arrive(101, "a");
  join(101);
  ask_to_leave(1);
  EXPECT_THAT(std::string(leader_.next.status().message()),
              HasSubstr("no other host with servers that could take its place"));
}

TEST_F(MovesTest, WhoIsToEndHearsWhenNoOtherCanBeMade) {
  succession_->tell(leader_);
  for (std::uint32_t attempt = 0; attempt < 3; ++attempt) {
    leader_.leave(2);
    succession_->tell(leader_);
    EXPECT_TRUE(absl::IsUnavailable(leader_.next.status())) << leader_.next.status();
    arrive(100 + attempt, "a");
    lose(100 + attempt);
    EXPECT_THAT(servers()[2], ElementsAre("place 2"));
  }
  leader_.leave(2);
  EXPECT_TRUE(absl::IsFailedPrecondition(leader_.next.status())) << leader_.next.status();
  EXPECT_THAT(std::string(leader_.next.status().message()), HasSubstr("only one that has all of it"));
}

/// Something has started it again on another host.
TEST_F(MovesTest, OneThatHasLeftAndComesBackTakesAShare) {
  ask_to_leave(2);
  arrive(100, "a");
  join(100);
  EXPECT_THAT(servers()[2], ElementsAre("place 100"));
  arrive(2, "c");
  EXPECT_THAT(leader_.welcomed.back(), HasSubstr("2: copy 2 of server 1"));
  EXPECT_EQ(succession_->moves().size(), 1U);
}

}  // namespace
}  // namespace verbena::apps
