#include "job/network_rendezvous.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/errand.hpp"
#include "base/stand_in.hpp"
#include "tests/free_port.hpp"
#include "tests/transport/fault_proxy.hpp"

namespace verbena::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

bool does_not_stop() {
  return false;
}

class NetworkRendezvousTest : public ::testing::Test {
 protected:
  using Joined = absl::StatusOr<std::unique_ptr<NetworkRendezvous>>;

  [[nodiscard]] NetworkRendezvous::Options process(std::uint32_t rank, std::uint32_t size) {
    return {.place = {.host = "127.0.0.1", .port = port_},
            .rank = rank,
            .size = size,
            .secret = secret_,
            .tls = encrypts_,
            .grace = milliseconds(50),
            .before_place_is_free = before_place_is_free_,
            .for_stragglers = milliseconds(300),
            .before_giving_up = before_giving_up_,
            .leader_silence = leader_silence_,
            .end = [this](const std::string& why) {
              const std::lock_guard lock(mutex_);
              reason_ = why;
              ++ended_;
            }};
  }
  Joined join(std::uint32_t rank, std::uint32_t size) {
    return NetworkRendezvous::join(process(rank, size), seconds(30), does_not_stop);
  }
  /// One that is added while the job runs.
  Joined join_later(std::uint32_t size) {
    NetworkRendezvous::Options options = process(0, size);
    options.joins = true;
    return NetworkRendezvous::join(options, seconds(30), does_not_stop);
  }
  static absl::Status fence(NetworkRendezvous& process) { return process.fence(seconds(30), does_not_stop); }
  [[nodiscard]] int ends() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  [[nodiscard]] std::string reason() {
    const std::lock_guard lock(mutex_);
    return reason_;
  }
  void wait_for_ends(int count) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    while (ends() < count && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(ends(), count);
  }
  /// What a process does that is there, and meets the others, and no more.
  void wait_as(std::uint32_t rank, std::uint32_t size) {
    const Joined mine = join(rank, size);
    if (!mine.ok() || !fence(**mine).ok()) ::_exit(1);
    ::pause();
  }
  /// All of them meet.
  static void meet(const std::vector<NetworkRendezvous*>& processes) {
    std::vector<std::thread> meeting;
    meeting.reserve(processes.size());
    for (NetworkRendezvous* const process : processes)
      meeting.emplace_back([process] { EXPECT_TRUE(fence(*process).ok()); });
    for (std::thread& each : meeting) each.join();
  }

