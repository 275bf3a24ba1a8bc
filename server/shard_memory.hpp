// Where a server's shards of all kinds come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consistency/rules.hpp"
#include "protocol/placement.hpp"
#include "protocol/update_rule.hpp"
#include "server/fixed_shard.hpp"
#include "server/table_shard.hpp"
#include "transport/registered_arena.hpp"

namespace verbena::server {

/// Owns the memory of static tables' rows: registered arenas, so that a peer is granted few large regions and
/// not one for each table. Thread safety: belongs to the transport's thread.
class ShardMemory {
 public:
  /// The place of a server in its job.
  struct Place {
    std::uint32_t server = 0;
    protocol::Placement placement{1};
    std::uint32_t lanes = 1;
    std::uint32_t workers = 1;
    bool has_push_budget = false;
  };

  explicit ShardMemory(transport::Transport& transport) : transport_(transport) {}

  /// Creates a zeroed shard of the kind that the table wants. INVALID_ARGUMENT for an unknown model, and for
  /// attributes that do not go together; RESOURCE_EXHAUSTED if memory is short.
  absl::StatusOr<std::unique_ptr<TableShard>> create(const protocol::OpenTable& table, const Place& place);

 private:
  absl::StatusOr<std::unique_ptr<TableShard>> create_fixed(const protocol::OpenTable& table,
                                                           const consistency::Rules& rules,
                                                           const protocol::UpdateRule& rule,
                                                           const Place& place);
  absl::Status allocate(std::size_t bytes, FixedShard& shard);

  transport::Transport& transport_;
  std::vector<std::unique_ptr<transport::RegisteredArena>> arenas_;
};

}  // namespace verbena::server
