#include "transport/tcp/frame_writer.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace verbena::transport::tcp {

namespace {

constexpr std::size_t kMemoryAlignment = 64;
constexpr std::size_t kPiecesAtOnce = 64;

}  // namespace

void FrameWriter::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{kMemoryAlignment});
}

/// Makes room for more bytes, moving those that are held.
void FrameWriter::make_room(std::size_t bytes) {
  const std::uint64_t new_base = begin_ / kMemoryAlignment * kMemoryAlignment;
  const std::size_t needed = static_cast<std::size_t>(end_ - new_base) + bytes;
  // Moving what is held into the same memory pays only if that makes much room.
  if (memory_ != nullptr && needed <= capacity_ / 2) {
    std::memmove(memory_.get() + (begin_ - new_base), at(begin_), held_bytes());
  } else {
    const std::size_t capacity =
        std::max(kLeastBytes, 2 * needed) / kMemoryAlignment * kMemoryAlignment + kMemoryAlignment;
    std::unique_ptr<std::byte, Free> larger(
        static_cast<std::byte*>(::operator new (capacity, std::align_val_t{kMemoryAlignment})));
    if (held_bytes() > 0) std::memcpy(larger.get() + (begin_ - new_base), at(begin_), held_bytes());
    memory_ = std::move(larger);
    capacity_ = capacity;
  }
  base_ = new_base;
}

/// Adds so many bytes of own memory to the stream and returns where they are.
std::byte* FrameWriter::extend(std::size_t bytes) {
  if (memory_ == nullptr || end_ - base_ + bytes > capacity_) make_room(bytes);
  const bool continues = !pieces_.empty() && pieces_.back().in_place == nullptr &&
                         pieces_.back().position + pieces_.back().bytes == end_;
  if (continues) {
    pieces_.back().bytes += bytes;
  } else {
    pieces_.push_back({.position = end_, .bytes = bytes});
  }
  std::byte* const place = at(end_);
  end_ += bytes;
  queued_ += bytes;
  return place;
}

/// Adds a header and so many bytes of own memory behind it.
std::byte* FrameWriter::add_header(const Frame& frame, std::size_t bytes) {
  end_ = (end_ + kWordBytes - 1) / kWordBytes * kWordBytes;  // after a payload in place
  if (pieces_.empty()) begin_ = end_;
  std::byte* const place = extend(sizeof frame + bytes);
  Frame numbered = frame;
  numbered.sequence = next_sequence_++;
  std::memcpy(place, &numbered, sizeof numbered);
  return place + sizeof frame;
}

std::span<std::byte> FrameWriter::add(const Frame& frame) {
  const auto body = static_cast<std::size_t>(body_bytes(frame));
  std::byte* const place = add_header(frame, body);
  if (body == 0) return {};
  // The padding, which lies in the first and in the last word.
  std::memset(place, 0, kWordBytes);
  std::memset(place + body - kWordBytes, 0, kWordBytes);
  return {place + lead_bytes(frame), static_cast<std::size_t>(frame.length)};
}

void FrameWriter::add_in_place(const Frame& frame, std::span<const std::byte> payload) {
  const std::size_t lead = lead_bytes(frame);
  std::memset(add_header(frame, lead), 0, lead);
  pieces_.push_back({.in_place = payload.data(), .bytes = payload.size()});
  queued_ += payload.size();
  const std::size_t tail = static_cast<std::size_t>(body_bytes(frame)) - lead - payload.size();
  if (tail > 0) std::memset(extend(tail), 0, tail);
}

void FrameWriter::mark_sent(std::size_t bytes) {
  sent_ += bytes;
  while (bytes > 0) {
    Piece& first = pieces_.front();
    const std::size_t part = std::min(bytes, first.bytes);
    bytes -= part;
    first.bytes -= part;
    if (first.in_place != nullptr) {
      first.in_place += part;
    } else {
      first.position += part;
      begin_ = first.position;
    }
    if (first.bytes == 0) pieces_.pop_front();
  }
  if (!pieces_.empty()) return;
  begin_ = end_;
  if (capacity_ > kMostIdleBytes) {
    memory_.reset();
    capacity_ = 0;
  }
  if (memory_ == nullptr) return;
  base_ = begin_ / kMemoryAlignment * kMemoryAlignment;  // all of it is free
}

int FrameWriter::send(Channel& channel) {
  std::array<iovec, kPiecesAtOnce> parts;
  for (std::size_t left = kMostSentBytes; !pieces_.empty() && left > 0;) {
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (const Piece& piece : pieces_) {
      if (count == parts.size() || bytes == left) break;
      const std::byte* const from = piece.in_place != nullptr ? piece.in_place : at(piece.position);
      const std::size_t part = std::min(piece.bytes, left - bytes);
      parts[count++] = {.iov_base = const_cast<std::byte*>(from), .iov_len = part};
      bytes += part;
    }
    const std::ptrdiff_t sent = channel.send(std::span(parts).first(count));
    if (sent < 0) return static_cast<int>(-sent);
    mark_sent(static_cast<std::size_t>(sent));
    left -= static_cast<std::size_t>(sent);
  }
  return 0;
}

bool FrameWriter::needs_others_memory() const {
  return std::ranges::any_of(pieces_, [](const Piece& piece) { return piece.in_place != nullptr; });
}

}  // namespace verbena::transport::tcp
