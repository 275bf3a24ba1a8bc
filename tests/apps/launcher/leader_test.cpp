#include "apps/launcher/leader.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <future>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/temporary_folder.hpp"
#include "tests/transport/fault_proxy.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

bool never() {
  return false;
}

/// A leader in a thread of its own, for a server and a worker. Encrypting, or not.
class LeaderTest : public ::testing::TestWithParam<bool> {
 protected:
  LeaderTest()
      : record_(1, [](const auto& sums) { return sums; }),
        display_(settings_, Display::Mode::kNone, shown_.get(), stderr),
        monitor_(record_, display_, nullptr) {
    std::signal(SIGPIPE, SIG_IGN);
    auto leader =
        Leader::listen(true, {{"server 0 (rank 0)", true}, {"worker 0 (rank 1)", false}}, secret_, encrypts_);
    EXPECT_TRUE(leader.ok()) << leader.status();
    leader_ = *std::move(leader);
    address_ = leader_->address();
    thread_ = std::thread([this] { leader_->run(monitor_); });
  }
  ~LeaderTest() override {
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] std::unique_ptr<LeaderLink> connect(std::uint32_t rank) const {
    auto link = link_of(address_, rank, *secret_, encrypts_, std::chrono::seconds(30));
    EXPECT_TRUE(link.ok()) << link.status();
    return *std::move(link);
  }
  static absl::StatusOr<std::unique_ptr<LeaderLink>> link_of(
      const std::string& address, std::uint32_t rank, const transport::Secret& secret, bool encrypts,
      std::chrono::seconds patience = std::chrono::seconds(0)) {
    return LeaderLink::connect(address, rank, true, secret, patience, never, encrypts);
  }
  /// Where a proxy before the leader listens.
  [[nodiscard]] static std::string address_of(const transport::FaultProxy& proxy) {
    return fmt::format("127.0.0.1;{}", proxy.port());
  }
  [[nodiscard]] std::uint16_t port() const {
    const std::vector<std::string> parts = absl::StrSplit(address_, ';');
    return static_cast<std::uint16_t>(std::stoi(parts[1]));
  }
  /// Both members come and go.
  void end_well() {
    for (const std::uint32_t rank : {0U, 1U}) connect(rank)->send(job::EndedMessage{0});
    EXPECT_TRUE(end_of_run().ok());
  }
  absl::Status end_of_run() {
    thread_.join();
    return monitor_.failure();
  }
  /// The lines that people have been shown.
  [[nodiscard]] std::vector<std::string> warnings() const {
    return absl::StrSplit(verbena::testing::contents(folder_.path("shown")), '\n', absl::SkipEmpty());
  }
  /// A plain connection without LeaderLink's handshake.
  [[nodiscard]] int connect_plainly() const {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port());
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
    return descriptor;
  }
  /// Sends `words`. Returns all that comes back until the leader closes the connection.
  static std::string answer_to(int descriptor, const std::string& words) {
    job::write_all(descriptor, words).IgnoreError();
    std::string answer;
    char byte = 0;
    while (::read(descriptor, &byte, 1) == 1) answer += byte;
    ::close(descriptor);
    return answer;
  }

  const bool encrypts_ = GetParam();
  const std::shared_ptr<const transport::Secret> secret_ = *transport::Secret::random();
  const verbena::testing::TemporaryFolder folder_;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> shown_{std::fopen(folder_.path("shown").c_str(), "w"),
                                                               std::fclose};
  RunSettings settings_;
  RunRecord record_;
  Display display_;
  RunMonitor monitor_;
  std::unique_ptr<Leader> leader_;
  std::string address_;
  std::thread thread_;
};

std::string name_of_way(const ::testing::TestParamInfo<bool>& tested) {
  return tested.param ? "Encrypted" : "Plain";
}
INSTANTIATE_TEST_SUITE_P(Each, LeaderTest, ::testing::Bool(), name_of_way);

TEST_P(LeaderTest, HearsAllUntilTheyHaveEnded) {
  const auto server = connect(0);
  const auto worker = connect(1);
  job::IterationMessage iteration;
  iteration.report = {.iteration = 1, .items = 3, .seconds = 1, .sums = {{"count", 7}}};
  worker->send(iteration);
  worker->send(job::PrintMessage{"words"});
  worker->send(job::EndedMessage{0});
  server->send(job::EndedMessage{0});
  EXPECT_TRUE(end_of_run().ok());
  EXPECT_FALSE(leader_->abandoned());
  ASSERT_EQ(record_.iterations().size(), 1U);
  EXPECT_EQ(record_.iterations()[0].objectives.at("count"), 7);
  EXPECT_EQ(monitor_.printed(), std::vector<std::string>{"words"});
  leader_.reset();
  worker->wait_for_end(never);
}

/// Each hears all, whenever it was said.
TEST_P(LeaderTest, AMemberMovesFromOneLeaderToTheNext) {
  const auto server = connect(0);
  transport::FaultProxy proxy(port(), {});
  auto reached = link_of(address_of(proxy), 1, *secret_, encrypts_, std::chrono::seconds(30));
  ASSERT_TRUE(reached.ok()) << reached.status();
  LeaderLink& worker = **reached;
  ASSERT_TRUE(worker.listen({.outlives_with = secret_}).ok());
  const auto report = [&](std::int64_t iteration) {
    job::IterationMessage message;
    message.report = {.iteration = iteration, .items = 3, .seconds = 1, .sums = {{"count", 7}}};
    worker.send(message);
    worker.send(job::StatisticsMessage{.worker = 0, .seconds = static_cast<double>(iteration)});
  };
  report(1);
  proxy.spoil(0, transport::FaultProxy::Fault::kCut);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!worker.lost() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(worker.lost());
  pollfd told = {worker.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, 100), 0) << "it is not to end";
  report(2);
  worker.send(job::AskedToStopMessage{SIGTERM});  // of that moment: not for the next one
  worker.send(job::PrintMessage{"words"});
  server->send(job::EndedMessage{0});
  EXPECT_FALSE(end_of_run().ok()) << "this leader lives, and misses the worker";

  RunRecord record(1, [](const auto& sums) { return sums; });
  RunMonitor monitor(record, display_, nullptr);
  auto next =
      Leader::listen(true, {{"server 0 (rank 0)", true}, {"worker 0 (rank 1)", false}}, secret_, encrypts_);
  ASSERT_TRUE(next.ok()) << next.status();
  (*next)->begin_without({0});
  std::thread leading([&] { (*next)->run(monitor); });
  worker.follow((*next)->address(), true);
  report(3);
  worker.send(job::EndedMessage{0});
  leading.join();
  EXPECT_FALSE(worker.lost());
  EXPECT_TRUE(monitor.failure().ok()) << monitor.failure();
  EXPECT_EQ((*next)->signal(), 0);
  EXPECT_EQ(record.iterations().size(), 3U);
  EXPECT_EQ(record.workers()[0].so_far->seconds, 3) << "the newest one";
  EXPECT_EQ(monitor.printed(), std::vector<std::string>{"words"});
  next->reset();
  EXPECT_TRUE(worker.wait_for_end(never));
}

