#include "job/embedded_rendezvous.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <thread>

#include "job/secret_handover.hpp"

namespace verbena::job {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

bool never() {
  return false;
}

/// Runs the launcher's side in a thread, and has the descriptors that the processes would inherit.
class EmbeddedRendezvousTest : public ::testing::Test {
 protected:
  EmbeddedRendezvousTest() { std::signal(SIGPIPE, SIG_IGN); }
  ~EmbeddedRendezvousTest() override { stop(); }

  void start(std::uint32_t size) {
    host_ = std::make_unique<RendezvousHost>(size, secret_);
    for (std::uint32_t rank = 0; rank < size; ++rank) ends_.push_back(*host_->add());
    thread_ = std::thread([this] {
      while (!stopped_ && status_.ok()) {
        std::vector<pollfd> wanted;
        for (std::size_t rank = 0; rank < host_->size(); ++rank) {
          const int events = host_->wants_to_write(rank) ? POLLIN | POLLOUT : POLLIN;
          wanted.push_back({host_->descriptor(rank), static_cast<short>(events), 0});
        }
        ::poll(wanted.data(), wanted.size(), 10);
        status_ = host_->serve();
      }
    });
  }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
    host_.reset();
  }
  std::unique_ptr<EmbeddedRendezvous> join(std::uint32_t rank) const {
    auto joined = EmbeddedRendezvous::join(ends_[rank]);
    EXPECT_TRUE(joined.ok()) << joined.status();
    return *std::move(joined);
  }

  const std::shared_ptr<const transport::Secret> secret_ = *transport::Secret::random();
  std::unique_ptr<RendezvousHost> host_;
  std::vector<int> ends_;
  std::thread thread_;
  std::atomic<bool> stopped_ = false;
  absl::Status status_;  ///< the host's; read after stop()
};

TEST_F(EmbeddedRendezvousTest, WhatWasPutIsThereForAllAfterTheFence) {
  constexpr std::uint32_t kSize = 4;
  start(kSize);
  const std::string long_value(100'000, 'x');  // more than a socket holds at once
  std::vector<std::thread> processes;
  for (std::uint32_t rank = 0; rank < kSize; ++rank) {
    processes.emplace_back([&, rank] {
      const auto mine = join(rank);
      ASSERT_EQ(mine->rank(), rank);
      ASSERT_EQ(mine->size(), kSize);
      EXPECT_TRUE(std::ranges::equal(mine->secret()->bytes(), secret_->bytes()));
      for (int round = 0; round < 3; ++round) {
        const std::string suffix = std::to_string(round) + "\n\"" + long_value;
        ASSERT_TRUE(mine->put("place", std::to_string(rank) + suffix).ok());
        const absl::Status met = mine->fence(seconds(30), never);
        ASSERT_TRUE(met.ok()) << met;
        for (std::uint32_t other = 0; other < kSize; ++other) {
          EXPECT_EQ(mine->get(other, "place").value(), std::to_string(other) + suffix);
        }
        // No process may begin the next round while another one still reads.
        ASSERT_TRUE(mine->fence(seconds(30), never).ok());
      }
      const auto missing = mine->get(2, "nothing");
      EXPECT_TRUE(absl::IsNotFound(missing.status()));
      EXPECT_THAT(std::string(missing.status().message()), HasSubstr("process 2"));
    });
  }
  for (std::thread& process : processes) process.join();
}

TEST(LateProcessTest, LearnsWhatTheOthersHaveTold) {
  std::signal(SIGPIPE, SIG_IGN);
  RendezvousHost host(1, *transport::Secret::random());
  const int first = *host.add();
  const auto fence = [&](EmbeddedRendezvous& process) {
    std::atomic<bool> is_through = false;
    std::thread meeting([&] {
      EXPECT_TRUE(process.fence(seconds(30), never).ok());
      is_through = true;
    });
    while (!is_through) EXPECT_TRUE(host.serve().ok());
    meeting.join();
  };
  const auto one = EmbeddedRendezvous::join(first);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE((*one)->put("place", "here").ok());
  EXPECT_FALSE(host.have_met());
  fence(**one);
  EXPECT_TRUE(host.have_met());
  const auto late = EmbeddedRendezvous::join(*host.add());
  ASSERT_TRUE(late.ok()) << late.status();
  fence(**late);
  EXPECT_EQ((*late)->get(0, "place").value(), "here");
}

TEST_F(EmbeddedRendezvousTest, NobodyPassesBeforeAllAreThere) {
  start(2);
  const auto one = join(0);
  const absl::Status early = one->fence(std::chrono::milliseconds(100), never);
  EXPECT_TRUE(absl::IsDeadlineExceeded(early)) << early;
}

TEST_F(EmbeddedRendezvousTest, StopEndsTheWait) {
  start(2);
  const auto one = join(0);
  EXPECT_TRUE(absl::IsCancelled(one->fence(seconds(3600), [] { return true; })));
}

TEST_F(EmbeddedRendezvousTest, LauncherThatGoesIsAnError) {
  start(2);
  const auto one = join(0);
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop();
  });
  EXPECT_TRUE(absl::IsUnavailable(one->fence(seconds(3600), never)));
  later.join();
  ::close(ends_[1]);
}

