// One direction of a connection: a ring of events in shared memory, with one sender and one receiver.
//
// An event is one 8-byte word, written by one store: the lap of the ring that it belongs to, its kind, and
// the notification or the length of the message. So the receiver looks at a single cache line, and it takes a
// word for a new one only if the lap says so. A message's bytes lie in a slot of their own.
//
// Orderings:
//   event words   stored by the sender and looked at by the receiver sequentially consistent. As release and
//                 acquire they make all that the sender wrote before visible to who has seen the event; the
//                 rest is what the handshake of the doorbell needs (doorbell.hpp).
//   consumed      stored by the receiver when it is done with the slots, read (acquire) by the sender before
//                 it writes them again.
//   blocked       the same handshake the other way: a sender that found the ring full sets it and then looks
//                 at `consumed` again; the receiver stores `consumed` and then looks at it. Only the sender
//                 clears it, when it has found room: a receiver that did could clear what the sender has set
//                 after it saw that very `consumed`, with the ring full once more, and nobody would wake it.
//
// The peer can write anything anywhere here at any time. Positions are therefore kept in private memory,
// what is read is checked, and messages are copied out before anyone looks at them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::transport::shm {

struct ChannelGeometry {
  std::uint32_t event_capacity = 0;  ///< a power of two
  std::uint32_t message_capacity = 0;
  std::uint32_t max_message_bytes = 0;

  [[nodiscard]] std::size_t bytes() const;
  bool operator==(const ChannelGeometry&) const = default;
};

enum class EventKind : std::uint16_t { kNotification = 1, kMessage = 2 };

/// The parts of a channel in the shared memory that begins at `memory` (zeroed, page-aligned).
class ChannelLayout {
 public:
  using Word = std::atomic<std::uint64_t>;
  static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::uint64_t));

  // Written by the receiver, except `blocked`, which the sender writes; on a cache line of their own.
  struct alignas(64) Credits {
    Word consumed_events;
    Word consumed_messages;
    Word blocked;
  };

  ChannelLayout(std::byte* memory, const ChannelGeometry& geometry) : memory_(memory), geometry_(geometry) {}

  [[nodiscard]] Credits& credits() const { return *reinterpret_cast<Credits*>(memory_); }
  [[nodiscard]] Word& event(std::uint64_t position) const {
    const std::uint64_t index = position & (geometry_.event_capacity - 1);
    return *reinterpret_cast<Word*>(memory_ + sizeof(Credits) + index * sizeof(Word));
  }
  [[nodiscard]] std::byte* message(std::uint64_t position) const;
  [[nodiscard]] const ChannelGeometry& geometry() const { return geometry_; }

  /// The word of an event at `position`. A slot's word of one lap differs from its word of the lap before,
  /// and the sender is never more than one lap ahead.
  [[nodiscard]] std::uint64_t encode(std::uint64_t position, EventKind kind, std::uint32_t value) const;
  [[nodiscard]] bool is_of_lap(std::uint64_t word, std::uint64_t position) const {
    return word >> 48 == lap(position);
  }

 private:
  [[nodiscard]] std::uint64_t lap(std::uint64_t position) const {
    return (position / geometry_.event_capacity + 1) & 0xffff;
  }

  std::byte* memory_;
  ChannelGeometry geometry_;
};

enum class SendOutcome : std::uint8_t {
  kRoom,
  kFull,     ///< the receiver will ring when there is room again
  kCorrupt,  ///< the peer wrote impossible credits
};

class ChannelSender {
 public:
  explicit ChannelSender(ChannelLayout layout) : layout_(layout) {}

  /// Can the next event, a message or a notification, be sent?
  SendOutcome room(bool for_message);
  /// REQUIRES: room(false) was kRoom.
  void notify(std::uint32_t value) { publish(EventKind::kNotification, value); }
  /// REQUIRES: room(true) was kRoom and the message has at most max_message_bytes.
  void message(std::span<const std::byte> message);
  /// True once after room() was kFull, if something has been consumed since then.
  bool take_unblocked();

 private:
  void publish(EventKind kind, std::uint32_t value);
  void unsay_blocked();
  bool read_credits();
  [[nodiscard]] bool full(bool for_message) const;

  ChannelLayout layout_;
  std::uint64_t sent_events_ = 0;
  std::uint64_t sent_messages_ = 0;
  std::uint64_t consumed_events_ = 0;    ///< as read last
  std::uint64_t consumed_messages_ = 0;  ///< as read last
  bool blocked_ = false;                 ///< the last room() was kFull
  bool has_said_blocked_ = false;        ///< set in shared memory
};

enum class ReceiveOutcome : std::uint8_t {
  kNothing,
  kNotification,
  kMessage,
  kNoSpace,  ///< the message is longer than the space offered; it stays in the channel
  kCorrupt,
};

class ChannelReceiver {
 public:
  explicit ChannelReceiver(ChannelLayout layout) : layout_(layout) {}

  [[nodiscard]] bool pending() const {
    return layout_.is_of_lap(layout_.event(events_).load(std::memory_order_seq_cst), events_);
  }
  /// Takes the next event; `value` is the notification or the length of the message copied to `space`.
  ReceiveOutcome receive(std::span<std::byte> space, std::uint32_t& value);
  /// Returns the slots to the sender. True if the sender waits for them and must be woken.
  bool release();

 private:
  ChannelLayout layout_;
  std::uint64_t events_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t released_events_ = 0;
  std::uint64_t released_messages_ = 0;
};

}  // namespace verbena::transport::shm
