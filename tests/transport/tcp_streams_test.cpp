// Connections of several streams; contract_test.cpp tests what all transports promise.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/free_port.hpp"
#include "tests/transport/backend.hpp"
#include "tests/transport/fault_proxy.hpp"
#include "tests/transport/tcp_peers.hpp"
#include "transport/backends.hpp"
#include "transport/tcp/frame.hpp"
#include "transport/tcp/hub.hpp"
#include "transport/tcp/introduction.hpp"
#include "transport/tcp/tcp_connection.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace verbena::transport {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Kind = Event::Kind;

// ---- streams that strangers or members ask for, and what they send over them

TEST_F(TcpStrangerTest, AStreamIsForWhoHasTheSecretAndKnowsTheConnection) {
  RawPeer member(port_);
  auto introducing = std::async(std::launch::async, [&] { return member.introduce_itself(secret_.get()); });
  ASSERT_TRUE(pump({&server_}, [&] { return server_.accepted.size() == 1; }));
  ASSERT_TRUE(introducing.get());
  auto& connection = static_cast<tcp::TcpConnection&>(*server_.accepted.front());
  const auto joins = [&](const Secret* secret, const tcp::ConnectionId& id) {
    RawPeer stream(port_);
    auto asking = std::async(std::launch::async, [&] { return stream.introduce_itself(secret, id); });
    pump({&server_}, [&] { return asking.wait_for(milliseconds(0)) == std::future_status::ready; });
    return asking.get();
  };
  const std::shared_ptr<const Secret> another = *Secret::random();
  EXPECT_FALSE(joins(another.get(), member.id()));
  EXPECT_FALSE(joins(secret_.get(), *fresh_nonce()));
  EXPECT_EQ(connection.streams(), 1U);
  std::list<RawPeer> streams;
  for (std::size_t i = 1; i <= kMostStreams; ++i) {
    RawPeer& stream = streams.emplace_back(port_);
    auto asking =
        std::async(std::launch::async, [&] { return stream.introduce_itself(secret_.get(), member.id()); });
    pump({&server_}, [&] { return asking.wait_for(milliseconds(0)) == std::future_status::ready; });
    EXPECT_TRUE(asking.get());
    stream.say(tcp::Frame{.kind = tcp::FrameKind::kProbe});
    ASSERT_TRUE(pump({&server_}, [&] { return connection.streams() == i; }));
  }
  EXPECT_FALSE(joins(secret_.get(), member.id())) << "there are enough";
  EXPECT_TRUE(connection.status().ok()) << connection.status();
  EXPECT_EQ(server_.count(Kind::kAccepted), 1U) << "a stream is no connection";
  server_.accepted.clear();
  EXPECT_FALSE(joins(secret_.get(), member.id())) << "the connection has ended";
}

/// So that neither end of a connection depends on what the other cannot know of.
TEST_F(TcpStrangerTest, AStreamThatEndsBeforeItWasUsedIsDoneWithout) {
  RawPeer member(port_);
  auto introducing = std::async(std::launch::async, [&] { return member.introduce_itself(secret_.get()); });
  ASSERT_TRUE(pump({&server_}, [&] { return server_.accepted.size() == 1; }));
  ASSERT_TRUE(introducing.get());
  auto& connection = static_cast<tcp::TcpConnection&>(*server_.accepted.front());
  for (std::size_t i = 0; i < 2 * kMostStreams; ++i) {
    RawPeer stream(port_);
    auto asking =
        std::async(std::launch::async, [&] { return stream.introduce_itself(secret_.get(), member.id()); });
    pump({&server_}, [&] { return asking.wait_for(milliseconds(0)) == std::future_status::ready; });
    EXPECT_TRUE(asking.get()) << "those that have ended take nobody's place";
    stream.hang_up();
    pump_for({&server_}, milliseconds(20));
  }
  pump_for({&server_}, milliseconds(1500));  // longer than a connection outlives a stream that it has used
  EXPECT_EQ(connection.streams(), 1U);
  EXPECT_EQ(server_.count(Kind::kDisconnected), 0U);
  EXPECT_TRUE(connection.status().ok()) << connection.status();
}

