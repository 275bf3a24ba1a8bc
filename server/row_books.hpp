// The memory of what lanes keep beside the rows of a static table (StoredRows::Chunk). Only the server uses
// it. Over shared memory, pages that nobody writes cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/fixed_shard.hpp"
#include "server/stored_rows.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

class RowBooks {
 public:
  /// What a lane needs for each row.
  struct Needs {
    Needs(const FixedShard& shard, std::uint32_t workers, bool has_push_budget);

    std::size_t bits_bytes = 0;  ///< of `subscribed`, and of `dirty`
    bool has_changes = false;
    std::size_t state_bytes = 0;
    bool has_steps = false;
    bool has_uses = false;
    [[nodiscard]] std::size_t book_bytes() const;
    /// Of a row, but for its state.
    [[nodiscard]] std::size_t kept_bytes() const;
  };

  RowBooks() = default;
  /// For so many rows, zeroed. RESOURCE_EXHAUSTED. `shard`: for errors.
  static absl::StatusOr<RowBooks> create(transport::Transport& transport, const FixedShard& shard,
                                         const Needs& needs, std::uint64_t rows);

  /// A chunk whose rows lie at `values`, and the rest in this memory.
  [[nodiscard]] StoredRows::Chunk chunk(std::byte* values) const;

 private:
  std::uint64_t rows_ = 0;
  std::size_t bits_bytes_ = 0;
  bool has_changes_ = false;
  // nullptr: nothing of the kind is needed.
  std::unique_ptr<transport::MemoryRegion> books_;   ///< changes, subscribed, dirty
  std::unique_ptr<transport::MemoryRegion> states_;  ///< what the rule keeps
  std::unique_ptr<transport::MemoryRegion> steps_;   ///< step_of
  std::unique_ptr<transport::MemoryRegion> uses_;
};

}  // namespace verbena::server
