// The store for other processes: strangers, clients that break rules, and a store that goes away.
#include "cluster/store_server.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "cluster/remote_store.hpp"
#include "cluster/unix_socket.hpp"
#include "tests/store/driver.hpp"

namespace verbena::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class StoreServerTest : public ::testing::Test, public Surroundings {
 protected:
  // Refusals are intended: they need no messages.
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    listen();
  }
  void TearDown() override { spdlog::set_level(spdlog::level::info); }

  void listen() {
    auto server = StoreServer::listen(name_, secret_, state_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void add_descriptors(std::vector<pollfd>& wanted) const override {
    if (server_ != nullptr) server_->add_descriptors(wanted);
  }
  [[nodiscard]] TimePoint next_poll() const override {
    return server_ == nullptr ? TimePoint::max() : server_->next_poll();
  }
  void poll(TimePoint now) override {
    if (server_ != nullptr) server_->poll(now);
  }

  /// A connection by hand.
  base::FileDescriptor stranger() {
    auto socket = connect_to_name(name_);
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }
  static void say(const base::FileDescriptor& socket, std::string_view bytes) {
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string framed(std::string_view frame) {
    std::string bytes;
    for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>(frame.size() >> 8 * i & 0xff);
    return bytes.append(frame);
  }
  /// The next frame; "" when the other end has closed.
  std::string hear(const base::FileDescriptor& socket) {
    std::string bytes;
    bool open = true;
    driver_.run_until([&] {
      std::array<char, 4096> block{};
      const ssize_t got = ::recv(socket.get(), block.data(), block.size(), MSG_DONTWAIT);
      if (got > 0) bytes.append(block.data(), static_cast<std::size_t>(got));
      open = got > 0 || (got < 0 && errno == EAGAIN);
      return !open || bytes.size() >= 4;
    });
    return open ? bytes.substr(4) : "";
  }
  /// One that has proved itself.
  base::FileDescriptor client() {
    base::FileDescriptor socket = stranger();
    const Greeting greeting{transport::fresh_nonce().value()};
    say(socket, framed(encode(greeting)));
    const auto challenge = decode_challenge(hear(socket));
    EXPECT_TRUE(challenge.has_value());
    if (challenge) {
      EXPECT_TRUE(transport::is_proof(challenge->proof, secret_.get(), kStoreRole,
                                      {greeting.nonce, challenge->nonce}));
      say(socket, framed(encode(transport::prove(secret_.get(), kStoreClientRole,
                                                 {greeting.nonce, challenge->nonce}))));
    }
    return socket;
  }

  static inline int tests = 0;
  const std::string name_ = fmt::format("test-{}-{}", ::getpid(), ++tests);
  std::shared_ptr<const transport::Secret> secret_ = transport::Secret::random().value();
  StoreState state_;
  std::unique_ptr<StoreServer> server_;
  Driver driver_{*this};
};

TEST_F(StoreServerTest, IsOneOfItsName) {
  EXPECT_TRUE(absl::IsAlreadyExists(StoreServer::listen(name_, secret_, state_).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(StoreServer::listen("", secret_, state_).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(StoreServer::listen(std::string(200, 'n'), secret_, state_).status()));
}

TEST_F(StoreServerTest, AnswersWhoProvesHimself) {
  const base::FileDescriptor socket = client();
  say(socket, framed(encode(Ask{7, KeyRange{.key = "k"}})));
  const auto answer = decode_server_message(hear(socket));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(std::get<Answered>(*answer).request, 7U);
}

TEST_F(StoreServerTest, StrangersAreSentAway) {
  const std::string greeting = encode(Greeting{});
  const std::vector<std::string> openings = {framed(""),
                                             framed("GET / HTTP/1.1"),
                                             framed(encode(Ask{1, KeyRange{.key = "k"}})),
                                             framed(greeting.substr(1)),
                                             framed(greeting + "x"),
                                             std::string("\xff\xff\xff\xff", 4),
                                             framed(std::string(kMostStrangerFrameBytes + 1, 'x'))};
  for (const std::string& each : openings) {
    const base::FileDescriptor socket = stranger();
    say(socket, each);
    EXPECT_EQ(hear(socket), "") << each;
  }
  // With a proof of another secret, or one that was the store's own.
  for (const bool mirrors : {false, true}) {
    const base::FileDescriptor socket = stranger();
    say(socket, framed(greeting));
    const auto challenge = decode_challenge(hear(socket));
    ASSERT_TRUE(challenge.has_value());
    say(socket, framed(encode(mirrors ? challenge->proof : transport::Proof{})));
    EXPECT_EQ(hear(socket), "");
  }
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(StoreServerTest, StrangersCostLittleAndKeepNobodyOut) {
  std::vector<base::FileDescriptor> strangers;
  for (std::size_t i = 0; i < 3 * StoreServer::kMostStrangers; ++i) strangers.push_back(stranger());
  const base::FileDescriptor socket = client();
  say(socket, framed(encode(Ask{7, KeyRange{.key = "k"}})));
  EXPECT_NE(hear(socket), "");
  EXPECT_LE(server_->connections(), StoreServer::kMostStrangers + 1);
  // They have so much time.
  server_->poll(now() + StoreServer::kStrangerPatience + seconds(1));
  EXPECT_EQ(server_->connections(), 1U);
  EXPECT_GT(server_->next_poll(), now() + seconds(60));
}

TEST_F(StoreServerTest, ClientsThatBreakRulesAreCutOff) {
  const std::vector<std::string> wrong = {
      framed(""),
      framed("\x7f"),
      framed(encode(Ask{1, KeyRange{.key = "k"}}) + "x"),
      std::string("\xff\xff\xff\x7f", 4),
      framed(encode(BeginWatch{.watch = 1, .prefix = "", .from = 1})),
      framed(encode(BeginWatch{.watch = 1, .prefix = "k", .from = 0})),
      framed(encode(BeginWatch{.watch = 1, .prefix = "k", .from = 1})) +
          framed(encode(BeginWatch{.watch = 1, .prefix = "k", .from = 1}))};
  for (const std::string& each : wrong) {
    const base::FileDescriptor socket = client();
    say(socket, each);
    EXPECT_EQ(hear(socket), "");
  }
  std::string many;
  for (std::size_t i = 0; i <= kMostWatches; ++i)
    many += framed(encode(BeginWatch{.watch = i, .prefix = "k", .from = 1}));
  const base::FileDescriptor socket = client();
  say(socket, many);
  EXPECT_EQ(hear(socket), "");
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(StoreServerTest, RequestsThatBreakLimitsAreRefused) {
  const base::FileDescriptor socket = client();
  for (const Request& each :
       {Request(KeyRange{}), Request(GrantLease{Duration::zero()}), Request(KeepLease{kNoLease}),
        Request(Transaction{.puts = {{"k", "1"}, {"k", "2"}}})}) {
    say(socket, framed(encode(Ask{7, each})));
    const auto answer = decode_server_message(hear(socket));
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(absl::IsInvalidArgument(std::get<Answered>(*answer).answer.status()));
  }
}

TEST_F(StoreServerTest, WhoDoesNotReadIsHeardNoFurther) {
  // 200 answers of 100 kB each, which nobody takes.
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(
        state_.execute(Transaction{.puts = {{fmt::format("k{}", i), std::string(10'000, 'v')}}}, now()).ok());
  }
  const base::FileDescriptor socket = client();
  std::string asks;
  for (std::uint64_t i = 0; i < 200; ++i)
    asks += framed(encode(Ask{i, KeyRange{.key = "k", .is_prefix = true}}));
  say(socket, asks);
  driver_.run_for(milliseconds(50));
  std::vector<pollfd> wanted;
  server_->add_descriptors(wanted);
  ASSERT_EQ(wanted.size(), 2U);
  EXPECT_EQ(wanted[1].events, POLLOUT);
  EXPECT_GT(server_->next_poll(), now());
  // Others are heard; and in the end he gets all.
  RemoteStore store(name_, secret_);
  driver_.add(store);
  EXPECT_TRUE(driver_.get(store, {.key = "k0"}).ok());
  driver_.remove(store);
  std::size_t bytes = 0;
  std::array<char, 65536> block{};
  driver_.run_until([&] {
    ssize_t got = 0;
    while ((got = ::recv(socket.get(), block.data(), block.size(), MSG_DONTWAIT)) > 0)
      bytes += static_cast<std::size_t>(got);
    return bytes > 200 * 100'000;
  });
}

TEST_F(StoreServerTest, AStoreThatGoesIsNoticed) {
  RemoteStore store(name_, secret_);
  driver_.add(store);
  ASSERT_TRUE(driver_.put(store, "k", "1").ok());
  Heard heard;
  store.watch("k", state_.revision() + 1, heard.listener());
  std::optional<absl::Status> outcome;
  driver_.run_for(milliseconds(20));  // it watches
  store.transact({.puts = {{"k", "2"}}}, now() + seconds(60),
                 [&](const auto& result) { outcome = result.status(); });
  store.poll(now());  // asked, and not heard
  server_.reset();
  driver_.run_until([&] { return outcome && heard.end; });
  EXPECT_TRUE(absl::IsUnknown(*outcome)) << *outcome;
  EXPECT_TRUE(outcome_unknown(*outcome));
  EXPECT_TRUE(absl::IsUnavailable(*heard.end)) << *heard.end;
  // While it is away nothing happens, and that is said.
  const auto away = driver_.transact(store, {.puts = {{"k", "3"}}}, milliseconds(200));
  EXPECT_TRUE(absl::IsUnavailable(away.status())) << away.status();
  // What may be repeated waits for its return.
  std::optional<absl::StatusOr<Snapshot>> snapshot;
  store.get({.key = "k"}, now() + seconds(60), [&](const auto& got) { snapshot = got; });
  driver_.run_for(milliseconds(100));
  EXPECT_FALSE(snapshot.has_value());
  listen();
  driver_.run_until([&] { return snapshot.has_value(); });
  ASSERT_TRUE(snapshot->ok()) << snapshot->status();
  EXPECT_EQ((*snapshot)->entries.at(0).value, "1");
  EXPECT_TRUE(driver_.put(store, "k", "4").ok());
}

TEST_F(StoreServerTest, ASilentStoreIsWaitedForUntilTheDeadline) {
  RemoteStore store(name_, secret_);
  driver_.add(store);
  ASSERT_TRUE(driver_.put(store, "k", "1").ok());
  const std::unique_ptr<StoreServer> silent = std::move(server_);
  const auto put = driver_.transact(store, {.puts = {{"k", "2"}}}, milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(put.status())) << put.status();
  EXPECT_TRUE(outcome_unknown(put.status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(driver_.get(store, {.key = "k"}, milliseconds(100)).status()));
}

TEST_F(StoreServerTest, AnotherJobsStoreIsNotBelieved) {
  RemoteStore store(name_, transport::Secret::random().value());
  driver_.add(store);
  const auto snapshot = driver_.get(store, {.key = "k"}, milliseconds(300));
  EXPECT_TRUE(absl::IsUnavailable(snapshot.status())) << snapshot.status();
  EXPECT_THAT(std::string(snapshot.status().message()), ::testing::HasSubstr("store of this job"));
}

TEST_F(StoreServerTest, WhatAPeerWritesIsNotBelieved) {
  // A process of the job in the store's place that answers before it was asked, or not as it should.
  struct Wrong {
    bool is_early;
    ServerMessage answer;
  };
  const std::vector<Wrong> wrong = {{true, Answered{1, Answer(Snapshot{})}},
                                    {false, Answered{1, Answer(TransactionResult{})}}};
  for (const Wrong& each : wrong) {
    server_.reset();
    const auto listener = listen_at_name(name_);
    ASSERT_TRUE(listener.ok());
    RemoteStore store(name_, secret_);
    driver_.add(store);
    std::optional<absl::Status> outcome;
    store.get({.key = "k"}, now() + milliseconds(500),
              [&](const auto& snapshot) { outcome = snapshot.status(); });
    store.poll(now());
    base::FileDescriptor socket(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(socket.valid());
    const auto greeting = decode_greeting(hear(socket));
    ASSERT_TRUE(greeting.has_value());
    const transport::Nonce nonce = transport::fresh_nonce().value();
    const std::string challenge = framed(
        encode(Challenge{nonce, transport::prove(secret_.get(), kStoreRole, {greeting->nonce, nonce})}));
    const std::string answer = framed(encode(each.answer));
    say(socket, each.is_early ? challenge + answer : challenge);
    if (!each.is_early) {
      EXPECT_NE(hear(socket), "");  // its proof, and what it asks
      say(socket, answer);
    }
    while (hear(socket) != "") {
    }
    EXPECT_FALSE(outcome.has_value()) << *outcome << ": it has closed only when its time was over";
    driver_.run_until([&] { return outcome.has_value(); });
    EXPECT_FALSE(outcome->ok());
    driver_.remove(store);
  }
}

}  // namespace
}  // namespace verbena::cluster
