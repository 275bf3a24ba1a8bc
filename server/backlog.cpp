#include "server/backlog.hpp"

#include <atomic>

namespace verbena::server {

void Backlog::add(std::span<const std::byte> record, InboxMessage& in_ring, std::uint64_t most_bytes) {
  Entry& entry = records_.emplace_back();
  if (bytes_ + record.size() > most_bytes) {
    in_ring.users = 1;
    entry.record = {.bytes = record, .inbox = &in_ring};
    return;
  }
  entry.copy.assign(record.begin(), record.end());
  bytes_ += record.size();
  entry.record = {.bytes = entry.copy, .inbox = &entry.users};
}

std::optional<Backlog::Record> Backlog::take() {
  if (waiting() == 0) return std::nullopt;
  Entry& entry = records_[taken_++];
  const Record record = entry.record;
  record.inbox->users = 0;            // whoever goes by it says who uses it
  entry.record.inbox = &entry.users;  // in the ring, that one's place may be gone before this is looked at
  return record;
}

void Backlog::release() {
  // Acquire: pairs with the lanes' release; what they have read is read before the memory is used again.
  while (taken_ > 0 && records_.front().record.inbox->users.load(std::memory_order_acquire) == 0) {
    bytes_ -= records_.front().copy.size();
    records_.pop_front();
    --taken_;
  }
}

}  // namespace verbena::server
