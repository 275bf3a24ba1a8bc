// Takes the bytes of a stream apart into frames.
//
// The transport receives all its streams into one buffer, and a reader keeps only what it could not use yet:
// less than a header, or less than a word of a payload; and what is behind a frame at which it was told to
// pause. It lays the bytes out so that a word of the stream is
// a word of the buffer. See frame.hpp for why payloads can then be copied without splitting a word.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/return_if_error.hpp"
#include "transport/tcp/frame.hpp"

namespace verbena::transport::tcp {

inline absl::Status nonsense(const std::string& what) {
  return absl::DataLossError(absl::StrCat("it sent what no peer of this version sends: ", what));
}

/// What is done with frames. An error ends the connection: the reader takes nothing more.
class FrameUser {
 public:
  /// A header has come. Its frame is possible, but nothing else is known about it.
  virtual absl::Status begin(const Frame& frame) = 0;
  /// The next bytes of the payload, which begin `offset` bytes after its beginning. They begin and end at
  /// words of the memory that the frame's address speaks of, or at the payload's own beginning and end; and
  /// `bytes` lies at the same offset in a word as that memory does.
  virtual absl::Status take(const Frame& frame, std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// All of it has come. The user may end the connection here, too.
  virtual absl::Status end(const Frame& frame) = 0;

 protected:
  ~FrameUser() = default;
};

class FrameReader {
 public:
  static constexpr std::size_t kBufferAlignment = 64;

  explicit FrameReader(std::size_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}

  /// Where to receive the next bytes. REQUIRES: it is not paused; `buffer` is aligned to kBufferAlignment and
  /// longer than a header.
  [[nodiscard]] std::span<std::byte> room(std::span<std::byte> buffer) {
    assert(reinterpret_cast<std::uintptr_t>(buffer.data()) % kBufferAlignment == 0);
    assert(!is_paused_);
    buffer_ = buffer;
    std::memcpy(buffer.data(), rest_.data(), rest_bytes_);
    return buffer.subspan(rest_bytes_);
  }
  /// As room(), for at most what is missing of the frame and of the next header.
  [[nodiscard]] std::span<std::byte> room_for_one(std::span<std::byte> buffer) {
    const std::uint64_t wanted = (in_body_ ? body_bytes(frame_) - body_taken_ : 0) + sizeof(Frame);
    const std::span<std::byte> all = room(buffer);
    return all.first(static_cast<std::size_t>(std::min<std::uint64_t>(all.size(), wanted - rest_bytes_)));
  }

  /// So many bytes have come since room(). DATA_LOSS if no peer of this version sends such bytes; or the
  /// user's error.
  absl::Status received(std::size_t count, FrameUser& user) {
    std::span<const std::byte> bytes = buffer_.first(rest_bytes_ + count);
    RETURN_IF_ERROR(take(bytes, user));
    if (!is_paused_) return keep(bytes);
    rest_bytes_ = 0;
    kept_.assign(bytes.begin(), bytes.end());
    kept_used_ = 0;
    return absl::OkStatus();
  }

  /// For the user, while the reader calls it: nothing that is behind the header or the end of this frame is
  /// taken before resume().
  void pause() { is_paused_ = true; }
  [[nodiscard]] bool is_paused() const { return is_paused_; }
  /// Goes on, with what is there already; the user may pause it again. Errors as for received().
  absl::Status resume(FrameUser& user) {
    is_paused_ = false;
    std::span<const std::byte> bytes = std::span<const std::byte>(kept_).subspan(kept_used_);
    RETURN_IF_ERROR(take(bytes, user));
    kept_used_ = kept_.size() - bytes.size();
    return is_paused_ ? absl::OkStatus() : keep(bytes);
  }

 private:
  /// Takes the frames off the front of `bytes`.
  absl::Status take(std::span<const std::byte>& bytes, FrameUser& user) {
    while (!is_paused_ && bytes.size() >= (in_body_ ? kWordBytes : sizeof(Frame))) {
      const std::size_t used = in_body_ ? body_piece(bytes.size()) : sizeof(Frame);
      RETURN_IF_ERROR(in_body_ ? take_body(bytes.first(used), user) : take_header(bytes.first(used), user));
      bytes = bytes.subspan(used);
    }
    return absl::OkStatus();
  }
  absl::Status keep(std::span<const std::byte> bytes) {
    rest_bytes_ = bytes.size();
    if (rest_bytes_ > 0) std::memcpy(rest_.data(), bytes.data(), rest_bytes_);
    return absl::OkStatus();
  }
  [[nodiscard]] std::size_t body_piece(std::size_t available) const {
    const std::uint64_t left = body_bytes(frame_) - body_taken_;
    return static_cast<std::size_t>(std::min<std::uint64_t>(available / kWordBytes * kWordBytes, left));
  }
  absl::Status take_header(std::span<const std::byte> bytes, FrameUser& user) {
    std::memcpy(&frame_, bytes.data(), sizeof frame_);
    std::string why = obstacle(frame_, max_message_bytes_);
    if (why.empty() && frame_.sequence != next_sequence_++) why = "a frame out of its turn";
    if (!why.empty()) return nonsense(why);
    RETURN_IF_ERROR(user.begin(frame_));
    body_taken_ = 0;
    in_body_ = body_bytes(frame_) > 0;
    return in_body_ ? absl::OkStatus() : user.end(frame_);
  }
  absl::Status take_body(std::span<const std::byte> bytes, FrameUser& user) {
    // The piece of the payload that lies in this piece of the body.
    const std::uint64_t lead = lead_bytes(frame_);
    const std::uint64_t first = std::max(body_taken_, lead);
    const std::uint64_t last = std::min(body_taken_ + bytes.size(), lead + frame_.length);
    if (first < last) {
      RETURN_IF_ERROR(user.take(frame_, first - lead, bytes.subspan(first - body_taken_, last - first)));
    }
    body_taken_ += bytes.size();
    in_body_ = body_taken_ < body_bytes(frame_);
    return in_body_ ? absl::OkStatus() : user.end(frame_);
  }

  const std::size_t max_message_bytes_;
  std::span<std::byte> buffer_;
  std::array<std::byte, sizeof(Frame)> rest_{};
  std::size_t rest_bytes_ = 0;
  bool is_paused_ = false;
  std::vector<std::byte> kept_;  ///< what had come when it paused; begins at a word, as the stream does there
  std::size_t kept_used_ = 0;
  Frame frame_;
  std::uint16_t next_sequence_ = 0;
  bool in_body_ = false;
  std::uint64_t body_taken_ = 0;
};

}  // namespace verbena::transport::tcp
