// The messages with which the measuring side gives orders to the other side. They go over the transport that
// is measured. Both sides are this program, in the same version.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "apps/bench/samples.hpp"
#include "transport/transport.hpp"

namespace verbena::apps::bench {

/// How the other side answers what reaches its memory. Each answer has as many bytes as what arrived.
enum class Echo : std::uint32_t {
  kNone,          ///< not at all; it sleeps between events
  kTake,          ///< not at all, but stays awake and takes the notifications
  kNotification,  ///< answers a notification with a write and a notification
  kMemory,        ///< answers a write whose last 8 bytes count up with one of the same kind
};

/// The size of the word that counts up.
inline constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
inline std::uint64_t& last_word(std::span<std::byte> memory, std::size_t bytes) {
  return *reinterpret_cast<std::uint64_t*>(memory.data() + bytes - kWordBytes);
}

struct Message {
  static constexpr std::uint32_t kVersion = 5;
  enum class Kind : std::uint32_t {
    kFailed,       ///< answer to any: `text`
    kMemory,       ///< have `value` bytes to read and to write: kMemory with both
    kEcho,         ///< `number` (an Echo) of `value` bytes: kEcho when it listens
    kStartServer,  ///< `value` of `servers` for `number` workers, with `copies`: kStartServer with the
                   ///< address of the one that serves, `text`
    kStopServers,  ///< kStopServers with how many bytes they had sent to copies: `value`
    kPauses,  ///< how long the servers' sparse tables took to grow since the last such order, from bucket
              ///< `number` on: kPauses with `number` buckets in all, and those that it holds (set_buckets())
    kProcessorTime,  ///< kProcessorTime with what the process has used: `value` nanoseconds
    kStartPerftest,  ///< `text`, the tool's arguments: kStartPerftest when it listens at port `number`
    kEndPerftest,    ///< waits for its end: kEndPerftest
    kCompute,        ///< kCompute at once; then it computes for `value` milliseconds, and takes no event
  };

  Kind kind = Kind::kFailed;
  std::uint32_t version = kVersion;
  std::uint32_t number = 0;
  std::uint32_t servers = 0;
  std::uint32_t copies = 0;
  std::uint32_t shares_cores = 0;  ///< 1: there are more threads than cores
  std::uint64_t value = 0;
  transport::RemoteDescriptor readable = {};
  transport::RemoteDescriptor writable = {};
  static constexpr std::size_t kTextBytes = 512;
  static constexpr std::size_t kMostBuckets = kTextBytes / std::size_t{sizeof(Samples::Bucket)};
  std::array<char, kTextBytes> text_bytes = {};

  void set_text(std::string_view text) {
    const std::size_t count = std::min(text.size(), text_bytes.size() - 1);
    std::memcpy(text_bytes.data(), text.data(), count);
    text_bytes[count] = 0;
  }
  /// Of a histogram of times: as many as there is room for. Returns how many these are.
  std::size_t set_buckets(std::span<const Samples::Bucket> buckets) {
    value = std::min(buckets.size(), kMostBuckets);
    if (value > 0) std::memcpy(text_bytes.data(), buckets.data(), value * sizeof(Samples::Bucket));
    return value;
  }
  [[nodiscard]] std::vector<Samples::Bucket> buckets() const {
    std::vector<Samples::Bucket> buckets(std::min<std::size_t>(value, kMostBuckets));
    std::memcpy(buckets.data(), text_bytes.data(), buckets.size() * sizeof(Samples::Bucket));
    return buckets;
  }
  [[nodiscard]] std::string text() const {
    return {text_bytes.data(), ::strnlen(text_bytes.data(), text_bytes.size())};
  }
};
static_assert(std::is_trivially_copyable_v<Message>);

/// nullopt if the bytes are not a message of this version.
inline std::optional<Message> read_message(std::span<const std::byte> bytes) {
  Message message;
  if (bytes.size() != sizeof(message)) return std::nullopt;
  std::memcpy(&message, bytes.data(), sizeof(message));
  return message.version == Message::kVersion ? std::optional(message) : std::nullopt;
}

/// The memory that a side opens to the other one, and the memory for its own requests. All its connections
/// use the same.
struct Memory {
  std::unique_ptr<transport::MemoryRegion> readable;
  std::unique_ptr<transport::MemoryRegion> writable;
  std::unique_ptr<transport::MemoryRegion> local;

  static absl::StatusOr<Memory> allocate(transport::Transport& transport, std::size_t bytes);
  [[nodiscard]] std::size_t bytes() const { return local == nullptr ? 0 : local->bytes().size(); }
};

}  // namespace verbena::apps::bench
