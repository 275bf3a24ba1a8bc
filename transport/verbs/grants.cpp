#include "transport/verbs/grants.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "transport/verbs/remote_key.hpp"

namespace verbena::transport::verbs {

absl::StatusOr<Grants::Grant> Grants::add(const MemoryRegion& region, std::string_view peer) {
  const auto* ours = dynamic_cast<const VerbsRegion*>(&region);
  if (ours == nullptr || &ours->owner() != &hub_.windows) {
    return absl::InvalidArgumentError("the region to be granted belongs to another transport");
  }
  if (region.access() == Access::kLocal) {
    return absl::PermissionDeniedError("a local region cannot be granted to a peer");
  }
  auto grant = hub_.windows.grant(*ours, owner_);
  if (!grant.ok()) {
    return absl::Status(grant.status().code(),
                        fmt::format("{}: {}", peer, std::string(grant.status().message())));
  }
  if (grant->fresh) unbound_.push_back(grant->binding);
  return Grant{.descriptor = {.address = reinterpret_cast<std::uintptr_t>(region.bytes().data()),
                              .length_bytes = region.bytes().size(),
                              .key = grant->key},
               .fresh = grant->fresh};
}

void Grants::bind(Sender& sender) {
  std::size_t bound = 0;
  for (; bound < unbound_.size() && sender.room() > Sender::kReservedSends; ++bound) {
    const Windows::Binding& binding = unbound_[bound];
    if (!hub_.windows.exists(binding)) continue;  // the region is gone already
    sender.add_bind(binding);
  }
  unbound_.erase(unbound_.begin(), unbound_.begin() + static_cast<std::ptrdiff_t>(bound));
}

RemoteDescriptor Grants::pass(const MemoryRegion& region, RemoteDescriptor descriptor) {
  Neighbour* const peer = neighbour();
  if (peer == nullptr) return descriptor;
  // Pass it anew each time: a number belongs to one file for ever, but keys can be used again.
  const std::uint32_t number = peer->pass(region.bytes(), static_cast<const VerbsRegion&>(region).file());
  descriptor.key = numbered_key(descriptor.key, number);
  return descriptor;
}

std::byte* Grants::find(const RemoteDescriptor& remote) {
  const std::uint32_t number = passed_number(remote);
  Neighbour* const peer = number == 0 ? nullptr : neighbour();
  return peer == nullptr ? nullptr : peer->find(number, remote.address, remote.length_bytes);
}

/// A neighbour comes before it sends anything over the device.
Neighbour* Grants::neighbour() {
  if (neighbour_ == nullptr && !meeting_.connects())
    neighbour_ = hub_.neighbours.claim(meeting_.opening(), hub_.options.secret.get());
  return neighbour_.get();
}

}  // namespace verbena::transport::verbs
