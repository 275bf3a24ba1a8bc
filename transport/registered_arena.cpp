#include "transport/registered_arena.hpp"

#include <fmt/format.h>
#include <jemalloc/jemalloc.h>

#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>

#include "base/return_if_error.hpp"

namespace verbena::transport {

namespace {

constexpr std::size_t kPageBytes = 4096;
/// Room in addition to the size class: for the offset at which jemalloc starts large allocations, or for the
/// slab of small ones.
constexpr std::size_t kSlackBytes = 16 * kPageBytes;
constexpr std::size_t kCacheLineBytes = 64;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

int arena_flags(std::size_t alignment, unsigned arena) {
  return static_cast<int>(MALLOCX_ALIGN(alignment)) | static_cast<int>(MALLOCX_ARENA(arena)) |
         MALLOCX_TCACHE_NONE;
}

absl::Status jemalloc_error(std::string_view what, int error) {
  return absl::ResourceExhaustedError(
      fmt::format("registered memory: jemalloc could not {}: {}", what, std::strerror(error)));
}

}  // namespace

/// The functions that jemalloc calls for extents. It passes them the table's address, so the table must be
/// the first member.
struct RegisteredArena::Hooks {
  extent_hooks_t table;
  std::span<std::byte> region;
  std::atomic<std::size_t> carved_bytes{0};

  explicit Hooks(std::span<std::byte> memory) : table(make_table()), region(memory) {}

  static extent_hooks_t make_table() {
    // jemalloc keeps every extent that dalloc refuses, and uses it again. Nothing is decommitted or purged,
    // because the pages of registered memory must stay.
    return {.alloc = &alloc,
            .dalloc = [](extent_hooks_t*, void*, std::size_t, bool, unsigned) { return true; },
            .destroy = nullptr,
            .commit = nullptr,
            .decommit = nullptr,
            .purge_lazy = nullptr,
            .purge_forced = nullptr,
            .split = [](extent_hooks_t*, void*, std::size_t, std::size_t, std::size_t, bool,
                        unsigned) { return false; },
            .merge = [](extent_hooks_t*, void*, std::size_t, void*, std::size_t, bool,
                        unsigned) { return false; }};
  }

  /// Cuts the next piece off the region. Pieces never come back here, so the rest of the region is still
  /// zeroed.
  static void* alloc(extent_hooks_t* table, void* at, std::size_t bytes, std::size_t alignment, bool* zero,
                     bool* commit, unsigned) {
    Hooks& hooks = *reinterpret_cast<Hooks*>(table);
    std::size_t carved = hooks.carved_bytes.load(std::memory_order_relaxed);
    std::byte* piece = nullptr;
    std::size_t end = 0;
    do {
      const auto next = reinterpret_cast<std::uintptr_t>(hooks.region.data()) + carved;
      const std::size_t start = carved + (round_up(next, alignment) - next);
      if (start > hooks.region.size() || bytes > hooks.region.size() - start) return nullptr;
      piece = hooks.region.data() + start;
      if (at != nullptr && at != piece) return nullptr;
      end = start + bytes;
    } while (!hooks.carved_bytes.compare_exchange_weak(carved, end, std::memory_order_relaxed));
    *zero = true;
    *commit = true;
    return piece;
  }
};

absl::StatusOr<std::unique_ptr<RegisteredArena>> RegisteredArena::create(Transport& transport, Access access,
                                                                         std::size_t capacity_bytes) {
  // 0 means that the size is beyond jemalloc's largest class.
  const std::size_t class_bytes =
      capacity_bytes == 0 ? 0 : ::nallocx(capacity_bytes, static_cast<int>(MALLOCX_ALIGN(kCacheLineBytes)));
  if (class_bytes == 0) {
    return absl::InvalidArgumentError(
        fmt::format("registered memory: an arena of {} bytes is impossible", capacity_bytes));
  }
  auto region = transport.allocate_region(round_up(class_bytes, kPageBytes) + kSlackBytes, access);
  if (!region.ok()) return region.status();
  std::unique_ptr<RegisteredArena> arena(new RegisteredArena(std::move(*region)));
  RETURN_IF_ERROR(arena->create_arena());
  // jemalloc never merges extents that it got in different pieces: so make it take the whole region at once.
  const std::span<std::byte> whole = arena->allocate(capacity_bytes, kCacheLineBytes);
  if (whole.empty()) {
    return absl::ResourceExhaustedError(
        fmt::format("registered memory: jemalloc does not fit {} bytes into {}", capacity_bytes,
                    arena->region_->bytes().size()));
  }
  arena->deallocate(whole);
  return arena;
}

RegisteredArena::RegisteredArena(std::unique_ptr<MemoryRegion> region)
    : region_(std::move(region)), hooks_(std::make_unique<Hooks>(region_->bytes())) {}

absl::Status RegisteredArena::create_arena() {
  static_assert(offsetof(Hooks, table) == 0);
  std::size_t size = sizeof arena_;
  if (const int error = ::mallctl("arenas.create", &arena_, &size, nullptr, 0); error != 0)
    return jemalloc_error("create an arena", error);
  arena_exists_ = true;
  // Set the hooks after the creation, not with it: an arena allocates its metadata through the hooks that it
  // was created with.
  extent_hooks_t* table = &hooks_->table;
  const std::string name = fmt::format("arena.{}.extent_hooks", arena_);
  if (const int error =
          ::mallctl(name.c_str(), nullptr, nullptr, static_cast<void*>(&table), sizeof(extent_hooks_t*));
      error != 0) {
    return jemalloc_error("set an arena's hooks", error);
  }
  // Decay at once: jemalloc merges an extent with its neighbours only after the extent has decayed. The decay
  // purges nothing, see the hooks.
  for (const std::string_view kind : {"dirty", "muzzy"}) {
    const std::string decay = fmt::format("arena.{}.{}_decay_ms", arena_, kind);
    ssize_t decay_ms = 0;
    if (const int error = ::mallctl(decay.c_str(), nullptr, nullptr, &decay_ms, sizeof decay_ms); error != 0)
      return jemalloc_error("set an arena's decay", error);
  }
  return absl::OkStatus();
}

RegisteredArena::~RegisteredArena() {
  if (!arena_exists_) return;
  const std::string name = fmt::format("arena.{}.destroy", arena_);
  [[maybe_unused]] const int error = ::mallctl(name.c_str(), nullptr, nullptr, nullptr, 0);
  assert(error == 0);
}

std::span<std::byte> RegisteredArena::allocate(std::size_t bytes, std::size_t alignment) {
  assert(std::has_single_bit(alignment));
  if (bytes == 0 || ::nallocx(bytes, static_cast<int>(MALLOCX_ALIGN(alignment))) == 0) return {};
  auto* const memory = static_cast<std::byte*>(::mallocx(bytes, arena_flags(alignment, arena_)));
  return memory == nullptr ? std::span<std::byte>() : std::span(memory, bytes);
}

void RegisteredArena::deallocate(std::span<std::byte> memory) {
  if (!memory.empty()) ::sdallocx(memory.data(), memory.size(), MALLOCX_TCACHE_NONE);
}

}  // namespace verbena::transport