class TcpHostileStreamTest : public TcpHostilePeerTest {
 protected:
  void SetUp() override {
    TcpHostilePeerTest::SetUp();
    peer_.emplace(let_in());
    open_streams();
  }
  void open_streams() {
    streams_.clear();
    announced_ = 0;
    sent_ = {};
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      RawPeer& stream = streams_.emplace_back(port_);
      auto asking =
          std::async(std::launch::async, [&] { return stream.introduce_itself(nullptr, peer_->id()); });
      pump({&server_}, [&] { return asking.wait_for(milliseconds(0)) == std::future_status::ready; });
      ASSERT_TRUE(asking.get());
    }
  }
  /// Says on the first stream that a write comes elsewhere.
  void announce(std::uint64_t key, std::uint64_t length) {
    peer_->say(tcp::Frame{.kind = tcp::FrameKind::kWrite,
                          .is_elsewhere = 1,
                          .sequence = announced_++,
                          .address = write_key_.address,
                          .key = key,
                          .length = length});
  }
  void send_piece(std::size_t stream, std::uint32_t payload, std::uint64_t offset, std::size_t length,
                  std::byte value) {
    std::vector<std::byte> bytes((length + 7) / 8 * 8, value);
    streams_.at(stream).say(tcp::Frame{.kind = tcp::FrameKind::kPiece,
                                       .sequence = sent_.at(stream)++,
                                       .value = payload,
                                       .address = write_key_.address + offset,
                                       .length = length});
    streams_.at(stream).say(bytes);
  }
  [[nodiscard]] std::byte written(std::size_t at) const {
    return std::atomic_ref(writable_->bytes()[at]).load();
  }
  void expect_end(std::string_view why) {
    expect_only_its_end();
    EXPECT_THAT(std::string(server_.connection->status().message()), HasSubstr(std::string(why)));
  }

  std::optional<RawPeer> peer_;
  std::deque<RawPeer> streams_;
  std::uint16_t announced_ = 0;
  std::array<std::uint16_t, 2> sent_{};
};

TEST_F(TcpHostileStreamTest, WhatWasNotAnnouncedWaitsAndTouchesNothing) {
  send_piece(0, 1, 0, 2048, std::byte{2});
  send_piece(0, 1, 2048, 2048, std::byte{2});
  send_piece(1, 0, 0, 2048, std::byte{1});
  pump_for({&server_}, milliseconds(50));
  EXPECT_EQ(written(0), std::byte{0});
  announce(write_key_.key, 2048);
  ASSERT_TRUE(pump({&server_}, [&] { return written(2047) == std::byte{1}; }));
  EXPECT_EQ(written(2048), std::byte{0}) << "payload 1 was not announced";
  announce(write_key_.key, kBytes);
  ASSERT_TRUE(pump({&server_}, [&] { return written(kBytes - 1) == std::byte{2}; }));
  EXPECT_EQ(written(0), std::byte{2});
  EXPECT_TRUE(server_.connection->status().ok());
}

