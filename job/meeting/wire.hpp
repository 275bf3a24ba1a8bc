// A connection between two processes at a rendezvous. Thread safety: none; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "job/line_stream.hpp"
#include "transport/message_outbox.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// What one process has to say to another, in messages, and what it hears from it, in lines.
class Wire {
 public:
  static constexpr std::uint32_t kMessageBytes = 65536;
  /// Of what one process says, and of what all do between two fences.
  static constexpr std::size_t kMostHeldBytes = std::size_t{16} << 20;

  explicit Wire(std::unique_ptr<transport::Connection> connection) : connection_(std::move(connection)) {}

  /// Sends it now, or at a later flush(). After the connection has ended nothing is sent, and it is no error.
  void say(std::string_view words);
  void flush() { outbox_.flush(*connection_); }
  [[nodiscard]] bool has_said_all() const { return outbox_.empty() || !connection_->status().ok(); }
  /// False: it has sent too long a line.
  [[nodiscard]] bool hear(std::span<const std::byte> message,
                          const std::function<void(std::string_view line)>& take);

  [[nodiscard]] bool uses(const transport::Connection* connection) const {
    return connection_.get() == connection;
  }
  [[nodiscard]] std::string peer_name() const { return connection_->peer_name(); }
  /// When it has ended, for people.
  [[nodiscard]] std::string how_it_ended() const;

 private:
  std::unique_ptr<transport::Connection> connection_;
  transport::MessageOutbox outbox_;
  LineStream lines_;
};

}  // namespace verbena::job