TEST_F(EmbeddedRendezvousTest, ProcessThatGoesHoldsOnlyTheFenceUp) {
  start(2);
  const auto one = join(0);
  join(1).reset();
  EXPECT_TRUE(absl::IsDeadlineExceeded(one->fence(std::chrono::milliseconds(200), never)));
  stop();
  EXPECT_TRUE(status_.ok());
}

TEST_F(EmbeddedRendezvousTest, WordsThatMeanNothingAreAnErrorOfTheHost) {
  for (const std::string words : {"hello\n", "{}\n", "[1]\n", "{\"put\":1}\n",
                                  "{\"put\":1,\"value\":\"v\"}\n", "{\"put\":\"k\",\"value\":[[1]]}\n"}) {
    RendezvousHost host(1, *transport::Secret::random());
    const int end = host.add().value();
    ASSERT_TRUE(write_all(end, words).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(host.serve())) << words;
    ::close(end);
  }
}

TEST_F(EmbeddedRendezvousTest, WordsOfTheHostsErrorAreShownEscaped) {
  RendezvousHost host(1, *transport::Secret::random());
  const int end = host.add().value();
  ASSERT_TRUE(write_all(end, "\x1b[2J" + std::string(1000, 'x') + "\n").ok());
  const absl::Status status = host.serve();
  EXPECT_THAT(std::string(status.message()), HasSubstr("process 0 said what it should not: \\u001b[2Jx"));
  EXPECT_LT(status.message().size(), 300U);
  ::close(end);
}

/// How joining and a fence end if the other end of the socket says `first` at once and `later` at the fence.
absl::Status after_words(const std::string& first, const std::string& later = "") {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  EXPECT_TRUE(hand_over(**transport::Secret::random(), ends[0]).ok());
  EXPECT_TRUE(write_all(ends[0], first).ok());
  const auto joined = EmbeddedRendezvous::join(ends[1]);
  absl::Status status = joined.status();
  if (status.ok()) {
    EXPECT_TRUE(write_all(ends[0], later).ok());
    status = (*joined)->fence(seconds(30), never);
  }
  ::close(ends[0]);
  return status;
}

TEST_F(EmbeddedRendezvousTest, WordsOfNoLauncherAreAnErrorOfTheProcess) {
  for (const std::string words :
       {"hello\n", "[0]\n", "{\"rank\":0}\n", "{\"rank\":\"x\",\"size\":1}\n", "{\"rank\":-1,\"size\":1}\n",
        "{\"rank\":1,\"size\":1}\n", "{\"rank\":0,\"size\":4294967296}\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(after_words(words))) << words;
  }
  const std::string welcome = "{\"rank\":0,\"size\":2}\n";
  EXPECT_TRUE(after_words(welcome, "{\"rank\":1,\"key\":\"k\",\"value\":\"v\"}\n{\"go\":true}\n").ok());
  for (const std::string words :
       {"hello\n", "{\"rank\":0}\n", "{\"rank\":2,\"key\":\"k\",\"value\":\"v\"}\n",
        "{\"rank\":1,\"key\":1,\"value\":\"v\"}\n", "{\"rank\":\"x\",\"key\":\"k\",\"value\":\"v\"}\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(after_words(welcome, words))) << words;
  }
}

TEST(HostIdentityTest, IsTheSameInThisProcess) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_GT(host_identity().size(), 36U);  // a boot identifier, and more
}

}  // namespace
}  // namespace verbena::job
