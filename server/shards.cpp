#include "server/shards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace verbena::server {

absl::Status Shards::check(const protocol::OpenTable& open) const {
  if (open.table < shards_.size()) {
    const protocol::OpenTable& first = shards_[open.table]->table;
    if (first == open) return absl::OkStatus();
    if (first.checkpoint != open.checkpoint) {
      return absl::InvalidArgumentError(
          fmt::format("workers resume table {} from different checkpoints: \"{}\", then \"{}\"", open.table,
                      first.checkpoint, open.checkpoint));
    }
    return absl::InvalidArgumentError(
        fmt::format("workers open table {} differently: {}", open.table, protocol::differences(first, open)));
  }
  const auto same_name =
      std::find_if(shards_.begin(), shards_.end(),
                   [&](const std::unique_ptr<TableShard>& shard) { return shard->table.name == open.name; });
  if (same_name == shards_.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("opens table {} by the name of table {}, \"{}\"", open.table,
                                                (*same_name)->table.table, open.name));
}

absl::StatusOr<TableShard*> Shards::create(const protocol::OpenTable& open) {
  auto shard = memory_.create(open, place_);
  if (!shard.ok()) return shard.status();
  shards_.push_back(*std::move(shard));
  if (shards_.back()->for_lanes() == nullptr) outside_lanes_.push_back(shards_.back().get());
  return shards_.back().get();
}

bool Shards::have_put_off() const {
  return std::any_of(outside_lanes_.begin(), outside_lanes_.end(),
                     [](const TableShard* shard) { return shard->has_put_off(); });
}

}  // namespace verbena::server
