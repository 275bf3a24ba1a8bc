#include "server/log.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/return_if_error.hpp"
#include "server/peer.hpp"

namespace verbena::server {

absl::StatusOr<std::unique_ptr<LogSender>> LogSender::create(transport::Transport& transport,
                                                             transport::Connection& connection,
                                                             const transport::RemoteDescriptor& ring) {
  auto sender = transport::RingSender::create(transport, connection);
  if (!sender.ok()) return sender.status();
  if (ring.length_bytes != protocol::kLogRingBytes) {
    return absl::InvalidArgumentError(
        fmt::format("has {} bytes for the log, expected {}", ring.length_bytes, protocol::kLogRingBytes));
  }
  (*sender)->set_ring(ring);
  RETURN_IF_ERROR((*sender)->status());
  auto memory = transport.allocate_region(protocol::kLogRingBytes, transport::Access::kLocal);
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<LogSender>(new LogSender(*std::move(sender), *std::move(memory)));
}

bool LogSender::send(const WorkerMessage& record, std::uint64_t number) {
  const std::string control = record.control ? protocol::encode(*record.control) : std::string();
  const protocol::LogHeader header{
      .kind = record.control ? protocol::LogHeader::Kind::kControl : protocol::LogHeader::Kind::kBulk,
      .worker = record.worker->worker,
      .number = number};
  const protocol::BulkMessage& message = record.message;
  const std::size_t bytes =
      sizeof header + (record.control ? control.size() : sizeof message.header + message.payload.size());
  const std::span<std::byte> memory = place(bytes);
  if (memory.empty()) return false;
  std::memcpy(memory.data(), &header, sizeof header);
  std::byte* const to = memory.data() + sizeof header;
  if (record.control) {
    std::memcpy(to, control.data(), control.size());
  } else {
    std::memcpy(to, &message.header, sizeof message.header);
    if (!message.payload.empty())
      std::memcpy(to + sizeof message.header, message.payload.data(), message.payload.size());
  }
  return send(memory);
}

std::span<std::byte> LogSender::place(std::size_t bytes) {
  const std::optional<std::size_t> place = ring_->place_of_next(bytes);
  return place ? memory_->bytes().subspan(*place, bytes) : std::span<std::byte>();
}

bool LogSender::send(std::span<const std::byte> placed) {
  return ring_->try_send(placed, *memory_) == transport::SendResult::kSent;
}

void Log::add(WorkerMessage record) {
  if (record.inbox != nullptr) record.inbox->users = 1;
  const std::uint64_t last = records_.empty() ? first_ - 1 : records_.back().number;
  const std::uint64_t number = record.travels ? last + 1 : last;
  records_.push_back({.record = std::move(record), .number = number});
}

absl::Status Log::follow(LogSender* sender, std::uint64_t has) {
  if (has + 1 < first_ || has > records()) {
    return absl::OutOfRangeError(
        fmt::format("has {} records of the log, of which {} to {} are here", has, first_, records()));
  }
  // Those that it has lie in no ring of this connection: they end at its beginning.
  sent_ = 0;
  while (sent_ < records_.size() && (!records_[sent_].record.travels || records_[sent_].number <= has))
    records_[sent_++].end = 0;
  sender_ = sender;
  return absl::OkStatus();
}

bool Log::send() {
  if (sender_ == nullptr) return false;
  const std::size_t before = sent_;
  while (sent_ < records_.size()) {
    Entry& entry = records_[sent_];
    if (entry.record.travels && !sender_->send(entry.record, entry.number)) break;
    entry.end = sender_->ring().sent_position();
    ++sent_;
  }
  return sent_ > before;
}

std::optional<WorkerMessage> Log::take() {
  if (records_.empty()) return std::nullopt;
  Entry& first = records_.front();
  if (held_after_ && first.number > *held_after_) return std::nullopt;
  if (has_follower_) {
    const bool is_there =
        sender_ != nullptr && sent_ > 0 && first.end <= sender_->ring().delivered_position();
    if (!is_there) return std::nullopt;
  }
  WorkerMessage record = std::move(first.record);
  if (record.travels) first_ = first.number + 1;
  records_.pop_front();
  sent_ -= sent_ > 0 ? 1 : 0;
  if (record.inbox != nullptr) record.inbox->users = 0;  // whoever goes by it says anew who uses it
  return record;
}

void Log::drop() {
  for (const Entry& entry : records_) {
    if (entry.record.inbox != nullptr) entry.record.inbox->users = 0;
  }
  records_.clear();
  sent_ = 0;
  has_follower_ = false;
  held_after_.reset();
  is_dropped_ = true;
}

}  // namespace verbena::server
