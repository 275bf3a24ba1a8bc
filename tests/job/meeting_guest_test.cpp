#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "job/meeting/guest.hpp"
#include "job/meeting/messages.hpp"
#include "tests/job/fake_transport.hpp"

namespace verbena::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using transport::Event;

/// Rank 2 of a job, and the processes that it takes for rank 0.
class MeetingGuestTest : public ::testing::Test {
 protected:
  struct Host {
    std::shared_ptr<Told> told = std::make_shared<Told>();
    FakeConnection* connection = nullptr;
  };

  std::unique_ptr<FakeConnection> connect() {
    auto connection = std::make_unique<FakeConnection>(host_.told);
    host_.connection = connection.get();
    return connection;
  }
  void hear(const std::string& words) {
    guest_.on_event({.kind = Event::Kind::kMessage,
                     .connection = host_.connection,
                     .message = std::as_bytes(std::span(words))});
  }
  /// It has met the others, waits for another rank 0 when this one is gone, and that happens.
  void lose_leader() {
    hear(line_of({{says::kJob, "a job"}, {says::kVersion, kMeetingVersion}}));
    hearing_.listen({.on_news = {}, .on_word = {}, .on_gone = {}, .on_leader_gone = {}, .describe = [] {
                       return std::string("a worker");
                     }});
    guest_.outlive_leader(seconds(60));
    host_.connection->break_off();
    guest_.on_event({.kind = Event::Kind::kDisconnected, .connection = host_.connection});
  }
  /// Another process listens where rank 0 was, and is found.
  void find_another() {
    host_ = {};
    transport_.found = connect();
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    while (transport_.found != nullptr && std::chrono::steady_clock::now() < deadline) {
      guest_.travel();
      std::this_thread::sleep_for(milliseconds(1));
    }
    guest_.on_time(std::chrono::steady_clock::now());
    EXPECT_THAT(host_.told->by(says::kBack), ElementsAre("2"));
    EXPECT_THAT(host_.told->by(says::kVersion), ElementsAre(std::to_string(kMeetingVersion)));
  }
  [[nodiscard]] bool looks_for_another() { return guest_.turn() < milliseconds(500); }

  static constexpr std::uint32_t kSize = 3;
  const MeetingOptions options_{.rank = 2, .size = kSize};
  Host host_;
  std::vector<std::string> ends_;  ///< of this process
  std::vector<std::string> shown_;
  SharedEnd end_{milliseconds(0), [this](const std::string& why) { ends_.push_back(why); },
                 [this](const std::string& line) { shown_.push_back(line); }};
  Hearing hearing_{kSize, end_};
  FakeTransport transport_;
  MeetingGuest guest_{options_, transport_, connect(), hearing_, end_};
};

TEST_F(MeetingGuestTest, SaysFirstWhichVersionItSpeaks) {
  EXPECT_THAT(host_.told->by(says::kRank), ElementsAre("2"));
  EXPECT_THAT(host_.told->by(says::kVersion), ElementsAre(std::to_string(kMeetingVersion)));
}

TEST_F(MeetingGuestTest, RefusesARankZeroOfAnotherVersion) {
  hear(line_of({{says::kJob, "a job"}}));
  EXPECT_TRUE(absl::IsInvalidArgument(hearing_.trouble())) << hearing_.trouble();
  EXPECT_THAT(std::string(hearing_.trouble().message()),
              AllOf(HasSubstr("rank 0 speaks version 1 of the rendezvous, and this process version " +
                              std::to_string(kMeetingVersion)),
                    HasSubstr("its Verbena is older than that of this process")));
}

TEST_F(MeetingGuestTest, TakesARankZeroOfItsVersion) {
  hear(line_of({{says::kJob, "a job"}, {says::kVersion, kMeetingVersion}}));
  EXPECT_TRUE(hearing_.trouble().ok()) << hearing_.trouble();
}

/// Its job is not over by a process that was started in rank 0's place and is of another version.
TEST_F(MeetingGuestTest, LooksOnWhenTheNextRankZeroIsOfAnotherVersion) {
  lose_leader();
  EXPECT_TRUE(looks_for_another());
  find_another();
  hear(refused_line("it speaks another version"));
  EXPECT_TRUE(host_.told->is_over);
  find_another();
  hear(line_of({{says::kLeads, 1}}) + line_of({{says::kNews, "of that one"}}));
  EXPECT_TRUE(host_.told->is_over);
  EXPECT_TRUE(looks_for_another());
  find_another();
  hear(line_of({{says::kLeads, 1}, {says::kVersion, kMeetingVersion}}));
  EXPECT_FALSE(host_.told->is_over);
  EXPECT_FALSE(looks_for_another());
  EXPECT_TRUE(hearing_.trouble().ok()) << hearing_.trouble();
  EXPECT_THAT(ends_, IsEmpty());
}

/// Whoever changes what is said raises kMeetingVersion.
TEST(MeetingMessagesTest, AreTheSameInOneVersion) {
  EXPECT_EQ(kMeetingVersion, 2U);
  EXPECT_EQ(back_line({.rank = 1,
                       .size = 2,
                       .incarnation = 3,
                       .job = "a job",
                       .led_by = 4,
                       .roster = Roster::of_beginning(2),
                       .word = "here",
                       .names = {"", "another"}}),
            R"({"back":1,"incarnation":3,"job":"a job","led_by":4,"names":["","another"],)"
            R"("roster":{"number":0,"places":[[0,1],[0,1]]},"size":2,"version":2,"word":"here"})"
            "\n");
  EXPECT_EQ(dismissed_line("so"), "{\"dismissed\":\"so\"}\n");
  EXPECT_EQ(refused_line("so"), "{\"refused\":\"rank 0 refuses this process: so\"}\n");
}

}  // namespace
}  // namespace verbena::job