/// Whoever has asked for a stream may come upon the header of a payload before it knows that it has the
/// stream.
TEST_F(TcpHostileStreamTest, NothingLongTravelsOverStreamsThatHaveSaidNothing) {
  constexpr std::size_t kLongBytes = std::size_t{64} << 10;
  auto from = server_.region(kLongBytes, Access::kLocal);
  RemoteDescriptor remote = write_key_;
  remote.address = 4096;
  remote.length_bytes = kLongBytes;
  const WorkRequest write = {
      .opcode = Opcode::kWrite, .local = from->bytes(), .region = from.get(), .remote = remote};
  // Whether the payload of another write is elsewhere. Takes it from the first stream if it is not.
  const auto is_elsewhere = [&] {
    EXPECT_EQ(server_.connection->post({&write, 1}), 1U);
    auto hearing = std::async(std::launch::async, [&] {
      tcp::Frame frame;
      do {
        if (!peer_->hear(tcp::room_for(frame))) return frame;
      } while (frame.kind == tcp::FrameKind::kProbe);
      std::vector<std::byte> body(tcp::body_bytes(frame));
      EXPECT_TRUE(peer_->hear(body));
      return frame;
    });
    pump({&server_}, [&] { return hearing.wait_for(milliseconds(0)) == std::future_status::ready; });
    const tcp::Frame frame = hearing.get();
    EXPECT_EQ(frame.kind, tcp::FrameKind::kWrite);
    return frame.is_elsewhere == 1;
  };
  for (int round = 0; round < 10; ++round) ASSERT_FALSE(is_elsewhere());
  streams_[0].say(tcp::Frame{.kind = tcp::FrameKind::kProbe});
  bool is_used = false;
  for (int round = 0; round < 1000 && !is_used; ++round) is_used = is_elsewhere();
  EXPECT_TRUE(is_used);
  EXPECT_TRUE(server_.connection->status().ok());
}

TEST_F(TcpHostileStreamTest, OnlyPiecesTravelOnAStream) {
  streams_[0].say(tcp::Frame{.kind = tcp::FrameKind::kCredits});
  expect_end("no piece on a further stream");
}

TEST_F(TcpHostileStreamTest, APieceOutsideOfItsPayloadEndsTheConnection) {
  announce(write_key_.key, 2048);
  send_piece(0, 0, 2040, 16, std::byte{1});
  expect_end("not of its payload");
  EXPECT_EQ(written(2048), std::byte{0});
}

TEST_F(TcpHostileStreamTest, APieceBeforeItsPayloadEndsTheConnection) {
  announce(write_key_.key, 2048);
  send_piece(0, 0, static_cast<std::uint64_t>(-8), 16, std::byte{1});
  expect_end("not of its payload");
}

TEST_F(TcpHostileStreamTest, MorePiecesThanThePayloadEndTheConnection) {
  announce(write_key_.key, 2048);
  send_piece(0, 0, 0, 2000, std::byte{1});
  send_piece(1, 0, 40, 2008, std::byte{1});
  expect_end("not of its payload");
}

TEST_F(TcpHostileStreamTest, APieceOfNothingEndsTheConnection) {
  announce(write_key_.key, 2048);
  send_piece(0, 0, 0, 0, std::byte{1});
  expect_end("no piece on a further stream");
}

TEST_F(TcpHostileStreamTest, APieceOfWhatHasComeEndsTheConnection) {
  announce(write_key_.key, 8);
  send_piece(0, 0, 0, 8, std::byte{1});
  ASSERT_TRUE(pump({&server_}, [&] { return written(0) == std::byte{1}; }));
  send_piece(1, 0, 0, 8, std::byte{2});
  expect_end("has come already");
  EXPECT_EQ(written(0), std::byte{1});
}

TEST_F(TcpHostileStreamTest, WhatWasNotGrantedIsOutOfReachElsewhere) {
  announce(read_key_.key, 2048);
  send_piece(0, 0, 0, 2048, std::byte{1});
  expect_end("not granted");
}

TEST_F(TcpHostileStreamTest, ARegionThatIsDestroyedIsOutOfReachInTheMiddleOfAPayload) {
  announce(write_key_.key, kBytes);
  send_piece(0, 0, 0, 2048, std::byte{1});
  ASSERT_TRUE(pump({&server_}, [&] { return written(2047) == std::byte{1}; }));
  writable_.reset();
  send_piece(1, 0, 2048, 2048, std::byte{1});
  expect_end("not granted");
}

TEST_F(TcpHostileStreamTest, APayloadWithoutStreamsEndsTheConnection) {
  peer_.emplace(let_in());
  announce(write_key_.key, 2048);
  expect_end("streams that there are not");
}

