// The way of a connection's events to the owner of the transport: to the next poll(), or, as long as the
// owner has not taken the connection, aside. Their order is kept.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "transport/verbs/hub.hpp"

namespace verbena::transport::verbs {

class EventGate {
 public:
  /// `ready`: the events of the next poll(). It outlives the gate.
  explicit EventGate(std::deque<Hub::Pending>& ready) : ready_(ready) {}

  /// `receive` holds what the event points to, until the owner has seen it.
  void raise(const Event& event, std::optional<std::uint32_t> receive = std::nullopt) {
    (open_ ? ready_ : held_).push_back({event, receive});
  }
  /// The owner has the connection.
  void open() {
    open_ = true;
    for (const Hub::Pending& pending : held_) ready_.push_back(pending);
    held_.clear();
  }

 private:
  std::deque<Hub::Pending>& ready_;
  std::deque<Hub::Pending> held_;
  bool open_ = false;
};

}  // namespace verbena::transport::verbs
