#include "transport/verbs/windows.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>

#include "transport/verbs/errors.hpp"

namespace verbena::transport::verbs {

VerbsRegion::~VerbsRegion() {
  windows_.close(*this);
}

int remote_right(Access access) {
  switch (access) {
    case Access::kLocal:
      return 0;
    case Access::kRemoteRead:
    case Access::kRemoteReadHostWrite:  // a peer on this host writes without the device
      return IBV_ACCESS_REMOTE_READ;
    case Access::kRemoteWrite:
      return IBV_ACCESS_REMOTE_WRITE;
  }
  return 0;
}

namespace {

/// mlx5 binds no window to more bytes.
constexpr std::size_t kMostWindowBytes = std::size_t{1} << 31;

}  // namespace

bool Windows::has_windows(std::size_t bytes) const {
  return device_.windows() && bytes <= kMostWindowBytes;
}

absl::StatusOr<std::unique_ptr<VerbsRegion>> Windows::allocate(std::size_t bytes, Access access) {
  int rights = IBV_ACCESS_LOCAL_WRITE;
  if (access != Access::kLocal) rights |= has_windows(bytes) ? IBV_ACCESS_MW_BIND : remote_right(access);
  // On iWARP the data of a read arrives as a write by the peer. Only the responders of reads learn the key.
  if (access == Access::kLocal && device_.iwarp()) rights |= IBV_ACCESS_REMOTE_WRITE;
  if (access != Access::kLocal && device_.windows() && !has_windows(bytes)) {
    spdlog::warn("{}: a region of {} bytes is too large for memory windows: whoever knows its key reaches it",
                 device_.name(), bytes);
  }
  auto memory =
      RegisteredMemory::create(device_, bytes, rights,
                               access == Access::kRemoteReadHostWrite ? RegisteredMemory::Sharing::kInPlace
                                                                      : RegisteredMemory::Sharing::kNone);
  if (!memory.ok()) return memory.status();
  return std::make_unique<VerbsRegion>(*this, std::move(*memory), access);
}

absl::StatusOr<Windows::Grant> Windows::grant(const VerbsRegion& region, const VerbsConnection& connection) {
  if (!has_windows(region.bytes().size())) return Grant{.key = region.registration()->rkey};
  const auto known = std::find_if(bindings_.begin(), bindings_.end(), [&](const Binding& binding) {
    return binding.region == &region && binding.connection == &connection;
  });
  if (known != bindings_.end()) return Grant{.key = known->key};
  ibv_mw* window = device_.api().alloc_mw(device_.domain(), IBV_MW_TYPE_2);
  if (window == nullptr) {
    const int error = errno;
    return errno_status(error, fmt::format("{} has no memory window left (of {})", device_.name(),
                                           device_.attributes().max_mw));
  }
  const Binding binding = {
      .window = window, .key = ::ibv_inc_rkey(window->rkey), .region = &region, .connection = &connection};
  bindings_.push_back(binding);
  return Grant{.key = binding.key, .fresh = true, .binding = binding};
}

bool Windows::exists(const Binding& binding) const {
  return std::any_of(bindings_.begin(), bindings_.end(), [&](const Binding& each) {
    return each.window == binding.window && each.key == binding.key;
  });
}

template <class Condition>
void Windows::close_if(Condition condition) {
  std::erase_if(bindings_, [&](const Binding& binding) {
    if (!condition(binding)) return false;
    if (const int error = device_.api().dealloc_mw(binding.window); error != 0) {
      spdlog::error("{}", errno_text(error, "a memory window cannot be closed"));
    }
    return true;
  });
}

void Windows::close(const VerbsRegion& region) {
  close_if([&](const Binding& binding) { return binding.region == &region; });
}

void Windows::close(const VerbsConnection& connection) {
  close_if([&](const Binding& binding) { return binding.connection == &connection; });
}

}  // namespace verbena::transport::verbs
