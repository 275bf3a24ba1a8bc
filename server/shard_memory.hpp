// Where a server's shards of all kinds come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consistency/rules.hpp"
#include "protocol/update_rule.hpp"
#include "server/dense_shard.hpp"
#include "server/region_desk.hpp"
#include "server/server_place.hpp"
#include "server/table_shard.hpp"
#include "transport/registered_arena.hpp"

namespace verbena::server {

/// Owns the memory of static tables' rows: registered arenas, so that a peer is granted few large regions and
/// not one for each table. Thread safety: belongs to the transport's thread.
class ShardMemory {
 public:
  /// `desk`: where sparse tables order memory; outlives the shards.
  ShardMemory(transport::Transport& transport, RegionDesk& desk) : transport_(transport), desk_(desk) {}

  /// Creates a zeroed shard of the kind that the table wants. INVALID_ARGUMENT for an unknown model, and for
  /// attributes that do not go together; RESOURCE_EXHAUSTED if memory is short.
  absl::StatusOr<std::unique_ptr<TableShard>> create(const protocol::OpenTable& table,
                                                     const ServerPlace& place);

 private:
  absl::StatusOr<std::unique_ptr<TableShard>> create_dense(const protocol::OpenTable& table,
                                                           const consistency::Rules& rules,
                                                           const protocol::UpdateRule& rule,
                                                           const ServerPlace& place);
  absl::Status allocate(std::size_t bytes, DenseShard& shard);

  transport::Transport& transport_;
  RegionDesk& desk_;
  std::vector<std::unique_ptr<transport::RegisteredArena>> arenas_;
};

}  // namespace verbena::server