TEST_P(LeaderTest, AMemberThatWaitsForALeaderMayBeToldToEnd) {
  const auto server = connect(0);
  const auto worker = connect(1);
  ASSERT_TRUE(worker->listen({.outlives_with = secret_}).ok());
  worker->leave_leader();
  EXPECT_FALSE(worker->wait_for_end([begin = std::chrono::steady_clock::now()] {
    return std::chrono::steady_clock::now() > begin + std::chrono::milliseconds(200);
  }));
  server->send(job::EndedMessage{0});
  EXPECT_FALSE(end_of_run().ok());
}

TEST_P(LeaderTest, WhoGoesWithoutAWordIsNamedAndTheOthersAreToldToStop) {
  const auto server = connect(0);
  connect(1).reset();
  pollfd told = {server->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&told, 1, 30'000), 1);
  server->send(job::FailedMessage{absl::UnavailableError("worker 0 is gone")});
  server->send(job::EndedMessage{1});
  const absl::Status failure = end_of_run();
  EXPECT_THAT(std::string(failure.message()), HasSubstr("worker 0 (rank 1) ended without a word"));
  EXPECT_FALSE(server->lost());
}

TEST_P(LeaderTest, WhoDoesNotEndIsAbandoned) {
  const auto server = connect(0);
  const auto worker = connect(1);
  worker->send(job::FailedMessage{absl::ResourceExhaustedError("too much")});
  worker->send(job::EndedMessage{1});
  const absl::Status failure = end_of_run();
  EXPECT_EQ(failure.message(), "worker 0 (rank 1): too much");
  EXPECT_TRUE(leader_->abandoned());
}

TEST_P(LeaderTest, SignalIsTold) {
  const auto server = connect(0);
  const auto worker = connect(1);
  worker->send(job::EndedMessage{128 + SIGTERM});
  server->send(job::EndedMessage{128 + SIGTERM});
  EXPECT_TRUE(end_of_run().ok());
  EXPECT_EQ(leader_->signal(), SIGTERM);
}

TEST_P(LeaderTest, SilentFailureIsOne) {
  const auto server = connect(0);
  const auto worker = connect(1);
  worker->send(job::EndedMessage{3});
  server->send(job::EndedMessage{0});
  EXPECT_EQ(end_of_run().message(), "worker 0 (rank 1) ended with status 3");
}

TEST_P(LeaderTest, StrangersAreRefused) {
  const auto worker = connect(1);
  const std::string nonce(32, 'a');
  const std::string proof(64, 'b');
  EXPECT_EQ(answer_to(connect_plainly(), nonce + " 0\n"), "");
  EXPECT_EQ(answer_to(connect_plainly(), " 0\n"), "");
  EXPECT_EQ(answer_to(connect_plainly(), "GET / HTTP/1.1\r\n"), "");
  EXPECT_EQ(answer_to(connect_plainly(), "0 " + nonce.substr(1) + "\n"), "");
  EXPECT_EQ(answer_to(connect_plainly(), "0 " + nonce.substr(1) + "x\n"), "");
  EXPECT_EQ(answer_to(connect_plainly(), "zero " + nonce + "\n"), "");
  EXPECT_EQ(answer_to(connect_plainly(), std::string(100'000, 'x')), "");  // a line without end
  // The leader sends its challenge, as to a member. But this proof is wrong; and the leader's own proof, sent
  // back, is no proof of a member.
  const std::string challenge = answer_to(connect_plainly(), "0 " + nonce + "\n" + proof + "\n");
  EXPECT_EQ(challenge.size(), 32U + 1 + 64 + 1) << challenge;
  const int one = connect_plainly();
  EXPECT_TRUE(job::write_all(one, "0 " + nonce + "\n").ok());
  std::string said(challenge.size(), ' ');
  EXPECT_EQ(::recv(one, said.data(), said.size(), MSG_WAITALL), static_cast<ssize_t>(said.size()));
  EXPECT_EQ(answer_to(one, said.substr(33)), "") << "the leader must not send a welcome";
  const auto server = connect(0);
  worker->send(job::EndedMessage{0});
  server->send(job::EndedMessage{0});
  EXPECT_TRUE(end_of_run().ok());
}

TEST_P(LeaderTest, OnlyWhoHasTheSecretBelievesAndIsBelieved) {
  const auto other = *transport::Secret::random();
  const auto stranger = link_of(address_, 0, *other, encrypts_);
  EXPECT_THAT(std::string(stranger.status().message()), HasSubstr("rank 0 cannot be reached"));
  const auto server = connect(0);
  EXPECT_FALSE(link_of(address_, 0, *secret_, encrypts_).ok()) << "this rank has already connected";
  EXPECT_FALSE(link_of(address_, 2, *secret_, encrypts_).ok()) << "no such rank";
  const auto worker = connect(1);
  worker->send(job::EndedMessage{0});
  server->send(job::EndedMessage{0});
  EXPECT_TRUE(end_of_run().ok());
}

TEST_P(LeaderTest, WhoWasToldOtherwiseWhetherToEncryptHearsIt) {
  const absl::Status status = link_of(address_, 0, *secret_, !encrypts_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(encrypts_ ? "rank 0 encrypts what it sends (TLS), and this process does not"
                                  : "rank 0 does not encrypt what it sends, and this process does (TLS)"));
  end_well();
}

TEST_P(LeaderTest, WhatIsSaidCanBeReadOnTheWayUnlessItIsEncrypted) {
  std::string seen;
  {
    const transport::FaultProxy proxy(port(), {.watch = [&](std::span<const std::byte> bytes) {
                                        seen.append(reinterpret_cast<const char*>(bytes.data()),
                                                    bytes.size());
                                      }});
    const auto worker = *link_of(address_of(proxy), 1, *secret_, encrypts_, std::chrono::seconds(30));
    worker->send(job::PrintMessage{"sword of the spirit"});
    worker->send(job::EndedMessage{0});
    connect(0)->send(job::EndedMessage{0});
    EXPECT_TRUE(end_of_run().ok());
  }
  EXPECT_EQ(monitor_.printed(), std::vector<std::string>{"sword of the spirit"});
  EXPECT_EQ(seen.find("sword") == std::string::npos, encrypts_);
  EXPECT_EQ(seen.find("welcome") == std::string::npos, encrypts_);
}

TEST_P(LeaderTest, WhatWasChangedOnTheWayEndsAnEncryptedRunAndSaysWhy) {
  if (!encrypts_) {
    end_well();
    GTEST_SKIP() << "nobody could notice";
  }
  const auto server = connect(0);
  const transport::FaultProxy proxy(port(),
                                    {.fault = transport::FaultProxy::Fault::kFlip, .after_bytes = 5000});
  const auto worker = *link_of(address_of(proxy), 1, *secret_, encrypts_, std::chrono::seconds(30));
  for (int i = 0; i < 100; ++i) worker->send(job::PrintMessage{std::string(100, 'x')});
  server->send(job::FailedMessage{absl::UnavailableError("worker 0 is gone")});
  server->send(job::EndedMessage{1});
  EXPECT_THAT(std::string(end_of_run().message()),
              AllOf(HasSubstr("worker 0 (rank 1) is lost"), HasSubstr("has changed or replaced it")));
}

TEST_P(LeaderTest, AHandshakeThatWasChangedOnTheWayIsAnErrorOfItsOwn) {
  if (!encrypts_) {
    end_well();
    GTEST_SKIP() << "there is none";
  }
  // In what the leader says first in it, or the member.
  for (const std::uint64_t after_bytes : {300U, 450U}) {
    const transport::FaultProxy proxy(
        port(), {.fault = transport::FaultProxy::Fault::kFlip, .after_bytes = after_bytes});
    const absl::Status status = link_of(address_of(proxy), 1, *secret_, encrypts_).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), ::testing::AnyOf(HasSubstr("has changed or replaced it"),
                                                                HasSubstr("rank 0 cannot be reached")));
  }
  end_well();
}

TEST_P(LeaderTest, AByteAtATimeIsAsGoodAsAll) {
  const transport::FaultProxy proxy(port(), {.most_at_once = 1});
  const auto worker = *link_of(address_of(proxy), 1, *secret_, encrypts_, std::chrono::seconds(30));
  worker->send(job::EndedMessage{0});
  connect(0)->send(job::EndedMessage{0});
  EXPECT_TRUE(end_of_run().ok());
}

TEST_P(LeaderTest, ACrowdThatSaysNothingKeepsNobodyOut) {
  std::vector<int> crowd(200);
  for (int& descriptor : crowd) descriptor = connect_plainly();
  const auto server = connect(0);
  const auto worker = connect(1);
  worker->send(job::EndedMessage{0});
  server->send(job::EndedMessage{0});
  EXPECT_TRUE(end_of_run().ok());
  for (const int descriptor : crowd) ::close(descriptor);
}

TEST_P(LeaderTest, NonsenseOfAMemberIsAFailure) {
  const auto server = connect(0);
  const auto worker = connect(1);
  // Beside what is encrypted, it is nonsense already to TLS.
  job::write_all(worker->descriptor(), "nonsense\n").IgnoreError();
  worker->send(job::EndedMessage{0});
  server->send(job::EndedMessage{1});
  EXPECT_THAT(std::string(end_of_run().message()),
              AllOf(HasSubstr(encrypts_ ? "worker 0 (rank 1) is lost: it was not encrypted"
                                        : "worker 0 (rank 1): not a message"),
                    Not(HasSubstr("server"))));
}

TEST(LeaderLinkTest, WhoListensWithoutTheSecretIsNotBelieved) {
  std::signal(SIGPIPE, SIG_IGN);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(listening, reinterpret_cast<sockaddr*>(&place), length), 0);
  ASSERT_EQ(::listen(listening, 1), 0);
  ASSERT_EQ(::getsockname(listening, reinterpret_cast<sockaddr*>(&place), &length), 0);
  // Sends a challenge with a false proof, and a welcome, whatever the other side says.
  std::string heard;
  std::thread impostor([&] {
    const int descriptor = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    const std::string nonce(2 * sizeof(transport::Nonce), '0');
    const std::string proof(2 * sizeof(transport::Proof), '0');
    job::write_all(descriptor, fmt::format("{} {}\nwelcome\n", nonce, proof)).IgnoreError();
    char byte = 0;
    while (::read(descriptor, &byte, 1) == 1) heard += byte;
    ::close(descriptor);
  });
  const auto secret = *transport::Secret::random();
  EXPECT_FALSE(LeaderLink::connect(fmt::format("127.0.0.1;{}", ntohs(place.sin_port)), 0, true, *secret,
                                   std::chrono::seconds(0), never)
                   .ok());
  impostor.join();
  EXPECT_EQ(std::count(heard.begin(), heard.end(), '\n'), 1)
      << "it must be told only who connects, in one line";
  ::close(listening);
}

TEST(LeaderAddressTest, TellsNoSecret) {
  const auto secret = *transport::Secret::random();
  const auto leader = Leader::listen(true, {}, secret);
  ASSERT_TRUE(leader.ok());
  EXPECT_THAT((*leader)->address(), ::testing::MatchesRegex("127\\.0\\.0\\.1;[0-9]+"));
}

/// A server with a copy, and a worker.
class SurvivalTest : public LeaderTest {
 protected:
  class OneCopyIsEnough final : public Leader::Survival {
   public:
    void add_descriptors(std::vector<pollfd>& /*wanted*/) const override {}
    void tell(Host& host) override {
      for (const auto& [rank, why] : std::exchange(losses, {})) host.lose(rank, why);
      for (const auto& [rank, member] : std::exchange(newcomers, {})) host.welcome(rank, member);
      for (const std::uint32_t rank : std::exchange(joined, {})) host.note_joined(rank);
      for (const std::uint32_t rank : std::exchange(leaving, {})) host.leave(rank);
      for (const std::uint32_t rank : std::exchange(replaced, {}))
        host.step_aside(rank, "steps aside for another one");
      if (leads_then) leads_now = *std::exchange(leads_then, std::nullopt);
      for (const std::uint32_t rank : std::exchange(kept, {})) host.keep_place(rank);
    }
    absl::StatusOr<std::string> let_leave(std::uint32_t rank) override {
      if (another_is_made) return absl::UnavailableError("another copy is being made");
      if (!lost.empty()) return absl::FailedPreconditionError("it is the only one that has all of it");
      lost = "nobody";
      return "goes on without rank " + std::to_string(rank);
    }
    [[nodiscard]] bool is_being_joined(std::uint32_t /*server*/) override { return somebody_joins; }
    absl::StatusOr<std::string> go_on_without(std::uint32_t rank, const std::string& why) override {
      without.push_back(rank);
      if (is_joining) return "is not missed";
      if (!lost.empty()) return absl::DataLossError("server 0 is lost with all its copies");
      lost = why;
      return "goes on without rank " + std::to_string(rank);
    }
    [[nodiscard]] std::optional<Chains> chains() override { return held_chains; }
    [[nodiscard]] std::vector<std::string> moves() override { return {}; }
    [[nodiscard]] Leads leads() override { return leads_now; }
    Successor note_free(std::uint32_t rank, bool has_stepped_aside) override {
      (has_stepped_aside ? stepped_aside : free).push_back(rank);
      return successor;
    }
    void note_work(std::uint32_t rank) override { working.push_back(rank); }
    void end_moves_of_workers(bool is_over) override { moves_are_over = is_over; }

    Leads leads_now = Leads::kYes;
    std::optional<Leads> leads_then;  ///< after the next tell()
    std::vector<std::pair<std::uint32_t, std::string>> losses;
    std::vector<std::pair<std::uint32_t, Leader::Member>> newcomers;
    std::vector<std::uint32_t> joined;
    std::vector<std::uint32_t> leaving;
    std::vector<std::uint32_t> replaced;
    bool another_is_made = false;
    bool somebody_joins = false;
    std::optional<Chains> held_chains;
    std::string lost;
    bool is_joining = false;             ///< who is lost next
    std::vector<std::uint32_t> without;  ///< that it was to go on without
    std::vector<std::uint32_t> free;     ///< ranks
    std::vector<std::uint32_t> stepped_aside;
    std::vector<std::uint32_t> working;
    std::vector<std::uint32_t> kept;
    Successor successor = Successor::kNobody;
    std::optional<bool> moves_are_over;
  };

  SurvivalTest() {
    for (const std::uint32_t rank : {0U, 1U}) connect(rank)->send(job::EndedMessage{0});
    EXPECT_TRUE(end_of_run().ok());  // the other one's
    leader_ = *Leader::listen(true,
                              {{"server 0 (rank 0)", true, 0, 1},
                               {"copy 1 of server 0 (rank 1)", true, 0, 2},
                               {"worker 0 (rank 2)", false}},
                              secret_, encrypts_);
    leader_->survive_by(survival_);
    address_ = leader_->address();
    for (const std::uint32_t rank : {0U, 1U, 2U}) links_.push_back(come(rank));
  }
  std::unique_ptr<LeaderLink> come(std::uint32_t rank) {
    auto connecting = std::async(std::launch::async, [&] { return connect(rank); });
    while (connecting.wait_for(std::chrono::seconds(0)) != std::future_status::ready) step();
    return connecting.get();
  }
  /// Another process of rank 0 has come, and joins.
  void replace_rank_0() {
    links_[0].reset();
    step_until([&] { return !survival_.lost.empty(); });
    survival_.newcomers.push_back(
        {0, {.name = "copy 2 of server 0 (rank 0)", .server = true, .of_server = 0, .pid = 3, .copy = 2}});
    links_[0] = come(0);
    survival_.is_joining = true;
  }
  /// It decides that rank 1 is gone, and is stopped before that hears it.
  void decide_and_be_stopped(Leader::Survival::Leads then) {
    survival_.losses.emplace_back(1, "is gone");
    survival_.leads_then = then;
    step_until([&] { return !survival_.lost.empty(); });
  }
  void step() { goes_on_ = leader_->poll(monitor_, std::chrono::milliseconds(10)); }
  void step_until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition() && std::chrono::steady_clock::now() < deadline) step();
    EXPECT_TRUE(condition());
  }

  OneCopyIsEnough survival_;
  std::vector<std::unique_ptr<LeaderLink>> links_;
  bool goes_on_ = true;
};

