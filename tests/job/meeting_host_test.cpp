#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "job/fence_board.hpp"
#include "job/meeting/host.hpp"
#include "job/meeting/messages.hpp"
#include "tests/job/fake_transport.hpp"

namespace verbena::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using transport::Event;

/// Rank 0 of a job that can go on without it, in a time that goes on when it is told to.
class MeetingHostTest : public ::testing::Test {
 protected:
  using Leads = PeerNews::Standing::Leads;
  struct Guest {
    std::shared_ptr<Told> told = std::make_shared<Told>();
    FakeConnection* connection = nullptr;
  };

  /// Who has connected, and has said nothing yet.
  Guest connect() {
    Guest guest;
    auto connection = std::make_unique<FakeConnection>(guest.told);
    guest.connection = connection.get();
    transport_.accepted = std::move(connection);
    host_.on_event({.kind = Event::Kind::kAccepted});
    return guest;
  }
  void say(const Guest& guest, const std::string& words) {
    host_.on_event({.kind = Event::Kind::kMessage,
                    .connection = guest.connection,
                    .message = std::as_bytes(std::span(words))});
  }
  static std::string introduction(std::uint32_t rank) {
    return line_of({{says::kRank, rank}, {says::kSize, kSize}, {says::kVersion, kMeetingVersion}});
  }
  /// Of one that looks for another rank 0.
  static std::string return_of(std::uint32_t rank) {
    return back_line({.rank = rank,
                      .size = kSize,
                      .job = "of before",
                      .roster = Roster::of_beginning(kSize),
                      .word = "here"});
  }
  /// As another version would have said it; 0: one that says none.
  static std::string of_version(const std::string& line, std::uint32_t version) {
    nlohmann::json object = nlohmann::json::parse(line);
    object.erase(says::kVersion);
    if (version > 0) object[says::kVersion] = version;
    return line_of(object);
  }
  void lose(const Guest& guest) {
    guest.connection->break_off();
    host_.on_event({.kind = Event::Kind::kDisconnected, .connection = guest.connection});
  }
  void turn() {
    host_.begin_turn(now_);
    host_.on_time(now_);
  }
  /// Rank 0 runs, and so much time passes.
  void pass(milliseconds time) {
    constexpr auto kTurn = milliseconds(500);
    for (; time > milliseconds(0); time -= kTurn) {
      now_ += std::min(time, kTurn);
      turn();
    }
  }
  /// Rank 0 is stopped in the middle of a turn, and goes on later.
  void stop(milliseconds time) { now_ += time; }
  void meet() {
    guests_.resize(kSize);
    std::vector<std::uint32_t> others;
    for (std::uint32_t rank = 1; rank < kSize; ++rank) {
      guests_[rank] = connect();
      say(guests_[rank], introduction(rank));
      others.push_back(rank);
    }
    host_.on_own_words(FenceNotes::fence_line());
    for (const std::uint32_t rank : others) say(guests_[rank], FenceNotes::fence_line());
    host_.outlive_leader(seconds(30));
    host_.outlive(others);
    pass(milliseconds(1000));
    forget_what_was_told();
  }
  void forget_what_was_told() {
    for (const Guest& guest : guests_) guest.told->words.clear();
  }
  [[nodiscard]] static std::vector<std::string> told(const Guest& guest, const char* name) {
    return guest.told->by(name);
  }
  [[nodiscard]] std::vector<std::string> told(std::uint32_t rank, const char* name) const {
    return told(guests_[rank], name);
  }
  /// It says that it still follows rank 0, which has asked the n-th time.
  void follow(std::uint32_t rank, std::uint32_t question) {
    say(guests_[rank], line_of({{says::kFollows, question}}));
  }
  [[nodiscard]] Leads leads() { return host_.standing().leads; }

