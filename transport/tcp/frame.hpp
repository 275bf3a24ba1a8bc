// What travels on a connection once its two ends have met: frames, each a header and, for some kinds, a
// payload.
//
// A payload has as many bytes of padding before it as its address is beyond a multiple of 8, and as many
// after it as make the frame a multiple of 8. So each 8-byte word of the stream is a word of the memory that
// it comes from or goes to, or a part of one with padding beside it: whoever copies whole words of the stream
// never splits a word of memory.
//
// A long payload may travel elsewhere: in pieces, each a frame of its own, over the further streams of the
// connection (further_streams.hpp). Its own frame, on the first stream, then has only the header. It says
// where in the order of all frames the payload belongs; pieces say which payload they are of.
//
// Numbers are in the order of bytes that the supported processors have (little-endian).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace verbena::transport::tcp {

constexpr std::size_t kWordBytes = 8;

enum class FrameKind : std::uint8_t {
  kRead = 1,         ///< asks for `length` bytes of memory; no payload
  kWrite = 2,        ///< payload → memory
  kWriteNotify = 3,  ///< as kWrite, then a notification: `value`
  kMessage = 4,      ///< payload is the message
  kAnswer = 5,       ///< payload is what a kRead asked for; answers come in the order of the questions
  kCredits = 6,      ///< the receiver of `value` notifications and messages has polled them
  kRefusal = 7,      ///< the request frame with number `value` (modulo 2^32) was not granted; the last frame
  kProbe = 8,        ///< nothing: its receiver's kernel acknowledges it; opens a further stream
  kPiece = 9,        ///< on a further stream: payload is a part of payload number `value` (modulo 2^32)
};

/// kRead, kWrite, kWriteNotify and kMessage are requests; each side counts those of a direction from 0.
struct Frame {
  FrameKind kind = FrameKind::kProbe;
  std::uint8_t is_elsewhere = 0;  ///< 1: its payload is, and is not empty; such payloads are counted from 0
  std::uint16_t sequence = 0;     ///< frames of a direction are counted from 0, modulo 2^16: none is missing
  std::uint32_t value = 0;
  std::uint64_t address = 0;
  std::uint64_t key = 0;
  std::uint64_t length = 0;
};
static_assert(sizeof(Frame) == 32);

/// A longer read is asked for in several frames, so that an answer never needs more room than this.
constexpr std::uint64_t kMostReadBytes = std::uint64_t{1} << 18;
/// Longer than any memory, and short enough that no sum with it overflows.
constexpr std::uint64_t kMostPayloadBytes = std::uint64_t{1} << 56;

inline bool is_request(FrameKind kind) {
  return kind >= FrameKind::kRead && kind <= FrameKind::kMessage;
}
inline bool can_be_elsewhere(FrameKind kind) {
  return kind == FrameKind::kWrite || kind == FrameKind::kWriteNotify || kind == FrameKind::kAnswer;
}
/// With its header.
inline bool has_payload(const Frame& frame) {
  if (frame.kind == FrameKind::kPiece) return true;
  return frame.kind >= FrameKind::kWrite && frame.kind <= FrameKind::kAnswer && frame.is_elsewhere == 0;
}
/// Bytes of padding before the payload.
inline std::size_t lead_bytes(const Frame& frame) {
  return has_payload(frame) ? frame.address % kWordBytes : 0;
}
/// Payload and padding. REQUIRES: length ≤ kMostPayloadBytes.
inline std::uint64_t body_bytes(const Frame& frame) {
  if (!has_payload(frame)) return 0;
  return (lead_bytes(frame) + frame.length + kWordBytes - 1) / kWordBytes * kWordBytes;
}
/// The answer to a read, with its header.
inline std::uint64_t answer_bytes(std::uint64_t length) {
  return sizeof(Frame) + length + 2 * kWordBytes;
}

/// Why no peer of this version sends such a header; empty if one may.
inline std::string obstacle(const Frame& frame, std::size_t max_message_bytes) {
  if (frame.kind < FrameKind::kRead || frame.kind > FrameKind::kPiece || frame.is_elsewhere > 1)
    return "a frame of a kind that there is not";
  if (frame.is_elsewhere == 1 && (!can_be_elsewhere(frame.kind) || frame.length == 0))
    return "a frame of a kind that there is not";
  if (frame.length > kMostPayloadBytes) return "a frame that is longer than any memory";
  if (frame.kind == FrameKind::kRead && frame.length > kMostReadBytes) return "a read that is too long";
  if (frame.kind == FrameKind::kMessage && (frame.length > max_message_bytes || frame.address != 0))
    return "a message that is too long";
  return {};
}

}  // namespace verbena::transport::tcp
