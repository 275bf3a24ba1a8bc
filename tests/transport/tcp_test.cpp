// What is particular to the TCP transport; contract_test.cpp tests what all transports promise.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <deque>
#include <future>
#include <list>
#include <optional>
#include <random>
#include <thread>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/word_copy.hpp"
#include "tests/free_port.hpp"
#include "tests/transport/backend.hpp"
#include "tests/transport/fault_proxy.hpp"
#include "tests/transport/tcp_peers.hpp"
#include "transport/host_port.hpp"
#include "transport/socket_address.hpp"
#include "transport/tcp/frame.hpp"
#include "transport/tcp/introduction.hpp"
#include "transport/tcp/socket.hpp"
#include "transport/tcp/tcp_connection.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/tcp/tls.hpp"

namespace verbena::transport {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = Event::Kind;

/// How connections can be: encrypted or not, of one stream or of several, over which nearly all is long.
struct Way {
  bool is_encrypted = false;
  bool has_streams = false;

  [[nodiscard]] TcpOptions options() const {
    TcpOptions options = is_encrypted ? encrypting() : TcpOptions();
    if (has_streams) options.streams = 3;
    if (has_streams) options.long_bytes = 64;
    return options;
  }
  [[nodiscard]] std::string name() const {
    return std::string(is_encrypted ? "Encrypted" : "Plain") + (has_streams ? "Streams" : "");
  }
};
constexpr std::array<Way, 4> kWays = {Way{false, false}, {true, false}, {false, true}, {true, true}};

// ---- addresses

TEST_F(TcpTest, AnEmptyHostIsThisHostAlone) {
  Node node = tcp_node();
  ASSERT_TRUE(node.transport->listen("tcp::0").ok());
  EXPECT_THAT(node.transport->listening_address(), StartsWith("tcp:127.0.0.1:"));
  EXPECT_NE(node.transport->listening_address(), "tcp:127.0.0.1:0");
}

TEST_F(TcpTest, AHostThatIsNamedIsListenedAt) {
  Node node = tcp_node();
  ASSERT_TRUE(node.transport->listen("tcp:0.0.0.0:0").ok());
  EXPECT_THAT(node.transport->listening_address(), StartsWith("tcp:0.0.0.0:"));
}

TEST_F(TcpTest, AnUnknownHostIsNamed) {
  Node node = tcp_node();
  const absl::Status status =
      node.transport->connect("tcp:no-such-host.invalid:1", node.in(milliseconds(10))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-host.invalid"));
}

TEST_F(TcpTest, ImpossibleOptionsAreRefusedByTheirNames) {
  for (const auto& [options, name] : {std::pair(TcpOptions{.send_depth = 1}, "send_depth"),
                                      {TcpOptions{.receive_depth = 1}, "receive_depth"},
                                      {TcpOptions{.max_message_bytes = 1}, "max_message_bytes"},
                                      {TcpOptions{.tls = true}, "tls"},
                                      {TcpOptions{.streams = 9}, "streams"},
                                      {TcpOptions{.long_bytes = 8}, "long_bytes"},
                                      {TcpOptions{.peer_timeout = milliseconds(1)}, "peer_timeout"}}) {
    const absl::Status status = make_tcp_transport(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

// ---- an owner that is away

TEST_F(TcpTest, ReadsAreAnsweredAndWritesPlacedWhileTheirOwnerIsAway) {
  connect();
  auto shelf = server_->region(4096, Access::kRemoteRead);
  auto drop = server_->region(4096, Access::kRemoteWrite);
  const RemoteDescriptor source = *server_->connection->grant(*shelf);
  const RemoteDescriptor target = *server_->connection->grant(*drop);
  auto local = client_->region(4096, Access::kLocal);
  // The server's owner does nothing from here on.
  for (std::uint64_t round = 1; round <= 200; ++round) {
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(shelf->bytes().data())).store(round);
    client_->seen.clear();
    const WorkRequest read = request(Opcode::kRead, *local, source, 8);
    ASSERT_EQ(client_->connection->post({&read, 1}), 1U);
    ASSERT_TRUE(pump({&*client_}, [&] { return client_->count(Kind::kCompletion) == 1; }));
    EXPECT_EQ(value_at<std::uint64_t>(local->bytes()), round);
    WorkRequest write = request(Opcode::kWrite, *local, target, 8);
    write.signaled = false;
    ASSERT_EQ(client_->connection->post({&write, 1}), 1U);
    const std::atomic_ref<std::uint64_t> placed(*reinterpret_cast<std::uint64_t*>(drop->bytes().data()));
    ASSERT_TRUE(pump({&*client_}, [&] { return placed.load() == round; }));
  }
}

TEST_F(TcpTest, ThereIsNoDeadlockBetweenTwoThatReadMuchOfEachOther) {
  connect();
  constexpr std::size_t kBytes = std::size_t{24} << 20;
  auto ours = client_->region(kBytes, Access::kRemoteRead);
  auto theirs = server_->region(kBytes, Access::kRemoteRead);
  auto our_copy = client_->region(kBytes, Access::kLocal);
  auto their_copy = server_->region(kBytes, Access::kLocal);
  for (std::size_t at = 0; at < kBytes; at += 4096) {
    put_at<std::uint64_t>(ours->bytes(), at, at);
    put_at<std::uint64_t>(theirs->bytes(), at, ~at);
  }
  const auto read_all = [](Node& node, const MemoryRegion& copy, const RemoteDescriptor& remote) {
    const WorkRequest read = {
        .opcode = Opcode::kRead, .signaled = true, .local = copy.bytes(), .region = &copy, .remote = remote};
    EXPECT_TRUE(pump({&node}, [&] { return node.connection->post({&read, 1}) == 1; }));
    EXPECT_TRUE(pump({&node}, [&] { return node.count(Kind::kCompletion) == 1; }));
  };
  const RemoteDescriptor to_client = *client_->connection->grant(*ours);
  const RemoteDescriptor to_server = *server_->connection->grant(*theirs);
  std::thread other([&] { read_all(*server_, *their_copy, to_client); });
  read_all(*client_, *our_copy, to_server);
  other.join();
  for (std::size_t at = 0; at < kBytes; at += 4096) {
    ASSERT_EQ(value_at<std::uint64_t>(their_copy->bytes(), at), at);
    ASSERT_EQ(value_at<std::uint64_t>(our_copy->bytes(), at), ~at);
  }
}

TEST_F(TcpTest, AWriteOfWhatAReadBringsWaitsForTheRead) {
  connect();
  auto shelf = server_->region(8, Access::kRemoteRead);
  auto drop = server_->region(8, Access::kRemoteWrite);
  auto local = client_->region(8, Access::kLocal);
  put_at<std::uint64_t>(shelf->bytes(), 0, 4711);
  const std::array<WorkRequest, 2> both = {
      request(Opcode::kRead, *local, *server_->connection->grant(*shelf), 8),
      request(Opcode::kWrite, *local, *server_->connection->grant(*drop), 8)};
  std::span<const WorkRequest> rest = both;
  ASSERT_TRUE(pump({&*client_}, [&] {
    rest = rest.subspan(client_->connection->post(rest));
    return rest.empty() && client_->count(Kind::kCompletion) == 2;
  }));
  const std::atomic_ref<std::uint64_t> placed(*reinterpret_cast<std::uint64_t*>(drop->bytes().data()));
  EXPECT_TRUE(pump({&*server_}, [&] { return placed.load() != 0; }));
  EXPECT_EQ(placed.load(), 4711U);
}

// ---- words

constexpr std::size_t kBlockWords = 8192;  // 64 KiB
#ifdef VERBENA_SANITIZED
constexpr std::size_t kLooks = std::size_t{1} << 21U;
#else
constexpr std::size_t kLooks = std::size_t{1} << 24U;
#endif

/// How many of the words are neither all zeros nor all ones.
std::size_t torn_words(std::span<const std::uint64_t> words) {
  return static_cast<std::size_t>(std::ranges::count_if(
      words, [](std::uint64_t word) { return word != 0 && word != ~std::uint64_t{0}; }));
}

std::uint64_t* words_of(const MemoryRegion& region) {
  return reinterpret_cast<std::uint64_t*>(region.bytes().data());
}

class TcpWordsTest : public TcpTest, public ::testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    TcpOptions options = GetParam().options();
    options.long_bytes = std::max(options.long_bytes, 1000U);  // pieces of 4000 bytes, which end anywhere
    connect(options);
  }
};

INSTANTIATE_TEST_SUITE_P(Each, TcpWordsTest, ::testing::ValuesIn(kWays),
                         [](const auto& tested) { return tested.param.name(); });

TEST_P(TcpWordsTest, WordsThatChangeWhileTheyAreReadAreWhole) {
  auto changing = server_->region(kBlockWords * 8, Access::kRemoteRead);
  auto copy = client_->region(kBlockWords * 8 + 64, Access::kLocal);
  const RemoteDescriptor remote = *server_->connection->grant(*changing);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (std::uint64_t value = 0; !stop; value = ~value) {
      for (std::size_t word = 0; word < kBlockWords; ++word)
        std::atomic_ref(words_of(*changing)[word]).store(value, std::memory_order_relaxed);
    }
  });
  std::size_t looks = 0;
  std::size_t torn = 0;
  while (looks < kLooks && !HasFailure()) {
    client_->seen.clear();
    // Two reads one behind the other, so that what is received at once ends anywhere.
    const std::array<WorkRequest, 2> reads = {WorkRequest{.opcode = Opcode::kRead,
                                                          .local = copy->bytes().subspan(8, 24),
                                                          .region = copy.get(),
                                                          .remote = remote.slice(8, 24)},
                                              request(Opcode::kRead, *copy, remote, kBlockWords * 8)};
    ASSERT_EQ(client_->connection->post(reads), 2U);
    ASSERT_TRUE(pump({&*client_}, [&] { return client_->count(Kind::kCompletion) == 1; }));
    torn += torn_words({words_of(*copy), kBlockWords});
    looks += kBlockWords;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0U);
}

