// The identifier that a work request of the device carries and its completion brings back. It tells what
// completed even if no other field of the completion is valid: the connection, by its serial number; whether
// it was a receive; and the number of the place in the send queue, or of the receive.
#pragma once

#include <cstdint>

namespace verbena::transport::verbs {

constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 31U;

constexpr std::uint64_t send_id(std::uint32_t serial, std::uint32_t number) {
  return std::uint64_t{serial} << 32U | number;
}
constexpr std::uint64_t receive_id(std::uint32_t serial, std::uint32_t receive) {
  return send_id(serial, receive) | kReceiveBit;
}

constexpr std::uint32_t serial_of(std::uint64_t id) {
  return static_cast<std::uint32_t>(id >> 32U);
}
constexpr bool is_receive(std::uint64_t id) {
  return (id & kReceiveBit) != 0;
}
constexpr std::uint32_t place_of(std::uint64_t id) {
  return static_cast<std::uint32_t>(id) & ~static_cast<std::uint32_t>(kReceiveBit);
}

}  // namespace verbena::transport::verbs
