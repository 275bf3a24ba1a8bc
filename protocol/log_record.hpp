// A record of the log that copies of a server follow: what a worker has said to the server, as it came.
// Records travel through a message ring, from a server to the next one of its chain, in the one order in
// which all copies go by them (docs/protocol.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "absl/status/statusor.h"
#include "protocol/messages.hpp"

namespace verbena::protocol {

struct LogHeader {
  enum class Kind : std::uint32_t {
    kBulk = 1,     ///< a bulk message of the worker, whole
    kControl = 2,  ///< a control message of the worker
    /// A piece of what the server had at one moment (ImageStart), for a copy that has nothing. Records that
    /// have come since are between the pieces. An empty one is the last.
    kImage = 3,
  };

  Kind kind = Kind::kBulk;
  std::uint32_t worker = 0;
  std::uint64_t number = 0;  ///< records count from 1, and none is left out; so do pieces of an image
};
static_assert(sizeof(LogHeader) == 16 && std::is_trivially_copyable_v<LogHeader>);

struct LogRecord {
  LogHeader header;
  std::span<const std::byte> message;  ///< of the kind that the header says; not looked at yet
};

/// The first piece of an image begins with it. The pieces of the head come first. Each one of the bulk is
/// blocks, in any order.
struct ImageStart {
  std::uint64_t head_bytes = 0;  ///< what tells how to read the rest (server/image.hpp)
  std::uint64_t bulk_bytes = 0;
  std::uint64_t records = 0;  ///< of the log, that are in it
};
static_assert(sizeof(ImageStart) == 24 && std::is_trivially_copyable_v<ImageStart>);
/// Where the bytes that follow it belong.
struct ImageBlock {
  std::uint32_t lane = 0;
  std::uint32_t bytes = 0;
  std::uint64_t offset = 0;  ///< in the lane's part of the bulk
};
static_assert(sizeof(ImageBlock) == 16 && std::is_trivially_copyable_v<ImageBlock>);
constexpr std::size_t kMostImagePieceBytes = std::size_t{1} << 20;

/// The largest bulk message that a worker may send to a server that is followed. A record of it fits into the
/// log's ring.
constexpr std::size_t kMaxLoggedBytes = std::size_t{2} << 20;
/// Of the ring, in the memory of the one that follows.
constexpr std::size_t kLogRingBytes = 4 * (kMaxLoggedBytes + 4096);

/// Whether control messages of this kind change what a server has, and are in the log. As for bulk messages.
[[nodiscard]] bool is_logged(const ControlMessage& message);

/// INVALID_ARGUMENT: it is no record, or of a worker that the job does not have.
absl::StatusOr<LogRecord> decode_log_record(std::span<const std::byte> bytes, std::uint32_t workers);

}  // namespace verbena::protocol
