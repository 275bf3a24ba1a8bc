#include "server/fixed_shard.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/return_if_error.hpp"
#include "protocol/server_function.hpp"
#include "server/function_run.hpp"

namespace verbena::server {

absl::Status FixedShard::on_bulk(const Sender& sender, const protocol::BulkMessage& message,
                                 InboxMessage& inbox, ShardHost& host) {
  const protocol::BulkHeader& header = message.header;
  if (header.kind == protocol::BulkKind::kCall) return on_call(sender, message, host);
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
        header.kind == protocol::BulkKind::kRows || header.kind == protocol::BulkKind::kResult
            ? "sent rows or results, which only a server sends"
            : fmt::format("pushes into slots of table {}, which is static", header.table));
  }
  if (status.ok()) {
    inbox.users = 1;
    host.enqueue(header.lane, task);
  }
  return status;
}

/// A function that cannot be called is no break of the rules: this process may not know it.
absl::Status FixedShard::on_call(const Sender& sender, const protocol::BulkMessage& message,
                                 ShardHost& host) {
  const protocol::BulkHeader& header = message.header;
  if (header.clock != sender.clock) {
    return absl::InvalidArgumentError(
        fmt::format("a call of clock {} at clock {}", header.clock, sender.clock));
  }
  absl::StatusOr<protocol::CallMessage> call = protocol::decode_call(message);
  if (!call.ok()) return call.status();
  RETURN_IF_ERROR(host.begin_call(header.lane, sender.worker.rank));
  absl::StatusOr<protocol::BoundFunction> function =
      protocol::BoundFunction::find(call->text, rule, call->numbers_a_key);
  if (!function.ok()) function = absl::FailedPreconditionError(function.status().message());
  host.enqueue(header.lane,
               {.kind = LaneTask::Kind::kCall,
                .worker = sender.worker.rank,
                .call = std::make_shared<FunctionRun>(sender.worker.rank, header.table, header.clock,
                                                      *std::move(call), function)});
  return absl::OkStatus();
}

absl::Status FixedShard::on_key_requests(const Sender& /*sender*/, const protocol::KeyRequests& requests,
                                         ShardHost& /*host*/) {
  return absl::InvalidArgumentError(
      fmt::format("asks where rows of table {} are, which is not dynamic", requests.table));
}

}  // namespace verbena::server
