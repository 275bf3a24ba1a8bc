#include "server/fixed_shard.hpp"

#include <fmt/format.h>

namespace verbena::server {

absl::Status FixedShard::on_bulk(const Sender& sender, const protocol::BulkMessage& message,
                                 InboxMessage& inbox, ShardHost& host) {
  const protocol::BulkHeader& header = message.header;
  LaneTask task{.worker = sender.worker.rank, .message = message, .inbox = &inbox};
  absl::Status status;
  if (header.kind == protocol::BulkKind::kUpdates || header.kind == protocol::BulkKind::kUpdatesAhead) {
    task.kind = LaneTask::Kind::kUpdates;
    status = check_records_of(header.lane, message);
    if (status.ok() && header.clock != sender.clock) {
      status = absl::InvalidArgumentError(
          fmt::format("updates of clock {} at clock {}", header.clock, sender.clock));
    }
  } else if (header.kind == protocol::BulkKind::kSubscribe ||
             header.kind == protocol::BulkKind::kUnsubscribe) {
    task.kind = LaneTask::Kind::kSubscribe;
    status = check_keys_of(header.lane, message);
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

}  // namespace verbena::server