TEST_P(TcpWordsTest, WordsThatAreWrittenAreWholeForWhoeverLooks) {
  auto written = server_->region(kBlockWords * 8, Access::kRemoteWrite);
  const RemoteDescriptor remote = *server_->connection->grant(*written);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    auto zeros = client_->region(kBlockWords * 8, Access::kLocal);
    auto ones = client_->region(kBlockWords * 8, Access::kLocal);
    std::ranges::fill(ones->bytes(), std::byte{0xff});
    // The pieces begin and end inside words, which are of two writes then, with the same bytes.
    for (std::size_t round = 0; !stop; ++round) {
      const MemoryRegion& from = round % 2 == 0 ? *ones : *zeros;
      client_->seen.clear();
      WorkRequest write = request(Opcode::kWrite, from, remote, kBlockWords * 8);
      if (client_->connection->post({&write, 1}) == 0) {
        client_->poll();
        continue;
      }
      pump({&*client_}, [&] { return client_->count(Kind::kCompletion) == 1; });
    }
  });
  std::vector<std::uint64_t> copy(kBlockWords);
  std::size_t looks = 0;
  std::size_t torn = 0;
  for (; looks < kLooks; looks += kBlockWords) {
    base::copy_words(copy.data(), words_of(*written), kBlockWords);
    torn += torn_words(copy);
    server_->poll();
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0U);
}

