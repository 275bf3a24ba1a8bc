#include "server/fixed_shard.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/return_if_error.hpp"
#include "protocol/packed_updates.hpp"
#include "protocol/server_function.hpp"
#include "server/function_run.hpp"
#include "server/image_bytes.hpp"

namespace verbena::server {

absl::Status FixedShard::on_bulk(const Sender& sender, const protocol::BulkMessage& message,
                                 InboxMessage& inbox, ShardHost& host) {
  const protocol::BulkHeader& header = message.header;
  if (protocol::is_call(header.kind)) return on_call(sender, message, inbox, host);
  LaneTask task{.worker = sender.worker.rank, .message = message, .inbox = &inbox};
  absl::Status status;
  if (protocol::has_updates(header.kind)) {
    task.kind = LaneTask::Kind::kUpdates;
    absl::StatusOr<KeyList> keys = check_updates(sender, task, host);
    status = keys.status();
    if (keys.ok()) task.keys = *std::move(keys);
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
        protocol::comes_from_server(header.kind)
            ? "sent rows, results or which rows are gone, which only a server sends"
            : fmt::format("pushes into slots of table {}, which is static", header.table));
  }
  if (status.ok()) {
    inbox.users = 1;
    host.enqueue(header.lane, task);
  }
  return status;
}

absl::StatusOr<KeyList> FixedShard::check_updates(const Sender& sender, const LaneTask& task,
                                                  ShardHost& host) {
  const protocol::BulkHeader& header = task.message.header;
  if (header.kind == protocol::BulkKind::kPackedUpdates) return check_packed(sender, task, host);
  // Their keys are checked by who uses them: the lane, as find_rows() says.
  RETURN_IF_ERROR(protocol::check_record_count(task.message, stride_bytes));
  return nullptr;
}

absl::StatusOr<KeyList> FixedShard::check_packed(const Sender& sender, const LaneTask& task,
                                                 ShardHost& host) {
  using Names = protocol::PackedHeader::Names;
  const std::uint32_t lane = task.message.header.lane;
  // Few bytes may stand for many. This bounds what memory they take here, and in the lane, which goes by the
  // same copy of the header.
  const std::size_t as_records =
      sizeof(protocol::BulkHeader) + task.message.header.count * protocol::record_bytes(stride_bytes);
  if (as_records > sender.most_message_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} packed updates, as records a message of {} bytes, expected at most {}",
                    task.message.header.count, as_records, sender.most_message_bytes));
  }
  absl::StatusOr<protocol::PackedUpdates> updates =
      protocol::PackedUpdates::read(task.message, table.value_type, table.width, host.decompressor());
  if (!updates.ok()) return updates.status();
  const protocol::PackedHeader& header = updates->header();
  for (std::uint32_t i = 0; i < header.by_row; ++i) {
    const std::optional<std::uint64_t> row = updates->next_row();
    if (!row || *row >= most_rows_of(lane)) {
      return absl::InvalidArgumentError(
          row ? fmt::format("update of row {}, expected less than {}", *row, most_rows_of(lane))
              : std::string("updates of rows whose numbers are cut off"));
    }
  }
  if (!updates->rows_are_complete())
    return absl::InvalidArgumentError(fmt::format("updates of more than {} rows", header.by_row));
  std::vector<Key> keys;
  if (header.names == Names::kNewList) keys.reserve(updates->keys());
  for (std::uint32_t i = 0; i < updates->keys(); ++i) {
    const Key key = updates->key(i);
    RETURN_IF_ERROR(check_key_of(lane, key));
    if (header.names == Names::kNewList) keys.push_back(key);
  }
  if (header.names == Names::kRowsAndKeys) return nullptr;
  KeyLists& lists = key_lists_[{task.worker, lane}];
  if (header.names == Names::kList) return lists.find(header.list, updates->count());
  const auto list = std::make_shared<const std::vector<Key>>(std::move(keys));
  RETURN_IF_ERROR(lists.set(header.list, list));
  return list;
}

absl::StatusOr<protocol::BoundFunction> FixedShard::find_function(std::string_view text,
                                                                  std::uint32_t numbers_a_key) const {
  absl::StatusOr<protocol::BoundFunction> function = protocol::BoundFunction::find(text, rule, numbers_a_key);
  if (!function.ok()) function = absl::FailedPreconditionError(function.status().message());
  return function;
}

absl::Status FixedShard::on_call(const Sender& sender, const protocol::BulkMessage& message,
                                 InboxMessage& inbox, ShardHost& host) {
  const protocol::BulkHeader& header = message.header;
  // Who takes a worker's place may look before it is where that one was.
  const bool may_be_behind = header.kind == protocol::BulkKind::kLook;
  if (may_be_behind ? header.clock > sender.clock : header.clock != sender.clock) {
    return absl::InvalidArgumentError(
        fmt::format("a call of clock {} at clock {}", header.clock, sender.clock));
  }
  absl::StatusOr<protocol::CallMessage> call = protocol::decode_call(message);
  if (!call.ok()) return call.status();
  RETURN_IF_ERROR(host.begin_call(header.lane, sender.worker.rank));
  const absl::StatusOr<protocol::BoundFunction> function = find_function(call->text, call->numbers_a_key);
  if (function.ok() && function->changes_rows() != (header.kind == protocol::BulkKind::kCall)) {
    return absl::InvalidArgumentError(fmt::format("calls \"{}\" as a function that {} rows", call->text,
                                                  function->changes_rows() ? "changes no" : "changes"));
  }
  // It is not needed any more, and keeps its place so that calls which wait for a lane are not without bound.
  inbox.users = 1;
  host.enqueue(header.lane, {.kind = LaneTask::Kind::kCall,
                             .worker = sender.worker.rank,
                             .inbox = &inbox,
                             .call = std::make_shared<FunctionRun>(
                                 sender.worker.rank, header.table, header.clock, *std::move(call), function,
                                 header.kind == protocol::BulkKind::kCall)});
  return absl::OkStatus();
}

void FixedShard::write_key_lists(ImageWriter& out) const {
  out.put(std::uint64_t{key_lists_.size()});
  for (const auto& [whose, lists] : key_lists_) {
    out.put(whose.first);
    out.put(whose.second);
    lists.write_image(out);
  }
}

absl::Status FixedShard::read_key_lists(ImageReader& in) {
  const std::uint64_t owners = in.get_count(2 * sizeof(std::uint32_t));
  for (std::uint64_t i = 0; i < owners && in.is_good(); ++i) {
    const auto worker = in.get<std::uint32_t>();
    const auto lane = in.get<std::uint32_t>();
    RETURN_IF_ERROR((key_lists_[{worker, lane}].read_image(in)));
  }
  return absl::OkStatus();
}

absl::Status FixedShard::read_part(std::uint32_t /*lane*/, std::string_view part) {
  if (part.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("an image of a server: table \"{}\" is not sparse there", table.name));
}

void FixedShard::on_goodbye(const Homes::Worker& worker, ShardHost& /*host*/) {
  std::erase_if(key_lists_, [&](const auto& lists) { return lists.first.first == worker.rank; });
}

absl::Status FixedShard::on_key_requests(const Sender& /*sender*/, const protocol::KeyRequests& requests,
                                         ShardHost& /*host*/) {
  return absl::InvalidArgumentError(
      fmt::format("asks where rows of table {} are, which is not dynamic", requests.table));
}

}  // namespace verbena::server
