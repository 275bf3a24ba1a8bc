#include "worker/local_memory.hpp"

#include <algorithm>

namespace verbena::worker {

namespace {
constexpr std::size_t kSlabBytes = std::size_t{16} << 20;
constexpr std::size_t kCacheLineBytes = 64;
}  // namespace

absl::StatusOr<LocalSpan> LocalMemory::allocate(std::size_t bytes) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!arenas_.empty()) {
      const std::span<std::byte> memory = arenas_.back()->allocate(bytes, kCacheLineBytes);
      if (!memory.empty()) return LocalSpan{memory, &arenas_.back()->region()};
    }
    auto arena = transport::RegisteredArena::create(transport_, access_, std::max(kSlabBytes, bytes));
    if (!arena.ok()) return arena.status();
    arenas_.push_back(std::move(*arena));
  }
  return absl::ResourceExhaustedError("registered memory: a fresh slab has no room");
}

absl::StatusOr<LocalSpan> StagingPool::take(std::size_t bytes) {
  const auto fitting = std::find_if(free_.begin(), free_.end(),
                                    [&](const LocalSpan& span) { return span.bytes.size() >= bytes; });
  if (fitting == free_.end()) return memory_.allocate(bytes);
  const LocalSpan staging = *fitting;
  free_.erase(fitting);
  return staging;
}

}  // namespace verbena::worker