INSTANTIATE_TEST_SUITE_P(Each, SurvivalTest, ::testing::Bool(), name_of_way);

TEST_P(SurvivalTest, GoesOnWithoutACopyThatIsGone) {
  links_[0].reset();
  step_until([&] { return !survival_.lost.empty(); });
  EXPECT_THAT(survival_.lost, HasSubstr("server 0 (rank 0) ended without a word"));
  EXPECT_FALSE(monitor_.failed());
  links_[1]->send(job::EndedMessage{0});
  links_[2]->send(job::EndedMessage{0});
  step_until([&] { return !goes_on_; });
  EXPECT_FALSE(leader_->abandoned());
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
}

/// It may have been stopped, and who has gone since may have another leader.
TEST_P(SurvivalTest, InDoubtItDecidesNothing) {
  survival_.leads_now = Leader::Survival::Leads::kPerhaps;
  links_[0].reset();
  survival_.losses.emplace_back(1, "is gone");
  for (int i = 0; i < 10; ++i) step();
  EXPECT_THAT(survival_.without, ::testing::IsEmpty());
  EXPECT_TRUE(goes_on_ && !monitor_.failed());
  survival_.losses.clear();
  survival_.leads_now = Leader::Survival::Leads::kYes;
  step_until([&] { return !survival_.lost.empty(); });
  EXPECT_THAT(survival_.lost, HasSubstr("server 0 (rank 0) ended without a word"));
}

