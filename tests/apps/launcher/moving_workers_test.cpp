#include "apps/launcher/moving_workers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cluster/order.hpp"

namespace verbena::apps {
namespace {

using Successor = MovingWorkers::Successor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What rank 0 says to others.
class SpokenNews final : public job::PeerNews {
 public:
  void listen(Listener /*to*/) override {}
  void outlive(const std::vector<std::uint32_t>& /*ranks*/) override {}
  void outlive_leader(std::chrono::milliseconds /*patience*/) override {}
  std::vector<Returned> returned() override { return {}; }
  void tell(const std::string& /*news*/) override {}
  void say(const std::string& /*word*/) override {}
  void dismiss(std::uint32_t rank, const std::string& /*why*/) override {
    said.push_back(std::to_string(rank) + " is dismissed");
  }
  void release(std::uint32_t rank) override { said.push_back(std::to_string(rank) + " is released"); }
  void tell_one(std::uint32_t rank, const std::string& news) override {
    said.push_back(std::to_string(rank) + ": " + news);
  }
  std::uint32_t keep_place() override { return next_place++; }
  void give_place(std::uint32_t added, std::uint32_t rank) override {
    said.push_back(std::to_string(added) + " has the place of " + std::to_string(rank));
  }

  std::vector<std::string> said;
  std::uint32_t next_place = 100;
};

std::string to(std::uint32_t rank, const cluster::Order& order) {
  return std::to_string(rank) + ": " + cluster::encode(order);
}

/// Rank 0 is a server on host a, with ranks 1 to 4, which are workers'; ranks 5 and 6 are on host b.
class MovingWorkersTest : public ::testing::Test {
 protected:
  static std::vector<HostOfRank> hosts() {
    std::vector<HostOfRank> all(7, {"a", "node a"});
    all[5] = all[6] = {"b", "node b"};
    return all;
  }
  static HostOfRank host(const std::string& machine) { return {machine, "node " + machine}; }
  static cluster::Arrival arrival(std::uint32_t pid, const std::string& machine) {
    return {.pid = pid, .host = "node " + machine, .machine = machine};
  }
  void go_on(std::optional<std::uint32_t> starter = 9) {
    workers_.go_on([&](const std::string&) { return starter; }, {host("a"), host("b"), host("c")});
  }
  /// The place of that rank is free, and given to whoever waits for it.
  Successor free(std::uint32_t rank, bool has_stepped_aside) {
    const Successor successor =
        workers_.note_free(rank, has_stepped_aside, {host("a"), host("b"), host("c")});
    go_on();
    return successor;
  }
  /// Rank 5 moves from b to c, and the process that is to have its place has come as rank 100.
  void begin_move() {
    ASSERT_TRUE(absl::IsUnavailable(workers_.let_leave(5, {host("b"), host("c")})));
    go_on();
    ASSERT_TRUE(workers_.welcome(100, arrival(4711, "c")));
    news_.said.clear();
  }

  /// And it has read, the other one has stepped aside, and it has the place.
  void move() {
    begin_move();
    workers_.note_read(100);
    EXPECT_EQ(free(5, /*has_stepped_aside=*/true), Successor::kIsThere);
    workers_.note_arrival(5, arrival(4711, "c"));
    news_.said.clear();
    static_cast<void>(workers_.take_lines());
  }

