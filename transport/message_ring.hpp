// A one-directional ring of messages of any size, written by one-sided writes into the receiver's memory.
//
// A message is one kWriteNotify; its notification is the message's length in bytes. Both sides count
// positions in bytes from 0 on: a message starts at a multiple of 8 and never wraps, so one that does not fit
// before the ring's end starts at the ring's start, and the skipped bytes count like the message's bytes.
// Notification 0 is no message: it says that the peer has just written its credit, for the ring of the other
// direction: two positions, up to which it has released everything, and up to which it has acknowledged
// everything. What is released is acknowledged, and its place is free. What is acknowledged and not released
// still lies in the ring: the receiver has it, and its sender may go by that.
//
// A pair of processes usually has a ring in each direction on one connection; every notification of the
// connection then goes to its RingReceiver, every completion to its RingSender.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::transport {

constexpr std::size_t kMinRingBytes = 64;
constexpr std::size_t kMaxRingBytes = std::size_t{1} << 30;
/// Of a sender's, where the receiver writes its credit.
constexpr std::size_t kRingCreditBytes = 2 * sizeof(std::uint64_t);

/// The largest message of a ring. A message of this size and the bytes that it may have to skip are at most
/// half of the ring, and the receiver holds back less than a quarter as credit. So there will be room,
/// whatever was sent before.
constexpr std::size_t max_ring_message_bytes(std::size_t ring_bytes) {
  return ring_bytes / 4 / 8 * 8;
}

/// REQUIRES: the connection and the transport outlive it.
class RingReceiver {
 public:
  /// `bytes` are rounded up to a multiple of 8. INVALID_ARGUMENT unless kMinRingBytes ≤ bytes ≤
  /// kMaxRingBytes.
  static absl::StatusOr<std::unique_ptr<RingReceiver>> create(Transport& transport, Connection& connection,
                                                              std::size_t bytes);

  /// The ring, for the sender's set_ring().
  [[nodiscard]] const RemoteDescriptor& descriptor() const { return descriptor_; }
  [[nodiscard]] std::size_t capacity_bytes() const { return descriptor_.length_bytes; }

  /// Takes the sender's credit_descriptor(). Call it before the first message can arrive.
  void set_credit(const RemoteDescriptor& credit) { remote_credit_ = credit; }

  /// Returns the message, valid until it is released; empty for notification 0, which means that the peer has
  /// written its credit. INVALID_ARGUMENT if the peer breaks the rules; nothing more can be received then.
  absl::StatusOr<std::span<const std::byte>> on_notification(std::uint32_t notification);

  /// Releases the oldest message not released yet. REQUIRES: there is one.
  void release();
  /// Acknowledges all messages but the newest ones, so many of them. Those that are acknowledged stay so.
  void acknowledge_all_but(std::uint64_t newest);

  /// Tells the sender what has been released, if that is at least a quarter of the ring. release() calls it.
  /// If it returns false, the connection takes nothing at the moment: call it again after polling.
  bool return_credit() { return return_credit(capacity_bytes() / 4); }
  /// If anything has been acknowledged since, however little: tells the sender that, and what has been
  /// released. Returns as above.
  bool return_acknowledgements();

 private:
  /// The words of a credit stay untouched until the sender must have seen them, if each credit is a quarter
  /// of the ring after the one before: four credits later the sender has used it. With smaller ones words may
  /// change before they are sent; the sender then hears of later positions first, which are true, too, and of
  /// earlier ones after them, which it passes over.
  static constexpr std::size_t kCredits = 8;

  RingReceiver(Connection& connection, std::unique_ptr<MemoryRegion> ring,
               std::unique_ptr<MemoryRegion> credit_words, const RemoteDescriptor& descriptor);

  bool return_credit(std::uint64_t least_bytes);
  bool tell();