/// It is stopped between what it decides and the order: who is to hear that hears it if this one leads still.
TEST_P(SurvivalTest, InDoubtItTellsNobodyWhatItHadDecidedBefore) {
  decide_and_be_stopped(Leader::Survival::Leads::kPerhaps);
  pollfd told = {links_[1]->descriptor(), POLLIN, 0};
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(::poll(&told, 1, 0), 0);
  survival_.leads_now = Leader::Survival::Leads::kYes;
  step_until([&] { return ::poll(&told, 1, 0) == 1; });
  EXPECT_FALSE(links_[1]->lost());
  EXPECT_TRUE(links_[1]->is_dismissed());
}

TEST_P(SurvivalTest, WhoLeadsNoMoreTellsNobodyWhatItHadDecidedBefore) {
  decide_and_be_stopped(Leader::Survival::Leads::kNoMore);
  step();
  EXPECT_FALSE(goes_on_);
  leader_.reset();
  pollfd told = {links_[1]->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&told, 1, 30'000), 1);
  EXPECT_TRUE(links_[1]->lost()) << "it was told something";
}

/// The members follow another one, and are not to end.
TEST_P(SurvivalTest, WhoLeadsNoMoreEndsWithoutAWord) {
  survival_.leads_now = Leader::Survival::Leads::kNoMore;
  links_[0].reset();
  step();
  EXPECT_FALSE(goes_on_);
  EXPECT_TRUE(leader_->leads_no_more());
  EXPECT_FALSE(leader_->abandoned());
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
  leader_.reset();
  pollfd told = {links_[2]->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&told, 1, 30'000), 1);
  EXPECT_TRUE(links_[2]->lost()) << "it was told something";
}

TEST_P(SurvivalTest, WhoSeemsToBeGoneIsStoppedAndNotHeardAnyMore) {
  survival_.losses.emplace_back(1, "shows no sign of life");
  step_until([&] { return !survival_.lost.empty(); });
  pollfd told = {links_[1]->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&told, 1, 30'000), 1);
  EXPECT_FALSE(links_[1]->lost()) << "it must not take it for the leader's end";
  EXPECT_TRUE(links_[1]->is_dismissed());
  EXPECT_TRUE(links_[1]->wait_for_end(never));
  links_[1]->send(job::FailedMessage{absl::AbortedError("there is no place for me")});
  links_[1]->send(job::EndedMessage{1});
  links_[0]->send(job::EndedMessage{0});
  links_[2]->send(job::EndedMessage{0});
  step_until([&] { return !goes_on_; });
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
}

TEST_P(SurvivalTest, EndsWhenNoCopyIsLeftOrAWorkerIsGone) {
  survival_.losses = {{1, "is gone"}, {0, "is gone, too"}};
  step_until([&] { return monitor_.failed(); });
  EXPECT_THAT(std::string(monitor_.failure().message()),
              HasSubstr("server 0 (rank 0) is gone, too; server 0 is lost with all its copies"));
}

TEST_P(SurvivalTest, WhoServesAndDoesNotEndIsLeftOut) {
  survival_.held_chains = {.number = 2, .servers = {{{.copy = 1, .rank = 1}, {.copy = 0, .rank = 0}}}};
  links_[2]->send(job::EndedMessage{0});
  step_until([&] { return !survival_.lost.empty() || monitor_.failed(); });
  EXPECT_THAT(survival_.lost, HasSubstr("copy 1 of server 0 (rank 1) has not ended"));
  survival_.held_chains = {.number = 3, .servers = {{{.copy = 0, .rank = 0}}}};
  for (int i = 0; i < 10; ++i) step();
  links_[0]->send(job::EndedMessage{0});
  step_until([&] { return !goes_on_; });
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
}

TEST_P(SurvivalTest, WhoWantsToLeaveGoesWithoutAWord) {
  survival_.leaving = {0};
  step_until([&] { return !survival_.lost.empty(); });
  EXPECT_EQ(monitor_.status().failovers, 1U);
  pollfd told = {links_[0]->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, 100), 0) << "it ends by itself";
  links_[0].reset();
  links_[1]->send(job::EndedMessage{0});
  links_[2]->send(job::EndedMessage{0});
  step_until([&] { return !goes_on_; });
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
  EXPECT_EQ(leader_->signal(), 0);
}

TEST_P(SurvivalTest, WhoWantsToLeaveWaitsWhileAnotherCopyIsMade) {
  survival_.another_is_made = true;
  survival_.leaving = {1};
  const auto enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  step_until([&] { return std::chrono::steady_clock::now() > enough; });
  EXPECT_FALSE(monitor_.failed());
  EXPECT_TRUE(goes_on_);
  // Another one of a rank that none had comes, and takes its place; a place before that stays empty.
  survival_.newcomers.push_back(
      {4, {.name = "copy 2 of server 0 (rank 4)", .server = true, .of_server = 0, .pid = 3, .copy = 2}});
  step();
  links_.push_back(come(4));
  survival_.joined = {4};
  survival_.replaced = {1};
  step();
  links_[1].reset();
  for (const std::size_t other : {0U, 3U}) links_[other]->send(job::EndedMessage{0});
  step();
  EXPECT_TRUE(goes_on_);
  links_[2]->send(job::EndedMessage{0});
  step_until([&] { return !goes_on_; });
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
  EXPECT_EQ(leader_->signal(), 0);
  EXPECT_TRUE(survival_.without.empty()) << "its end is no loss";
  EXPECT_EQ(record_.failovers(), 1U);
}

TEST_P(SurvivalTest, WhenTheLastCopyIsToEndTheRunWaitsForOneThatJoinsOrEnds) {
  survival_.lost = "one before";
  survival_.somebody_joins = true;
  survival_.leaving = {0};
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(leader_->signal(), 0);
  survival_.lost.clear();  // it has joined
  step();
  EXPECT_EQ(survival_.lost, "nobody");
  EXPECT_EQ(leader_->signal(), 0);
  survival_.somebody_joins = false;
  survival_.leaving = {1};
  step();
  EXPECT_EQ(leader_->signal(), SIGTERM);
  links_[0].reset();
  for (const std::size_t rank : {1U, 2U}) links_[rank]->send(job::EndedMessage{128 + SIGTERM});
  step_until([&] { return !goes_on_; });
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
}

TEST_P(SurvivalTest, OneThatComesInItsPlaceIsAsTheOthersWhenItHasJoined) {
  replace_rank_0();
  survival_.joined = {0};
  step();
  survival_.is_joining = false;
  ASSERT_EQ(monitor_.status().joins, 1U);
  links_[0]->send(job::FailedMessage{absl::ResourceExhaustedError("too much")});
  step_until([&] { return monitor_.failed(); });
  EXPECT_EQ(monitor_.failure().message(), "copy 2 of server 0 (rank 0): too much");
}

/// It says why, it ends, it dies: all of that as often as it likes.
TEST_P(SurvivalTest, WhateverBecomesOfOneThatJoinsTheRunGoesOn) {
  for (int round = 0; round < 3; ++round) {
    if (round == 0) {
      replace_rank_0();
    } else {
      survival_.newcomers.push_back(
          {0, {.name = "copy 3 of server 0 (rank 0)", .server = true, .of_server = 0}});
      links_[0] = come(0);
    }
    survival_.without.clear();
    if (round == 0) links_[0]->send(job::FailedMessage{absl::ResourceExhaustedError("too much")});
    if (round < 2) links_[0]->send(job::SignaledMessage{SIGTERM});
    if (round < 2) links_[0]->send(job::EndedMessage{128 + SIGTERM});
    if (round == 2) links_[0].reset();
    step_until([&] { return !survival_.without.empty(); });
    EXPECT_THAT(survival_.without, ::testing::ElementsAre(0));
  }
  links_[1]->send(job::EndedMessage{0});
  links_[2]->send(job::EndedMessage{0});
  step_until([&] { return !goes_on_; });
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
  EXPECT_EQ(leader_->signal(), 0);
}

TEST_P(SurvivalTest, NobodyWaitsForOneThatJoinsWhenAllWorkersHaveEnded) {
  replace_rank_0();
  survival_.without.clear();
  links_[1]->send(job::EndedMessage{0});
  links_[2]->send(job::EndedMessage{0});
  step_until([&] { return !goes_on_; });
  EXPECT_THAT(survival_.without, ::testing::ElementsAre(0)) << "it is told to end";
  EXPECT_FALSE(leader_->abandoned());
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
  EXPECT_FALSE(links_[0]->lost()) << "it was told to stop";
}

TEST_P(SurvivalTest, EndsWithAWorker) {
  links_[2].reset();
  step_until([&] { return monitor_.failed(); });
  EXPECT_THAT(std::string(monitor_.failure().message()), HasSubstr("worker 0 (rank 2) ended without a word"));
}

/// A leader in this thread for a server and a worker, which another process can replace.
/// Who has not come, or does not end, had no time for it while nobody answered.
TEST_P(SurvivalTest, WhileItIsStoppedNobodyIsLate) {
  auto now = std::chrono::steady_clock::now();
  leader_ = *Leader::listen(true, {{"worker 0 (rank 0)", false}}, secret_, encrypts_, [&] { return now; });
  const auto pass = [&](std::chrono::steady_clock::duration time) {
    now += time;
    leader_->poll(monitor_, std::chrono::milliseconds(0));
  };
  pass(std::chrono::hours(1));
  for (int i = 0; i < 57; ++i) pass(std::chrono::seconds(1));
  EXPECT_FALSE(monitor_.failed()) << monitor_.failure();
  for (int i = 0; i < 3; ++i) pass(std::chrono::seconds(1));
  EXPECT_THAT(std::string(monitor_.failure().message()), HasSubstr("has not come within 60 s"));
}

class ReplacementTest : public SurvivalTest {
 protected:
  class Places final : public Leader::Replacement {
   public:
    void add_descriptors(std::vector<pollfd>& /*wanted*/) const override {}
    void tell(Host& host) override {
      for (const auto& [rank, why] : std::exchange(losses, {})) host.lose(rank, why);
      for (const std::uint32_t rank : std::exchange(newcomers, {}))
        host.replace(rank, {.name = "worker 0 (rank 2, another)", .pid = 7}, {}, "another one comes");
    }
    absl::StatusOr<std::string> await(std::uint32_t rank, const std::string& why, bool is_expected) override {
      EXPECT_EQ(rank, 2U);
      lost.push_back(why);
      another_is_expected = is_expected;
      if (!keeps_places) return absl::FailedPreconditionError("nobody waits");
      return "the run waits";
    }
    std::string keep_place(std::uint32_t rank) override {
      kept.push_back(rank);
      return "the run waits";
    }
    void keep_longer(std::uint32_t rank) override { kept_longer.push_back(rank); }
    bool note_iteration(std::uint32_t /*rank*/, std::int64_t iteration) override {
      return std::exchange(newest, std::max(newest, iteration)) < iteration;
    }
    [[nodiscard]] std::optional<std::uint32_t> rank_of_silent(std::uint32_t worker) const override {
      if (worker != 0) return std::nullopt;
      return 2;
    }
    [[nodiscard]] std::optional<std::pair<std::uint32_t, std::string>> overdue() const override {
      if (!is_overdue) return std::nullopt;
      return std::pair(2U, "nobody has come");
    }

    std::vector<std::pair<std::uint32_t, std::string>> losses;
    std::vector<std::uint32_t> newcomers;
    std::vector<std::string> lost;
    std::vector<std::uint32_t> kept;
    std::vector<std::uint32_t> kept_longer;
    bool another_is_expected = false;
    bool keeps_places = true;
    bool is_overdue = false;
    std::int64_t newest = 0;
  };

  ReplacementTest() { leader_->replace_by(places_); }
  void lose_worker() {
    const std::size_t before = places_.lost.size();
    links_[2].reset();
    step_until([&] { return places_.lost.size() > before; });
  }
  void let_another_come() {
    places_.newcomers = {2};
    links_[2] = come(2);
  }
  static job::IterationMessage iteration(std::int64_t number) {
    job::IterationMessage message;
    message.report = {.iteration = number, .items = 3, .seconds = 1, .sums = {{"count", 7}}};
    return message;
  }
  void expect_a_good_end() {
    for (const auto& link : links_) link->send(job::EndedMessage{0});
    step_until([&] { return !goes_on_; });
    EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
    EXPECT_FALSE(leader_->abandoned());
  }

  Places places_;
};

INSTANTIATE_TEST_SUITE_P(Each, ReplacementTest, ::testing::Bool(), name_of_way);

TEST_P(ReplacementTest, AWorkerThatIsGoneIsWaitedForAndReplaced) {
  lose_worker();
  EXPECT_THAT(places_.lost.front(), HasSubstr("worker 0 (rank 2) ended without a word"));
  EXPECT_THAT(survival_.free, ::testing::ElementsAre(2));
  EXPECT_FALSE(places_.another_is_expected);
  for (const std::size_t server : {0U, 1U}) links_[server]->send(job::EndedMessage{0});
  for (int i = 0; i < 10; ++i) step();
  EXPECT_TRUE(goes_on_) << "it waits";
  let_another_come();
  EXPECT_EQ(record_.replacements(), 1U);
  EXPECT_THAT(survival_.working, ::testing::IsEmpty());
  for (const std::int64_t number : {4, 5}) links_[2]->send(iteration(number));
  step_until([&] { return places_.newest == 5; });
  EXPECT_THAT(survival_.working, ::testing::ElementsAre(2)) << "once";
  links_[2]->send(job::EndedMessage{0});
  step_until([&] { return !goes_on_; });
  EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
  EXPECT_FALSE(leader_->abandoned());
}

/// What it has said before is heard, and its end is no death.
TEST_P(ReplacementTest, OneThatStepsAsideIsReplaced) {
  survival_.successor = Leader::Survival::Successor::kIsThere;
  links_[2]->send(iteration(1));
  links_[2]->send(job::SteppedAsideMessage{});
  step_until([&] { return !survival_.stepped_aside.empty(); });
  EXPECT_EQ(places_.newest, 1);
  EXPECT_THAT(survival_.free, ::testing::IsEmpty());
  EXPECT_THAT(survival_.stepped_aside, ::testing::ElementsAre(2));
  EXPECT_THAT(places_.kept, ::testing::ElementsAre(2));
  EXPECT_THAT(warnings(), ::testing::IsEmpty());
  EXPECT_TRUE(links_[2]->wait_for_end([] { return false; })) << "it may go";
  EXPECT_FALSE(links_[2]->lost());
  links_[2].reset();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_TRUE(goes_on_) << "another one is to come";
  let_another_come();
  EXPECT_EQ(record_.replacements(), 1U);
  EXPECT_THAT(places_.lost, ::testing::IsEmpty());
  expect_a_good_end();
  EXPECT_EQ(survival_.moves_are_over, std::optional(true));
}

/// The one that was to come was known to another rank 0, or is gone.
TEST_P(ReplacementTest, OneThatStepsAsideForNobodyIsSaidToHave) {
  const bool is_started = GetParam();
  if (is_started) survival_.successor = Leader::Survival::Successor::kIsStarted;
  links_[2]->send(job::SteppedAsideMessage{});
  step_until([&] { return !survival_.stepped_aside.empty(); });
  EXPECT_THAT(warnings(), ::testing::ElementsAre(
                              "worker 0 (rank 2) has stepped aside, and the process that was to take "
                              "its place is gone: the run waits" +
                              std::string(is_started ? ", which is being started"
                                                     : ": start it again, with the same command line")));
  EXPECT_TRUE(links_[2]->wait_for_end([] { return false; })) << "it may go";
  survival_.kept = {2};
  step_until([&] { return !places_.kept_longer.empty(); });
  let_another_come();
  expect_a_good_end();
}

TEST_P(ReplacementTest, WhoComesInThePlaceOfOneThatIsGoneIsSaid) {
  survival_.successor = Leader::Survival::Successor::kIsThere;
  lose_worker();
  EXPECT_TRUE(places_.another_is_expected);
  EXPECT_THAT(warnings().back(), HasSubstr("the run waits, which has come already"));
  let_another_come();
  survival_.successor = Leader::Survival::Successor::kIsStarted;
  lose_worker();
  EXPECT_THAT(warnings().back(), HasSubstr("the run waits, which is being started"));
}

TEST_P(ReplacementTest, NobodyIsWaitedForForEver) {
  lose_worker();
  places_.is_overdue = true;
  step_until([&] { return monitor_.failed(); });
  EXPECT_THAT(std::string(monitor_.failure().message()),
              AllOf(HasSubstr("worker 0 (rank 2) ended without a word"), HasSubstr("; nobody has come")));
  places_.newcomers = {2};
  for (const std::size_t server : {0U, 1U}) links_[server]->send(job::EndedMessage{1});
  step_until([&] { return !goes_on_; });
  EXPECT_FALSE(leader_->abandoned()) << "nobody comes after the end";
}

TEST_P(ReplacementTest, IfNobodyMayComeTheRunEnds) {
  places_.keeps_places = false;
  lose_worker();
  EXPECT_THAT(std::string(monitor_.failure().message()),
              AllOf(HasSubstr("worker 0 (rank 2) ended without a word"), HasSubstr("; nobody waits")));
}

/// A server has found it silent. It goes on, one day.
TEST_P(ReplacementTest, OneThatIsSilentIsReplacedAndNotHeardAnyMore) {
  links_[0]->send(job::SilentWorkerMessage{5, "nobody has that number"});
  links_[0]->send(job::SilentWorkerMessage{0, "it is stopped"});
  step_until([&] { return !places_.lost.empty(); });
  EXPECT_THAT(places_.lost.front(), HasSubstr("worker 0 (rank 2) shows no sign of life (it is stopped)"));
  const std::unique_ptr<LeaderLink> former = std::move(links_[2]);
  let_another_come();
  EXPECT_FALSE(former->lost()) << "it was told to stop";
  former->send(job::FailedMessage{absl::AbortedError("there is no place for me")});
  former->send(job::EndedMessage{1});
  links_[0]->send(job::SilentWorkerMessage{5, "nobody has that number"});
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(places_.lost.size(), 1U);
  expect_a_good_end();
}

/// Its data may not be there, say. Another one may be better off.
TEST_P(ReplacementTest, OneThatFailsBeforeItHasDoneAnythingIsAsOneThatIsGone) {
  links_[2]->send(iteration(1));
  step_until([&] { return places_.newest == 1; });
  lose_worker();
  let_another_come();
  links_[2]->send(iteration(1));  // which the one before it has done
  links_[2]->send(job::FailedMessage{absl::NotFoundError("no such file")});
  links_[2]->send(job::EndedMessage{1});
  step_until([&] { return places_.lost.size() == 2; });
  EXPECT_THAT(places_.lost.back(), HasSubstr("worker 0 (rank 2, another) ended with status 1"));
  EXPECT_FALSE(monitor_.failed());
  EXPECT_THAT(survival_.working, ::testing::IsEmpty());
  let_another_come();
  links_[2]->send(iteration(2));
  links_[2]->send(job::FailedMessage{absl::ResourceExhaustedError("too much")});
  step_until([&] { return monitor_.failed(); });
  EXPECT_EQ(monitor_.failure().message(), "worker 0 (rank 2, another): too much");
}

TEST_P(ReplacementTest, OneThatHasFinishedIsNotReplaced) {
  links_[2]->send(job::FinishedMessage{0, 1, {}});
  for (int i = 0; i < 10; ++i) step();
  links_[2].reset();
  step_until([&] { return monitor_.failed(); });
  EXPECT_TRUE(places_.lost.empty());
}

/// The same of a run that saves before it ends.
class SavedStopTest : public ReplacementTest {
 protected:
  SavedStopTest() {
    leader_->save_first();
    listen_for_stop();
  }
  ~SavedStopTest() override { links_[2].reset(); }  // its thread uses what is here
  /// The worker's process.
  void listen_for_stop(bool outlives = false) {
    LeaderLink::Listening listening;
    listening.stop = {.hold = [this](int signal) { held_by_ = signal; },
                      .end_after = [this](std::int64_t iteration) { ends_after_ = iteration; },
                      .release = [this] { is_released_ = true; },
                      .is_held = [this] { return held_by_ != 0; }};
    if (outlives) listening.outlives_with = secret_;
    EXPECT_TRUE(links_[2]->listen(listening).ok());
  }
  void ask(std::size_t rank, int signal) {
    links_[rank]->send(job::AskedToStopMessage{signal});
    step_until([&] { return held_by_ != 0; });
  }
  void end_all() {
    for (const std::size_t rank : {2U, 0U, 1U}) links_[rank]->send(job::EndedMessage{0});
    step_until([&] { return !goes_on_; });
    EXPECT_TRUE(monitor_.failure().ok()) << monitor_.failure();
    EXPECT_FALSE(leader_->abandoned());
  }
  [[nodiscard]] bool is_told_to_end(std::size_t rank, int patience_ms = 30'000) const {
    pollfd told = {links_[rank]->descriptor(), POLLIN, 0};
    return ::poll(&told, 1, patience_ms) == 1;
  }

  std::atomic<int> held_by_ = 0;
  std::atomic<std::int64_t> ends_after_ = 0;
  std::atomic<bool> is_released_ = false;
};

INSTANTIATE_TEST_SUITE_P(Each, SavedStopTest, ::testing::Bool(), name_of_way);

TEST_P(SavedStopTest, WhoeverIsAskedAllSaveAndEnd) {
  ask(1, SIGINT);
  EXPECT_EQ(held_by_, SIGINT);
  links_[0]->send(job::AskedToStopMessage{SIGTERM});  // the same wish
  links_[2]->send(job::HeldMessage{.begun = 7});
  step_until([&] { return ends_after_ != 0; });
  EXPECT_EQ(ends_after_, 7);
  EXPECT_FALSE(is_told_to_end(2, 50));
  end_all();
  EXPECT_EQ(leader_->signal(), SIGINT);
  leader_.reset();
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_TRUE(links_[rank]->wait_for_end(never));
    EXPECT_EQ(links_[rank]->ended_by(), SIGINT);
    EXPECT_FALSE(links_[rank]->lost());
  }
}

TEST_P(SavedStopTest, WhoeverHasFinishedHasNotBeenStopped) {
  ask(0, SIGTERM);
  links_[2]->send(job::HeldMessage{.begun = 7, .has_finished = true});
  step_until([&] { return is_released_.load(); });
  links_[2]->send(job::FinishedMessage{0, 1, {}});
  end_all();
  EXPECT_EQ(leader_->signal(), 0);
  leader_.reset();
  EXPECT_TRUE(links_[0]->wait_for_end(never));
  EXPECT_EQ(links_[0]->ended_by(), 0);
}

/// One that has taken another one's place may have answered what is beyond the last iteration.
TEST_P(SavedStopTest, WhoeverFinishesFirstHasNotBeenStopped) {
  ask(0, SIGTERM);
  links_[2]->send(job::HeldMessage{.begun = 7});
  step_until([&] { return ends_after_ != 0; });
  links_[2]->send(job::FinishedMessage{0, 1, {}});
  end_all();
  EXPECT_EQ(leader_->signal(), 0);
}

TEST_P(SavedStopTest, BeforeTheTrainingItEndsAtOnce) {
  ask(0, SIGTERM);
  links_[2]->send(job::HeldMessage{});
  step_until([&] { return leader_->signal() != 0; });
  step();
  for (const std::size_t rank : {0U, 1U, 2U}) EXPECT_TRUE(is_told_to_end(rank)) << rank;
}

TEST_P(SavedStopTest, ASecondSignalEndsItAtOnce) {
  ask(0, SIGTERM);
  links_[2]->send(job::HeldMessage{.begun = 7});
  step_until([&] { return ends_after_ != 0; });
  links_[0]->send(job::SignaledMessage{SIGINT});
  step_until([&] { return leader_->signal() == SIGINT; });
  step();
  for (const std::size_t rank : {1U, 2U}) EXPECT_TRUE(is_told_to_end(rank)) << rank;
}

/// The one before it has stepped aside, and has answered for it.
TEST_P(SavedStopTest, OneThatComesWhenItIsDecidedHearsSo) {
  ask(0, SIGTERM);
  links_[2]->send(job::HeldMessage{.begun = 7});
  step_until([&] { return ends_after_ == 7; });
  links_[2]->send(job::SteppedAsideMessage{});
  step_until([&] { return !survival_.stepped_aside.empty(); });
  held_by_ = 0;
  ends_after_ = 0;
  let_another_come();
  listen_for_stop();
  step_until([&] { return ends_after_ == 7; });
  EXPECT_EQ(held_by_, SIGTERM);
  links_[2]->send(job::HeldMessage{.begun = 8});
  end_all();
  EXPECT_EQ(leader_->signal(), SIGTERM);
}

TEST_P(SavedStopTest, OneThatComesLateIsHeldToo) {
  lose_worker();
  links_[0]->send(job::AskedToStopMessage{SIGTERM});
  for (int i = 0; i < 10; ++i) step();
  let_another_come();
  listen_for_stop();
  step_until([&] { return held_by_ != 0; });
}

/// It has not trained to the end.
TEST_P(SavedStopTest, AWorkerThatFailsMeanwhileReleasesNobody) {
  ask(0, SIGTERM);
  links_[2]->send(job::EndedMessage{1});
  step_until([&] { return monitor_.failed(); });
  step();
  EXPECT_FALSE(is_released_);
}

/// As on one host.
TEST_P(SavedStopTest, AWorkerThatDiesMeanwhileEndsIt) {
  ask(0, SIGTERM);
  links_[2].reset();
  step_until([&] { return monitor_.failed(); });
  EXPECT_TRUE(places_.lost.empty()) << "nobody waits for another one";
}

TEST_P(SavedStopTest, ServersStayUntilAllHaveSaved) {
  ask(0, SIGTERM);
  survival_.leaving = {1};
  survival_.is_joining = true;
  survival_.newcomers.push_back(
      {4, {.name = "copy 2 of server 0 (rank 4)", .server = true, .of_server = 0, .pid = 3, .copy = 2}});
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(survival_.lost, "") << "nobody steps aside";
  EXPECT_EQ(survival_.without, std::vector<std::uint32_t>{4}) << "nothing moves";
  links_[2]->send(job::HeldMessage{.begun = 7});
  step_until([&] { return ends_after_ != 0; });
  end_all();
  EXPECT_EQ(leader_->signal(), SIGTERM);
}

TEST_P(SavedStopTest, WhenTheLastCopyIsToEndAllSave) {
  survival_.lost = "one before";
  survival_.leaving = {0};
  step_until([&] { return held_by_ != 0; });
  EXPECT_EQ(held_by_, SIGTERM);
  EXPECT_EQ(leader_->signal(), 0);
}

/// Nobody needs them then.
TEST_P(SavedStopTest, ServersEndWithTheirLeaderToo) {
  std::atomic<bool> is_held = false;
  LeaderLink::Listening listening{.outlives_with = secret_};
  listening.stop = {.hold = [&](int signal) { is_held = signal == SIGTERM; },
                    .end_after = [](std::int64_t) {},
                    .release = [&] { is_held = false; },
                    .is_held = [&] { return is_held.load(); }};
  ASSERT_TRUE(links_[1]->listen(listening).ok());
  ask(0, SIGTERM);
  step_until([&] { return is_held.load(); });
  links_[2]->send(job::HeldMessage{.begun = 7});
  step_until([&] { return ends_after_ != 0; });
  EXPECT_FALSE(is_told_to_end(1, 50));
  links_[1]->leave_leader();
  EXPECT_TRUE(is_told_to_end(1));
  links_[1].reset();
}

/// Another leader would not know that it is held.
TEST_P(SavedStopTest, OneThatIsHeldEndsWithItsLeader) {
  for (const bool is_held : {false, true}) {
    links_[2].reset();
    step_until([&] { return !places_.lost.empty(); });
    places_.lost.clear();
    let_another_come();
    listen_for_stop(/*outlives=*/true);
    if (is_held) ask(0, SIGTERM);
    links_[2]->leave_leader();
    EXPECT_EQ(is_told_to_end(2, is_held ? 30'000 : 100), is_held);
  }
}

}  // namespace
}  // namespace verbena::apps
