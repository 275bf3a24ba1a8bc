#include "worker/fixed/shipping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/return_if_error.hpp"
#include "protocol/importance.hpp"
#include "worker/row_copy.hpp"
#include "worker/session_core.hpp"

namespace verbena::worker {

using protocol::Row;

namespace {

/// The most buffers of a part that were shipped within a clock and are not known to be applied.
constexpr std::size_t kMostAhead = 2;
/// Shorter messages are copied: that costs less than another look at the sender's memory.
constexpr std::size_t kLeastInPlaceBytes = 2048;

/// Counts the time that it lives as the price of filters.
class FilterClock {
 public:
  explicit FilterClock(SessionCore& session) : session_(session), begun_(session.now()) {}
  ~FilterClock() {
    session_.counters().filter_seconds += std::chrono::duration<double>(session_.now() - begun_).count();
  }
  FilterClock(const FilterClock&) = delete;
  FilterClock& operator=(const FilterClock&) = delete;

 private:
  SessionCore& session_;
  const transport::TimePoint begun_;
};

}  // namespace

absl::Status Shipping::no_memory(const Part& part) const {
  return absl::ResourceExhaustedError(
      fmt::format("table \"{}\": no memory for an index of {} rows", name_, part.range.size()));
}

absl::StatusOr<std::unique_ptr<UpdateBuffer>> Shipping::make_buffer(const Part& part) const {
  const std::size_t chunk_bytes = protocol::max_bulk_bytes(part.link->inbox_bytes);
  if (chunk_bytes < sizeof(protocol::BulkHeader) + protocol::record_bytes(layout_.stride_bytes)) {
    return absl::InvalidArgumentError(
        fmt::format("{} gave an inbox of {} bytes, too small for a row of table \"{}\"",
                    part.link->connection->peer_name(), part.link->inbox_bytes, name_));
  }
  try {
    return std::make_unique<UpdateBuffer>(
        part.range.size(), layout_.stride_bytes, chunk_bytes,
        part.link->reads_in_place ? session_.shared_memory() : session_.memory());
  } catch (const std::bad_alloc&) {
    return no_memory(part);
  }
}

absl::Status Shipping::ship_updates(Parts parts, protocol::BulkKind kind) {
  return ship_updates(parts, kind, /*filtered=*/false);
}

absl::Status Shipping::ship_clock(Parts parts, bool all) {
  return ship_updates(parts, protocol::BulkKind::kUpdates, !all && !filter_.sends_all());
}

absl::StatusOr<std::unique_ptr<UpdateBuffer>> Shipping::take_current(Part& part, bool filtered) {
  std::optional<FilterClock> clock;
  if (part.kept != nullptr) clock.emplace(session_);
  if (filtered) {
    const auto count = filter_.select(*part.current, *part.kept, layout_, session_.current_clock());
    if (!count) return no_memory(part);
    session_.counters().rows_kept_back += *count;
  } else if (part.kept != nullptr && !PushFilter::take_all(*part.current, *part.kept, layout_)) {
    return no_memory(part);
  }
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> taken = take_buffer(part);
  if (taken.ok()) std::swap(part.current, *taken);
  return taken;
}

absl::Status Shipping::ship_updates(Parts parts, protocol::BulkKind kind, bool filtered) {
  // All buffers become outstanding before the first one is sent: sending may wait and poll, and a read that
  // ends meanwhile must know for each update whether the row can contain it. Updates that are not outstanding
  // are added to what was read.
  absl::InlinedVector<std::pair<Part*, UpdateBuffer*>, 8> shipped;
  for (const std::unique_ptr<Part>& part : parts) {
    if (part->current->empty() && (filtered || part->kept == nullptr || part->kept->empty())) continue;
    absl::StatusOr<std::unique_ptr<UpdateBuffer>> taken = take_current(*part, filtered);
    if (!taken.ok()) return taken.status();
    if ((*taken)->empty()) {
      part->spare.push_back(*std::move(taken));
      continue;
    }
    session_.counters().rows_shipped += (*taken)->records();
    shipped.emplace_back(part.get(), &add_outstanding(*part, *std::move(taken)));
  }
  for (const auto& [part, updates] : shipped) {
    RETURN_IF_ERROR(send(*part, *updates, kind));
  }
  return absl::OkStatus();
}

UpdateBuffer& Shipping::add_outstanding(Part& part, std::unique_ptr<UpdateBuffer> updates) {
  UpdateBuffer& buffer = *part.outstanding.emplace_back(std::move(updates));
  session_.start_epoch();
  for (std::size_t i = 0; i < buffer.chunks(); ++i) buffer.chunk(i).sequence = part.updates->shipped++;
  return buffer;
}

absl::Status Shipping::send(Part& part, UpdateBuffer& updates, protocol::BulkKind kind) {
  for (std::size_t i = 0; i < updates.chunks(); ++i) {
    UpdateBuffer::Chunk& chunk = updates.chunk(i);
    const protocol::BulkHeader header{.kind = kind,
                                      .table = number_,
                                      .lane = part.lane,
                                      .count = updates.records_in(i),
                                      .clock = session_.current_clock()};
    std::memcpy(chunk.memory.bytes.data(), &header, sizeof header);
    std::span<const std::byte> message;
    if (packing_.pays(part)) {
      const FilterClock clock(session_);
      message = packing_.pack(part, updates, i, header);
    }
    const LocalSpan& memory = message.empty() ? chunk.memory : chunk.packed;
    if (message.empty()) message = memory.bytes.first(updates.message_bytes(i));
    session_.counters().update_bytes += message.size();
    const bool stays = part.link->reads_in_place && message.size() >= kLeastInPlaceBytes;
    RETURN_IF_ERROR(stays ? session_.send_place(*part.link, message, *memory.region)
                          : session_.send(*part.link, message, *memory.region));
  }
  return absl::OkStatus();
}

absl::Status Shipping::ship_ahead(Parts parts) {
  // In turns: the first of a link's lanes that may ship uses up the budget of all of them.
  const std::size_t last = last_ahead_;
  for (std::size_t turn = 1; turn <= parts.size(); ++turn) {
    const std::size_t index = (last + turn) % parts.size();
    Part& part = *parts[index];
    transport::TokenBucket& budget = *part.link->update_budget;
    if (part.current->empty() || part.outstanding.size() >= kMostAhead || !budget.is_full()) continue;
    const auto bytes = static_cast<std::size_t>(budget.burst_bytes());
    absl::StatusOr<std::unique_ptr<UpdateBuffer>> updates = take_most_important(part, bytes);
    if (!updates.ok()) return updates.status();
    session_.counters().rows_shipped_ahead += (*updates)->records();
    session_.counters().rows_shipped += (*updates)->records();
    last_ahead_ = index;
    UpdateBuffer& shipped = add_outstanding(part, *std::move(updates));
    const std::uint64_t bytes_before = session_.counters().update_bytes;
    RETURN_IF_ERROR(send(part, shipped, protocol::BulkKind::kUpdatesAhead));
    budget.take(session_.counters().update_bytes - bytes_before);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<UpdateBuffer>> Shipping::take_most_important(Part& part,
                                                                            std::size_t bytes) const {
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> taken = take_buffer(part);
  if (!taken.ok()) return taken;
  UpdateBuffer& current = *part.current;
  const std::size_t most = bytes / protocol::record_bytes(layout_.stride_bytes) + 1;
  if (most >= current.records()) {
    std::swap(part.current, *taken);
    return taken;
  }
  std::vector<protocol::Ranked<Row>> ranked(
      std::min<std::size_t>(current.records(), protocol::kImportanceCandidates * most));
  std::vector<std::byte> scratch(layout_.stride_bytes);
  for (std::uint32_t i = 0; i < ranked.size(); ++i) {
    const Row row = current.row(i);
    ranked[i] = {protocol::importance_class(importance(part, row, scratch)), row};
  }
  protocol::put_most_important_first(ranked, most);
  for (std::size_t i = 0; i < most; ++i) {
    if (!current.move_to(ranked[i].item, **taken)) return no_memory(part);
  }
  return taken;
}

/// The importance of this worker's update of the row, as far as it has not been shipped.
double Shipping::importance(const Part& part, Row row, std::span<std::byte> scratch) const {
  const std::byte* values = nullptr;
  if (part.cache != nullptr) {
    if (const CachedRow* const cached = part.cache->find(row)) values = cached->values();
  } else if (part.mapped != nullptr) {
    copy_shared_row(layout_.type, scratch.data(), part.mapped_row(row, layout_.stride_bytes),
                    layout_.row_bytes);
    values = scratch.data();
  }
  // Nothing is known about a row that is not read: its update may be its whole value.
  if (values == nullptr) return 1;
  return protocol::relative_change(layout_.type, layout_.width, values, part.current->find(row));
}

absl::StatusOr<std::unique_ptr<UpdateBuffer>> Shipping::take_buffer(Part& part) const {
  if (part.spare.empty()) return make_buffer(part);
  std::unique_ptr<UpdateBuffer> buffer = std::move(part.spare.back());
  part.spare.pop_back();
  return buffer;
}

absl::Status Shipping::ship_subscriptions(Parts parts) {
  for (const std::unique_ptr<Part>& part : parts) {
    const Subscriptions::Changes changes =
        part->subscriptions.take([&](Row row) { return part->cache->find(row) != nullptr; },
                                 [&](Row row) { return part->cache->at(row).clock() == CachedRow::kLive; });
    RETURN_IF_ERROR(send(*part, changes.end, protocol::BulkKind::kUnsubscribe));
    RETURN_IF_ERROR(send(*part, changes.begin, protocol::BulkKind::kSubscribe));
  }
  return absl::OkStatus();
}

absl::Status Shipping::send(Part& part, std::span<const Row> rows, protocol::BulkKind kind) {
  constexpr std::size_t kKeysAMessage =
      (SmallMessages::kSlotBytes - sizeof(protocol::BulkHeader)) / sizeof(Key);
  std::vector<Key> keys;
  for (std::size_t at = 0; at < rows.size(); at += kKeysAMessage) {
    const std::uint64_t message = ++part.view->subscriptions;
    keys.clear();
    for (const Row row : rows.subspan(at, std::min(kKeysAMessage, rows.size() - at))) {
      part.subscriptions.told(row, kind == protocol::BulkKind::kSubscribe, message);
      keys.push_back(part.range.key_of(row));
    }
    const protocol::BulkHeader header{
        .kind = kind, .table = number_, .lane = part.lane, .count = static_cast<std::uint32_t>(keys.size())};
    RETURN_IF_ERROR(session_.send_small(*part.link, header, keys));
  }
  return absl::OkStatus();
}

}  // namespace verbena::worker
