#include "apps/launcher/hosts_replacement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace verbena::apps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FakeMeeting final : public job::PeerNews {
 public:
  void listen(Listener to) override { listener = std::move(to); }
  void outlive(const std::vector<std::uint32_t>& ranks) override { outlived = ranks; }
  void outlive_leader(std::chrono::milliseconds how_long) override { patience = how_long; }
  std::vector<Returned> returned() override { return {}; }
  void tell(const std::string& /*news*/) override {}
  void tell_one(std::uint32_t /*rank*/, const std::string& /*news*/) override {}
  std::uint32_t keep_place() override { return 0; }
  void give_place(std::uint32_t /*added*/, std::uint32_t /*rank*/) override {}
  void say(const std::string& /*word*/) override {}
  void dismiss(std::uint32_t rank, const std::string& why) override {
    dismissed.push_back(std::to_string(rank) + ": " + why);
  }
  void release(std::uint32_t rank) override { released.push_back(rank); }

  std::vector<std::uint32_t> released;
  Listener listener;
  std::chrono::milliseconds patience{0};
  std::vector<std::uint32_t> outlived;
  std::vector<std::string> dismissed;
};

/// Does as the leader does.
class LeaderOfWorkers final : public Leader::Replacement::Host {
 public:
  explicit LeaderOfWorkers(HostsReplacement& replacement) : replacement_(replacement) {}
  void lose(std::uint32_t rank, const std::string& why) override {
    lost.push_back(std::to_string(rank) + ": " + why);
    next = replacement_.await(rank, why, another_is_expected);
  }
  void replace(std::uint32_t rank, Leader::Member member, const Leader::Replacement::Workers& workers,
               const std::string& what) override {
    EXPECT_FALSE(member.server);
    replaced.push_back(std::to_string(rank) + ": " + what);
    newest = member;
    its_workers = workers;
  }

  bool another_is_expected = false;
  std::vector<std::string> lost;
  std::vector<std::string> replaced;
  absl::StatusOr<std::string> next = absl::UnknownError("nobody was lost");  ///< after the last loss
  Leader::Member newest;
  Leader::Replacement::Workers its_workers;

 private:
  HostsReplacement& replacement_;
};

/// Three processes of two workers each, ranks 2 to 4.
class HostsReplacementTest : public ::testing::Test {
 protected:
  HostsReplacement::Options options() {
    return {.first_rank = 2,
            .processes = 3,
            .workers = 2,
            .patience = seconds(2),
            .silence_timeout = milliseconds(5000),
            .clock = [this] { return now_; }};
  }
  void SetUp() override { news_.listen(replacement_->listener()); }
  [[nodiscard]] bool rings() const {
    std::vector<pollfd> wanted;
    replacement_->add_descriptors(wanted);
    return ::poll(wanted.data(), wanted.size(), 0) > 0;
  }
  void lose(std::uint32_t rank) {
    news_.listener.on_gone(rank, "it is gone");
    replacement_->tell(leader_);
  }
  void let_another_come(std::uint32_t rank) {
    news_.listener.on_word(rank, cluster::encode(cluster::Arrival{.pid = 4711, .host = "node2"}));
    replacement_->tell(leader_);
  }

  /// Rank 0 runs meanwhile.
  void pass(milliseconds time) {
    constexpr auto kTurn = milliseconds(1000);
    for (; time > milliseconds(0); time -= kTurn) {
      now_ += std::min(time, kTurn);
      replacement_->tell(leader_);
    }
  }

  base::OwnTime::TimePoint now_ = std::chrono::steady_clock::now();
  FakeMeeting news_;
  const std::unique_ptr<HostsReplacement> replacement_ = *HostsReplacement::make(options(), news_);
  LeaderOfWorkers leader_{*replacement_};
};

TEST_F(HostsReplacementTest, WhenAllHaveMetAPlaceIsKeptForAnother) {
  lose(3);
  EXPECT_THAT(std::string(leader_.next.status().message()), HasSubstr("not all processes had met"));
  EXPECT_THAT(news_.dismissed, IsEmpty());
  replacement_->begin();
  EXPECT_THAT(news_.outlived, ElementsAre(2, 3, 4));
  EXPECT_FALSE(rings());
  news_.listener.on_gone(1, "a server");
  EXPECT_FALSE(rings());
  news_.listener.on_gone(3, "it is gone");
  EXPECT_TRUE(rings());
  replacement_->tell(leader_);
  EXPECT_THAT(leader_.lost.back(), HasSubstr("3: is gone"));
  ASSERT_TRUE(leader_.next.ok()) << leader_.next.status();
  EXPECT_EQ(*leader_.next, "the run waits 2 s for another process in its place");
  EXPECT_THAT(news_.dismissed, ElementsAre(HasSubstr("3: is gone")));
  let_another_come(3);
  EXPECT_THAT(leader_.replaced,
              ElementsAre("3: worker 1: another process (rank 3, pid 4711 on node2) takes its place"));
  EXPECT_EQ(leader_.newest.name, "worker 1 (rank 3, pid 4711 on node2)");
  EXPECT_EQ(leader_.its_workers.process, 1U);
  EXPECT_EQ(leader_.its_workers.first, 2U);
  EXPECT_EQ(leader_.its_workers.count, 2U);
  pass(milliseconds(2100));
  EXPECT_FALSE(replacement_->overdue()) << "it is there";
}

