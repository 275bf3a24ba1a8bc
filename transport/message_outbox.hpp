// Messages to one peer that wait until its connection takes them.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>

#include "transport/transport.hpp"

namespace verbena::transport {

/// A connection may take nothing for a while: its queue is full, it is not established yet, a region is being
/// granted. Thread safety: none; one owner.
class MessageOutbox {
 public:
  /// If so many messages wait, the peer does not listen.
  static constexpr std::size_t kMostWaiting = 256;

  /// Posts the message now or at a later flush(), in order. False: too many wait.
  [[nodiscard]] bool send(Connection& connection, std::string message) {
    waiting_.push_back(std::move(message));
    flush(connection);
    return waiting_.size() <= kMostWaiting;
  }
  /// Call it again and again. After a connection has failed, nothing more is sent; an event reports its end.
  void flush(Connection& connection) {
    while (!waiting_.empty()) {
      const WorkRequest request{.opcode = Opcode::kSend,
                                .local = std::as_writable_bytes(std::span(waiting_.front()))};
      if (connection.post({&request, 1}) == 0) return;
      waiting_.pop_front();
    }
  }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  std::deque<std::string> waiting_;
};

}  // namespace verbena::transport
