// What tests of the TCP transport share: two ends that have met, and peers that speak byte by byte.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "base/file_descriptor.hpp"
#include "tests/free_port.hpp"
#include "tests/transport/backend.hpp"
#include "transport/socket_address.hpp"
#include "transport/tcp/frame.hpp"
#include "transport/tcp/introduction.hpp"
#include "transport/tcp/socket.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace verbena::transport {

inline std::string local_address(std::uint16_t port) {
  return fmt::format("tcp:127.0.0.1:{}", port);
}

/// With a new secret.
inline TcpOptions encrypting() {
  return {.secret = *Secret::random(), .tls = true};
}
inline Node tcp_node(const TcpOptions& options = {}) {
  return Node(std::move(*make_tcp_transport(options)));
}

/// A client and a server that have met.
class TcpTest : public ::testing::Test {
 protected:
  void connect(const TcpOptions& options = {}) {
    server_.emplace(tcp_node(options));
    client_.emplace(tcp_node(options));
    const std::string address = local_address(testing::free_port());
    ASSERT_TRUE(server_->transport->listen(address).ok());
    server_->connection = meet(*client_, *server_, address);
    ASSERT_NE(server_->connection, nullptr);
  }
  WorkRequest request(Opcode opcode, const MemoryRegion& local, const RemoteDescriptor& remote,
                      std::size_t bytes) const {
    return {.opcode = opcode,
            .signaled = true,
            .local = local.bytes().first(bytes),
            .region = &local,
            .remote = remote};
  }

  std::optional<Node> server_;
  std::optional<Node> client_;
};

/// Speaks to a listener byte by byte, as no transport would.
class RawPeer {
 public:
  explicit RawPeer(std::uint16_t port) {
    const auto place = resolve({.host = "127.0.0.1", .port = port}, "127.0.0.1");
    socket_ = tcp::begin_to_connect(*place);
    pollfd file = {.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    ::poll(&file, 1, 10'000);
  }
  void say(std::span<const std::byte> words) const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!words.empty() && std::chrono::steady_clock::now() < end) {
      const std::ptrdiff_t sent = tcp::send(socket_.get(), words);
      if (sent < 0 && sent != -EAGAIN) return;  // the listener has hung up
      if (sent > 0) words = words.subspan(static_cast<std::size_t>(sent));
    }
  }
  template <class Words>
  requires(std::is_trivially_copyable_v<Words>) void say(const Words& words) const {
    say(tcp::bytes_said(words));
  }
  /// False: the listener has hung up before it said so much.
  bool hear(std::span<std::byte> words) const {
    while (!words.empty()) {
      pollfd file = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&file, 1, 10'000) <= 0) return false;
      const std::ptrdiff_t count = tcp::receive(socket_.get(), words);
      if (count == 0 || (count < 0 && count != -EAGAIN)) return false;
      if (count > 0) words = words.subspan(static_cast<std::size_t>(count));
    }
    return true;
  }
  /// `joins`: of which connection it is to be a stream. False: the listener has hung up.
  bool introduce_itself(const Secret* secret = nullptr, const tcp::ConnectionId& joins = tcp::kNoConnection) {
    const tcp::Greeting greeting{
        .max_message_bytes = TcpOptions().max_message_bytes, .credits = 1024, .joins = joins};
    tcp::Challenge challenge;
    say(greeting);
    if (!hear(tcp::room_for(challenge))) return false;
    id_ = challenge.nonce;
    tcp::Introduction introduction;
    sign(introduction, greeting, challenge, secret);
    say(introduction);
    tcp::Welcome welcome;
    return hear(tcp::room_for(welcome)) && welcome.is_welcome == 1;
  }
  /// Of the connection that it has.
  [[nodiscard]] const tcp::ConnectionId& id() const { return id_; }
  void hang_up() { socket_.reset(); }
  /// The listener has hung up, or does it soon.
  [[nodiscard]] bool is_sent_away() const {
    pollfd file = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
    std::array<std::byte, 1> word{};
    if (::poll(&file, 1, 5'000) <= 0) return false;
    const std::ptrdiff_t count = tcp::receive(socket_.get(), word);
    return count == 0 || (count < 0 && count != -EAGAIN);
  }

 private:
  base::FileDescriptor socket_;
  tcp::ConnectionId id_{};
};

class TcpStrangerTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.transport->listen(local_address(port_)).ok()); }
  /// The listener has hung up, and nobody was let in.
  void expect_refused(const RawPeer& peer) {
    std::array<std::byte, 1> more{};
    auto listening = std::async(std::launch::async, [&] { return peer.hear(more); });
    pump({&server_},
         [&] { return listening.wait_for(std::chrono::milliseconds(0)) == std::future_status::ready; });
    EXPECT_FALSE(listening.get());
    EXPECT_EQ(server_.count(Event::Kind::kAccepted), 0U);
  }

  const std::uint16_t port_ = testing::free_port();
  const std::shared_ptr<const Secret> secret_ = *Secret::random();
  Node server_ = tcp_node({.secret = secret_});
};

class TcpHostilePeerTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4096;

  void SetUp() override {
    ASSERT_TRUE(server_.transport->listen(local_address(port_)).ok());
    friends_end_ = meet(friend_, server_, local_address(port_));
    ASSERT_NE(friends_end_, nullptr);
    server_.seen.clear();
    secret_ = server_.region(kBytes, Access::kRemoteRead);
    untouched_ = server_.region(kBytes, Access::kRemoteWrite);
    std::ranges::fill(secret_->bytes(), std::byte{7});
    ASSERT_TRUE(friends_end_->grant(*secret_).ok());
    ASSERT_TRUE(friends_end_->grant(*untouched_).ok());
  }
  /// Lets a raw peer in, which is granted two regions of its own.
  RawPeer let_in() {
    const std::size_t before = server_.accepted.size();
    RawPeer peer(port_);
    auto introducing = std::async(std::launch::async, [&] { return peer.introduce_itself(); });
    pump({&server_}, [&] { return server_.accepted.size() > before; });
    EXPECT_TRUE(introducing.get());
    server_.connection = std::move(server_.accepted.back());
    server_.accepted.pop_back();
    server_.seen.clear();
    readable_ = server_.region(kBytes, Access::kRemoteRead);
    writable_ = server_.region(kBytes, Access::kRemoteWrite);
    read_key_ = *server_.connection->grant(*readable_);
    write_key_ = *server_.connection->grant(*writable_);
    return peer;
  }
  /// This connection has ended, and nothing else has happened.
  void expect_only_its_end() {
    ASSERT_TRUE(pump({&server_}, [&] { return server_.count(Event::Kind::kDisconnected) == 1; }));
    EXPECT_EQ(server_.of(Event::Kind::kDisconnected)[0].event.connection, server_.connection.get());
    EXPECT_FALSE(server_.connection->status().ok());
    EXPECT_TRUE(
        std::ranges::all_of(untouched_->bytes(), [](std::byte each) { return each == std::byte{0}; }));
    EXPECT_TRUE(friends_end_->status().ok());
  }
  absl::Status status_after(const tcp::Frame& frame) {
    const RawPeer peer = let_in();
    peer.say(frame);
    expect_only_its_end();
    return server_.connection->status();
  }

  const std::uint16_t port_ = testing::free_port();
  Node server_ = tcp_node();
  Node friend_ = tcp_node();
  std::unique_ptr<Connection> friends_end_;
  std::unique_ptr<MemoryRegion> secret_, untouched_, readable_, writable_;
  RemoteDescriptor read_key_, write_key_;
};

}  // namespace verbena::transport