  static constexpr std::uint32_t kSize = 5;
  const MeetingOptions options_{.size = kSize};
  transport::TimePoint now_ = std::chrono::steady_clock::now();
  std::vector<std::string> ends_;  ///< of this process
  SharedEnd end_{milliseconds(0), [this](const std::string& why) { ends_.push_back(why); }, {}};
  Hearing hearing_{kSize, end_};
  FakeTransport transport_;
  MeetingHost host_{options_, transport_, "mark", hearing_, end_, [this] { return now_; }};
  std::vector<Guest> guests_;  ///< by rank
};

/// And what it hears.
class StoppedHostTest : public MeetingHostTest {
 protected:
  StoppedHostTest() {
    hearing_.listen(
        {.on_news = [this](std::string_view news) { news_.emplace_back(news); },
         .on_word = {},
         .on_gone = [this](std::uint32_t rank, const std::string& /*why*/) { gone_.push_back(rank); },
         .on_leader_gone = {},
         .describe = {}});
    meet();
  }
  /// More than half of the processes have left it, and have another rank 0, perhaps.
  void lose_most() {
    for (const std::uint32_t rank : {1U, 2U, 3U}) lose(guests_[rank]);
  }

  std::vector<std::string> news_;
  std::vector<std::uint32_t> gone_;
};