  SpokenNews news_;
  MovingWorkers workers_{{.first_rank = 1, .why_they_stay = ""}, hosts(), news_};
};

TEST_F(MovingWorkersTest, AHostThatJoinsTakesItsShareOneAfterTheOther) {
  EXPECT_EQ(workers_.count(), 6U);
  EXPECT_EQ(workers_.plan(host("c"), std::nullopt), 2U) << "of four, two and none";
  EXPECT_TRUE(workers_.welcome(7, arrival(4711, "c")));
  EXPECT_THAT(news_.said, ElementsAre(to(7, cluster::BecomesWorkers{1})));
  EXPECT_THAT(workers_.take_lines(), ElementsAre("the move of worker 0 from node a to node c begins"));
  EXPECT_THAT(workers_.moves(), ElementsAre("the move of worker 0 from node a to node c reads its data",
                                            "the move of worker 1 from node a to node c waits for its turn"));
  EXPECT_FALSE(workers_.is_to_go_on());
  EXPECT_EQ(workers_.plan(host("c"), std::nullopt), 0U) << "what moves counts as moved";
  // It has read, and only then the other one steps aside.
  workers_.note_read(7);
  EXPECT_THAT(workers_.moves()[0], HasSubstr("waits for the end of an iteration"));
  EXPECT_EQ(workers_.note_free(1, true, {host("c")}), Successor::kIsThere);
  EXPECT_THAT(news_.said, ElementsAre(to(7, cluster::BecomesWorkers{1}), to(1, cluster::StepsAside{})));
  go_on();
  EXPECT_EQ(news_.said.back(), "7 has the place of 1") << "who leads has dismissed the one before by now";
  workers_.note_arrival(1, arrival(4711, "c"));
  EXPECT_FALSE(workers_.is_to_go_on()) << "it has still to show that it can be these workers";
  workers_.note_work(1);
  EXPECT_TRUE(workers_.is_to_go_on());
  go_on(1);
  EXPECT_THAT(news_.said.back(), to(1, cluster::StartsAnother{100}));
  EXPECT_EQ(workers_.starter_on("c"), std::optional(1U));
  EXPECT_THAT(workers_.moves(), ElementsAre("the move of worker 1 from node a to node c starts a process"));
  EXPECT_FALSE(workers_.welcome(8, arrival(1, "c"))) << "somebody else";
}

TEST_F(MovingWorkersTest, SoManyIfItIsSaid) {
  EXPECT_EQ(workers_.plan(host("c"), 0), 0U);
  EXPECT_EQ(workers_.plan(host("c"), 5), 5U);
  MovingWorkers others({.first_rank = 1, .why_they_stay = "they have a state"}, hosts(), news_);
  EXPECT_EQ(others.plan(host("c"), 5), 0U);
  EXPECT_THAT(std::string(others.let_leave(5, {host("c")}).message()), "they have a state");
}

TEST_F(MovingWorkersTest, OneThatIsToEndIsReplacedWhereTheFewestAre) {
  EXPECT_TRUE(absl::IsUnavailable(workers_.let_leave(5, {host("a"), host("b"), host("c")})));
  EXPECT_THAT(workers_.take_lines(),
              ElementsAre("the move of worker 4 from node b to node c begins, as its process is to end"));
  EXPECT_TRUE(workers_.is_to_go_on());
  go_on();
  EXPECT_TRUE(absl::IsUnavailable(workers_.let_leave(5, {host("a")}))) << "it waits";
  EXPECT_THAT(news_.said, ElementsAre(to(9, cluster::StartsAnother{100})));
  EXPECT_THAT(workers_.machines_that_leave(), ElementsAre("b"));
  EXPECT_TRUE(absl::IsFailedPrecondition(workers_.let_leave(6, {host("b")}))) << "not on its own host";
}

/// Nothing has happened: whoever was told to step aside goes on.
TEST_F(MovingWorkersTest, OneThatDiesBeforeItHasThePlaceIsNotMissed) {
  begin_move();
  workers_.lose(100);
  EXPECT_THAT(news_.said, IsEmpty());
  EXPECT_THAT(workers_.take_lines().back(), HasSubstr("comes to nothing: the process there is gone"));
  EXPECT_THAT(workers_.moves(), IsEmpty());
  EXPECT_TRUE(absl::IsUnavailable(workers_.let_leave(5, {host("c")}))) << "another attempt";
  go_on();
  ASSERT_TRUE(workers_.welcome(101, arrival(1, "c")));
  workers_.note_read(101);
  workers_.lose(101);
  EXPECT_EQ(news_.said.back(), to(5, cluster::Stays{}));
  EXPECT_TRUE(absl::IsUnavailable(workers_.let_leave(5, {host("c")})));
  go_on(std::nullopt);
  EXPECT_THAT(workers_.take_lines().back(), HasSubstr("no process is left there"));
  EXPECT_THAT(std::string(workers_.let_leave(5, {host("c")}).message()), HasSubstr("3 attempts"));
}

TEST_F(MovingWorkersTest, WhatHostsThatJoinHaveFailedAtKeepsNobodyFromLeaving) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_EQ(workers_.plan(host("c"), 6), 6U);
    go_on(std::nullopt);
    EXPECT_THAT(workers_.moves(), IsEmpty());
  }
  EXPECT_TRUE(absl::IsUnavailable(workers_.let_leave(5, {host("c")})));
}