TEST_F(TcpHostileStreamTest, AnyBytesEndInAStatusAndTouchNothingElse) {
  static std::uint64_t seed = 0;  // other ones in each repetition
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    std::mt19937_64 random(++seed);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    peer_.emplace(let_in());
    open_streams();
    for (std::uint32_t payload = 0; payload < 10; ++payload) {
      const std::size_t length = 16 + random() % 200;
      announce(random() % 20 == 0 ? read_key_.key : write_key_.key, length);
      const std::size_t half = length / 2 / 8 * 8;
      const auto shift = random() % 10 == 0 ? random() % 64 : 0;
      send_piece(random() % 2, random() % 20 == 0 ? static_cast<std::uint32_t>(random()) : payload, shift,
                 half, std::byte{1});
      send_piece(random() % 2, payload, half, length - half, std::byte{2});
      if (random() % 30 == 0) streams_.at(random() % 2).hang_up();
    }
    peer_->hang_up();
    for (RawPeer& stream : streams_) stream.hang_up();
    expect_only_its_end();
  }
}

// ---- several streams

class TcpStreamsTest : public TcpTest, public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr std::size_t kStreams = 3;

  /// Through a proxy. `lost`: of the streams, so many cannot be had.
  void connect_through(const FaultProxy::Plan& plan, TcpOptions options = {}, std::size_t lost = 0) {
    if (GetParam()) options.secret = *Secret::random();
    options.tls = GetParam();
    if (options.streams == 0) options.streams = kStreams;
    server_.emplace(tcp_node(options));
    client_.emplace(tcp_node(options));
    const std::uint16_t port = testing::free_port();
    ASSERT_TRUE(server_->transport->listen(local_address(port)).ok());
    proxy_.emplace(port, plan);
    server_->connection = meet(*client_, *server_, local_address(proxy_->port()));
    ASSERT_NE(server_->connection, nullptr);
    ASSERT_EQ(streams(*client_), options.streams - lost);
    ASSERT_TRUE(pump({&*server_, &*client_}, [&] { return streams(*server_) == options.streams - lost; }));
  }
  static std::size_t streams(const Node& node) {
    return static_cast<tcp::TcpConnection&>(*node.connection).streams();
  }
  ~TcpStreamsTest() override {
    client_.reset();
    server_.reset();
  }

  std::optional<FaultProxy> proxy_;
};

