// Registered memory of a worker that grows by slabs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/registered_arena.hpp"

namespace verbena::worker {

/// Part of a registered region.
struct LocalSpan {
  std::span<std::byte> bytes;
  const transport::MemoryRegion* region = nullptr;
};

/// Thread safety: none; one owner. Memory is given back when the object dies.
class LocalMemory {
 public:
  explicit LocalMemory(transport::Transport& transport) : transport_(transport) {}

  /// 64-byte aligned. RESOURCE_EXHAUSTED where memory is short.
  absl::StatusOr<LocalSpan> allocate(std::size_t bytes);

 private:
  transport::Transport& transport_;
  std::vector<std::unique_ptr<transport::RegisteredArena>> arenas_;
};

}  // namespace verbena::worker