/// Then yet another one is started.
TEST_F(MovingWorkersTest, IfItHasSteppedAsideMeanwhileAnotherOneComes) {
  begin_move();
  workers_.note_read(100);
  workers_.lose(100);
  EXPECT_EQ(free(5, /*has_stepped_aside=*/true), Successor::kIsStarted);
  EXPECT_EQ(news_.said.back(), to(9, cluster::StartsAnother{101}));
  EXPECT_THAT(workers_.moves(), ElementsAre("the move of worker 4 from node b to node a starts a process"))
      << "an attempt on c has failed";
  EXPECT_THAT(workers_.take_kept(), ElementsAre(5)) << "it takes its time";
  ASSERT_TRUE(workers_.welcome(101, arrival(1, "a")));
  go_on();
  EXPECT_EQ(news_.said.back(), "101 has the place of 5") << "at once, for nobody is there";
}

/// It has died, or is stopped. What is heard of its rank may be the end of the one before it.
TEST_F(MovingWorkersTest, OneThatHasThePlaceAndDoesNotSaySoHasFailed) {
  for (const bool is_late : {false, true}) {
    const auto patience = is_late ? std::chrono::seconds(0) : std::chrono::seconds(1000);
    MovingWorkers workers({.first_rank = 1, .patience_with_arrival = patience}, hosts(), news_);
    const auto goes_on = [&] {
      workers.go_on([](const std::string&) { return std::optional(9U); }, {host("a"), host("c")});
    };
    ASSERT_TRUE(absl::IsUnavailable(workers.let_leave(5, {host("c")})));
    goes_on();
    ASSERT_TRUE(workers.welcome(news_.next_place - 1, arrival(4711, "c")));
    workers.note_free(5, true, {});
    goes_on();
    EXPECT_THAT(news_.said.back(), HasSubstr("has the place of 5"));
    static_cast<void>(workers.take_kept());
    workers.lose(5);
    EXPECT_THAT(workers.take_kept(), IsEmpty());
    goes_on();
    if (!is_late) continue;
    EXPECT_THAT(news_.said, ::testing::Contains("5 is dismissed"));
    EXPECT_THAT(workers.take_lines().back(), HasSubstr("has got the workers' place, and has not said so"));
    EXPECT_EQ(news_.said.back(), to(9, cluster::StartsAnother{news_.next_place - 1}));
    EXPECT_THAT(workers.moves(), ElementsAre("the move of worker 4 from node b to node a starts a process"));
    EXPECT_THAT(workers.take_kept(), ElementsAre(5, 5)) << "since it has failed, and for the next one";
  }
}