INSTANTIATE_TEST_SUITE_P(Each, TcpStreamsTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Encrypted" : "Plain"; });

/// Whichever stream is late, each request finds what those before it have left, and nothing of those behind
/// it.
TEST_P(TcpStreamsTest, OrderIsKeptWhenOneStreamIsLate) {
  constexpr std::size_t kBytes = 20'000;
  for (std::size_t late = 0; late <= kStreams; ++late) {
    SCOPED_TRACE(fmt::format("connection {} is late", late));
    client_.reset();
    server_.reset();
    connect_through({.late = late, .late_by = milliseconds(2)}, {.long_bytes = 256});
    auto shelf = server_->region(kBytes, Access::kRemoteRead);
    auto drop = server_->region(kBytes, Access::kRemoteWrite);
    const RemoteDescriptor target = *server_->connection->grant(*drop);
    const RemoteDescriptor source = *server_->connection->grant(*shelf);
    auto from = client_->region(kBytes * 40, Access::kLocal);
    auto to = client_->region(kBytes, Access::kLocal);
    // All of one write, a short one over its last word, and its notification; a read between them.
    for (std::uint32_t round = 1; round <= 40; ++round) {
      const auto bytes = from->bytes().subspan(kBytes * (round - 1), kBytes);
      std::ranges::fill(bytes, static_cast<std::byte>(round));
      const WorkRequest whole = {
          .opcode = Opcode::kWrite, .local = bytes, .region = from.get(), .remote = target};
      const WorkRequest word = {.opcode = Opcode::kWriteNotify,
                                .notification = round,
                                .local = bytes.first(8),
                                .region = from.get(),
                                .remote = target.slice(kBytes - 8, 8)};
      const WorkRequest read = {.opcode = Opcode::kRead,
                                .signaled = true,
                                .id = round,
                                .local = to->bytes(),
                                .region = to.get(),
                                .remote = source};
      const std::array<WorkRequest, 3> all = {whole, word, read};
      std::span<const WorkRequest> rest = all;
      ASSERT_TRUE(pump({&*client_, &*server_}, [&] {
        rest = rest.subspan(client_->connection->post(rest));
        return rest.empty();
      }));
      if (round % 4 != 0) continue;  // some of them are under way together
      ASSERT_TRUE(pump({&*server_, &*client_}, [&] {
        return server_->count(Kind::kNotification) == round && client_->count(Kind::kCompletion) == round;
      }));
      EXPECT_EQ(server_->of(Kind::kNotification).back().event.notification, round);
      for (const std::byte each : drop->bytes()) ASSERT_EQ(each, static_cast<std::byte>(round));
    }
  }
}

TEST_P(TcpStreamsTest, WhatIsLongIsSpreadOverAll) {
  // No connection takes all of it at once.
  connect_through({.bytes_per_second = 20e6}, {.long_bytes = 4096});
  constexpr std::size_t kBytes = std::size_t{6} << 20;
  auto drop = server_->region(kBytes, Access::kRemoteWrite);
  auto shelf = server_->region(kBytes, Access::kRemoteRead);
  auto from = client_->region(kBytes, Access::kLocal);
  for (std::size_t at = 0; at < kBytes; at += 8) {
    put_at<std::uint64_t>(from->bytes(), at, at);
    put_at<std::uint64_t>(shelf->bytes(), at, ~at);
  }
  const WorkRequest write = {.opcode = Opcode::kWriteNotify,
                             .signaled = true,
                             .local = from->bytes(),
                             .region = from.get(),
                             .remote = *server_->connection->grant(*drop)};
  std::array<std::uint64_t, kStreams> before{};
  // How the streams have shared what has come since the last call; the first connection is none of them.
  const auto expect_shared = [&] {
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const std::uint64_t carried = proxy_->carried(1 + stream);
      EXPECT_GT(carried - before[stream], kBytes / (4 * kStreams)) << "stream " << stream;
      before[stream] = carried;
    }
    EXPECT_LT(proxy_->carried(0), kBytes / 16) << "only headers";
  };
  ASSERT_EQ(client_->connection->post({&write, 1}), 1U);
  ASSERT_TRUE(pump({&*client_, &*server_}, [&] { return server_->count(Kind::kNotification) == 1; }));
  expect_shared();
  auto to = client_->region(kBytes, Access::kLocal);
  client_->seen.clear();
  const WorkRequest read = {.opcode = Opcode::kRead,
                            .signaled = true,
                            .local = to->bytes(),
                            .region = to.get(),
                            .remote = *server_->connection->grant(*shelf)};
  ASSERT_TRUE(pump({&*client_, &*server_}, [&] { return client_->connection->post({&read, 1}) == 1; }));
  ASSERT_TRUE(pump({&*client_, &*server_}, [&] { return client_->count(Kind::kCompletion) == 1; }));
  expect_shared();
  for (std::size_t at = 0; at < kBytes; at += 8) {
    ASSERT_EQ(value_at<std::uint64_t>(drop->bytes(), at), at);
    ASSERT_EQ(value_at<std::uint64_t>(to->bytes(), at), ~at);
  }
}

TEST_P(TcpStreamsTest, WhenOneStreamBreaksTheConnectionEndsOnce) {
  for (const FaultProxy::Fault fault : {FaultProxy::Fault::kCut, FaultProxy::Fault::kHalfClose}) {
    for (std::size_t broken = 0; broken <= kStreams; ++broken) {
      SCOPED_TRACE(fmt::format("connection {} breaks", broken));
      client_.reset();
      server_.reset();
      connect_through({});
      pump_for({&*client_, &*server_}, milliseconds(20));
      proxy_->spoil(broken, fault);
      ASSERT_TRUE(pump({&*client_, &*server_}, [&] {
        return client_->count(Kind::kDisconnected) == 1 && server_->count(Kind::kDisconnected) == 1;
      }));
      const absl::Status both =
          absl::UnavailableError(fmt::format("{}; {}", std::string(client_->connection->status().message()),
                                             std::string(server_->connection->status().message())));
      EXPECT_FALSE(client_->connection->status().ok());
      EXPECT_FALSE(server_->connection->status().ok());
      if (broken > 0) {
        EXPECT_THAT(std::string(both.message()), HasSubstr("one of its streams"));
      }
      pump_for({&*client_, &*server_}, milliseconds(20));
      EXPECT_EQ(client_->count(Kind::kDisconnected), 1U);
    }
  }
}

