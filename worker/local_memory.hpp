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
  /// `access`: a peer's, to what is granted to it.
  explicit LocalMemory(transport::Transport& transport, transport::Access access = transport::Access::kLocal)
      : transport_(transport), access_(access) {}

  /// Returns memory that is 64-byte aligned. RESOURCE_EXHAUSTED: memory is short.
  absl::StatusOr<LocalSpan> allocate(std::size_t bytes);

 private:
  transport::Transport& transport_;
  const transport::Access access_;
  std::vector<std::unique_ptr<transport::RegisteredArena>> arenas_;
};

/// Scratch memory of operations, reused after they have ended. Thread safety: none; one owner.
class StagingPool {
 public:
  explicit StagingPool(LocalMemory& memory) : memory_(memory) {}

  /// Returns at least `bytes` bytes. Errors: as LocalMemory::allocate().
  absl::StatusOr<LocalSpan> take(std::size_t bytes);
  /// Gives back what take() returned. REQUIRES: no transfer is under way in it.
  void give(LocalSpan staging) { free_.push_back(staging); }

 private:
  LocalMemory& memory_;
  std::vector<LocalSpan> free_;
};

}  // namespace verbena::worker