/// It is as one that has never come: another one is tried elsewhere, and there no more of its plan.
TEST_F(MovingWorkersTest, OneThatFailsBeforeItHasDoneAnythingIsAnAttemptThatHasFailed) {
  EXPECT_EQ(workers_.plan(host("c"), 2), 2U);
  ASSERT_TRUE(workers_.welcome(7, arrival(4711, "c")));
  workers_.note_read(7);
  EXPECT_EQ(free(1, /*has_stepped_aside=*/true), Successor::kIsThere);
  workers_.note_arrival(1, arrival(4711, "c"));
  EXPECT_THAT(workers_.moves(), ElementsAre("the move of worker 1 from node a to node c waits for its turn"));
  static_cast<void>(workers_.take_lines());
  EXPECT_EQ(free(1, /*has_stepped_aside=*/false), Successor::kIsStarted);
  EXPECT_THAT(workers_.take_lines(),
              ElementsAre("the move of worker 1 from node a to node c comes to nothing: worker 0, which has "
                          "moved there, has failed"));
  EXPECT_THAT(workers_.moves(), ElementsAre("the move of worker 0 from node c to node b starts a process"));
  EXPECT_EQ(news_.said.back(), to(9, cluster::StartsAnother{100}));
  // The next two fail as well.
  for (const std::uint32_t newcomer : {100U, 101U}) {
    ASSERT_TRUE(workers_.welcome(newcomer, arrival(newcomer, newcomer == 100 ? "b" : "a")));
    go_on();
    EXPECT_EQ(news_.said.back(), std::to_string(newcomer) + " has the place of 1");
    workers_.note_arrival(1, arrival(newcomer, newcomer == 100 ? "b" : "a"));
    EXPECT_EQ(free(1, false), newcomer == 100 ? Successor::kIsStarted : Successor::kNobody);
  }
  EXPECT_THAT(workers_.moves(), IsEmpty()) << "somebody has to look what is wrong";
  // One that somebody has started works, and what was before it is over.
  workers_.note_arrival(1, arrival(1, "a"));
  workers_.note_work(1);
  EXPECT_TRUE(absl::IsUnavailable(workers_.let_leave(1, {host("c")})));
}

TEST_F(MovingWorkersTest, OneThatHasWorkedIsAsAllOthers) {
  move();
  workers_.note_work(5);
  EXPECT_EQ(free(5, /*has_stepped_aside=*/false), Successor::kNobody);
  EXPECT_THAT(news_.said, IsEmpty());
}

/// Of attempts that fail while nobody has the place: whoever looks is told what to do.
TEST_F(MovingWorkersTest, AfterThreeAttemptsNobodyElseIsStarted) {
  begin_move();
  workers_.note_read(100);
  workers_.lose(100);
  EXPECT_EQ(free(5, true), Successor::kIsStarted);
  for (const std::uint32_t newcomer : {101U, 102U}) {
    EXPECT_EQ(news_.said.back(), to(9, cluster::StartsAnother{newcomer}));
    ASSERT_TRUE(workers_.welcome(newcomer, arrival(newcomer, "a")));
    workers_.lose(newcomer);
    go_on();
  }
  EXPECT_THAT(workers_.moves(), IsEmpty());
  EXPECT_THAT(workers_.take_lines().back(), HasSubstr("start one in its place, with the same command line"));
}

/// Another rank 0 has let it do so, and this one knows of no move.
TEST_F(MovingWorkersTest, OneThatHasSteppedAsideForNobodyIsReplaced) {
  EXPECT_EQ(free(5, /*has_stepped_aside=*/true), Successor::kIsStarted);
  EXPECT_EQ(news_.said.back(), to(9, cluster::StartsAnother{100}));
  EXPECT_THAT(workers_.moves(), ElementsAre("the move of worker 4 from node b to node c starts a process"));
  EXPECT_EQ(workers_.note_free(6, true, {}), Successor::kNobody) << "no process can start another one";
  EXPECT_EQ(workers_.note_free(77, true, {host("c")}), Successor::kNobody) << "it has no workers";
}