  Connection& connection_;
  std::unique_ptr<MemoryRegion> ring_;
  std::unique_ptr<MemoryRegion> credit_words_;
  std::size_t next_credit_ = 0;
  RemoteDescriptor descriptor_;
  RemoteDescriptor remote_credit_;
  std::uint64_t received_ = 0;      ///< position after the newest message
  std::uint64_t released_ = 0;      ///< everything before it is released
  std::uint64_t acknowledged_ = 0;  ///< everything before it is acknowledged
  // The positions that the sender was told.
  std::uint64_t credited_ = 0;
  std::uint64_t acknowledged_told_ = 0;
  std::deque<std::uint64_t> ends_;  ///< positions after the messages not released yet
};

enum class SendResult : std::uint8_t {
  kSent,
  kNoCredit,  ///< no room in the ring or in the connection's queue, or no ring yet: poll, then try again
  kFailed,    ///< cannot be sent, now or later: see status() and the connection's status()
};

/// REQUIRES: the connection and the transport outlive it.
class RingSender {
 public:
  static absl::StatusOr<std::unique_ptr<RingSender>> create(Transport& transport, Connection& connection);

  /// kRingCreditBytes in this side's memory, for the receiver's set_credit().
  [[nodiscard]] const RemoteDescriptor& credit_descriptor() const { return credit_descriptor_; }

  /// Takes the receiver's descriptor(). A descriptor that cannot be a ring fails the sender.
  void set_ring(const RemoteDescriptor& ring);
  [[nodiscard]] std::size_t capacity_bytes() const { return ring_.length_bytes; }

  /// Sends a message that lies in `region`. The message must stay untouched until reusable_position() has
  /// reached the value that sent_position() has right after this call. A message has 1 to
  /// max_ring_message_bytes(capacity_bytes()) bytes.
  [[nodiscard]] SendResult try_send(std::span<const std::byte> message, const MemoryRegion& region);
  /// Where in the ring a message of so many bytes would come to lie; nullopt: there is no room for it now. So
  /// a sender may keep a memory of capacity_bytes() in which each message lies as it does in the ring: it
  /// stays untouched until the receiver has released it.
  [[nodiscard]] std::optional<std::size_t> place_of_next(std::size_t message_bytes);

  /// Position after the newest message.
  [[nodiscard]] std::uint64_t sent_position() const { return sent_; }
  /// The memory of all messages up to this position may be reused. Reaches sent_position() if the owner just
  /// keeps polling.
  [[nodiscard]] std::uint64_t reusable_position() const;
  /// All messages up to this position are known to be released by the receiver.
  [[nodiscard]] std::uint64_t delivered_position() const { return credit_; }
  /// All messages up to this position are known to be acknowledged by the receiver.
  [[nodiscard]] std::uint64_t acknowledged_position() const { return acknowledged_; }

  /// Takes any completion of the connection.
  void on_completion(const Event& event);
  /// Handles notification 0 of the connection. INVALID_ARGUMENT if the credit is impossible.
  absl::Status on_credit();

  /// OK unless the peer, or the caller, has broken the rules.
  [[nodiscard]] const absl::Status& status() const { return status_; }

 private:
  /// At least one request in so many messages, and in every eighth of the ring, is signaled.
  static constexpr std::uint32_t kMessagesPerSignal = 16;

  RingSender(Connection& connection, std::unique_ptr<MemoryRegion> credit,
             const RemoteDescriptor& descriptor);

  void read_credit();
  [[nodiscard]] std::uint64_t read_position(std::size_t word, std::string_view what);
  void signal_tail() const;

  Connection& connection_;
  std::unique_ptr<MemoryRegion> credit_words_;
  RemoteDescriptor credit_descriptor_;
  RemoteDescriptor ring_;
  std::uint64_t sent_ = 0;
  std::uint64_t credit_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t reusable_ = 0;
  mutable std::uint64_t signaled_ = 0;  ///< position that the newest signaled request covers
  std::uint32_t unsignaled_messages_ = 0;
  absl::Status status_;
};

}  // namespace verbena::transport