  milliseconds before_place_is_free_{10'000};
  milliseconds before_giving_up_{10'000};
  milliseconds leader_silence_{0};
  const std::uint16_t port_ = verbena::testing::free_port();
  const std::shared_ptr<const transport::Secret> secret_ = *transport::Secret::random();
  bool encrypts_ = false;
  std::mutex mutex_;
  int ended_ = 0;
  std::string reason_;  ///< of the last end
};

TEST_F(NetworkRendezvousTest, WhatWasPutIsThereForAllAfterTheFence) {
  constexpr std::uint32_t kSize = 4;
  const std::string long_value(300'000, 'x');  // more than a message holds
  std::vector<std::thread> processes;
  for (std::uint32_t rank = 0; rank < kSize; ++rank) {
    processes.emplace_back([&, rank] {
      const Joined mine = join(rank, kSize);
      ASSERT_TRUE(mine.ok()) << mine.status();
      ASSERT_EQ((*mine)->rank(), rank);
      ASSERT_EQ((*mine)->size(), kSize);
      for (int round = 0; round < 3; ++round) {
        const std::string suffix = std::to_string(round) + "\n\"" + long_value;
        ASSERT_TRUE((*mine)->put("place", std::to_string(rank) + suffix).ok());
        const absl::Status met = fence(**mine);
        ASSERT_TRUE(met.ok()) << met;
        for (std::uint32_t other = 0; other < kSize; ++other)
          EXPECT_EQ((*mine)->get(other, "place").value(), std::to_string(other) + suffix);
        // No process may begin the next round while another one still reads.
        ASSERT_TRUE(fence(**mine).ok());
      }
      EXPECT_THAT(std::string((*mine)->get(2, "nothing").status().message()), HasSubstr("process 2"));
    });
  }
  for (std::thread& process : processes) process.join();
  EXPECT_EQ(ends(), 0) << "whoever says goodbye ends nobody: " << reason();
}

TEST_F(NetworkRendezvousTest, WhoIsMissingIsNamed) {
  const Joined host = join(0, 4);
  ASSERT_TRUE(host.ok()) << host.status();
  std::thread second([&] {
    const Joined guest = join(2, 4);
    ASSERT_TRUE(guest.ok()) << guest.status();
    const absl::Status met = (*guest)->fence(milliseconds(6500), does_not_stop);
    EXPECT_TRUE(absl::IsDeadlineExceeded(met)) << met;
    EXPECT_THAT(std::string(met.message()), HasSubstr("rank 1, rank 3 are missing"));
  });
  const absl::Status met = (*host)->fence(milliseconds(5500), does_not_stop);
  EXPECT_THAT(std::string(met.message()), HasSubstr("not all 4 processes have come together"));
  EXPECT_THAT(std::string(met.message()), HasSubstr("rank 1, rank 3 are missing"));
  second.join();
}

TEST_F(NetworkRendezvousTest, WhatIsSaidCanBeReadOnTheWayUnlessItIsEncrypted) {
  for (const bool encrypts : {false, true}) {
    encrypts_ = encrypts;
    std::string seen;
    {
      const Joined host = join(0, 2);
      ASSERT_TRUE(host.ok()) << host.status();
      const transport::FaultProxy proxy(port_, {.watch = [&](std::span<const std::byte> bytes) {
                                          seen.append(reinterpret_cast<const char*>(bytes.data()),
                                                      bytes.size());
                                        }});
      NetworkRendezvous::Options options = process(1, 2);
      options.place.port = proxy.port();
      const Joined guest = NetworkRendezvous::join(options, seconds(30), does_not_stop);
      ASSERT_TRUE(guest.ok()) << guest.status();
      ASSERT_TRUE((*guest)->put("place", "sword of the spirit").ok());
      meet({host->get(), guest->get()});
      EXPECT_EQ((*host)->get(1, "place").value(), "sword of the spirit");
    }
    EXPECT_EQ(seen.find("sword") == std::string::npos, encrypts);
  }
}

TEST_F(NetworkRendezvousTest, WhatWasChangedOnTheWayEndsAnEncryptedMeeting) {
  encrypts_ = true;
  const Joined host = join(0, 2);
  ASSERT_TRUE(host.ok()) << host.status();
  const transport::FaultProxy proxy(port_,
                                    {.fault = transport::FaultProxy::Fault::kFlip, .after_bytes = 20'000});
  NetworkRendezvous::Options options = process(1, 2);
  options.place.port = proxy.port();
  const Joined guest = NetworkRendezvous::join(options, seconds(30), does_not_stop);
  ASSERT_TRUE(guest.ok()) << guest.status();
  meet({host->get(), guest->get()});
  ASSERT_TRUE((*guest)->put("long", std::string(100'000, 'x')).ok());
  absl::Status heard_by_host;
  std::thread other([&] { heard_by_host = fence(**host); });
  EXPECT_FALSE(fence(**guest).ok());
  other.join();
  EXPECT_THAT(std::string(heard_by_host.message()), HasSubstr("has changed or replaced it"));
  wait_for_ends(2);
}

TEST_F(NetworkRendezvousTest, WhoDoesNotEncryptOrHasAnotherSecretHearsIt) {
  for (const bool encrypts : {false, true}) {
    encrypts_ = encrypts;
    const Joined host = join(0, 2);
    ASSERT_TRUE(host.ok()) << host.status();
    NetworkRendezvous::Options options = process(1, 2);
    options.tls = !encrypts;
    const absl::Status told = NetworkRendezvous::join(options, seconds(30), does_not_stop).status();
    EXPECT_EQ(told.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(told.message()), HasSubstr("(TLS)"));
    options.tls = encrypts;
    options.secret = *transport::Secret::random();
    const absl::Status stranger = NetworkRendezvous::join(options, seconds(30), does_not_stop).status();
    EXPECT_EQ(stranger.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(stranger.message()), HasSubstr("another secret"));
  }
}

TEST_F(NetworkRendezvousTest, WhoWaitsCanBeStopped) {
  std::atomic<bool> stop = false;
  const Joined host = join(0, 2);
  ASSERT_TRUE(host.ok()) << host.status();
  std::thread stopping([&] {
    std::this_thread::sleep_for(milliseconds(20));
    stop = true;
  });
  EXPECT_TRUE(absl::IsCancelled((*host)->fence(seconds(30), [&] { return stop.load(); })));
  stopping.join();
}

TEST_F(NetworkRendezvousTest, WithoutRankZeroTheOthersSayWhereTheyLookedForIt) {
  const Joined guest = NetworkRendezvous::join(process(1, 2), milliseconds(300), does_not_stop);
  EXPECT_TRUE(absl::IsDeadlineExceeded(guest.status())) << guest.status();
  EXPECT_THAT(std::string(guest.status().message()), HasSubstr(std::to_string(port_)));
  const Joined stopped = NetworkRendezvous::join(process(1, 2), seconds(30), [] { return true; });
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
}

/// Looking it up may take as long as servers of names do not answer.
TEST_F(NetworkRendezvousTest, NobodyWaitsUntilItIsKnownWhetherRankZeroCanBeFound) {
  class Later final : public base::ErrandRunner {
   public:
    std::unique_ptr<Run> begin(std::function<void()> work) override {
      work_ = std::move(work);
      return std::make_unique<Idle>();
    }
    void do_it() const { work_(); }

   private:
    class Idle final : public Run {};
    std::function<void()> work_ = [] { FAIL() << "nothing was begun"; };
  };
  Later later;
  const base::StandIn<base::ErrandRunner> stands_in(later);
  const Joined host = join(0, 2);
  ASSERT_TRUE(host.ok()) << host.status();
  const Joined guest = join(1, 2);
  ASSERT_TRUE(guest.ok()) << guest.status();
  meet({host->get(), guest->get()});
  later.do_it();
}

TEST_F(NetworkRendezvousTest, OnlyOneCanBeRankZero) {
  const Joined host = join(0, 2);
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_TRUE(absl::IsAlreadyExists(join(0, 2).status()));
}

TEST_F(NetworkRendezvousTest, WhoCannotBeOfThisJobHearsWhy) {
  const Joined host = join(0, 3);
  ASSERT_TRUE(host.ok()) << host.status();
  const Joined second = join(1, 3);
  const Joined third = join(2, 3);
  ASSERT_TRUE(second.ok() && third.ok());
  meet({host->get(), second->get(), third->get()});
  const auto refused = [&](std::uint32_t rank, std::uint32_t size) {
    const Joined process = join(rank, size);
    if (!process.ok()) return std::string(process.status().message());
    const absl::Status met = fence(**process);
    EXPECT_TRUE(absl::IsInvalidArgument(met)) << met;
    return std::string(met.message());
  };
  EXPECT_THAT(refused(1, 3), HasSubstr("another process has come as rank 1"));
  EXPECT_THAT(refused(2, 5), HasSubstr("it was told of 5 processes, and rank 0 of 3"));
  NetworkRendezvous::Options stranger = process(2, 3);
  stranger.secret = *transport::Secret::random();
  EXPECT_TRUE(
      absl::IsPermissionDenied(NetworkRendezvous::join(stranger, seconds(30), does_not_stop).status()));
  // And the job goes on.
  meet({host->get(), second->get(), third->get()});
  EXPECT_EQ(ends(), 0) << reason();
}

TEST_F(NetworkRendezvousTest, WhoAbortsEndsAllOthers) {
  const Joined host = join(0, 3);
  const Joined second = join(1, 3);
  const Joined third = join(2, 3);
  ASSERT_TRUE(host.ok() && second.ok() && third.ok());
  (*second)->abort(1, "cannot go on");
  wait_for_ends(2);
  EXPECT_THAT(reason(), HasSubstr("rank 1: cannot go on"));
  EXPECT_TRUE(absl::IsUnavailable(fence(**third)));
}

/// A process that dies, in a process of its own.
class Mortal {
 public:
  template <class Live>
  explicit Mortal(Live live) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    live();
    ::pause();
    ::_exit(0);
  }
  ~Mortal() { kill(); }
  Mortal(const Mortal&) = delete;
  Mortal& operator=(const Mortal&) = delete;
  void signal(int number) const { ::kill(pid_, number); }
  /// Waits until it has exited by itself; its status.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

TEST_F(NetworkRendezvousTest, WhenAProcessDiesTheOthersEnd) {
  Mortal second([&] { wait_as(1, 3); });
  const Joined host = join(0, 3);
  const Joined third = join(2, 3);
  ASSERT_TRUE(host.ok() && third.ok());
  meet({host->get(), third->get()});
  second.kill();
  const absl::Status met = fence(**third);
  EXPECT_TRUE(absl::IsUnavailable(met)) << met;
  EXPECT_THAT(std::string(met.message()), HasSubstr("rank 1 (process"));
  wait_for_ends(2);
  EXPECT_THAT(reason(), HasSubstr("is gone"));
}

TEST_F(NetworkRendezvousTest, WhenRankZeroDiesTheOthersEnd) {
  Mortal first([&] { wait_as(0, 2); });
  const Joined second = join(1, 2);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE(fence(**second).ok());
  first.kill();
  EXPECT_TRUE(absl::IsUnavailable(fence(**second)));
  wait_for_ends(1);
  EXPECT_THAT(reason(), HasSubstr("rank 0 (process"));
}

/// Longer than it takes to end those who miss somebody.
constexpr auto kLongerThanGrace = milliseconds(1500);

TEST_F(NetworkRendezvousTest, WhoHasSaidGoodbyeIsNotMissed) {
  Joined host = join(0, 3);
  Joined second = join(1, 3);
  const Joined third = join(2, 3);
  ASSERT_TRUE(host.ok() && second.ok() && third.ok());
  meet({host->get(), second->get(), third->get()});
  second->reset();
  const absl::Status met = fence(**third);
  EXPECT_TRUE(absl::IsUnavailable(met)) << "nobody waits for it: " << met;
  EXPECT_THAT(std::string(met.message()), HasSubstr("rank 1 (process"));
  host->reset();
  std::this_thread::sleep_for(kLongerThanGrace);
  EXPECT_EQ(ends(), 0) << reason();
}

/// What one process hears between fences.
class Heard {
 public:
  [[nodiscard]] PeerNews::Listener listener() {
    return {.on_news = [this](std::string_view news) { add("news " + std::string(news)); },
            .on_word =
                [this](std::uint32_t rank, std::string_view word) {
                  add(std::to_string(rank) + " says " + std::string(word));
                },
            .on_gone =
                [this](std::uint32_t rank, const std::string& why) {
                  EXPECT_THAT(why, HasSubstr("is gone"));
                  add(std::to_string(rank) + " is gone");
                },
            .on_leader_gone = {},
            .describe = {},
            .on_place = [this](std::uint32_t rank) { add("the place of " + std::to_string(rank)); }};
  }
  /// Of a process that can wait for another rank 0.
  [[nodiscard]] PeerNews::Listener patient_listener(const std::string& described) {
    PeerNews::Listener listens = listener();
    listens.on_leader_gone = [this] { add("nobody leads"); };
    listens.describe = [described] { return described; };
    return listens;
  }
  [[nodiscard]] std::vector<std::string> wait_for(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    while (count_all() < count && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(1));  // else who adds would hardly get the lock
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  [[nodiscard]] std::size_t count_all() {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    all_.push_back(what);
  }

  std::mutex mutex_;
  std::vector<std::string> all_;
};

TEST_F(NetworkRendezvousTest, RankZeroTellsNewsAndHearsWords) {
  const Joined host = join(0, 3);
  const Joined second = join(1, 3);
  const Joined third = join(2, 3);
  ASSERT_TRUE(host.ok() && second.ok() && third.ok());
  Heard at_host;
  Heard at_second;
  Heard at_third;
  (*host)->news()->listen(at_host.listener());
  (*second)->news()->listen(at_second.listener());
  (*third)->news()->listen(at_third.listener());
  meet({host->get(), second->get(), third->get()});
  (*host)->news()->tell("1\n\"");
  (*host)->news()->tell("2");
  for (Heard* const heard : {&at_host, &at_second, &at_third})
    EXPECT_THAT(heard->wait_for(2), ::testing::ElementsAre("news 1\n\"", "news 2"));
  (*third)->news()->say("hm");
  EXPECT_EQ(at_host.wait_for(3).back(), "2 says hm");
  (*host)->news()->say("oh");
  EXPECT_EQ(at_host.wait_for(4).back(), "0 says oh");
  (*second)->news()->listen({});
  (*host)->news()->tell("3");
  EXPECT_EQ(at_third.wait_for(3).back(), "news 3");
  EXPECT_EQ(at_second.wait_for(2).size(), 2U) << "it does not listen any more";
  (*host)->news()->listen({});
  (*third)->news()->listen({});
  EXPECT_EQ(ends(), 0) << reason();
}

TEST_F(NetworkRendezvousTest, TheEndOfOneThatIsOutlivedIsTold) {
  Mortal second([&] { wait_as(1, 3); });
  const Joined host = join(0, 3);
  const Joined third = join(2, 3);
  ASSERT_TRUE(host.ok() && third.ok());
  Heard at_host;
  (*host)->news()->listen(at_host.listener());
  meet({host->get(), third->get()});
  (*host)->news()->outlive({1});
  (*host)->news()->tell("first");
  EXPECT_THAT(at_host.wait_for(1), ::testing::ElementsAre("news first"));
  second.kill();
  EXPECT_EQ(at_host.wait_for(2).back(), "1 is gone");
  std::this_thread::sleep_for(kLongerThanGrace);
  EXPECT_EQ(ends(), 0) << reason();
  (*host)->news()->listen({});
}

TEST_F(NetworkRendezvousTest, WhoIsDismissedEndsAndIsNotHeard) {
  const Joined host = join(0, 3);
  Joined second = join(1, 3);
  const Joined third = join(2, 3);
  ASSERT_TRUE(host.ok() && second.ok() && third.ok());
  Heard at_host;
  (*host)->news()->listen(at_host.listener());
  meet({host->get(), second->get(), third->get()});
  (*host)->news()->dismiss(1, "others do its work");
  wait_for_ends(1);
  EXPECT_EQ(reason(), "others do its work");
  (*second)->news()->say("I am here");
  (*second)->abort(1, "I cannot go on");
  second->reset();
  (*third)->news()->say("me, too");
  EXPECT_THAT(at_host.wait_for(1), ::testing::ElementsAre("2 says me, too"));
  std::this_thread::sleep_for(kLongerThanGrace);
  EXPECT_EQ(ends(), 1) << reason();
  (*host)->news()->listen({});
}

/// Rank 0 and a process of a job of which rank 1 may die.
class LateRendezvousTest : public NetworkRendezvousTest {
 protected:
  void begin(bool rank_1_dies) {
    if (rank_1_dies) second_.emplace([&] { wait_as(1, 3); });
    host_ = *join(0, 3);
    if (!rank_1_dies) first_of_rank_1_ = *join(1, 3);
    third_ = *join(2, 3);
    host_->news()->listen(at_host_.listener());
    for (NetworkRendezvous* const each : {host_.get(), third_.get()})
      ASSERT_TRUE(each->put("place", "of " + std::to_string(each->rank())).ok());
    std::vector<NetworkRendezvous*> all = {host_.get(), third_.get()};
    if (first_of_rank_1_) all.push_back(first_of_rank_1_.get());
    meet(all);
    EXPECT_FALSE(third_->is_late());
    host_->news()->outlive({1});
  }
  void TearDown() override {
    if (host_) host_->news()->listen({});
  }

  Heard at_host_;
  std::optional<Mortal> second_;
  std::unique_ptr<NetworkRendezvous> host_;
  std::unique_ptr<NetworkRendezvous> first_of_rank_1_;
  std::unique_ptr<NetworkRendezvous> third_;
};

TEST_F(LateRendezvousTest, OneOfTheSameRankHearsWhatTheOthersHaveTold) {
  begin(/*rank_1_dies=*/true);
  second_->kill();
  EXPECT_EQ(at_host_.wait_for(1).back(), "1 is gone");
  auto late = join(1, 3);
  ASSERT_TRUE(late.ok()) << late.status();
  ASSERT_TRUE((*late)->put("place", "of another").ok());
  // It comes before rank 0 knows what to do without the one before it, and waits for that.
  std::thread deciding([&] {
    std::this_thread::sleep_for(milliseconds(100));
    host_->news()->dismiss(1, "the job goes on without it");
  });
  ASSERT_TRUE(fence(**late).ok());
  deciding.join();
  EXPECT_TRUE((*late)->is_late());
  EXPECT_EQ((*late)->incarnation(), 1U);
  EXPECT_EQ((*late)->get(2, "place").value(), "of 2");
  EXPECT_TRUE(fence(**late).ok()) << "it meets nobody, again and again";
  Heard at_late;
  (*late)->news()->listen(at_late.listener());
  (*late)->news()->say("here I am");
  EXPECT_EQ(at_host_.wait_for(2).back(), "1 says here I am");
  host_->news()->tell("good");
  EXPECT_EQ(at_late.wait_for(1).back(), "news good");
  (*late)->news()->listen({});
  // It cannot end the others, and may go, and another one may come.
  (*late)->abort(1, "I was told something else");
  late->reset();
  EXPECT_EQ(at_host_.wait_for(4).back(), "1 is gone");
  host_->news()->dismiss(1, "the job goes on without this one, too");
  // Nor does anybody have to decide about one that says nothing.
  for (int i = 0; i < 2; ++i) {
    const auto later = join(1, 3);
    ASSERT_TRUE(later.ok()) << later.status();
    EXPECT_TRUE(fence(**later).ok());
    EXPECT_TRUE((*later)->is_late());
    EXPECT_EQ((*later)->incarnation(), static_cast<std::uint32_t>(2 + i));
  }
  EXPECT_EQ(third_->incarnation(), 0U);
  EXPECT_EQ(ends(), 0) << reason();
}

/// Others that are outlived are still at work, and may die.
TEST_F(LateRendezvousTest, OneThatIsOutlivedAndHasDoneItsPartIsNotMissed) {
  begin(/*rank_1_dies=*/true);
  host_->news()->outlive({2});
  third_.reset();
  second_->kill();
  EXPECT_EQ(at_host_.wait_for(1).back(), "1 is gone");
  host_->news()->dismiss(1, "another one is to come");
  const auto late = join(1, 3);
  ASSERT_TRUE(late.ok()) << late.status();
  const absl::Status met = fence(**late);
  EXPECT_TRUE(met.ok()) << met;
  EXPECT_EQ((*late)->get(2, "place").value(), "of 2");
  const auto another = join(2, 3);
  ASSERT_TRUE(another.ok()) << another.status();
  EXPECT_THAT(std::string(fence(**another).message()), HasSubstr("rank 2 has left the job"));
  EXPECT_EQ(ends(), 0) << reason();
}

/// It was stopped, say, and hears of it one day.
TEST_F(LateRendezvousTest, TheOneBeforeItIsNotHeardAndEnds) {
  begin(/*rank_1_dies=*/false);
  host_->news()->dismiss(1, "it shows no sign of life");
  const auto late = join(1, 3);
  ASSERT_TRUE(late.ok()) << late.status();
  ASSERT_TRUE(fence(**late).ok());
  EXPECT_TRUE((*late)->is_late());
  wait_for_ends(1);
  EXPECT_EQ(reason(), "it shows no sign of life");
  first_of_rank_1_->news()->say("I am here");
  first_of_rank_1_.reset();
  (*late)->news()->say("I am, too");
  EXPECT_THAT(at_host_.wait_for(1), ::testing::ElementsAre("1 says I am, too"));
  std::this_thread::sleep_for(kLongerThanGrace);
  EXPECT_EQ(ends(), 1) << reason();
}

TEST_F(LateRendezvousTest, NobodyTakesThePlaceOfOneThatIsThere) {
  before_place_is_free_ = milliseconds(200);
  begin(/*rank_1_dies=*/false);
  for (const std::uint32_t rank : {1U, 2U}) {
    const auto another = join(rank, 3);
    ASSERT_TRUE(another.ok()) << another.status();
    const absl::Status met = fence(**another);
    EXPECT_TRUE(absl::IsInvalidArgument(met)) << met;
    EXPECT_THAT(std::string(met.message()),
                HasSubstr("another process has come as rank " + std::to_string(rank)));
  }
  first_of_rank_1_->news()->say("I am here");
  EXPECT_EQ(at_host_.wait_for(1).back(), "1 says I am here");
  EXPECT_EQ(ends(), 0) << reason();
}

TEST_F(LateRendezvousTest, OthersAreAddedWhileTheJobRuns) {
  begin(/*rank_1_dies=*/false);
  const auto added = join_later(3);
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ((*added)->rank(), 3U);
  EXPECT_EQ((*added)->size(), 3U);
  ASSERT_TRUE(fence(**added).ok());
  EXPECT_TRUE((*added)->is_late());
  EXPECT_EQ((*added)->get(2, "place").value(), "of 2");
  Heard at_added;
  (*added)->news()->listen(at_added.listener());
  (*added)->news()->say("here I am");
  EXPECT_EQ(at_host_.wait_for(1).back(), "3 says here I am");
  // What it alone is told, and what all are, come in their order.
  host_->news()->tell_one(3, "you");
  host_->news()->tell("all");
  host_->news()->tell_one(0, "me");
  EXPECT_THAT(at_added.wait_for(2), ::testing::ElementsAre("news you", "news all"));
  EXPECT_THAT(at_host_.wait_for(3), ::testing::ElementsAre("3 says here I am", "news all", "news me"));
  // Another one comes to the place that is kept for it, and to no other.
  EXPECT_EQ(host_->news()->keep_place(), 4U);
  auto called = join(4, 3);
  ASSERT_TRUE(called.ok()) << called.status();
  ASSERT_TRUE(fence(**called).ok());
  EXPECT_TRUE((*called)->is_late());
  const auto stranger = join(5, 3);
  ASSERT_TRUE(stranger.ok()) << stranger.status();
  EXPECT_THAT(std::string(fence(**stranger).message()), HasSubstr("its rank is 5, of 3 processes"));
  const auto of_another_job = join_later(4);
  EXPECT_TRUE(absl::IsInvalidArgument(of_another_job.status())) << of_another_job.status();
  // Its end is not the end of all.
  (*called)->news()->say("me, too");
  EXPECT_EQ(at_host_.wait_for(4).back(), "4 says me, too");
  called->reset();
  EXPECT_EQ(at_host_.wait_for(5).back(), "4 is gone");
  (*added)->news()->listen({});
  EXPECT_EQ(ends(), 0) << reason();
}

/// One that was added becomes the one of a rank that is free, over the same connection.
TEST_F(LateRendezvousTest, OneThatWasAddedTakesAnotherOnesPlace) {
  begin(/*rank_1_dies=*/false);
  auto added = join_later(3);
  ASSERT_TRUE(added.ok()) << added.status();
  ASSERT_TRUE(fence(**added).ok());
  Heard at_added;
  (*added)->news()->listen(at_added.listener());
  (*added)->news()->say("here I am");
  EXPECT_EQ(at_host_.wait_for(1).back(), "3 says here I am");
  host_->news()->release(1);
  host_->news()->give_place(3, 1);
  host_->news()->tell_one(1, "it is yours");
  EXPECT_THAT(at_added.wait_for(2), ::testing::ElementsAre("the place of 1", "news it is yours"));
  EXPECT_EQ((*added)->incarnation(), 1U) << "one has been rank 1 before";
  (*added)->news()->say("I am the one");
  EXPECT_EQ(at_host_.wait_for(2).back(), "1 says I am the one");
  ASSERT_TRUE(fence(**added).ok());
  EXPECT_EQ((*added)->get(2, "place").value(), "of 2");
  // The one before is not heard any more, and was told nothing.
  first_of_rank_1_->news()->say("I was");
  // One that comes to a rank that is not free has none.
  const auto second = join_later(3);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE(fence(**second).ok());
  host_->news()->give_place(4, 1);
  wait_for_ends(1);
  // Nor is it otherwise for one that has come to a place that was kept for it.
  Heard at_called;
  EXPECT_EQ(host_->news()->keep_place(), 5U);
  const auto called = join(5, 3);
  ASSERT_TRUE(called.ok()) << called.status();
  ASSERT_TRUE(fence(**called).ok());
  (*called)->news()->listen(at_called.listener());
  host_->news()->release(2);
  host_->news()->give_place(5, 2);
  EXPECT_THAT(at_called.wait_for(1), ::testing::ElementsAre("the place of 2"));
  (*called)->news()->listen({});
  EXPECT_THAT(reason(), HasSubstr("another process has come as rank 1"));
  // Its end is that of rank 1.
  (*added)->news()->listen({});
  added->reset();
  EXPECT_THAT(at_host_.wait_for(3),
              ::testing::ElementsAre("3 says here I am", "1 says I am the one", "1 is gone"));
}

TEST_F(NetworkRendezvousTest, NobodyIsAddedToAJobThatEndsWhenOneDies) {
  before_place_is_free_ = milliseconds(200);
  const Joined host = join(0, 2);
  const Joined second = join(1, 2);
  ASSERT_TRUE(host.ok() && second.ok());
  meet({host->get(), second->get()});
  const Joined added = join_later(2);
  EXPECT_TRUE(absl::IsInvalidArgument(added.status())) << added.status();
  EXPECT_THAT(std::string(added.status().message()), HasSubstr("--elastic or --replicas"));
  EXPECT_EQ(ends(), 0) << reason();
}

/// A job of some processes that goes on when rank 0 dies. Those that are to die are processes of their own.
class NextLeaderTest : public NetworkRendezvousTest {
 protected:
  ~NextLeaderTest() override {
    for (const auto& guest : guests_) guest->news()->listen({});
  }
  void live_as(std::uint32_t rank) {
    const Joined mine = join(rank, size_);
    if (!mine.ok()) ::_exit(1);
    begin(**mine, nullptr);
  }
  void begin(NetworkRendezvous& process, Heard* heard) {
    const std::string name = "of " + std::to_string(process.rank());
    EXPECT_TRUE(process.put("place", name).ok());
    Heard nobody;
    process.news()->listen((heard == nullptr ? nobody : *heard).patient_listener(name));
    process.news()->outlive_leader(patience_);
    EXPECT_TRUE(fence(process).ok());
    if (process.rank() == 0) lead(process);
    if (heard == nullptr) ::pause();  // it is killed
  }
  void lead(NetworkRendezvous& process) const {
    std::vector<std::uint32_t> others;
    for (std::uint32_t rank = 1; rank < size_; ++rank) others.push_back(rank);
    process.news()->outlive(others);
  }
  /// Rank 0, which gives the place of rank 1 to one that asks for it.
  void live_as_giver() {
    const Joined mine = join(0, size_);
    if (!mine.ok()) ::_exit(1);
    Heard heard;
    begin(**mine, &heard);
    const std::string asks = heard.wait_for(1).front();
    (*mine)->news()->release(1);
    (*mine)->news()->give_place(static_cast<std::uint32_t>(std::stoi(asks)), 1);
    ::pause();
  }
  /// Rank 0 and those of `mortal` are processes of their own; the others are here.
  void begin_all(const std::vector<std::uint32_t>& mortal) {
    begin_all(mortal, [&] { live_as(0); });
  }
  void begin_all(const std::vector<std::uint32_t>& mortal, const std::function<void()>& leader) {
    mortals_.push_back(std::make_unique<Mortal>(leader));
    for (const std::uint32_t rank : mortal)
      mortals_.push_back(std::make_unique<Mortal>([&, rank] { live_as(rank); }));
    std::vector<std::thread> beginning;
    guests_.reserve(size_);  // those that begin must find them where they are
    heard_.reserve(size_);
    for (std::uint32_t rank = 1; rank < size_; ++rank) {
      if (std::ranges::find(mortal, rank) != mortal.end()) continue;
      guests_.push_back(*join(rank, size_));
      heard_.push_back(std::make_unique<Heard>());
      beginning.emplace_back([this, at = guests_.size() - 1] { begin(*guests_[at], heard_[at].get()); });
    }
    for (std::thread& each : beginning) each.join();
    std::this_thread::sleep_for(milliseconds(100));  // rank 0 leads
  }
  void kill_all() {
    for (const auto& mortal : mortals_) mortal->kill();
    for (const auto& heard : heard_) EXPECT_EQ(heard->wait_for(1), std::vector<std::string>{"nobody leads"});
  }

  std::uint32_t size_ = 4;
  milliseconds patience_{30'000};
  std::vector<std::unique_ptr<Mortal>> mortals_;  ///< that of rank 0 is the first one
  std::vector<std::unique_ptr<NetworkRendezvous>> guests_;
  std::vector<std::unique_ptr<Heard>> heard_;  ///< by them
  Heard at_host_;
};

TEST_F(NextLeaderTest, TheOthersAreTheMemoryOfTheNextOne) {
  begin_all({});
  kill_all();
  guests_[2]->news()->say("meanwhile");
  const auto host = join(0, size_);
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_TRUE((*host)->put("place", "not told").ok()) << "it does not know yet that the others have met";
  ASSERT_TRUE(fence(**host).ok());
  EXPECT_EQ((*host)->incarnation(), 1U);
  EXPECT_EQ((*host)->get(2, "place").value(), "of 2");
  EXPECT_EQ((*host)->get(0, "place").value(), "of 0") << "what all have decided by";
  std::set<std::string> returned;
  for (const PeerNews::Returned& one : (*host)->news()->returned())
    returned.insert(std::to_string(one.rank) + " " + one.described);
  EXPECT_THAT(returned, ::testing::ElementsAre("1 of 1", "2 of 2", "3 of 3"));
  std::this_thread::sleep_for(milliseconds(200));  // it comes before somebody listens
  (*host)->news()->listen(at_host_.listener());
  EXPECT_THAT(at_host_.wait_for(1), ::testing::ElementsAre("3 says meanwhile"));
  EXPECT_TRUE((*host)->put("leader", "here").ok());
  ASSERT_TRUE(fence(**host).ok());
  lead(**host);
  (*host)->news()->tell("on");
  for (const auto& heard : heard_)
    EXPECT_EQ(heard->wait_for(2), (std::vector<std::string>{"nobody leads", "news on"}));
  // All is as before: another one may come, which hears of all.
  (*host)->news()->dismiss(1, "the job goes on without it");
  wait_for_ends(1);
  const auto late = join(1, size_);
  ASSERT_TRUE(late.ok()) << late.status();
  ASSERT_TRUE(fence(**late).ok());
  EXPECT_EQ((*late)->incarnation(), 1U);
  EXPECT_EQ((*late)->get(3, "place").value(), "of 3");
  EXPECT_EQ((*late)->get(0, "leader").value(), "here");
  EXPECT_EQ(ends(), 1) << reason();
  (*host)->news()->listen({});
}

/// It does not wait for a word that only the one before could say.
TEST_F(NextLeaderTest, WhoHasGotAPlaceHasIt) {
  begin_all({}, [&] { live_as_giver(); });
  Heard at_added;
  const auto added = join_later(size_);
  ASSERT_TRUE(added.ok()) << added.status();
  ASSERT_TRUE(fence(**added).ok());
  (*added)->news()->listen(at_added.patient_listener("of 1 after another"));
  (*added)->news()->outlive_leader(patience_);
  (*added)->news()->say("I have read");
  EXPECT_EQ(at_added.wait_for(1), std::vector<std::string>{"the place of 1"});
  std::this_thread::sleep_for(milliseconds(1200));  // the others have heard of it
  kill_all();
  EXPECT_EQ(at_added.wait_for(2).back(), "nobody leads");
  const auto host = join(0, size_);
  ASSERT_TRUE(host.ok()) << host.status();
  ASSERT_TRUE(fence(**host).ok());
  std::set<std::string> returned;
  for (const PeerNews::Returned& one : (*host)->news()->returned())
    returned.insert(std::to_string(one.rank) + " " + one.described);
  EXPECT_THAT(returned, ::testing::ElementsAre("1 of 1 after another", "2 of 2", "3 of 3"));
  (*added)->news()->listen({});
}

/// What a process waits for that is forked before there are threads, as the thread sanitizer wants it.
class Gate {
 public:
  Gate() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Gate() {
    for (const int end : ends_) ::close(end);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() const { EXPECT_EQ(::write(ends_[1], "!", 1), 1); }
  void wait() const {
    char byte = 0;
    static_cast<void>(!::read(ends_[0], &byte, 1));
  }

 private:
  std::array<int, 2> ends_{};
};

/// Each dies in the moment in which it leads: those who have followed it are all that knows of it.
TEST_F(NextLeaderTest, ItMayDieLikeTheOneBefore) {
  constexpr std::uint32_t kNexts = 3;
  const std::array<Gate, kNexts> gates;
  std::vector<std::unique_ptr<Mortal>> nexts;
  for (std::uint32_t before = 1; before <= kNexts; ++before) {
    nexts.push_back(std::make_unique<Mortal>([&, before] {
      gates.at(before - 1).wait();
      const Joined mine = join(0, size_);
      if (!mine.ok() || !fence(**mine).ok() || (*mine)->incarnation() != before) ::_exit(1);
      (*mine)->news()->outlive_leader(patience_);
      lead(**mine);
      (*mine)->news()->tell("led by " + std::to_string(before));
      ::pause();
    }));
  }
  begin_all({});
  kill_all();
  for (std::uint32_t before = 1; before <= kNexts; ++before) {
    gates.at(before - 1).open();
    EXPECT_EQ(heard_[0]->wait_for(2 * before).back(), "news led by " + std::to_string(before));
    nexts.at(before - 1)->kill();
    for (const auto& heard : heard_) EXPECT_EQ(heard->wait_for(2 * before + 1).back(), "nobody leads");
  }
  EXPECT_EQ(ends(), 0) << reason();
}

TEST_F(NextLeaderTest, WhoHasDiedMeanwhileIsGone) {
  size_ = 5;
  begin_all({4});
  kill_all();
  const auto host = join(0, size_);
  // It was started again with rank 0, and has come before the others.
  const auto another = join(4, size_);
  ASSERT_TRUE(host.ok() && another.ok()) << host.status() << another.status();
  ASSERT_TRUE(fence(**host).ok());
  EXPECT_EQ((*host)->news()->returned().size(), 3U);
  (*host)->news()->listen(at_host_.listener());
  EXPECT_THAT(at_host_.wait_for(1), ::testing::ElementsAre("4 is gone"));
  lead(**host);
  (*host)->news()->dismiss(4, "the job goes on without it");
  ASSERT_TRUE(fence(**another).ok());
  EXPECT_EQ((*another)->incarnation(), 1U);
  EXPECT_EQ((*another)->get(1, "place").value(), "of 1");
  EXPECT_EQ(ends(), 0) << reason();
  (*host)->news()->listen({});
}

TEST_F(NextLeaderTest, NotMoreThanHalfOfThemHaveNoLeader) {
  size_ = 4;
  patience_ = milliseconds(2500);
  begin_all({3});
  kill_all();
  const auto host = join(0, size_);
  ASSERT_TRUE(host.ok()) << host.status();
  const absl::Status met = (*host)->fence(milliseconds(5500), does_not_stop);
  EXPECT_TRUE(absl::IsDeadlineExceeded(met)) << met;
  EXPECT_THAT(reason(),
              HasSubstr("no other process has led the job in its place within 2 s (--leader-patience)"));
  EXPECT_EQ(ends(), 2);
}

TEST_F(NextLeaderTest, WhoIsMissingIsNamedAsTheOthersKnowIt) {
  begin_all({3});
  kill_all();
  const auto host = join(0, size_);
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_THAT(std::string((*host)->fence(milliseconds(5500), does_not_stop).message()),
              ::testing::MatchesRegex(".*2 of 4 processes have come back, and more than half are needed; "
                                      "missing: rank 3 \\(process [0-9]+ at 127\\.0\\.0\\.1\\)"));
}

TEST_F(NextLeaderTest, WhoHasNobodyToWaitForEndsInTime) {
  patience_ = milliseconds(1500);
  begin_all({});
  const auto since = std::chrono::steady_clock::now();
  kill_all();
  wait_for_ends(3);
  EXPECT_THAT(reason(), HasSubstr("rank 0 (process"));
  EXPECT_GE(std::chrono::steady_clock::now() - since, patience_);
}

/// Of a job of which one is left that waits, all are started again.
TEST_F(NextLeaderTest, AFirstStartIsNotTakenForThatOfAnotherLeader) {
  size_ = 3;
  begin_all({2});
  kill_all();
  std::vector<std::unique_ptr<NetworkRendezvous>> anew;
  for (std::uint32_t rank = 0; rank < size_; ++rank) anew.push_back(*join(rank, size_));
  std::this_thread::sleep_for(milliseconds(600));  // the other one has come, too
  meet({anew[0].get(), anew[1].get(), anew[2].get()});
  for (const auto& each : anew) EXPECT_FALSE(each->is_late());
  wait_for_ends(1);
  EXPECT_EQ(reason(), "another job has begun where its rank 0 was");
}

/// Its connection has ended; nobody tells it that rank 0 lives.
TEST_F(NextLeaderTest, WhoComesBackToTheSameOneIsOut) {
  size_ = 3;
  const auto host = join(0, size_);
  const auto third = join(2, size_);
  ASSERT_TRUE(host.ok() && third.ok());
  transport::FaultProxy proxy(port_, {});
  NetworkRendezvous::Options options = process(1, size_);
  options.place.port = proxy.port();
  const auto second = NetworkRendezvous::join(options, seconds(30), does_not_stop);
  ASSERT_TRUE(second.ok()) << second.status();
  Heard at_second;
  Heard at_third;
  std::vector<std::thread> beginning;
  beginning.emplace_back([&] { begin(**host, &at_host_); });
  beginning.emplace_back([&] { begin(**second, &at_second); });
  beginning.emplace_back([&] { begin(**third, &at_third); });
  for (std::thread& each : beginning) each.join();
  proxy.spoil(0, transport::FaultProxy::Fault::kCut);
  EXPECT_EQ(at_second.wait_for(1).back(), "nobody leads");
  EXPECT_EQ(at_host_.wait_for(1).back(), "1 is gone");
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_EQ(ends(), 0) << "nothing is decided about it yet: " << reason();
  (*host)->news()->dismiss(1, "the job goes on");
  wait_for_ends(1);
  EXPECT_THAT(reason(), HasSubstr("rank 0 goes on without it"));
  for (const auto* const each : {&*host, &*second, &*third}) (*each)->news()->listen({});
}

TEST_F(NextLeaderTest, OneThatHasLostMoreThanHalfAtOnceGivesUp) {
  size_ = 5;
  before_giving_up_ = milliseconds(500);
  std::vector<std::unique_ptr<Mortal>> others;
  for (std::uint32_t rank = 1; rank < size_; ++rank)
    others.push_back(std::make_unique<Mortal>([&, rank] { live_as(rank); }));
  const auto host = join(0, size_);
  ASSERT_TRUE(host.ok()) << host.status();
  begin(**host, &at_host_);
  for (const std::uint32_t rank : {1U, 2U}) others[rank - 1]->kill();
  EXPECT_EQ(at_host_.wait_for(2).size(), 2U);
  for (const std::uint32_t rank : {1U, 2U}) (*host)->news()->dismiss(rank, "the job goes on");
  std::this_thread::sleep_for(kLongerThanGrace);
  EXPECT_EQ(ends(), 0) << "more than half are there: " << reason();
  for (const std::uint32_t rank : {3U, 4U}) others[rank - 1]->kill();
  EXPECT_EQ(at_host_.wait_for(4).size(), 4U);
  for (const std::uint32_t rank : {3U, 4U}) (*host)->news()->dismiss(rank, "the job goes on");
  wait_for_ends(1);
  EXPECT_THAT(reason(), HasSubstr("rank 0 has lost more than half of the job's processes at once"));
  (*host)->news()->listen({});
}

/// Rank 0 is a process that is stopped, and goes on one day.
class StoppedLeaderTest : public NextLeaderTest {
 protected:
  /// Guests of their own; rank 0 goes on without those that it loses, and tells who they are. When it gives
  /// up, it exits.
  void begin_all() {
    mortals_.push_back(std::make_unique<Mortal>([this] { live_as_leader(); }));
    std::vector<std::thread> beginning;
    for (std::uint32_t rank = 1; rank < size_; ++rank) {
      NetworkRendezvous::Options options = process(rank, size_);
      if (rank <= impatient_) options.leader_silence = milliseconds(2000);
      guests_.push_back(*NetworkRendezvous::join(options, seconds(30), does_not_stop));
      heard_.push_back(std::make_unique<Heard>());
    }
    for (std::size_t at = 0; at < guests_.size(); ++at)
      beginning.emplace_back([this, at] { begin(*guests_[at], heard_[at].get()); });
    for (std::thread& each : beginning) each.join();
    std::this_thread::sleep_for(milliseconds(700));  // rank 0 leads, and has beaten
  }
  void live_as_leader() {
    const Joined mine = join(0, size_);
    if (!mine.ok()) ::_exit(1);
    PeerNews& news = *(*mine)->news();
    Heard heard;
    std::size_t known = 0;
    begin(**mine, &heard);
    if (decides_before_stop_) {
      std::this_thread::sleep_for(milliseconds(1500));  // it has beaten
      ::raise(SIGSTOP);
      news.tell("an order");
    }
    using Leads = PeerNews::Standing::Leads;
    while (ends() == 0) {
      std::this_thread::sleep_for(milliseconds(5));
      if (news.standing().leads != Leads::kYes) continue;
      const std::vector<std::string> all = heard.wait_for(0);
      for (; known < all.size(); ++known) {
        if (!all[known].ends_with("is gone") || all[known].starts_with("news")) continue;
        news.dismiss(static_cast<std::uint32_t>(std::stoi(all[known])), "the job goes on");
        news.tell(all[known]);
      }
    }
    if (decides_before_stop_) std::this_thread::sleep_for(milliseconds(500));  // that has its turn
    for (const std::string& each : heard.wait_for(0)) {
      if (each == "news an order") ::_exit(8);
    }
    const bool knows_it = news.standing().leads == Leads::kNoMore;
    ::_exit(knows_it && reason().find("was stopped") != std::string::npos ? 7 : 1);
  }
  Mortal& leader() { return *mortals_.front(); }

  std::uint32_t impatient_ = 0;       ///< so many wait for no longer than two seconds
  bool decides_before_stop_ = false;  ///< it stops itself between what it decides and the order
  void stop_leader_for(milliseconds time) {
    leader().signal(SIGSTOP);
    std::this_thread::sleep_for(time);
    leader().signal(SIGCONT);
  }
  void wait_until_nobody_leads() {
    for (const auto& heard : heard_) EXPECT_EQ(heard->wait_for(1), std::vector<std::string>{"nobody leads"});
  }
  void let_another_lead() {
    const auto host = join(0, size_);
    ASSERT_TRUE(host.ok()) << host.status();
    ASSERT_TRUE(fence(**host).ok());
    EXPECT_EQ((*host)->incarnation(), 1U);
    EXPECT_EQ((*host)->news()->returned().size(), guests_.size());
    lead(**host);
    (*host)->news()->tell("on");
    for (const auto& heard : heard_) EXPECT_EQ(heard->wait_for(2).back(), "news on");
    EXPECT_EQ(ends(), 0) << reason();
  }
};

TEST_F(StoppedLeaderTest, ItIsMissedAsOneThatIsGone) {
  leader_silence_ = milliseconds(2000);
  begin_all();
  leader().signal(SIGSTOP);
  wait_until_nobody_leads();
  // It has its address as long as it is there.
  const absl::Status refused = join(0, size_).status();
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("which is stopped, listens there already"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("end it first (kill -9 "));
  leader().kill();
  let_another_lead();
}

/// Those who have left it for good are needed by another one: it must not send them away.
TEST_F(StoppedLeaderTest, IfItGoesOnTooLateItEndsAndDoesNoHarm) {
  leader_silence_ = milliseconds(2000);
  begin_all();
  leader().signal(SIGSTOP);
  wait_until_nobody_leads();
  leader().signal(SIGCONT);
  EXPECT_EQ(leader().wait(), 7);
  let_another_lead();
}

TEST_F(StoppedLeaderTest, IfItGoesOnInTimeNothingHappens) {
  leader_silence_ = milliseconds(20'000);
  begin_all();
  stop_leader_for(milliseconds(2000));
  std::this_thread::sleep_for(milliseconds(1000));
  for (const auto& heard : heard_) EXPECT_TRUE(heard->wait_for(0).empty());
  EXPECT_EQ(ends(), 0) << reason();
  leader().kill();
  wait_until_nobody_leads();
}

/// Those who have given up on it are too few for another one.
TEST_F(StoppedLeaderTest, ItGoesOnWithoutThoseWhoAreNotMoreThanHalf) {
  size_ = 5;
  impatient_ = 2;
  leader_silence_ = milliseconds(20'000);
  begin_all();
  leader().signal(SIGSTOP);
  for (const std::size_t each : {0U, 1U})
    EXPECT_EQ(heard_[each]->wait_for(1), std::vector<std::string>{"nobody leads"});
  leader().signal(SIGCONT);
  wait_for_ends(2);
  EXPECT_THAT(reason(), HasSubstr("rank 0 goes on without it"));
  for (const std::size_t each : {2U, 3U})
    EXPECT_THAT(heard_[each]->wait_for(2),
                ::testing::UnorderedElementsAre("news 1 is gone", "news 2 is gone"));
  leader().kill();
  for (const std::size_t each : {2U, 3U}) EXPECT_EQ(heard_[each]->wait_for(3).back(), "nobody leads");
}

/// Those who have not given up on it go, too, and nothing is decided about the others.
TEST_F(StoppedLeaderTest, IfMoreThanHalfHaveLeftAllWaitForAnother) {
  size_ = 5;
  impatient_ = 3;
  leader_silence_ = milliseconds(20'000);
  begin_all();
  leader().signal(SIGSTOP);
  for (const std::size_t each : {0U, 1U, 2U})
    EXPECT_EQ(heard_[each]->wait_for(1), std::vector<std::string>{"nobody leads"});
  leader().signal(SIGCONT);
  EXPECT_EQ(leader().wait(), 7);
  wait_until_nobody_leads();
  let_another_lead();
}

/// The one that has not given up on it must not go by it, nor rank 0's own server.
TEST_F(StoppedLeaderTest, WhatItHadDecidedBeforeNobodyHearsWhenMoreThanHalfHaveLeft) {
  size_ = 5;
  impatient_ = 3;
  decides_before_stop_ = true;
  leader_silence_ = milliseconds(20'000);
  begin_all();
  for (const std::size_t each : {0U, 1U, 2U})
    EXPECT_EQ(heard_[each]->wait_for(1), std::vector<std::string>{"nobody leads"});
  leader().signal(SIGCONT);
  EXPECT_EQ(leader().wait(), 7) << "8: it has gone by its own order";
  wait_until_nobody_leads();
  let_another_lead();
  EXPECT_EQ(heard_[3]->wait_for(2), (std::vector<std::string>{"nobody leads", "news on"}));
}

/// Nobody may wait for another one.
TEST_F(StoppedLeaderTest, WithoutPatienceTheOthersEndAndNameIt) {
  leader_silence_ = milliseconds(2000);
  patience_ = milliseconds(0);
  begin_all();
  leader().signal(SIGSTOP);
  wait_for_ends(3);
  EXPECT_THAT(reason(), HasSubstr("rank 0 (process "));
  EXPECT_THAT(reason(), HasSubstr("has shown no sign of life for 2."));
}

TEST_F(NetworkRendezvousTest, WhoSaysTooMuchEndsAll) {
  const Joined host = join(0, 2);
  const Joined second = join(1, 2);
  ASSERT_TRUE(host.ok() && second.ok());
  const std::string much(std::size_t{1} << 18, 'x');
  for (int i = 0; i < 70; ++i) ASSERT_TRUE((*second)->put("much", much).ok());
  wait_for_ends(1);
  EXPECT_THAT(reason(), HasSubstr("rank 1 has said more"));
}

}  // namespace
}  // namespace verbena::job
