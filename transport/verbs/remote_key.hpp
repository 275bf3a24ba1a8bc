// The key of a descriptor. Its lower half is the device's key. Its upper half is the number under which
// memory that was granted in place was passed to a neighbour (neighbours.hpp); 0: it was not.
#pragma once

#include <cstdint>

#include "transport/transport.hpp"

namespace verbena::transport::verbs {

inline std::uint32_t device_key(const RemoteDescriptor& remote) {
  return static_cast<std::uint32_t>(remote.key);
}
inline std::uint32_t passed_number(const RemoteDescriptor& remote) {
  return static_cast<std::uint32_t>(remote.key >> 32U);
}
inline std::uint64_t numbered_key(std::uint64_t key, std::uint32_t number) {
  return std::uint64_t{number} << 32U | key;
}

}  // namespace verbena::transport::verbs