TEST_F(StoppedHostTest, WhatItHadDecidedBeforeIsToldWhenHalfFollowItStill) {
  stop(seconds(20));
  host_.tell("all");
  host_.tell_one(2, "one");
  host_.dismiss(3, "it was silent");
  EXPECT_EQ(leads(), Leads::kPerhaps);
  EXPECT_FALSE(host_.try_to_say_all()) << "something is left to say";
  pass(seconds(5));
  for (const std::uint32_t rank : {1U, 2U, 3U, 4U}) {
    EXPECT_THAT(told(rank, says::kNews), IsEmpty());
    EXPECT_THAT(told(rank, says::kDismissed), IsEmpty());
  }
  EXPECT_THAT(news_, IsEmpty()) << "its own server would go by it";
  lose(guests_[3]);
  follow(1, 1);
  follow(2, 1);
  turn();
  EXPECT_EQ(leads(), Leads::kYes);
  EXPECT_THAT(told(1, says::kNews), ElementsAre("\"all\""));
  EXPECT_THAT(told(2, says::kNews), ElementsAre("\"all\"", "\"one\""));
  EXPECT_THAT(news_, ElementsAre("all"));
  EXPECT_THAT(gone_, IsEmpty()) << "it was dismissed before that";
  EXPECT_TRUE(host_.try_to_say_all());
  host_.tell("now");
  EXPECT_THAT(told(4, says::kNews), ElementsAre("\"all\"", "\"now\""));
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(StoppedHostTest, WhatItHadDecidedBeforeNobodyHearsIfMoreThanHalfHaveLeft) {
  stop(seconds(20));
  host_.tell("all");
  host_.tell_one(4, "one");
  host_.tell_one(0, "this one");
  host_.dismiss(4, "it was silent");
  host_.on_own_words(line_of({{says::kAbort, "it cannot go on"}}));
  lose_most();
  turn();
  EXPECT_EQ(leads(), Leads::kNoMore);
  host_.tell("late");
  host_.dismiss(4, "late");
  host_.on_own_words(line_of({{says::kBye, true}}));
  pass(seconds(20));
  for (const char* const name : {says::kNews, says::kDismissed, says::kEnd, says::kBye})
    EXPECT_THAT(told(4, name), IsEmpty()) << name;
  EXPECT_TRUE(guests_[4].told->is_over) << "it looks for another one, too";
  EXPECT_THAT(news_, IsEmpty());
  EXPECT_THAT(gone_, IsEmpty());
  EXPECT_THAT(ends_, ElementsAre(HasSubstr("rank 0 was stopped")));
  EXPECT_TRUE(host_.try_to_say_all());
}

/// It is as if nothing else had been said before the end of the doubt.
TEST_F(StoppedHostTest, ItsOwnWordsWait) {
  stop(seconds(20));
  host_.on_own_words(line_of({{says::kAbort, "it cannot go on"}}));
  turn();
  EXPECT_THAT(told(4, says::kEnd), IsEmpty());
  follow(1, 1);
  follow(2, 1);
  turn();
  EXPECT_THAT(told(4, says::kEnd), ElementsAre("\"it cannot go on\""));
}

TEST_F(StoppedHostTest, ASecondStopDuringTheDoubtAsksAnew) {
  stop(seconds(20));
  turn();
  EXPECT_THAT(told(4, says::kAsks), ElementsAre("1"));
  follow(1, 1);
  pass(seconds(6));
  EXPECT_EQ(leads(), Leads::kPerhaps) << "half are three of five, with this one";
  stop(seconds(20));
  turn();
  EXPECT_THAT(told(4, says::kAsks), ElementsAre("1", "2"));
  EXPECT_EQ(leads(), Leads::kPerhaps) << "so long nobody could answer";
  follow(2, 2);
  follow(3, 1);
  turn();
  EXPECT_EQ(leads(), Leads::kPerhaps) << "what was said to the first question does not count";
  follow(1, 2);
  turn();
  EXPECT_EQ(leads(), Leads::kYes);
}

TEST_F(StoppedHostTest, WhoHasTheSeatOfADismissedOneIsNotTakenForIt) {
  host_.dismiss(3, "it was silent");
  stop(seconds(20));
  turn();
  lose(guests_[3]);
  guests_[3] = connect();
  say(guests_[3], introduction(3) + line_of({{says::kWord, "here"}}));
  EXPECT_THAT(told(3, says::kLate), ElementsAre("1"));
  follow(1, 1);
  follow(2, 1);
  turn();
  EXPECT_EQ(leads(), Leads::kYes);
  EXPECT_THAT(gone_, IsEmpty());
  lose(guests_[3]);
  EXPECT_THAT(gone_, ElementsAre(3)) << "that it is gone is heard";
}

/// An order to let another one have a place is older than the loss of the one before.
TEST_F(StoppedHostTest, WhoIsGivenAPlaceInTheDoubtIsNotTakenForTheOneBefore) {
  const std::uint32_t added = host_.keep_place();
  Guest newcomer = connect();
  say(newcomer, introduction(added) + line_of({{says::kWord, "here"}}));
  stop(seconds(20));
  host_.release(3);
  host_.give_place(added, 3);
  lose(guests_[3]);
  follow(1, 1);
  follow(2, 1);
  turn();
  EXPECT_THAT(told(newcomer, says::kPlace), ElementsAre("3"));
  EXPECT_THAT(gone_, IsEmpty());
  guests_[3] = newcomer;
  lose(guests_[3]);
  EXPECT_THAT(gone_, ElementsAre(3));
}

TEST_F(StoppedHostTest, WhileItIsStoppedNobodyCanSayThatHeKnowsTheRoster) {
  host_.dismiss(4, "it was silent");
  turn();
  EXPECT_EQ(told(1, says::kRoster).size(), 1U);
  pass(seconds(6));
  stop(seconds(60));
  turn();
  follow(1, 1);
  follow(2, 1);
  pass(milliseconds(9500));
  EXPECT_EQ(leads(), Leads::kYes);
  EXPECT_THAT(ends_, IsEmpty());
  pass(seconds(1));
  EXPECT_EQ(leads(), Leads::kNoMore) << "nobody knows the roster";
}

TEST_F(StoppedHostTest, WhileItIsStoppedNobodyWaitsInVainForAPlace) {
  const Guest guest = connect();
  say(guest, introduction(2));
  const Guest silent = connect();
  pass(seconds(5));
  stop(seconds(60));
  turn();
  follow(1, 1);
  follow(2, 1);
  pass(seconds(3));
  EXPECT_THAT(told(guest, says::kRefused), IsEmpty());
  EXPECT_FALSE(silent.told->is_over) << "it had no time to say who it is";
  host_.dismiss(2, "it was silent");
  turn();
  EXPECT_THAT(told(guest, says::kLate), ElementsAre("1"));
  pass(seconds(3));
  EXPECT_TRUE(silent.told->is_over);
}

/// Those who come back to a rank 0 that was started anew, and is stopped before they are all there.
TEST_F(MeetingHostTest, WhileItIsStoppedNobodyCanComeBack) {
  const auto come_back = [&](std::uint32_t rank) {
    const Guest guest = connect();
    say(guest, return_of(rank));
    return guest;
  };
  host_.on_own_words(FenceNotes::fence_line());
  const std::vector<Guest> early = {come_back(1), come_back(2), come_back(3)};
  pass(seconds(2));
  stop(seconds(60));
  pass(seconds(1));
  for (const Guest& each : early) EXPECT_THAT(told(each, says::kRecall), IsEmpty()) << "one is missing";
  come_back(4);
  turn();
  EXPECT_THAT(told(early[0], says::kRecall), ElementsAre("true"));
}

TEST_F(MeetingHostTest, WhoSpeaksAnotherVersionIsRefusedAndHearsBoth) {
  const std::string joins =
      line_of({{says::kJoins, true}, {says::kSize, kSize}, {says::kVersion, kMeetingVersion}});
  for (const std::string& first : {introduction(1), joins}) {
    const Guest newer = connect();
    say(newer, of_version(first, kMeetingVersion + 1));
    EXPECT_THAT(
        told(newer, says::kRefused),
        ElementsAre(::testing::AllOf(
            HasSubstr("it speaks version " + std::to_string(kMeetingVersion + 1) + " of the rendezvous"),
            HasSubstr("and rank 0 version " + std::to_string(kMeetingVersion)), HasSubstr("is newer"),
            HasSubstr("the same Verbena for all processes"))));
    const Guest older = connect();
    say(older, of_version(first, 0));
    EXPECT_THAT(told(older, says::kRefused),
                ElementsAre(::testing::AllOf(HasSubstr("it speaks version 1 "), HasSubstr("is older"))));
  }
  const Guest right = connect();
  say(right, introduction(1));
  EXPECT_THAT(told(right, says::kVersion), ElementsAre(std::to_string(kMeetingVersion)));
  EXPECT_EQ(told(right, says::kJob).size(), 1U);
}

/// It is not told that its job has ended, and counts for nobody.
TEST_F(MeetingHostTest, WhoIsBackAndSpeaksAnotherVersionLooksOn) {
  host_.on_own_words(FenceNotes::fence_line());
  std::vector<Guest> newer(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    newer[i] = connect();
    say(newer[i], of_version(return_of(i + 1), kMeetingVersion + 1));
    EXPECT_THAT(told(newer[i], says::kRefused), ElementsAre(HasSubstr("it speaks version ")));
  }
  const Guest older = connect();
  say(older, of_version(return_of(4), 0));
  EXPECT_TRUE(older.told->is_over);
  EXPECT_EQ(older.told->words, "") << "it would take it for the end of its job";
  pass(seconds(9));
  for (const Guest& each : newer) {
    EXPECT_THAT(told(each, says::kRecall), IsEmpty());
    EXPECT_THAT(told(each, says::kDismissed), IsEmpty());
  }
}

TEST_F(StoppedHostTest, WhoIsBackToARunningJobAndSpeaksAnotherVersionLooksOn) {
  const Guest newer = connect();
  say(newer, of_version(return_of(1), kMeetingVersion + 1));
  EXPECT_EQ(told(newer, says::kRefused).size(), 1U);
  EXPECT_THAT(told(newer, says::kDismissed), IsEmpty());
}

}  // namespace
}  // namespace verbena::job