// ---- peers that end

/// A server in a process of its own. It grants two regions to whoever connects: one to read, whose first word
/// is 42, and one to write.
class OtherProcess {
 public:
  OtherProcess(std::uint16_t port, const TcpOptions& options) : child_(::fork()) {
    if (child_ == 0) serve(port, options);
  }
  ~OtherProcess() {
    signal(SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  void signal(int number) const { ::kill(child_, number); }

 private:
  [[noreturn]] static void serve(std::uint16_t port, const TcpOptions& options) {
    Node node = tcp_node(options);
    if (!node.transport->listen(local_address(port)).ok()) ::_exit(1);
    auto region = node.region(std::size_t{1} << 20, Access::kRemoteRead);
    put_at<std::uint64_t>(region->bytes(), 0, 42);
    auto drop = node.region(std::size_t{1} << 20, Access::kRemoteWrite);
    std::vector<std::unique_ptr<Connection>> connections;
    while (true) {
      node.transport->wait(node.in(std::chrono::seconds(1)));
      node.poll();
      for (auto& accepted : node.accepted) {
        std::array<RemoteDescriptor, 2> both = {*accepted->grant(*region), *accepted->grant(*drop)};
        const WorkRequest tell = {.opcode = Opcode::kSend, .local = std::as_writable_bytes(std::span(both))};
        if (accepted->post({&tell, 1}) != 1) ::_exit(1);
        connections.push_back(std::move(accepted));
      }
      node.accepted.clear();
      node.seen.clear();
    }
  }
  const pid_t child_;
};

/// Of one stream, or of several.
class TcpPeerTest : public ::testing::TestWithParam<bool> {
 protected:
  static TcpOptions impatient() {
    return {.streams = GetParam() ? 3U : 1U, .peer_timeout = milliseconds(200)};
  }

  void SetUp() override {
    auto connection = client_.transport->connect(local_address(port_), client_.in(kPatience));
    ASSERT_TRUE(connection.ok()) << connection.status();
    client_.connection = std::move(*connection);
    ASSERT_TRUE(pump({&client_}, [&] { return client_.count(Kind::kMessage) == 1; }));
    std::memcpy(remote_.data(), client_.of(Kind::kMessage)[0].message.data(), sizeof remote_);
    client_.seen.clear();
    local_ = client_.region(std::size_t{1} << 20, Access::kLocal);
  }
  void post(Opcode opcode, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const WorkRequest request = {.opcode = opcode,
                                   .signaled = true,
                                   .local = local_->bytes(),
                                   .region = local_.get(),
                                   .remote = remote_.at(opcode == Opcode::kRead ? 0 : 1)};
      posted_ += client_.connection->post({&request, 1});
    }
  }

  const std::uint16_t port_ = testing::free_port();
  OtherProcess server_{port_, impatient()};
  Node client_ = tcp_node(impatient());
  std::array<RemoteDescriptor, 2> remote_;
  std::unique_ptr<MemoryRegion> local_;
  std::size_t posted_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Each, TcpPeerTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Streams" : "OneStream"; });

TEST_P(TcpPeerTest, WhenThePeerIsKilledAllThatIsOutstandingEnds) {
  client_.connection->set_peer_name("server 3");
  server_.signal(SIGSTOP);
  post(Opcode::kRead, 3);
  ASSERT_GT(posted_, 0U);
  server_.signal(SIGKILL);
  ASSERT_TRUE(pump({&client_}, [&] { return client_.count(Kind::kDisconnected) == 1; }));
  EXPECT_EQ(client_.count(Kind::kCompletion), posted_);
  EXPECT_THAT(std::string(client_.connection->status().message()),
              ::testing::AllOf(StartsWith("server 3: "), ::testing::EndsWith("it closed or died")));
}

TEST_P(TcpPeerTest, APeerThatIsStoppedIsSlowAndNotGone) {
  server_.signal(SIGSTOP);
  post(Opcode::kWrite, 16);  // more than it has room for: its window is shut
  post(Opcode::kRead, 1);
  pump_for({&client_}, 4 * impatient().peer_timeout);
  EXPECT_TRUE(client_.connection->status().ok()) << client_.connection->status();
  server_.signal(SIGCONT);
  ASSERT_TRUE(pump({&client_}, [&] { return client_.count(Kind::kCompletion) == posted_; }));
  EXPECT_EQ(value_at<std::uint64_t>(local_->bytes()), 42U);
}

TEST_P(TcpPeerTest, AnIdleConnectionStays) {
  pump_for({&client_}, 4 * impatient().peer_timeout);
  EXPECT_TRUE(client_.connection->status().ok()) << client_.connection->status();
  post(Opcode::kRead, 1);
  EXPECT_TRUE(pump({&client_}, [&] { return client_.count(Kind::kCompletion) == 1; }));
}

// ---- strangers

TEST_F(TcpStrangerTest, WhoDoesNotKnowTheProtocolIsRefused) {
  const RawPeer peer(port_);
  const std::string words = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  peer.say(std::as_bytes(std::span(words)));
  expect_refused(peer);
}

/// Of what a connector finds where it should find a listener.
TEST(TcpIntroductionTest, SomethingElseIsNotTakenForAnotherVersion) {
  const auto refusal = [](const tcp::Challenge& challenge) {
    return std::string(check(challenge, tcp::Greeting{.credits = 1}, nullptr).message());
  };
  tcp::Challenge page;
  std::ranges::fill(tcp::room_for(page), std::byte{'H'});
  EXPECT_THAT(refusal(page), ::testing::HasSubstr("no process of this program"));
  EXPECT_THAT(refusal({.version = tcp::kVersion + 1}), ::testing::HasSubstr("not of this program's version"));
}

TEST_F(TcpStrangerTest, WhoRepeatsAnothersProofIsRefused) {
  // What a member says, as somebody on the network hears it.
  tcp::Greeting greeting{.max_message_bytes = TcpOptions().max_message_bytes, .credits = 1024};
  const RawPeer member(port_);
  member.say(greeting);
  tcp::Challenge challenge;
  ASSERT_TRUE(member.hear(tcp::room_for(challenge)));
  tcp::Introduction introduction;
  sign(introduction, greeting, challenge, secret_.get());
  const RawPeer peer(port_);
  peer.say(greeting);
  tcp::Challenge another;
  ASSERT_TRUE(peer.hear(tcp::room_for(another)));
  peer.say(introduction);
  expect_refused(peer);
  // It is right where it belongs.
  member.say(introduction);
  ASSERT_TRUE(pump({&server_}, [&] { return server_.count(Kind::kAccepted) == 1; }));
}

TEST_F(TcpStrangerTest, WhoSendsTheListenersProofBackIsRefused) {
  const RawPeer peer(port_);
  peer.say(tcp::Greeting{.max_message_bytes = TcpOptions().max_message_bytes, .credits = 1024});
  tcp::Challenge challenge;
  ASSERT_TRUE(peer.hear(tcp::room_for(challenge)));
  peer.say(tcp::Introduction{.proof = challenge.proof});
  expect_refused(peer);
}

TEST_F(TcpStrangerTest, ThoseWhoSayNothingKeepNobodyOut) {
  // A quarter of the descriptors that a process may have are for strangers.
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit few{.rlim_cur = 256, .rlim_max = files.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const std::uint16_t port = testing::free_port();
  Node listener = tcp_node({.secret = secret_});
  ASSERT_TRUE(listener.transport->listen(local_address(port)).ok());
  std::list<RawPeer> silent;
  for (int i = 0; i < 70; ++i) silent.emplace_back(port);
  Node member = tcp_node({.secret = secret_});
  EXPECT_NE(meet(member, listener, local_address(port)), nullptr);
  EXPECT_TRUE(silent.front().is_sent_away()) << "who has been silent longest goes first";
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// ---- a peer that is let in and then breaks the rules

TEST_F(TcpHostilePeerTest, FramesThatCannotBeEndTheConnectionAndSayWhy) {
  using tcp::FrameKind;
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const auto& [frame, why] : {
           std::pair(tcp::Frame{.kind = FrameKind{0}}, "a kind that there is not"),
           {tcp::Frame{.kind = FrameKind{10}}, "a kind that there is not"},
           {tcp::Frame{.kind = FrameKind::kProbe, .is_elsewhere = 1}, "a kind that there is not"},
           {tcp::Frame{.kind = FrameKind::kWrite, .is_elsewhere = 2, .length = 8},
            "a kind that there is not"},
           {tcp::Frame{.kind = FrameKind::kWrite, .is_elsewhere = 1}, "a kind that there is not"},
           {tcp::Frame{.kind = FrameKind::kMessage, .is_elsewhere = 1, .length = 8},
            "a kind that there is not"},
           {tcp::Frame{.kind = FrameKind::kPiece, .length = 8}, "a piece on the first stream"},
           {tcp::Frame{.kind = FrameKind::kProbe, .sequence = 1}, "out of its turn"},
           {tcp::Frame{.kind = FrameKind::kWrite, .length = huge}, "longer than any memory"},
           {tcp::Frame{.kind = FrameKind::kRead, .length = tcp::kMostReadBytes + 1}, "too long"},
           {tcp::Frame{.kind = FrameKind::kMessage, .length = 4097}, "too long"},
           {tcp::Frame{.kind = FrameKind::kAnswer, .length = 8}, "not asked"},
           {tcp::Frame{.kind = FrameKind::kCredits, .value = 1}, "more credits"},
           {tcp::Frame{.kind = FrameKind::kRefusal}, "not granted"},
           {tcp::Frame{.kind = FrameKind::kRefusal, .value = 1U << 30U}, "not granted"},
       }) {
    const absl::Status status = status_after(frame);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

TEST_F(TcpHostilePeerTest, WhatWasNotGrantedIsOutOfReach) {
  using tcp::FrameKind;
  (void)let_in();
  const auto frame = [](FrameKind kind, const RemoteDescriptor& remote, std::uint64_t length) {
    return tcp::Frame{.kind = kind, .address = remote.address, .key = remote.key, .length = length};
  };
  for (int which = 0; which < 6; ++which) {
    const RawPeer peer = let_in();
    RemoteDescriptor beyond = write_key_;
    beyond.address += 8;
    RemoteDescriptor before = write_key_;
    before.address -= 8;
    RemoteDescriptor others = write_key_;
    others.address = reinterpret_cast<std::uintptr_t>(untouched_->bytes().data());
    const std::array<tcp::Frame, 6> frames = {
        frame(FrameKind::kRead, write_key_, 8),    frame(FrameKind::kWrite, read_key_, 8),
        frame(FrameKind::kWrite, beyond, kBytes),  frame(FrameKind::kWrite, before, 8),
        frame(FrameKind::kWriteNotify, others, 8), frame(FrameKind::kWrite, {.address = others.address}, 8)};
    peer.say(frames.at(static_cast<std::size_t>(which)));
    const std::array<std::byte, kBytes> payload{};
    peer.say(payload);
    expect_only_its_end();
    EXPECT_THAT(std::string(server_.connection->status().message()), HasSubstr("not granted"));
  }
}

TEST_F(TcpHostilePeerTest, ARegionThatIsDestroyedIsOutOfReachInTheMiddleOfAWrite) {
  const RawPeer peer = let_in();
  peer.say(tcp::Frame{.kind = tcp::FrameKind::kWrite,
                      .address = write_key_.address,
                      .key = write_key_.key,
                      .length = kBytes});
  const std::array<std::byte, kBytes / 2> half = [] {
    std::array<std::byte, kBytes / 2> bytes{};
    bytes.fill(std::byte{9});
    return bytes;
  }();
  peer.say(half);
  const std::atomic_ref<std::uint64_t> first(words_of(*writable_)[0]);
  ASSERT_TRUE(pump({&server_}, [&] { return first.load() != 0; }));
  writable_.reset();
  peer.say(half);
  expect_only_its_end();
}

TEST_F(TcpHostilePeerTest, MoreThanItHasCreditsForEndsTheConnection) {
  const RawPeer peer = let_in();
  for (std::uint32_t i = 0; i <= TcpOptions().receive_depth; ++i)
    peer.say(tcp::Frame{.kind = tcp::FrameKind::kMessage, .sequence = static_cast<std::uint16_t>(i)});
  // The server's owner does not poll before the end, or it would give new credits.
  EXPECT_TRUE(peer.is_sent_away());
  expect_only_its_end();
  EXPECT_THAT(std::string(server_.connection->status().message()), HasSubstr("credits"));
}

TEST_F(TcpHostilePeerTest, WhoAsksForMuchAndTakesNothingEndsItself) {
  const RawPeer peer = let_in();
  auto large = server_.region(tcp::kMostReadBytes, Access::kRemoteRead);
  const RemoteDescriptor remote = *server_.connection->grant(*large);
  for (std::uint16_t i = 0; i < 1000; ++i) {
    peer.say(tcp::Frame{.kind = tcp::FrameKind::kRead,
                        .sequence = i,
                        .address = remote.address,
                        .key = remote.key,
                        .length = tcp::kMostReadBytes});
  }
  expect_only_its_end();
  EXPECT_THAT(std::string(server_.connection->status().message()), HasSubstr("more reads"));
}

TEST_F(TcpHostilePeerTest, AnyBytesEndInAStatusAndTouchNothing) {
  static std::uint64_t seed = 0;  // other ones in each repetition
  for (int round = 0; round < 300 && !HasFailure(); ++round) {
    std::mt19937_64 random(++seed);
    RawPeer peer = let_in();
    // Good frames, of which some are damaged.
    std::uint16_t sequence = 0;
    for (int i = 0; i < 20; ++i) {
      using tcp::FrameKind;
      const bool reads = random() % 2 == 0;
      const RemoteDescriptor& remote = reads ? read_key_ : write_key_;
      tcp::Frame frame{.kind = reads ? FrameKind::kRead
                                     : static_cast<FrameKind>(
                                           unsigned{static_cast<unsigned>(FrameKind::kWrite)} + random() % 2),
                       .sequence = sequence++,
                       .address = remote.address + random() % 64,
                       .key = remote.key,
                       .length = random() % 128};
      std::vector<std::byte> bytes(sizeof frame + body_bytes(frame));
      std::memcpy(bytes.data(), &frame, sizeof frame);
      for (std::size_t at = sizeof frame; at < bytes.size(); ++at)
        bytes[at] = static_cast<std::byte>(random());
      while (random() % 8 == 0) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      if (random() % 64 == 0) bytes.resize(random() % bytes.size());
      peer.say(bytes);
    }
    peer.hang_up();
    expect_only_its_end();
  }
}

// ---- encryption

TEST_F(TcpTest, WhatTravelsEncryptedCannotBeReadOnTheWay) {
  std::string words = "sword of the spirit";
  for (const bool is_encrypted : {false, true}) {
    const TcpOptions options = is_encrypted ? encrypting() : TcpOptions();
    server_.emplace(tcp_node(options));
    client_.emplace(tcp_node(options));
    const std::uint16_t port = testing::free_port();
    ASSERT_TRUE(server_->transport->listen(local_address(port)).ok());
    std::string seen;
    {
      const FaultProxy proxy(port, {.watch = [&](std::span<const std::byte> bytes) {
                               seen.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                             }});
      server_->connection = meet(*client_, *server_, local_address(proxy.port()));
      ASSERT_NE(server_->connection, nullptr);
      auto shelf = server_->region(4096, Access::kRemoteRead);
      auto from = client_->region(4096, Access::kLocal);
      std::memcpy(shelf->bytes().data(), words.data(), words.size());
      const std::array<WorkRequest, 2> both = {
          WorkRequest{.opcode = Opcode::kSend, .local = bytes_of(words).first(5)},
          request(Opcode::kRead, *from, *server_->connection->grant(*shelf), words.size())};
      ASSERT_EQ(client_->connection->post(both), 2U);
      ASSERT_TRUE(pump({&*client_, &*server_}, [&] {
        return client_->count(Kind::kCompletion) == 1 && server_->count(Kind::kMessage) == 1;
      }));
      EXPECT_EQ(std::memcmp(from->bytes().data(), words.data(), words.size()), 0);
      EXPECT_EQ(server_->of(Kind::kMessage).front().message, "sword");
    }
    EXPECT_EQ(seen.find(words) == std::string::npos, is_encrypted);
    EXPECT_EQ(seen.find("sword") == std::string::npos, is_encrypted);
  }
}

TEST_F(TcpTest, ABitThatIsChangedOnTheWayEndsAnEncryptedConnection) {
  const TcpOptions options = encrypting();
  server_.emplace(tcp_node(options));
  client_.emplace(tcp_node(options));
  const std::uint16_t port = testing::free_port();
  ASSERT_TRUE(server_->transport->listen(local_address(port)).ok());
  const FaultProxy proxy(port, {.fault = FaultProxy::Fault::kFlip, .after_bytes = 100'000});
  server_->connection = meet(*client_, *server_, local_address(proxy.port()));
  ASSERT_NE(server_->connection, nullptr);
  auto drop = server_->region(std::size_t{1} << 18, Access::kRemoteWrite);
  auto from = client_->region(std::size_t{1} << 18, Access::kLocal);
  std::ranges::fill(from->bytes(), std::byte{5});
  const WorkRequest write =
      request(Opcode::kWrite, *from, *server_->connection->grant(*drop), from->bytes().size());
  ASSERT_EQ(client_->connection->post({&write, 1}), 1U);
  ASSERT_TRUE(pump({&*client_, &*server_}, [&] {
    return client_->count(Kind::kDisconnected) == 1 && server_->count(Kind::kDisconnected) == 1;
  }));
  EXPECT_EQ(server_->connection->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(server_->connection->status().message()), HasSubstr("changed or replaced"));
  for (const std::byte byte : drop->bytes()) ASSERT_TRUE(byte == std::byte{5} || byte == std::byte{0});
}

TEST_F(TcpTest, WhoEncryptsAndWhoDoesNotSaySo) {
  TcpOptions options = encrypting();
  for (const bool is_client_encrypting : {true, false}) {
    options.tls = !is_client_encrypting;
    server_.emplace(tcp_node(options));
    options.tls = is_client_encrypting;
    client_.emplace(tcp_node(options));
    const std::string address = local_address(testing::free_port());
    ASSERT_TRUE(server_->transport->listen(address).ok());
    auto connecting = std::async(std::launch::async, [&] {
      return client_->transport->connect(address, client_->in(kPatience)).status();
    });
    pump({&*server_}, [&] { return connecting.wait_for(milliseconds(0)) == std::future_status::ready; });
    const absl::Status status = connecting.get();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(is_client_encrypting ? "it does not encrypt" : "it encrypts"));
    EXPECT_EQ(server_->count(Kind::kAccepted), 0U);
  }
}

/// Two ends of TLS, and sockets between them.
class TlsTest : public ::testing::Test {
 protected:
  void begin(const tcp::TlsKey& connectors, const tcp::TlsKey& listeners, std::uint64_t records_a_key) {
    std::array<int, 2> sockets{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets.data()), 0);
    context_ = *tcp::TlsContext::create(records_a_key);
    for (std::size_t i = 0; i < 2; ++i) sockets_.at(i) = base::FileDescriptor(sockets.at(i));
    ends_[0] = *tcp::Tls::begin(*context_, sockets[0], connectors, tcp::TlsEnd::kConnector);
    ends_[1] = *tcp::Tls::begin(*context_, sockets[1], listeners, tcp::TlsEnd::kListener);
  }
  /// Sends until it has left, while the other end receives. Returns what came, or an error.
  std::variant<std::string, int> carry(std::size_t from, std::string_view text) {
    std::string came;
    while (came.size() < text.size()) {
      if (const std::string_view left = text.substr(sent_); !left.empty()) {
        const std::size_t half = left.size() / 2;
        const std::array<iovec, 2> parts = {
            iovec{.iov_base = const_cast<char*>(left.data()), .iov_len = half},
            iovec{.iov_base = const_cast<char*>(left.data() + half), .iov_len = left.size() - half}};
        const std::ptrdiff_t sent = ends_.at(from)->send(parts);
        if (sent < 0 && sent != -EAGAIN) return static_cast<int>(-sent);
        if (sent > 0) sent_ += static_cast<std::size_t>(sent);
      }
      for (std::size_t end = 0; end < 2; ++end) {
        std::array<std::byte, 5000> room{};
        ends_.at(end)->may_take(true);
        const std::ptrdiff_t count = ends_.at(end)->receive(room);
        if (count < 0 && count != -EAGAIN) return static_cast<int>(-count);
        if (count > 0)
          came.append(reinterpret_cast<const char*>(room.data()), static_cast<std::size_t>(count));
      }
    }
    sent_ = 0;
    return came;
  }

  tcp::TlsKey key_{std::byte{1}, std::byte{2}};
  std::array<base::FileDescriptor, 2> sockets_;
  std::unique_ptr<tcp::TlsContext> context_;
  std::array<std::unique_ptr<tcp::Tls>, 2> ends_;
  std::size_t sent_ = 0;
};

TEST_F(TlsTest, KeysAreReplacedWhileBytesTravel) {
  begin(key_, key_, 3);
  std::string text(300'000, 'a');
  for (std::size_t at = 0; at < text.size(); at += 7) text[at] = static_cast<char>('a' + at % 26);
  for (std::size_t round = 0; round < 20; ++round) {
    EXPECT_EQ(std::get<std::string>(carry(round % 2, text)), text);
    EXPECT_EQ(std::get<std::string>(carry(round % 2, "a word")), "a word");
  }
}

/// What says so is a record of its own, before the next one.
TEST_F(TlsTest, AKeyIsForSoManyRecords) {
  begin(key_, key_, 3);
  EXPECT_EQ(std::get<std::string>(carry(0, "one")), "one");
  const auto waiting = [&] {
    int bytes = 0;
    EXPECT_EQ(::ioctl(sockets_[1].get(), FIONREAD, &bytes), 0);
    return bytes;
  };
  std::string word = "a word";
  const std::array<iovec, 1> parts = {iovec{.iov_base = word.data(), .iov_len = word.size()}};
  std::vector<int> sent;
  for (int i = 0; i < 6; ++i) {
    const int before = waiting();
    ASSERT_EQ(ends_[0]->send(parts), std::ssize(word));
    sent.push_back(waiting() - before);
  }
  const int shortest = *std::ranges::min_element(sent);
  EXPECT_EQ(std::ranges::count_if(sent, [&](int bytes) { return bytes > shortest; }), 2);
}

TEST_F(TlsTest, WhoHasAnotherKeyHearsNothing) {
  tcp::TlsKey another = key_;
  another.back() = std::byte{1};
  begin(key_, another, tcp::TlsContext::kRecordsAKey);
  EXPECT_EQ(std::get<int>(carry(0, "a secret")), EBADMSG);
}

// ---- networks that fail

/// Traffic of all kinds in both directions until it is done, or until both ends have ended. Checks that what
/// arrives is what was sent, in its order.
class TcpFaultTest : public TcpTest {
 protected:
  void run(const FaultProxy::Plan& plan, const Way& way) {
    TcpOptions options = way.options();
    options.peer_timeout = milliseconds(200);
    server_.emplace(tcp_node(options));
    client_.emplace(tcp_node(options));
    const std::uint16_t port = testing::free_port();
    ASSERT_TRUE(server_->transport->listen(local_address(port)).ok());
    const FaultProxy proxy(port, plan);
    auto connecting = std::async(std::launch::async, [&] {
      return client_->transport->connect(local_address(proxy.port()), client_->in(milliseconds(1500)));
    });
    ASSERT_TRUE(
        pump({&*server_}, [&] { return connecting.wait_for(milliseconds(0)) == std::future_status::ready; }));
    auto connection = connecting.get();
    if (!connection.ok()) return;  // a status, too
    client_->connection = std::move(*connection);
    // A byte at a time takes long. Of bytes that get lost or change on their way, the ends of a connection
    // that is not encrypted may notice that, but not which ones.
    const bool is_spoiled = plan.fault == FaultProxy::Fault::kDrop || plan.fault == FaultProxy::Fault::kFlip;
    exchange(plan.most_at_once < 100 ? 4 : 40, way.is_encrypted || !is_spoiled);
    client_->connection.reset();
    server_->connection.reset();
    server_->accepted.clear();
  }

 private:
  static constexpr std::size_t kBytes = 3000;

  void exchange(std::uint64_t rounds, bool checks_bytes) {
    if (!pump({&*server_, &*client_},
              [&] { return !server_->accepted.empty() || client_->count(Kind::kDisconnected) > 0; })) {
      return;
    }
    if (server_->accepted.empty()) return;
    server_->connection = std::move(server_->accepted.back());
    server_->accepted.clear();
    auto shelf = server_->region(kBytes, Access::kRemoteRead);
    auto drop = server_->region(kBytes, Access::kRemoteWrite);
    auto from = client_->region(kBytes, Access::kLocal);
    auto to = client_->region(kBytes * rounds, Access::kLocal);
    for (std::size_t at = 0; at + 8 <= kBytes; at += 8) {
      put_at<std::uint64_t>(shelf->bytes(), at, at * 77);
      put_at<std::uint64_t>(from->bytes(), at, at * 99);
    }
    const auto source = server_->connection->grant(*shelf);
    const auto target = server_->connection->grant(*drop);
    if (!source.ok() || !target.ok()) return;
    std::uint64_t posted = 0;
    std::uint64_t notified = 0;
    std::uint64_t echoed = 0;
    std::uint64_t completed = 0;
    std::uint64_t read = 0;
    const auto has_ended = [](const Node& node) { return !node.connection->status().ok(); };
    pump({&*client_, &*server_}, [&] {
      if (posted < rounds && !has_ended(*client_)) {
        const std::size_t offset = posted % 13;
        const std::array<WorkRequest, 2> both = {
            WorkRequest{.opcode = Opcode::kWriteNotify,
                        .notification = static_cast<std::uint32_t>(posted),
                        .local = from->bytes().first(kBytes - offset),
                        .region = from.get(),
                        .remote = target->slice(0, kBytes - offset)},
            WorkRequest{.opcode = Opcode::kRead,
                        .signaled = true,
                        .id = posted,
                        .local = to->bytes().subspan(posted * kBytes + offset, kBytes - offset),
                        .region = to.get(),
                        .remote = source->slice(offset, kBytes - offset)}};
        const std::size_t taken = client_->connection->post(both);
        posted += taken == 2 ? 1 : 0;
        read += taken == 2 ? 1 : 0;
        if (taken == 1) posted = rounds;  // enough: the connection has failed, or the credits are out
      }
      for (const Node::Seen& seen : server_->of(Kind::kNotification)) {
        ++notified;
        if (checks_bytes) {
          EXPECT_EQ(seen.event.notification, notified - 1);
          // The next write may come while this looks.
          EXPECT_EQ(std::atomic_ref(words_of(*drop)[100]).load(), 800U * 99);
        }
        std::string text = fmt::format("{}", seen.event.notification);
        const WorkRequest echo = {.opcode = Opcode::kSend, .local = bytes_of(text)};
        (void)server_->connection->post({&echo, 1});
      }
      for (const Node::Seen& seen : client_->of(Kind::kMessage)) {
        ++echoed;
        if (checks_bytes) {
          EXPECT_EQ(seen.message, fmt::format("{}", echoed - 1));
        }
      }
      for (const Node::Seen& seen : client_->of(Kind::kCompletion)) {
        if (seen.event.result != OperationResult::kOk) {
          EXPECT_TRUE(has_ended(*client_)) << "the status says why";
          completed += seen.event.id == completed ? 1 : 0;
          continue;
        }
        EXPECT_EQ(seen.event.id, completed++);
        if (checks_bytes) {
          EXPECT_EQ(value_at<std::uint64_t>(to->bytes(), (completed - 1) * kBytes + 1600), 1600U * 77);
        }
      }
      const bool is_over = has_ended(*client_) && has_ended(*server_);
      client_->seen.clear();
      server_->seen.clear();
      return is_over || (posted == rounds && completed == read && echoed >= read && notified >= read);
    });
  }
};

TEST_F(TcpFaultTest, AByteAtATimeIsAsGoodAsAll) {
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.name());
    run({.seed = 1, .most_at_once = 1}, way);
  }
}

TEST_F(TcpFaultTest, EveryFaultEndsInAStatus) {
  using Fault = FaultProxy::Fault;
  static std::uint64_t last = 0;  // other ones in each repetition
  // First some in which a further stream was cut, and probes on the others were taken for what it was to
  // bring.
  std::vector<std::uint64_t> seeds = {206, 286};
  for (int round = 0; round < 60; ++round) seeds.push_back(++last);
  for (const std::uint64_t seed : seeds) {
    if (HasFailure()) break;
    std::mt19937_64 random(seed);
    const std::array<Fault, 5> faults = {Fault::kNone, Fault::kCut, Fault::kHalfClose, Fault::kDrop,
                                         Fault::kFlip};
    const Way& way = kWays.at(seed % kWays.size());
    FaultProxy::Plan plan{.seed = seed, .fault = faults.at(seed % faults.size())};
    // Nobody would notice.
    if (plan.fault == Fault::kFlip && !way.is_encrypted) plan.fault = Fault::kNone;
    plan.after_bytes = random() % (random() % 4 == 0 ? 400 : 300'000);
    const std::array<std::size_t, 4> pieces = {1, 7, 1000, 65536};
    plan.most_at_once = pieces.at(random() % pieces.size());
    if (plan.most_at_once >= 1000) plan.delay_us = random() % 2 == 0 ? 0 : 500;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    run(plan, way);
  }
}

}  // namespace
}  // namespace verbena::transport