/// The newcomer simply takes the place, whether it has read or not.
TEST_F(MovingWorkersTest, TheOneBeforeMayDieMeanwhile) {
  begin_move();
  EXPECT_EQ(free(5, /*has_stepped_aside=*/false), Successor::kIsThere);
  EXPECT_THAT(news_.said, ElementsAre("100 has the place of 5"));
  workers_.note_read(100);
  EXPECT_EQ(news_.said.size(), 1U);
  workers_.note_arrival(5, arrival(4711, "c"));
  EXPECT_THAT(workers_.moves(), IsEmpty());
}

TEST_F(MovingWorkersTest, ADeathAloneStartsNobody) {
  EXPECT_EQ(free(5, /*has_stepped_aside=*/false), Successor::kNobody);
  EXPECT_THAT(news_.said, IsEmpty());
}

/// Also if an attempt to move it had failed before.
TEST_F(MovingWorkersTest, ADeathAfterAnAttemptStartsNobodyEither) {
  begin_move();
  workers_.lose(100);
  EXPECT_EQ(free(5, /*has_stepped_aside=*/false), Successor::kNobody);
  EXPECT_THAT(news_.said, IsEmpty());
}

/// The others cannot work without it: so it does not wait until they do.
TEST_F(MovingWorkersTest, APlaceThatIsFreeHasItsTurnAtOnce) {
  EXPECT_EQ(workers_.plan(host("c"), 3), 3U);
  ASSERT_TRUE(workers_.welcome(7, arrival(4711, "c")));
  EXPECT_EQ(free(2, /*has_stepped_aside=*/false), Successor::kIsStarted);
  EXPECT_EQ(news_.said.back(), to(9, cluster::StartsAnother{100}));
  EXPECT_THAT(workers_.moves()[2], HasSubstr("waits for its turn"));
}

TEST_F(MovingWorkersTest, AHostThatJoinsTakesThoseFirstForWhomTheRunWaits) {
  free(5, false);
  free(6, false);
  EXPECT_EQ(workers_.plan(host("c"), 1), 1U);
  ASSERT_TRUE(workers_.welcome(7, arrival(4711, "c")));
  go_on();
  EXPECT_THAT(news_.said, ElementsAre(to(7, cluster::BecomesWorkers{5}), "7 has the place of 5"));
  EXPECT_EQ(workers_.plan(host("d"), std::nullopt), 2U) << "the other one, and one of four";
  ASSERT_TRUE(workers_.welcome(8, arrival(4712, "d")));
  go_on();
  EXPECT_EQ(news_.said.back(), "8 has the place of 6");
}

/// Somebody has started it again.
TEST_F(MovingWorkersTest, AnotherOneMayBeQuicker) {
  begin_move();
  workers_.note_arrival(5, arrival(1, "b"));
  EXPECT_THAT(news_.said, ElementsAre(HasSubstr("is not needed"), "100 is released"));
  EXPECT_THAT(workers_.moves(), IsEmpty());
}

TEST_F(MovingWorkersTest, WhenTheRunEndsNobodyIsNeeded) {
  begin_move();
  workers_.end(/*is_over=*/false);
  EXPECT_THAT(news_.said, ElementsAre(HasSubstr("is not needed"), "100 is released"));
  ASSERT_TRUE(absl::IsUnavailable(workers_.let_leave(5, {host("c")})));
  go_on();
  ASSERT_TRUE(workers_.welcome(101, arrival(1, "c")));
  workers_.note_read(101);
  news_.said.clear();
  workers_.end(/*is_over=*/false);
  EXPECT_THAT(news_.said, IsEmpty()) << "the other one may have stepped aside";
  workers_.end(/*is_over=*/true);
  EXPECT_THAT(news_.said, ElementsAre(HasSubstr("is not needed"), "101 is released"));
  EXPECT_THAT(workers_.moves(), IsEmpty());
  free(5, /*has_stepped_aside=*/true);
  EXPECT_EQ(news_.said.size(), 2U) << "nobody is started any more";
}

}  // namespace
}  // namespace verbena::apps
