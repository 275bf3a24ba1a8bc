#include "transport/message_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>

#include "transport/request_id.hpp"

namespace verbena::transport {

namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

constexpr std::uint64_t whole_words(std::uint64_t bytes) {
  return (bytes + kWordBytes - 1) / kWordBytes * kWordBytes;
}

/// How many bytes a message that takes `room_bytes` skips if it is sent when the ring is at `position`.
constexpr std::uint64_t bytes_to_skip(std::uint64_t position, std::uint64_t room_bytes,
                                      std::uint64_t ring_bytes) {
  const std::uint64_t before_end = ring_bytes - position % ring_bytes;
  return room_bytes <= before_end ? 0 : before_end;
}

constexpr bool can_be_ring(std::uint64_t bytes) {
  return bytes >= kMinRingBytes && bytes <= kMaxRingBytes && bytes % kWordBytes == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingReceiver>> RingReceiver::create(Transport& transport,
                                                                   Connection& connection,
                                                                   std::size_t bytes) {
  if (bytes < kMinRingBytes || bytes > kMaxRingBytes) {
    return absl::InvalidArgumentError(
        fmt::format("a message ring of {} bytes: expected {} to {}", bytes, kMinRingBytes, kMaxRingBytes));
  }
  auto ring = transport.allocate_region(whole_words(bytes), Access::kRemoteWrite);
  if (!ring.ok()) return ring.status();
  auto credit_words = transport.allocate_region(kCredits * kRingCreditBytes, Access::kLocal);
  if (!credit_words.ok()) return credit_words.status();
  auto descriptor = connection.grant(**ring);
  if (!descriptor.ok()) return descriptor.status();
  return std::unique_ptr<RingReceiver>(new RingReceiver(
      connection, std::move(*ring), std::move(*credit_words), descriptor->slice(0, whole_words(bytes))));
}

RingReceiver::RingReceiver(Connection& connection, std::unique_ptr<MemoryRegion> ring,
                           std::unique_ptr<MemoryRegion> credit_words, const RemoteDescriptor& descriptor)
    : connection_(connection),
      ring_(std::move(ring)),
      credit_words_(std::move(credit_words)),
      descriptor_(descriptor) {}

absl::StatusOr<std::span<const std::byte>> RingReceiver::on_notification(std::uint32_t notification) {
  if (notification == 0) return std::span<const std::byte>();
  const std::uint64_t ring_bytes = capacity_bytes();
  if (remote_credit_.length_bytes < kRingCreditBytes) {
    return absl::InvalidArgumentError(
        fmt::format("sent a message, but has {} bytes for the credit of its ring, expected {}",
                    remote_credit_.length_bytes, kRingCreditBytes));
  }
  if (notification > max_ring_message_bytes(ring_bytes)) {
    return absl::InvalidArgumentError(fmt::format("sent a message of {} bytes, expected at most {}",
                                                  notification, max_ring_message_bytes(ring_bytes)));
  }
  const std::uint64_t room_bytes = whole_words(notification);
  const std::uint64_t start = received_ + bytes_to_skip(received_, room_bytes, ring_bytes);
  const std::uint64_t end = start + room_bytes;
  if (end - credited_ > ring_bytes) {
    return absl::InvalidArgumentError(fmt::format("sent a message of {} bytes into a ring with room for {}",
                                                  notification, ring_bytes - (received_ - credited_)));
  }
  received_ = end;
  ends_.push_back(end);
  return std::span<const std::byte>(ring_->bytes().subspan(start % ring_bytes, notification));
}

void RingReceiver::release() {
  assert(!ends_.empty());
  released_ = ends_.front();
  acknowledged_ = std::max(acknowledged_, released_);
  ends_.pop_front();
  return_credit();
}

void RingReceiver::acknowledge_all_but(std::uint64_t newest) {
  const std::uint64_t all_but =
      newest < ends_.size() ? ends_[ends_.size() - 1 - static_cast<std::size_t>(newest)] : released_;
  acknowledged_ = std::max(acknowledged_, all_but);
}

bool RingReceiver::return_acknowledgements() {
  return acknowledged_ == acknowledged_told_ || tell();
}

bool RingReceiver::return_credit(std::uint64_t least_bytes) {
  return released_ - credited_ < least_bytes || tell();
}

bool RingReceiver::tell() {
  const std::span<std::byte> words =
      credit_words_->bytes().subspan(next_credit_ * kRingCreditBytes, kRingCreditBytes);
  const std::array<std::uint64_t, 2> positions = {released_, acknowledged_};
  std::memcpy(words.data(), positions.data(), kRingCreditBytes);
  const WorkRequest request{.opcode = Opcode::kWriteNotify,
                            .id = RequestId(RequestId::Of::kRingCredit, 0).bits(),  // used if it fails
                            .local = words,
                            .region = credit_words_.get(),
                            .remote = remote_credit_};
  if (connection_.post({&request, 1}) == 0) return false;
  next_credit_ = (next_credit_ + 1) % kCredits;
  credited_ = released_;
  acknowledged_told_ = acknowledged_;
  return true;
}

absl::StatusOr<std::unique_ptr<RingSender>> RingSender::create(Transport& transport, Connection& connection) {
  auto credit = transport.allocate_region(kRingCreditBytes, Access::kRemoteWrite);
  if (!credit.ok()) return credit.status();
  auto descriptor = connection.grant(**credit);
  if (!descriptor.ok()) return descriptor.status();
  return std::unique_ptr<RingSender>(
      new RingSender(connection, std::move(*credit), descriptor->slice(0, kRingCreditBytes)));
}

RingSender::RingSender(Connection& connection, std::unique_ptr<MemoryRegion> credit,
                       const RemoteDescriptor& descriptor)
    : connection_(connection), credit_words_(std::move(credit)), credit_descriptor_(descriptor) {}

void RingSender::set_ring(const RemoteDescriptor& ring) {
  if (can_be_ring(ring.length_bytes) && ring.address % kWordBytes == 0) {
    ring_ = ring;
    return;
  }
  status_ = absl::InvalidArgumentError(
      fmt::format("offers a message ring of {} bytes at {:#x}: expected {} to {}, both multiples of {}",
                  ring.length_bytes, ring.address, kMinRingBytes, kMaxRingBytes, kWordBytes));
}

std::optional<std::size_t> RingSender::place_of_next(std::size_t message_bytes) {
  const std::uint64_t ring_bytes = ring_.length_bytes;
  if (!status_.ok() || ring_bytes == 0) return std::nullopt;
  const std::uint64_t room_bytes = whole_words(message_bytes);
  const std::uint64_t start = sent_ + bytes_to_skip(sent_, room_bytes, ring_bytes);
  if (start + room_bytes - credit_ > ring_bytes) read_credit();
  if (!status_.ok() || start + room_bytes - credit_ > ring_bytes) return std::nullopt;
  return start % ring_bytes;
}

SendResult RingSender::try_send(std::span<const std::byte> message, const MemoryRegion& region) {
  if (!status_.ok() || !connection_.status().ok()) return SendResult::kFailed;
  const std::uint64_t ring_bytes = ring_.length_bytes;
  if (ring_bytes == 0) return SendResult::kNoCredit;
  if (message.empty() || message.size() > max_ring_message_bytes(ring_bytes)) {
    status_ = absl::InvalidArgumentError(fmt::format("a message of {} bytes in a ring that takes 1 to {}",
                                                     message.size(), max_ring_message_bytes(ring_bytes)));
    return SendResult::kFailed;
  }
  const std::uint64_t room_bytes = whole_words(message.size());
  const std::uint64_t start = sent_ + bytes_to_skip(sent_, room_bytes, ring_bytes);
  const std::uint64_t end = start + room_bytes;
  if (end - credit_ > ring_bytes) {
    read_credit();
    if (!status_.ok()) return SendResult::kFailed;
    if (end - credit_ > ring_bytes) return SendResult::kNoCredit;
  }
  const bool signaled = signaled_ <= reusable_ || unsignaled_messages_ + 1 >= kMessagesPerSignal ||
                        end - signaled_ >= ring_bytes / 8;
  // The transport only reads it, but WorkRequest serves reads, too.
  auto* const local = const_cast<std::byte*>(message.data());
  const WorkRequest request{.opcode = Opcode::kWriteNotify,
                            .signaled = signaled,
                            .notification = static_cast<std::uint32_t>(message.size()),
                            .id = RequestId(RequestId::Of::kRing, end).bits(),
                            .local = {local, message.size()},
                            .region = &region,
                            .remote = ring_.slice(start % ring_bytes, message.size())};
  if (connection_.post({&request, 1}) == 0)
    return connection_.status().ok() ? SendResult::kNoCredit : SendResult::kFailed;
  sent_ = end;
  if (signaled) signaled_ = end;
  unsignaled_messages_ = signaled ? 0 : unsignaled_messages_ + 1;
  return SendResult::kSent;
}

std::uint64_t RingSender::reusable_position() const {
  signal_tail();
  return reusable_;
}

/// If the newest messages were not signaled and no signaled request is under way, posts an empty signaled
/// write: its completion covers them.
void RingSender::signal_tail() const {
  if (reusable_ < signaled_ || signaled_ == sent_ || !connection_.status().ok()) return;
  const WorkRequest request{.opcode = Opcode::kWrite,
                            .signaled = true,
                            .id = RequestId(RequestId::Of::kRing, sent_).bits(),
                            .local = credit_words_->bytes().first(0),
                            .region = credit_words_.get(),
                            .remote = ring_.slice(0, 0)};
  if (connection_.post({&request, 1}) == 1) signaled_ = sent_;
}

void RingSender::on_completion(const Event& event) {
  const RequestId id(event.id);
  if (id.of() != RequestId::Of::kRing || event.result != OperationResult::kOk) return;
  reusable_ = id.number();
  signal_tail();
}

absl::Status RingSender::on_credit() {
  if (status_.ok()) read_credit();
  return status_;
}

void RingSender::read_credit() {
  // A word that has changed on the way tells of a later position, and those on the way behind it of earlier
  // ones (RingReceiver::kCredits).
  credit_ = std::max(credit_, read_position(0, "released"));
  acknowledged_ = std::max({acknowledged_, read_position(1, "acknowledged"), credit_});
}

/// 0 if it cannot be.
std::uint64_t RingSender::read_position(std::size_t word, std::string_view what) {
  // Acquire: the receiver's reads of the ring come before the next writes of this side to the same place.
  auto& written = reinterpret_cast<std::uint64_t*>(credit_words_->bytes().data())[word];
  const std::uint64_t position = std::atomic_ref<std::uint64_t>(written).load(std::memory_order_acquire);
  if (position <= sent_) return position;
  status_ = absl::InvalidArgumentError(
      fmt::format("{} its message ring up to {}, expected at most {}", what, position, sent_));
  return 0;
}

}  // namespace verbena::transport
