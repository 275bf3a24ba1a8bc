// The configuration of a job: what is accepted, how processes agree on the first one, and how the next one is
// decided.
#include "cluster/configuration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cluster/account.hpp"
#include "cluster/controller.hpp"
#include "cluster/local_store.hpp"
#include "cluster/order.hpp"
#include "cluster/stored_configuration.hpp"
#include "cluster/word.hpp"

namespace verbena::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Configuration kFirst{.number = 1, .servers = {{"shm:a", "shm:b"}, {"shm:c", "shm:d"}}};

TEST(ConfigurationTest, SurvivesTheJourney) {
  for (const Configuration& one :
       {kFirst, Configuration{.number = 7, .servers = {{}, {"x"}}},
        Configuration{.number = 8, .servers = {{"x"}, {"y"}}, .joining = {"", "z"}}}) {
    const auto back = decode_configuration(encode(one));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, one);
  }
}

TEST(ConfigurationTest, AnythingElseIsRefused) {
  const auto error = [](std::string_view text) {
    return std::string(decode_configuration(text).status().message());
  };
  EXPECT_THAT(error(""), HasSubstr("no JSON object"));
  EXPECT_THAT(error("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(error(R"({"servers":[["a"]]})"), HasSubstr("no number"));
  EXPECT_THAT(error(R"({"number":0,"servers":[["a"]]})"), HasSubstr("no number"));
  EXPECT_THAT(error(R"({"number":-1,"servers":[["a"]]})"), HasSubstr("no number"));
  EXPECT_THAT(error(R"({"number":1})"), HasSubstr("no list of servers"));
  EXPECT_THAT(error(R"({"number":1,"servers":[]})"), HasSubstr("no list of servers"));
  EXPECT_THAT(error(R"({"number":1,"servers":["a"]})"), HasSubstr("no list of addresses"));
  EXPECT_THAT(error(R"({"number":1,"servers":[[1]]})"), HasSubstr("no text"));
  EXPECT_THAT(error(R"({"number":1,"servers":[["a"]]})"), HasSubstr("those that join"));
  EXPECT_THAT(error(R"({"number":1,"servers":[["a"]],"joining":["b","c"]})"), HasSubstr("those that join"));
  EXPECT_THAT(error(R"({"number":1,"servers":[["a"]],"joining":[2]})"), HasSubstr("no text"));
  EXPECT_FALSE(decode_configuration(std::string(1 << 20, '[')).ok());
  EXPECT_FALSE(decode_configuration(R"({"number":1,"servers":)" + std::string(60'000, '[')).ok());
}

TEST(WordTest, SurvivesTheJourneyAndNothingElseDoes) {
  for (const Word& word :
       {Word(Suspicion{.address = "tcp:a:1", .why = "\"silent\"\n"}),
        Word(Arrival{.pid = 4711, .host = "node\\2", .machine = "m"}),
        Word(Arrival{.pid = 1, .host = "a", .machine = "b", .takes = 3}),
        Word(Arrival{.pid = 1, .host = "a", .machine = "b", .takes_workers = 0}), Word(HasRead{}),
        Word(WantsToJoin{"tcp:a:1"}), Word(HasJoined{"tcp:a:1"}), Word(WantsToLeave{})}) {
    const auto back = decode_word(encode(word));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, word);
  }
  for (const std::string text :
       {"", "[]", "{}", R"({"suspect":"a"})", R"({"suspect":"a","why":1})", R"({"suspect":["a"],"why":"b"})",
        R"({"arrived":-1,"host":"a","machine":"b"})", R"({"arrived":4294967296,"host":"a","machine":"b"})",
        R"({"arrived":1,"host":"a"})", R"({"wants to join":1})"})
    EXPECT_THAT(std::string(decode_word(text).status().message()), HasSubstr("a word")) << text;
  EXPECT_FALSE(decode_word(std::string(60'000, '[')).ok());
}

TEST(OrderTest, SurvivesTheJourneyAndNothingElseDoes) {
  for (const Order& order :
       {Order(BecomesCopy{3}), Order(IsNotNeeded{"\"even\"\n"}), Order(StartsAnother{4294967295}),
        Order(StepsAside{}), Order(Stays{}), Order(BecomesWorkers{7}),
        Order(HasLeader{.address = "10.0.0.1;7001", .machine = "\n"})}) {
    const auto back = decode_order(encode(order));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, order);
  }
  for (const std::string text :
       {"", "[]", "{}", R"({"becomes a copy of":"1"})", R"({"becomes a copy of":-1})",
        R"({"starts":4294967296})", R"({"becomes the workers of":[1]})", R"({"is not needed":1})",
        R"({"is led from":"10.0.0.1;7001"})", R"({"number":1,"servers":[["a"]],"joining":[]})"})
    EXPECT_THAT(std::string(decode_order(text).status().message()), HasSubstr("an order")) << text;
  EXPECT_FALSE(decode_order(std::string(60'000, '[')).ok());
}

TEST(AccountTest, SurvivesTheJourneyAndNothingElseDoes) {
  const Account account{
      .pid = 4711, .host = "node\n\"2", .machine = "m", .address = "", .configuration = kFirst};
  const auto back = decode_account(encode(account));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, account);
  const std::string configuration = encode(kFirst);
  for (const std::string& text :
       {std::string(), configuration, "{}\n" + configuration, "[]\n" + configuration,
        R"({"pid":-1,"host":"a","machine":"b","address":"c"})" + ("\n" + configuration),
        R"({"pid":1,"host":"a","machine":"b"})" + ("\n" + configuration),
        std::string(R"({"pid":1,"host":"a","machine":"b","address":"c"})") + "\n{}"})
    EXPECT_THAT(std::string(decode_account(text).status().message()), HasSubstr("what a process says"))
        << text;
}

class StoredConfigurationTest : public ::testing::Test {
 protected:
  std::unique_ptr<StoredConfiguration> process() {
    return std::make_unique<StoredConfiguration>(std::make_unique<LocalStore>(state_), "", decided_);
  }
  /// So that all that is on its way arrives.
  void poll(std::initializer_list<StoredConfiguration*> all) {
    for (int turn = 0; turn < 10; ++turn) {
      now_ += milliseconds(100);
      for (StoredConfiguration* const one : all) one->poll(now_);
    }
  }

  StoreState state_;
  const std::shared_ptr<std::atomic<std::uint64_t>> decided_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::function<void()> on_decision_ = [] {};
  Controller controller_{state_, [this](std::uint64_t number) {
                           decided_->store(number);
                           on_decision_();
                         }};
  TimePoint now_{seconds(100)};
};

TEST_F(StoredConfigurationTest, TheFirstThatIsProposedHolds) {
  const auto a = process();
  const auto b = process();
  const auto c = process();
  poll({c.get()});
  EXPECT_EQ(c->newest().number, 0U);
  a->propose(kFirst);
  b->propose(kFirst);
  poll({a.get(), b.get(), c.get()});
  for (const auto* const one : {a.get(), b.get(), c.get()}) EXPECT_EQ(one->newest(), kFirst);
}

TEST_F(StoredConfigurationTest, CopiesAreRemovedUntilOneIsLeft) {
  EXPECT_EQ(controller_.remove({.server = 0, .copy = 0}, now_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto process = this->process();
  process->propose(kFirst);
  poll({process.get()});
  ASSERT_TRUE(controller_.remove({.server = 1, .copy = 0}, now_).ok());
  poll({process.get()});
  EXPECT_EQ(process->newest(), (Configuration{.number = 2, .servers = {{"shm:a", "shm:b"}, {"shm:d"}}}));
  EXPECT_EQ(controller_.remove({.server = 1, .copy = 1}, now_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(controller_.remove({.server = 2, .copy = 0}, now_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(controller_.remove({.server = 0, .copy = 1}, now_).ok());
  poll({process.get()});
  EXPECT_EQ(process->newest().servers.front(), Configuration::Chain{"shm:a"});
  EXPECT_EQ(process->newest().number, 3U);
}

TEST_F(StoredConfigurationTest, ACopyMayLeaveIfAnotherHasAll) {
  EXPECT_TRUE(absl::IsFailedPrecondition(controller_.may_leave(0, 0, now_).status()));
  const auto process = this->process();
  process->propose(kFirst);
  poll({process.get()});
  EXPECT_EQ(*controller_.may_leave(1, std::nullopt, now_), (Controller::Copy{.server = 1, .copy = 0}));
  EXPECT_EQ(*controller_.may_leave(1, 1, now_), (Controller::Copy{.server = 1, .copy = 1}));
  const auto refusal = [&](std::uint32_t server, std::optional<std::uint32_t> copy) {
    return std::string(controller_.may_leave(server, copy, now_).status().message());
  };
  EXPECT_THAT(refusal(2, 0), HasSubstr("there is no server 2: expected 0 to 1"));
  EXPECT_THAT(refusal(1, 2), HasSubstr("no copy 2 that has all that the others have: expected one of 0, 1"));
  ASSERT_TRUE(controller_.remove({.server = 1, .copy = 0}, now_).ok());
  EXPECT_EQ(refusal(1, std::nullopt), "copy 1 of server 1 is the only one that has all of it");
  process->join(1, 2, "shm:e");
  poll({process.get()});
  EXPECT_THAT(refusal(1, 1), HasSubstr(": another one joins"));
  EXPECT_THAT(refusal(1, 2), HasSubstr("no copy 2"));
  process->has_joined("shm:e");
  poll({process.get()});
  EXPECT_TRUE(controller_.may_leave(1, 1, now_).ok());
}

TEST_F(StoredConfigurationTest, IsDecidedBeforeAnybodyCanKnowIt) {
  const auto process = this->process();
  process->propose(kFirst);
  poll({process.get()});
  EXPECT_EQ(process->decided(), 0U);
  std::uint64_t known = 0;
  on_decision_ = [&] {
    poll({process.get()});
    known = process->newest().number;
  };
  ASSERT_TRUE(controller_.remove({.server = 0, .copy = 0}, now_).ok());
  EXPECT_EQ(known, 1U);
  EXPECT_EQ(process->decided(), 2U);
  poll({process.get()});
  EXPECT_EQ(process->newest().number, 2U);
  on_decision_ = [] {};
  ASSERT_FALSE(controller_.remove({.server = 0, .copy = 1}, now_).ok());
  EXPECT_EQ(process->decided(), 2U) << "nobody would ever hear of it";
}

TEST_F(StoredConfigurationTest, SuspectsAreToldOnceAndOnlyIfTheyCanBeReplaced) {
  const auto a = process();
  const auto b = process();
  a->propose(kFirst);
  poll({a.get(), b.get()});
  a->suspect("shm:a", "silent");
  b->suspect("shm:a", "silent for long");
  b->suspect("shm:nobody", "silent");
  poll({a.get(), b.get()});
  const auto suspects = controller_.take_suspects(now_);
  ASSERT_THAT(suspects, SizeIs(1));
  EXPECT_EQ(suspects[0].who.server, 0U);
  EXPECT_EQ(suspects[0].who.copy, 0U);
  EXPECT_THAT(suspects[0].why, HasSubstr("silent"));
  EXPECT_THAT(controller_.take_suspects(now_), IsEmpty());
  ASSERT_TRUE(controller_.remove({.server = 0, .copy = 0}, now_).ok());
  b->suspect("shm:b", "silent");
  poll({a.get(), b.get()});
  EXPECT_THAT(controller_.take_suspects(now_), IsEmpty()) << "it is the last one";
}

TEST_F(StoredConfigurationTest, CopiesJoinOneAfterTheOther) {
  const auto member = process();
  member->propose(kFirst);
  poll({member.get()});
  const auto a = process();
  const auto b = process();
  a->join(1, 2, "shm:e");
  b->join(1, 3, "shm:f");
  poll({a.get(), b.get()});
  EXPECT_THAT(controller_.take_joined(now_), IsEmpty());
  poll({member.get(), a.get(), b.get()});
  EXPECT_EQ(member->newest(),
            (Configuration{.number = 2, .servers = kFirst.servers, .joining = {"", "shm:e"}}));
  EXPECT_EQ(member->newest().all_of(1), (Configuration::Chain{"shm:c", "shm:d", "shm:e"}));
  b->has_joined("shm:f");  // which is not so
  a->has_joined("shm:e");
  poll({a.get(), b.get()});
  const auto joined = controller_.take_joined(now_);
  ASSERT_THAT(joined, SizeIs(1));
  EXPECT_EQ(joined[0], (Controller::Copy{.server = 1, .copy = 2}));
  poll({member.get()});
  EXPECT_EQ(member->newest().servers[1], (Configuration::Chain{"shm:c", "shm:d", "shm:e"}));
  EXPECT_EQ(member->newest().joining_of(1), "shm:f");
  // It is known by its number from then on.
  ASSERT_TRUE(controller_.remove({.server = 1, .copy = 0}, now_).ok());
  ASSERT_TRUE(controller_.remove({.server = 1, .copy = 1}, now_).ok());
  poll({member.get()});
  EXPECT_EQ(member->newest().servers[1], Configuration::Chain{"shm:e"});
  EXPECT_EQ(member->newest().joining_of(1), "shm:f") << "whom it follows is still there";
  EXPECT_TRUE(absl::IsDataLoss(controller_.remove({.server = 1, .copy = 2}, now_).status()))
      << "who joins has only a part of what it had";
}

TEST_F(StoredConfigurationTest, WhoFollowsOneThatIsGoneHasToJoinAnew) {
  const auto member = process();
  member->propose(kFirst);
  const auto a = process();
  a->join(0, 2, "shm:e");
  poll({member.get(), a.get()});
  EXPECT_THAT(controller_.take_joined(now_), IsEmpty());
  ASSERT_TRUE(controller_.remove({.server = 0, .copy = 1}, now_).ok());
  poll({member.get()});
  EXPECT_EQ(member->newest(),
            (Configuration{.number = 3, .servers = {{"shm:a"}, {"shm:c", "shm:d"}}, .joining = {}}));
  // What it says late does not count.
  a->has_joined("shm:e");
  poll({a.get()});
  EXPECT_THAT(controller_.take_joined(now_), IsEmpty());
  poll({member.get()});
  EXPECT_EQ(member->newest().number, 3U);
  EXPECT_EQ(controller_.remove({.server = 0, .copy = 7}, now_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(StoredConfigurationTest, WhatADeadOneHasSaidComesTooLate) {
  const auto member = process();
  member->propose(kFirst);
  poll({member.get()});
  EXPECT_TRUE(absl::IsFailedPrecondition(controller_.remove({.server = 0, .copy = 2}, now_).status()));
  const auto a = process();
  a->join(0, 2, "shm:e");
  poll({a.get()});
  EXPECT_THAT(controller_.take_joined(now_), IsEmpty());
  poll({member.get()});
  EXPECT_EQ(member->newest(), kFirst);
}

TEST_F(StoredConfigurationTest, OneThatHasJoinedWhenTheOthersDieIsEnough) {
  const auto member = process();
  member->propose(kFirst);
  const auto a = process();
  a->join(0, 2, "shm:e");
  poll({member.get(), a.get()});
  EXPECT_THAT(controller_.take_joined(now_), IsEmpty());
  a->has_joined("shm:e");
  poll({a.get()});  // which the controller has not looked at
  ASSERT_TRUE(controller_.remove({.server = 0, .copy = 1}, now_).ok());
  ASSERT_TRUE(controller_.remove({.server = 0, .copy = 0}, now_).ok());
  poll({member.get()});
  EXPECT_EQ(member->newest().servers[0], Configuration::Chain{"shm:e"});
  EXPECT_THAT(controller_.take_joined(now_), SizeIs(1));
}

/// The one that is expected comes after it.
TEST_F(StoredConfigurationTest, LooksOftenAlsoWhenItHasFoundAnOlderChange) {
  const auto process = this->process();
  process->propose(kFirst);
  poll({process.get()});
  EXPECT_EQ(process->next_poll(), now_ + milliseconds(50));
  ASSERT_TRUE(controller_.remove({.server = 0, .copy = 0}, now_).ok());
  process->expect_change();
  for (int turn = 0; turn < 10 && process->newest().number < 2; ++turn) {
    now_ += milliseconds(2);
    process->poll(now_);
  }
  ASSERT_EQ(process->newest().number, 2U);
  EXPECT_EQ(process->next_poll(), now_ + milliseconds(2));
  now_ += seconds(1);
  process->poll(now_);
  EXPECT_EQ(process->next_poll(), now_ + milliseconds(50));
}

TEST_F(StoredConfigurationTest, WhatIsNoConfigurationIsPassedOver) {
  const auto process = this->process();
  process->propose(kFirst);
  poll({process.get()});
  const auto put = [&](const std::string& value) {
    ASSERT_TRUE(state_
                    .execute(Transaction{.conditions = {},
                                         .puts = {{.key = kConfigurationKey, .value = value}},
                                         .deletes = {}},
                             now_)
                    .ok());
    poll({process.get()});
  };
  put("nonsense");
  EXPECT_EQ(process->newest(), kFirst);
  put(encode({.number = 1, .servers = {{"another"}}}));
  EXPECT_EQ(process->newest(), kFirst) << "a number names one value";
  put(encode({.number = 5, .servers = {{"x"}}}));
  EXPECT_EQ(process->newest().number, 5U);
}

}  // namespace
}  // namespace verbena::cluster