/// As where a firewall knows the first flow, and drops what comes from another one.
TEST_P(TcpStreamsTest, AStreamThatIsSwallowedIsDoneWithout) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  // From the beginning, in the middle of the meeting, or in the handshake of TLS. A plain stream is used when
  // they have met.
  std::vector<std::size_t> places = {0, sizeof(tcp::Greeting) + sizeof(tcp::Challenge)};
  if (GetParam()) places.push_back(places.back() + sizeof(tcp::Introduction) + sizeof(tcp::Welcome));
  for (const std::size_t after : places) {
    SCOPED_TRACE(fmt::format("after {} bytes", after));
    client_.reset();
    server_.reset();
    const auto start = std::chrono::steady_clock::now();
    connect_through({.swallowed = 2, .swallowed_after = after}, {.long_bytes = 4096}, 1);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience / 2)
        << "it does not wait until its deadline";
    auto drop = server_->region(kBytes, Access::kRemoteWrite);
    auto from = client_->region(kBytes, Access::kLocal);
    std::ranges::fill(from->bytes(), std::byte{5});
    const WorkRequest write = {.opcode = Opcode::kWriteNotify,
                               .local = from->bytes(),
                               .region = from.get(),
                               .remote = *server_->connection->grant(*drop)};
    ASSERT_EQ(client_->connection->post({&write, 1}), 1U);
    ASSERT_TRUE(pump({&*client_, &*server_}, [&] { return server_->count(Kind::kNotification) == 1; }));
    EXPECT_EQ(drop->bytes().back(), std::byte{5});
    EXPECT_LT(proxy_->carried(0), kBytes / 2) << "the other streams carry what is long";
  }
}

TEST_P(TcpStreamsTest, WhatWasPostedBeforeClosingStillArrives) {
  connect_through({.late = 2, .late_by = milliseconds(5)}, {.long_bytes = 256});
  constexpr std::size_t kBytes = 100'000;
  auto drop = server_->region(kBytes, Access::kRemoteWrite);
  auto from = client_->region(kBytes, Access::kLocal);
  std::ranges::fill(from->bytes(), std::byte{3});
  const WorkRequest write = {.opcode = Opcode::kWriteNotify,
                             .local = from->bytes(),
                             .region = from.get(),
                             .remote = *server_->connection->grant(*drop)};
  ASSERT_EQ(client_->connection->post({&write, 1}), 1U);
  client_->connection.reset();
  ASSERT_TRUE(pump({&*client_, &*server_}, [&] { return server_->count(Kind::kDisconnected) == 1; }));
  EXPECT_EQ(server_->count(Kind::kNotification), 1U);
  for (const std::byte each : drop->bytes()) ASSERT_EQ(each, std::byte{3});
}

TEST_F(TcpTest, WithinAHostThereIsOneStreamAndBetweenHostsThereAreMoreForMuch) {
  for (const bool is_between_hosts : {false, true}) {
    server_.emplace(tcp_node());
    client_.emplace(tcp_node());
    // The other end's address is not the own one, as it is between hosts.
    const std::string address =
        fmt::format("tcp:127.0.0.{}:{}", is_between_hosts ? 2 : 1, testing::free_port());
    ASSERT_TRUE(server_->transport->listen(address).ok());
    server_->connection = meet(*client_, *server_, address);
    ASSERT_NE(server_->connection, nullptr);
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    auto drop = server_->region(kBytes, Access::kRemoteWrite);
    auto from = client_->region(kBytes, Access::kLocal);
    WorkRequest write = request(Opcode::kWrite, *from, *server_->connection->grant(*drop), kBytes);
    auto& connection = static_cast<tcp::TcpConnection&>(*client_->connection);
    pump_for({&*client_, &*server_}, milliseconds(300));
    EXPECT_EQ(connection.streams(), 1U) << "nothing was long";
    for (std::size_t i = 1; i <= 8; ++i) {
      ASSERT_EQ(client_->connection->post({&write, 1}), 1U);
      ASSERT_TRUE(pump({&*client_, &*server_}, [&] { return client_->count(Kind::kCompletion) == i; }));
    }
    if (is_between_hosts) {
      EXPECT_TRUE(pump({&*client_, &*server_}, [&] { return connection.streams() == 4; }));
    } else {
      pump_for({&*client_, &*server_}, milliseconds(500));
      EXPECT_EQ(connection.streams(), 1U);
    }
  }
}

