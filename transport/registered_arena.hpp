// Many buffers in one memory region, so that they cost one registration and one grant.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::transport {

/// Hands out parts of one registered region, one behind the other, and takes none back: what is in them lives
/// as long as the arena. It notes nothing in the region, which a peer may be able to write to.
///
/// Thread safety: none; one owner.
class RegisteredArena {
 public:
  /// Room for `capacity_bytes` at any alignment up to that of a cache line. INVALID_ARGUMENT: none, or more
  /// than there can be; else as Transport::allocate_region(). REQUIRES: `transport` outlives the arena.
  static absl::StatusOr<std::unique_ptr<RegisteredArena>> create(Transport& transport, Access access,
                                                                 std::size_t capacity_bytes);
  RegisteredArena(const RegisteredArena&) = delete;
  RegisteredArena& operator=(const RegisteredArena&) = delete;

  /// Memory inside region(), zeroed; empty if there is no room, or `bytes` is 0. REQUIRES: `alignment` is a
  /// power of two, and no more than a page.
  [[nodiscard]] std::span<std::byte> allocate(std::size_t bytes, std::size_t alignment);

  [[nodiscard]] const MemoryRegion& region() const { return *region_; }

 private:
  explicit RegisteredArena(std::unique_ptr<MemoryRegion> region) : region_(std::move(region)) {}

  const std::unique_ptr<MemoryRegion> region_;
  std::size_t used_bytes_ = 0;
};

}  // namespace verbena::transport
