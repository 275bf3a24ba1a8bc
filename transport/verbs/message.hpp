// A message as it is on the wire, a header of 8 bytes and the payload, and the memory that messages leave
// from and arrive in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::transport::verbs {

enum class MessageKind : std::uint32_t {
  kMessage = 1,       ///< the owner's
  kNotification = 2,  ///< follows a write, if one of the devices cannot write with immediate data
  kCredits = 3,       ///< receives.hpp
  kIntroduction = 4,  ///< the connecting side's first message
};

struct MessageHeader {
  MessageKind kind;
  std::uint32_t value;
};
static_assert(sizeof(MessageHeader) == 8);

/// Buffers of equal size, one after another in memory that the device may reach. A view: whoever owns the
/// memory keeps it.
struct BufferRow {
  std::byte* first = nullptr;
  std::size_t each_bytes = 0;
  std::uint32_t key = 0;  ///< of the device, for local use

  [[nodiscard]] std::span<std::byte> at(std::uint32_t number) const {
    return {first + number * each_bytes, each_bytes};
  }
};

/// What a buffer must hold, in whole words.
constexpr std::size_t buffer_bytes(std::uint32_t max_message_bytes) {
  return (sizeof(MessageHeader) + max_message_bytes + 7) / 8 * 8;
}

}  // namespace verbena::transport::verbs
