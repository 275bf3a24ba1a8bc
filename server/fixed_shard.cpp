#include "server/fixed_shard.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::server {

absl::StatusOr<transport::RemoteDescriptor> FixedShard::grant(transport::Connection& connection,
                                                              bool /*is_own_node*/) const {
  const absl::StatusOr<transport::RemoteDescriptor> granted = connection.grant(*region);
  if (!granted.ok()) return granted.status();
  return granted->slice(static_cast<std::size_t>(rows.data() - region->bytes().data()), rows.size());
}

absl::Status FixedShard::on_bulk(const Sender& sender, const protocol::BulkMessage& message,
                                 InboxMessage& inbox, ShardHost& host) {
  const protocol::BulkHeader& header = message.header;
  const KeyRange keys = lanes[header.lane];
  LaneTask task{.worker = sender.worker.rank, .message = message, .inbox = &inbox};
  absl::Status status;
  if (header.kind == protocol::BulkKind::kUpdates || header.kind == protocol::BulkKind::kUpdatesAhead) {
    task.kind = LaneTask::Kind::kUpdates;
    status = protocol::check_records(message, stride_bytes, keys);
    if (status.ok() && header.clock != sender.clock) {
      status = absl::InvalidArgumentError(
          fmt::format("updates of clock {} at clock {}", header.clock, sender.clock));
    }
  } else if (header.kind == protocol::BulkKind::kSubscribe ||
             header.kind == protocol::BulkKind::kUnsubscribe) {
    task.kind = LaneTask::Kind::kSubscribe;
    status = protocol::check_keys(message, keys);
  } else {
    status = absl::InvalidArgumentError(
        header.kind == protocol::BulkKind::kRows
            ? "sent rows, which only a server sends"
            : fmt::format("pushes into slots of table {}, which is static", header.table));
  }
  if (status.ok()) {
    inbox.users = 1;
    host.enqueue(header.lane, task);
  }
  return status;
}

absl::Status FixedShard::on_key_requests(const Sender& /*sender*/, const protocol::KeyRequests& requests,
                                         ShardHost& /*host*/) {
  return absl::InvalidArgumentError(
      fmt::format("asks where rows of table {} are, which is not dynamic", requests.table));
}

std::size_t FixedShard::books_bytes(std::uint64_t rows, std::uint32_t workers, bool has_budget) {
  const std::size_t words = 2 * ((std::size_t{workers} + 63) / 64) + (has_budget ? 1 : 0);
  static_assert(sizeof(double) == sizeof(std::uint64_t));
  return std::max<std::size_t>(rows, 1) * words * sizeof(std::uint64_t);
}

void FixedShard::keep_books_in(std::span<std::byte> memory, std::uint32_t workers, bool has_budget) {
  const std::size_t words = range.size() * ((std::size_t{workers} + 63) / 64);
  subscribed = reinterpret_cast<std::uint64_t*>(memory.data());
  dirty = subscribed + words;
  if (has_budget) changes = reinterpret_cast<double*>(dirty + words);
}

}  // namespace verbena::server
