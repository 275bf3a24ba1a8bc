// A server's shards of all tables.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/open_table.hpp"
#include "server/shard_memory.hpp"
#include "server/table_shard.hpp"

namespace verbena::server {

/// By the tables' numbers: all workers open the tables in the same order. Thread safety: belongs to the
/// transport's thread.
class Shards {
 public:
  /// As ShardMemory's.
  Shards(transport::Transport& transport, RegionDesk& desk, const ServerPlace& place)
      : memory_(transport, desk), place_(place) {}

  /// A worker may open this table next: it is known already with the same attributes, or it is new and its
  /// name is, too. INVALID_ARGUMENT if not.
  [[nodiscard]] absl::Status check(const protocol::OpenTable& open) const;
  /// Creates the shard of a new table. Errors: ShardMemory::create(). REQUIRES: check() is OK, and
  /// open.table == size().
  absl::StatusOr<TableShard*> create(const protocol::OpenTable& open);

  [[nodiscard]] std::size_t size() const { return shards_.size(); }
  /// REQUIRES: table < size()
  [[nodiscard]] TableShard& operator[](std::uint32_t table) const { return *shards_[table]; }
  [[nodiscard]] auto begin() const { return shards_.begin(); }
  [[nodiscard]] auto end() const { return shards_.end(); }

  /// Those whose rows no lane touches: they work in the server's poll() and may put work off.
  [[nodiscard]] const std::vector<TableShard*>& outside_lanes() const { return outside_lanes_; }
  /// There are tables, and no clock of a worker matters to any.
  [[nodiscard]] bool wait_for_no_clock() const {
    return !shards_.empty() && outside_lanes_.size() == shards_.size();
  }
  [[nodiscard]] bool have_put_off() const;

 private:
  ShardMemory memory_;
  const ServerPlace place_;
  std::vector<std::unique_ptr<TableShard>> shards_;
  std::vector<TableShard*> outside_lanes_;
};

}  // namespace verbena::server
