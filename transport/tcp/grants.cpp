#include "transport/tcp/grants.hpp"

#include <cstring>

#include "transport/secret.hpp"

namespace verbena::transport::tcp {

absl::StatusOr<RemoteDescriptor> Grants::add(const MemoryRegion& region) {
  if (region.access() == Access::kLocal)
    return absl::PermissionDeniedError("a region that is local cannot be granted");
  auto known = keys_.find(&region);
  if (known == keys_.end()) {
    // Nobody guesses one of 2^64; and the first wrong guess ends the connection.
    const absl::StatusOr<Nonce> random = fresh_nonce();
    if (!random.ok()) return random.status();
    std::uint64_t key = 0;
    std::memcpy(&key, random->data(), sizeof key);
    regions_.emplace(key, &region);
    known = keys_.emplace(&region, key).first;
  }
  return RemoteDescriptor{.address = reinterpret_cast<std::uintptr_t>(region.bytes().data()),
                          .length_bytes = region.bytes().size(),
                          .key = known->second};
}

void Grants::remove(const MemoryRegion& region) {
  const auto known = keys_.find(&region);
  if (known == keys_.end()) return;
  regions_.erase(known->second);
  keys_.erase(known);
}

std::byte* Grants::find(std::uint64_t key, std::uint64_t address, std::uint64_t length, Access right) const {
  const auto known = regions_.find(key);
  if (known == regions_.end() || !allows(known->second->access(), right)) return nullptr;
  const std::span<std::byte> bytes = known->second->bytes();
  const std::uint64_t first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uint64_t offset = address - first;
  const bool inside = address >= first && offset <= bytes.size() && length <= bytes.size() - offset;
  return inside ? bytes.data() + offset : nullptr;
}

}  // namespace verbena::transport::tcp
