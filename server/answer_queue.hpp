// The answers about dynamic tables that one worker waits for, on their way to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "protocol/messages.hpp"

namespace verbena::server {

/// Answers leave in the order in which they came. Those that gather while the connection takes none travel
/// together. Thread safety: none; belongs to its server.
class AnswerQueue {
 public:
  /// The worker will get `more` answers. INVALID_ARGUMENT if it waits for too many already.
  absl::Status expect(std::size_t more);

  void add(std::uint32_t table, const protocol::KeyAnswers::Answer& answer) {
    waiting_.emplace_back(KeyAnswer{table, answer});
  }
  void add(std::variant<protocol::PushAnswer, protocol::InstallAnswer> answer);

  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// Takes as many answers off the queue as fit into one message. nullopt: there are none.
  std::optional<protocol::ControlMessage> take_message();
  void clear() { waiting_.clear(); }

 private:
  struct KeyAnswer {
    std::uint32_t table = 0;
    protocol::KeyAnswers::Answer answer;
  };
  std::deque<std::variant<KeyAnswer, protocol::PushAnswer, protocol::InstallAnswer>> waiting_;
  std::size_t expected_ = 0;  ///< all that the worker waits for, also those that are not known yet
};

}  // namespace verbena::server
