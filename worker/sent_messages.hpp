// What a worker has said to one server, and what that, or with copies not all of them, are known to have: it
// is said again over another connection, or to the copy that takes the server's place (server/log.hpp).
// Messages stay where they were sent from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "protocol/messages.hpp"
#include "transport/transport.hpp"
#include "worker/local_memory.hpp"

namespace verbena::worker {

/// A bulk message on its way, in registered memory that stays as it is until it is known to be applied or
/// answered, or in a slot of SentMessages.
struct KeptMessage {
  std::span<const std::byte> bytes;
  const transport::MemoryRegion* region = nullptr;
  bool stays = false;             ///< the server is only told where it lies
  std::optional<LocalSpan> slot;  ///< of the message itself, or of what tells where it lies
  std::uint64_t end = 0;          ///< in the server's ring
};

/// Thread safety: none; belongs to its link. Invariant: messages() have been sent since the job began, and
/// those that are kept are the last of them.
class SentMessages {
 public:
  static constexpr std::size_t kSlotBytes = 128;

  explicit SentMessages(LocalMemory& memory) : memory_(memory) {}

  /// For a small message. RESOURCE_EXHAUSTED.
  absl::StatusOr<LocalSpan> take_slot();
  /// For one that was not sent after all.
  void give_slot(LocalSpan slot) { free_.push_back(slot); }

  /// It has been sent, and is to be kept.
  void add(const KeptMessage& message);
  /// The server has released its ring up to this position: all copies have what was in it.
  void forget_up_to(std::uint64_t position);

  /// The copy that takes over has the first `messages`. OUT_OF_RANGE: of those that are gone here it lacks
  /// some, or it has more than there were.
  absl::Status begin_again(std::uint64_t messages);
  /// The next one to be said again; nullptr: all are.
  [[nodiscard]] KeptMessage* next_again() { return again_ == kept_.size() ? nullptr : &kept_[again_]; }
  /// That has been said.
  void said_again() { ++again_; }

  [[nodiscard]] std::uint64_t messages() const { return messages_; }

 private:
  void drop_first();

  LocalMemory& memory_;
  std::deque<KeptMessage> kept_;
  std::uint64_t messages_ = 0;
  std::size_t again_ = 0;  ///< so many of kept_ are in the server's ring
  std::vector<LocalSpan> free_;
};

}  // namespace verbena::worker