TEST_F(HostsReplacementTest, APlaceIsKeptForTheOneThatAnotherStepsAsideFor) {
  replacement_->begin();
  for (int often = 0; often < 5; ++often) {  // which is no death
    EXPECT_EQ(replacement_->keep_place(3), "the run waits 20 s for another process in its place");
    let_another_come(3);
  }
  EXPECT_EQ(leader_.replaced.size(), 5U);
  EXPECT_THAT(news_.released, ElementsAre(3, 3, 3, 3, 3));
  EXPECT_THAT(news_.dismissed, IsEmpty());
  replacement_->keep_place(1);
  EXPECT_EQ(news_.released.size(), 5U) << "a server";
}

TEST_F(HostsReplacementTest, NobodyComesInThePlaceOfOneThatIsThere) {
  replacement_->begin();
  let_another_come(3);
  let_another_come(1);
  let_another_come(5);
  for (const char* const word : {"", "{}", "{\"suspect\": \"x\", \"why\": \"y\"}"})
    news_.listener.on_word(3, word);
  replacement_->tell(leader_);
  EXPECT_THAT(leader_.replaced, IsEmpty());
  EXPECT_THAT(leader_.lost, IsEmpty());
  EXPECT_TRUE(absl::IsFailedPrecondition(replacement_->await(1, "", false).status())) << "a server";
}

TEST_F(HostsReplacementTest, APlaceIsNotKeptForEver) {
  replacement_->begin();
  lose(2);
  pass(milliseconds(1900));
  EXPECT_FALSE(replacement_->overdue());
  pass(milliseconds(100));
  const auto overdue = replacement_->overdue();
  ASSERT_TRUE(overdue);
  EXPECT_EQ(overdue->first, 2U);
  EXPECT_EQ(overdue->second, "no other process has taken its place within 2 s (--worker-patience)");
  replacement_->keep_longer(2);
  EXPECT_FALSE(replacement_->overdue()) << "another attempt";
  let_another_come(2);
  replacement_->keep_longer(2);
  let_another_come(2);
  EXPECT_EQ(leader_.replaced.size(), 1U) << "what is taken is not kept any more";
}

/// While rank 0 is stopped nobody can come, and what servers say of a worker then is of the one before.
TEST_F(HostsReplacementTest, WhileRankZeroIsStoppedNobodyIsLateOrSilent) {
  replacement_->begin();
  lose(3);
  let_another_come(3);
  lose(2);
  now_ += std::chrono::hours(1);
  replacement_->tell(leader_);
  EXPECT_FALSE(replacement_->overdue());
  EXPECT_FALSE(replacement_->rank_of_silent(3));
  pass(milliseconds(400));
  EXPECT_FALSE(replacement_->overdue());
  pass(milliseconds(3600));
  EXPECT_TRUE(replacement_->overdue());
  EXPECT_EQ(replacement_->rank_of_silent(3), 3U);
}

TEST_F(HostsReplacementTest, IfItIsToBeNobodyIsWaitedFor) {
  HostsReplacement::Options options = HostsReplacementTest::options();
  options.patience = seconds(0);
  const auto replacement = *HostsReplacement::make(options, news_);
  replacement->begin();
  EXPECT_THAT(std::string(replacement->await(2, "", false).status().message()),
              HasSubstr("--worker-patience 0"));
  const auto expected = replacement->await(2, "", true);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(*expected, "the run waits 20 s for another process in its place") << "one is being started";
}

TEST_F(HostsReplacementTest, OneThatIsExpectedIsWaitedForForLonger) {
  replacement_->begin();
  leader_.another_is_expected = true;
  lose(2);
  EXPECT_EQ(*leader_.next, "the run waits 20 s for another process in its place");
}

TEST_F(HostsReplacementTest, OneThatIsLostAgainAndAgainIsNotWaitedFor) {
  replacement_->begin();
  const auto lose_and_come = [&] {
    lose(4);
    if (leader_.next.ok()) let_another_come(4);
  };
  for (int i = 0; i < 3; ++i) lose_and_come();
  EXPECT_TRUE(leader_.next.ok()) << leader_.next.status();
  EXPECT_TRUE(replacement_->note_iteration(4, 7));
  EXPECT_TRUE(replacement_->note_iteration(3, 9));
  for (int i = 0; i < 3; ++i) lose_and_come();
  EXPECT_TRUE(leader_.next.ok()) << leader_.next.status();
  EXPECT_FALSE(replacement_->note_iteration(4, 7)) << "that is nothing new";
  lose_and_come();
  EXPECT_THAT(std::string(leader_.next.status().message()),
              HasSubstr("3 processes in its place have died before they had finished iteration 8"));
}

/// What a server says may be late, and of the process before.
TEST_F(HostsReplacementTest, OneThatHasJustComeCannotBeSilent) {
  replacement_->begin();
  EXPECT_FALSE(replacement_->rank_of_silent(3));
  pass(milliseconds(5000));
  EXPECT_EQ(replacement_->rank_of_silent(3), 3U);
  EXPECT_EQ(replacement_->rank_of_silent(4), 4U);
  EXPECT_FALSE(replacement_->rank_of_silent(6));
  lose(3);
  let_another_come(3);
  EXPECT_FALSE(replacement_->rank_of_silent(3));
  EXPECT_EQ(replacement_->rank_of_silent(4), 4U);
}

TEST_F(HostsReplacementTest, TwoListenersHearTheSame) {
  FakeMeeting other;
  const auto of_another = *HostsReplacement::make(options(), other);
  news_.listen(both(of_another->listener(), replacement_->listener()));
  replacement_->begin();
  lose(2);
  let_another_come(2);
  EXPECT_EQ(leader_.lost.size(), 1U);
  EXPECT_EQ(leader_.replaced.size(), 1U);
  LeaderOfWorkers another(*of_another);
  of_another->tell(another);
  EXPECT_EQ(another.lost.size(), 1U);
}

}  // namespace
}  // namespace verbena::apps
