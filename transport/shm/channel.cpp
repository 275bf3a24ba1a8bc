#include "transport/shm/channel.hpp"

#include "transport/shm/transfer.hpp"

namespace verbena::transport::shm {

namespace {

std::size_t message_stride(const ChannelGeometry& geometry) {
  return (std::size_t{geometry.max_message_bytes} + 63) / 64 * 64;
}

}  // namespace

std::size_t ChannelGeometry::bytes() const {
  const std::size_t events = (std::size_t{event_capacity} * sizeof(ChannelLayout::Word) + 63) / 64 * 64;
  return sizeof(ChannelLayout::Credits) + events + message_capacity * message_stride(*this);
}

std::byte* ChannelLayout::message(std::uint64_t position) const {
  const std::size_t stride = message_stride(geometry_);
  const std::size_t first = geometry_.bytes() - geometry_.message_capacity * stride;
  return memory_ + first + position % geometry_.message_capacity * stride;
}

std::uint64_t ChannelLayout::encode(std::uint64_t position, EventKind kind, std::uint32_t value) const {
  return lap(position) << 48 | std::uint64_t{static_cast<std::uint16_t>(kind)} << 32 | value;
}

bool ChannelSender::full(bool for_message) const {
  return sent_events_ - consumed_events_ == layout_.geometry().event_capacity ||
         (for_message && sent_messages_ - consumed_messages_ == layout_.geometry().message_capacity);
}

// Credits only grow, and never beyond what was sent. (The code compares differences, because the counters may
// wrap around.)
bool ChannelSender::read_credits() {
  const std::uint64_t events = layout_.credits().consumed_events.load(std::memory_order_seq_cst);
  const std::uint64_t messages = layout_.credits().consumed_messages.load(std::memory_order_seq_cst);
  if (events - consumed_events_ > sent_events_ - consumed_events_) return false;
  if (messages - consumed_messages_ > sent_messages_ - consumed_messages_) return false;
  consumed_events_ = events;
  consumed_messages_ = messages;
  return true;
}

SendOutcome ChannelSender::room(bool for_message) {
  blocked_ = false;
  if (full(for_message) && !read_credits()) return SendOutcome::kCorrupt;
  if (full(for_message)) {
    layout_.credits().blocked.store(1, std::memory_order_seq_cst);
    has_said_blocked_ = true;
    if (!read_credits()) return SendOutcome::kCorrupt;
    blocked_ = full(for_message);
    if (blocked_) return SendOutcome::kFull;
  }
  if (has_said_blocked_) unsay_blocked();
  return SendOutcome::kRoom;
}

void ChannelSender::unsay_blocked() {
  layout_.credits().blocked.store(0, std::memory_order_seq_cst);
  has_said_blocked_ = false;
}

void ChannelSender::publish(EventKind kind, std::uint32_t value) {
  layout_.event(sent_events_).store(layout_.encode(sent_events_, kind, value), std::memory_order_seq_cst);
  ++sent_events_;
}

void ChannelSender::message(std::span<const std::byte> message) {
  std::byte* const slot = layout_.message(sent_messages_++);
  if (!message.empty()) transfer(slot, message.data(), message.size());  // an empty one may have no address
  publish(EventKind::kMessage, static_cast<std::uint32_t>(message.size()));
}

bool ChannelSender::take_unblocked() {
  if (!blocked_) return false;
  const ChannelLayout::Credits& credits = layout_.credits();
  if (credits.consumed_events.load(std::memory_order_seq_cst) == consumed_events_ &&
      credits.consumed_messages.load(std::memory_order_seq_cst) == consumed_messages_) {
    return false;
  }
  blocked_ = false;
  unsay_blocked();
  return true;
}

ReceiveOutcome ChannelReceiver::receive(std::span<std::byte> space, std::uint32_t& value) {
  const std::uint64_t word = layout_.event(events_).load(std::memory_order_seq_cst);
  if (!layout_.is_of_lap(word, events_)) return ReceiveOutcome::kNothing;
  const auto kind = static_cast<EventKind>(word >> 32 & 0xffff);
  value = static_cast<std::uint32_t>(word);
  if (kind == EventKind::kNotification) {
    ++events_;
    return ReceiveOutcome::kNotification;
  }
  // There is no check for more messages under way than slots, which is impossible, too: a slot would be read
  // twice, which does no harm.
  if (kind != EventKind::kMessage || value > layout_.geometry().max_message_bytes) {
    return ReceiveOutcome::kCorrupt;
  }
  if (value > space.size()) return ReceiveOutcome::kNoSpace;
  transfer(space.data(), layout_.message(messages_), value);
  ++events_;
  ++messages_;
  return ReceiveOutcome::kMessage;
}

bool ChannelReceiver::release() {
  ChannelLayout::Credits& credits = layout_.credits();
  const bool blocked = credits.blocked.load(std::memory_order_seq_cst) != 0;
  // Seldom, because each store takes the cache line away from a sender that reads it. This is enough: a
  // sender finds the ring full only while much is unreleased, and a receiver that consumes it then calls this
  // function.
  const std::uint64_t unreleased = events_ - released_events_;
  if (unreleased == 0) return false;
  if (!blocked && messages_ == released_messages_ && unreleased * 4 < layout_.geometry().event_capacity) {
    return false;
  }
  released_events_ = events_;
  released_messages_ = messages_;
  credits.consumed_events.store(events_, std::memory_order_seq_cst);
  credits.consumed_messages.store(messages_, std::memory_order_seq_cst);
  return credits.blocked.load(std::memory_order_seq_cst) != 0;
}

}  // namespace verbena::transport::shm