TEST_F(TcpTest, FewDescriptorsAreForConnections) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit few{.rlim_cur = 128, .rlim_max = files.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<base::FileDescriptor> open;
  do {
    open.emplace_back(::dup(0));
    ASSERT_TRUE(open.back().valid());
  } while (open.back().get() < 60);
  connect({.streams = 3});
  EXPECT_EQ(static_cast<tcp::TcpConnection&>(*client_->connection).streams(), 1U);
  EXPECT_TRUE(client_->connection->status().ok());
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// ---- streams by themselves

/// Connections and streams of a test's own, on which no other thread works.
class TcpStreamsAloneTest : public ::testing::Test {
 protected:
  struct User final : tcp::StreamsUser {
    absl::Status take_bulk(const tcp::Frame&, std::uint64_t, std::span<const std::byte>) override {
      return {};
    }
    void on_stream_ready() override {}
    void on_stream_failed(const absl::Status& why) override { failure = why; }
    void on_streams_opened() override { ++times_opened; }
    absl::Status failure;
    int times_opened = 0;
  };

  const TcpOptions options_ = {};
  std::vector<std::byte> buffer_ = std::vector<std::byte>(65536);
  tcp::Hub hub_{.options = options_, .tls = nullptr, .sockets = *tcp::Sockets::create(), .buffer = buffer_};
};

TEST_F(TcpStreamsAloneTest, OneThatNobodyAnswersIsAwaitedForAWhile) {
  const auto place = resolve({.host = "127.0.0.1", .port = 0}, "127.0.0.1");
  const auto deaf = tcp::listen_at(*place, "127.0.0.1");
  ASSERT_TRUE(deaf.ok()) << deaf.status();
  const auto there = resolve({.host = "127.0.0.1", .port = tcp::port_of(*deaf)}, "127.0.0.1");
  User user;
  tcp::FurtherStreams streams(hub_, user);
  streams.open(*there, *fresh_nonce(), 2);
  const TimePoint now = tcp::clock_now();
  for (int i = 0; i < 100; ++i) hub_.sockets.check();
  EXPECT_TRUE(streams.check(now + std::chrono::seconds(5)).ok());
  EXPECT_TRUE(streams.is_opening());
  EXPECT_TRUE(streams.check(now + std::chrono::seconds(60)).ok());
  EXPECT_FALSE(streams.is_opening());
  EXPECT_EQ(user.times_opened, 1);
  EXPECT_EQ(streams.count(), 0U);
  streams.close();
}

TEST_F(TcpStreamsAloneTest, OneThatCannotBeWatchedDoesNotEndTheConnection) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  const base::FileDescriptor other(ends[1]);
  tcp::TcpConnection connection(hub_, tcp::Channel(base::FileDescriptor(ends[0])), {.peer = "somebody"});
  connection.take();
  // As where the system has no room for one more file to be watched.
  connection.add_stream(tcp::Channel(base::FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))));
  connection.tick();
  EXPECT_TRUE(hub_.ready.empty()) << "it has not ended";
  EXPECT_TRUE(connection.check_one_more_stream().ok());
  EXPECT_EQ(connection.streams(), 1U);
}

}  // namespace
}  // namespace verbena::transport
