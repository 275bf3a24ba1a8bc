// A server that is played by a test, message by message.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "protocol/messages.hpp"
#include "tests/cluster/peer.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/transport.hpp"

namespace verbena::testing {

class Impostor {
 public:
  Impostor() {
    static int number = 0;
    address_ = fmt::format("shm:impostor-{}-{}", ::getpid(), ++number);
    transport_ = std::move(*transport::make_shm_transport());
    EXPECT_TRUE(transport_->listen(address_).ok());
  }
  [[nodiscard]] const std::string& address() const { return address_; }
  /// Waits until a worker has connected and said hello.
  Peer& accept() {
    std::unique_ptr<transport::Connection> accepted;
    std::array<transport::Event, 16> events;
    while (accepted == nullptr) {
      static_cast<void>(transport_->poll(std::span(events).first(1)));
      accepted = transport_->take_accepted();
    }
    peer_.emplace(*transport_, std::move(accepted));
    const auto hello = peer_->hear<protocol::Hello>();
    peer_->set_ring(hello.push_ring);
    peer_->set_credit(hello.inbox_credit);
    return *peer_;
  }

 private:
  std::string address_;
  std::unique_ptr<transport::Transport> transport_;
  std::optional<Peer> peer_;
};

}  // namespace verbena::testing
