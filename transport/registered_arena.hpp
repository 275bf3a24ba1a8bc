// An allocator over one memory region, so that many buffers cost one registration and one grant.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::transport {

/// A jemalloc arena whose extents all lie in one registered region; jemalloc's own metadata does not, so that
/// no peer can read or write it.
///
/// allocate() and deallocate() may be called from any thread; everything else, and the destructor, only from
/// the transport's thread.
class RegisteredArena {
 public:
  /// The region is as large as a single allocation of `capacity_bytes` needs in a fresh arena: up to a
  /// quarter more, because jemalloc rounds sizes up to one of four classes per doubling, and 64 KiB. With
  /// many small allocations less fits in: each is rounded up to its class (at most a quarter more) and each
  /// class in use keeps whole pages. REQUIRES: `transport` outlives the arena.
  static absl::StatusOr<std::unique_ptr<RegisteredArena>> create(Transport& transport, Access access,
                                                                 std::size_t capacity_bytes);
  /// Memory that is still allocated ends with the arena.
  ~RegisteredArena();
  RegisteredArena(const RegisteredArena&) = delete;
  RegisteredArena& operator=(const RegisteredArena&) = delete;

  /// Memory inside region(), not zeroed; empty if the arena is exhausted or `bytes` is 0. REQUIRES:
  /// `alignment` is a power of two.
  [[nodiscard]] std::span<std::byte> allocate(std::size_t bytes, std::size_t alignment);
  /// REQUIRES: `memory` is what allocate() returned, and was not deallocated yet.
  void deallocate(std::span<std::byte> memory);

  [[nodiscard]] const MemoryRegion& region() const { return *region_; }

 private:
  struct Hooks;

  explicit RegisteredArena(std::unique_ptr<MemoryRegion> region);
  absl::Status create_arena();

  std::unique_ptr<MemoryRegion> region_;
  std::unique_ptr<Hooks> hooks_;
  unsigned arena_ = 0;
  bool arena_exists_ = false;
};

}  // namespace verbena::transport
