#include "server/log.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/return_if_error.hpp"
#include "server/peer.hpp"

namespace verbena::server {

namespace {

/// How many bytes of late records are sent before other things are looked after.
constexpr std::size_t kLateBytesATurn = std::size_t{1} << 20;

/// A record as it travels. The record must outlive it.
class TravellingRecord {
 public:
  TravellingRecord(const WorkerMessage& record, std::uint64_t number)
      : header_{.kind =
                    record.control ? protocol::LogHeader::Kind::kControl : protocol::LogHeader::Kind::kBulk,
                .worker = record.worker->worker,
                .number = number},
        control_(record.control ? protocol::encode(*record.control) : std::string()),
        message_(record.control ? nullptr : &record.message) {}

  [[nodiscard]] std::size_t bytes() const {
    return sizeof header_ +
           (message_ == nullptr ? control_.size() : sizeof message_->header + message_->payload.size());
  }
  void write(std::byte* to) const {
    std::memcpy(to, &header_, sizeof header_);
    to += sizeof header_;
    if (message_ == nullptr) {
      std::memcpy(to, control_.data(), control_.size());
      return;
    }
    std::memcpy(to, &message_->header, sizeof message_->header);
    if (!message_->payload.empty())
      std::memcpy(to + sizeof message_->header, message_->payload.data(), message_->payload.size());
  }

 private:
  const protocol::LogHeader header_;
  const std::string control_;
  const protocol::BulkMessage* const message_;  ///< nullptr: `control_`
};

}  // namespace

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
  const TravellingRecord travels(record, number);
  const std::span<std::byte> memory = place(travels.bytes());
  if (memory.empty()) return false;
  travels.write(memory.data());
  if (!send(memory)) return false;
  record_bytes_ += memory.size();
  return true;
}

std::span<std::byte> LogSender::place(std::size_t bytes) {
  const std::optional<std::size_t> place = ring_->place_of_next(bytes);
  return place ? memory_->bytes().subspan(*place, bytes) : std::span<std::byte>();
}

bool LogSender::send(std::span<const std::byte> placed) {
  return ring_->try_send(placed, *memory_) == transport::SendResult::kSent;
}

void LateRecords::add(const WorkerMessage& record, std::uint64_t number) {
  const TravellingRecord travels(record, number);
  travels.write(records_.emplace_back(travels.bytes()).data());
  bytes_ += records_.back().size();
}

bool LateRecords::send(LogSender& to) {
  std::size_t sent = 0;
  while (!records_.empty() && sent < kLateBytesATurn) {
    const std::vector<std::byte>& record = records_.front();
    const std::span<std::byte> memory = to.place(record.size());
    if (memory.empty()) break;
    std::memcpy(memory.data(), record.data(), record.size());
    if (!to.send(memory)) break;
    sent += record.size();
    bytes_ -= record.size();
    records_.pop_front();
  }
  return sent > 0;
}

void LateRecords::clear() {
  records_.clear();
  bytes_ = 0;
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
  const std::uint64_t bytes_before = sender_->record_bytes();
  while (sent_ < records_.size()) {
    Entry& entry = records_[sent_];
    if (entry.record.travels && !sender_->send(entry.record, entry.number)) break;
    entry.end = sender_->ring().sent_position();
    ++sent_;
  }
  sent_bytes_ += sender_->record_bytes() - bytes_before;
  return sent_ > before;
}

std::optional<WorkerMessage> Log::take() {
  if (records_.empty()) return std::nullopt;
  Entry& first = records_.front();
  if (held_after_ && first.number > *held_after_) return std::nullopt;
  if (has_follower_) {
    const bool is_there =
        sender_ != nullptr && sent_ > 0 && first.end <= sender_->ring().acknowledged_position();
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
