#include "transport/registered_arena.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

namespace verbena::transport {

absl::StatusOr<std::unique_ptr<RegisteredArena>> RegisteredArena::create(Transport& transport, Access access,
                                                                         std::size_t capacity_bytes) {
  if (capacity_bytes == 0 || capacity_bytes > PTRDIFF_MAX)
    return absl::InvalidArgumentError(fmt::format("an arena cannot have {} bytes", capacity_bytes));
  absl::StatusOr<std::unique_ptr<MemoryRegion>> region = transport.allocate_region(capacity_bytes, access);
  if (!region.ok()) return region.status();
  return std::unique_ptr<RegisteredArena>(new RegisteredArena(*std::move(region)));
}

std::span<std::byte> RegisteredArena::allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t begin = (used_bytes_ + alignment - 1) / alignment * alignment;
  const std::size_t capacity_bytes = region_->bytes().size();
  if (bytes == 0 || begin > capacity_bytes || bytes > capacity_bytes - begin) return {};
  used_bytes_ = begin + bytes;
  return region_->bytes().subspan(begin, bytes);
}

}  // namespace verbena::transport
