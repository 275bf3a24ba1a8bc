// The bytes that are to be sent on a stream: frames, in order, until the kernel has them.
//
// Headers, small payloads and answers are copied into memory of the writer's own, so that many of them leave
// by one system call; long payloads are sent from where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "transport/tcp/channel.hpp"
#include "transport/tcp/frame.hpp"

namespace verbena::transport::tcp {

class FrameWriter {
 public:
  /// A payload up to this size is copied: that costs less than a piece of its own in a system call.
  static constexpr std::size_t kMostCopiedBytes = 2048;
  /// One send() sends no more: its caller holds a lock.
  static constexpr std::size_t kMostSentBytes = std::size_t{4} << 20;

  FrameWriter() = default;
  FrameWriter(FrameWriter&&) = default;
  FrameWriter& operator=(FrameWriter&&) = default;

  /// Adds a frame, with its place in the sequence, and returns room for its payload, `frame.length` bytes, at
  /// the same offset in a word as frame.address; valid until the next call. For a frame without a payload it
  /// is empty.
  std::span<std::byte> add(const Frame& frame);
  /// Adds a frame whose payload stays where it is; it must not change until sent() has reached what queued()
  /// is after the call.
  void add_in_place(const Frame& frame, std::span<const std::byte> payload);

  /// Positions in the stream: what was added, and what the kernel has of it.
  [[nodiscard]] std::uint64_t queued() const { return queued_; }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] bool empty() const { return queued_ == sent_; }
  /// Bytes in memory of the writer's own.
  [[nodiscard]] std::size_t held_bytes() const { return static_cast<std::size_t>(end_ - begin_); }

  /// Sends until the kernel takes no more, or a bounded amount has left. Returns an errno, or 0; EAGAIN if
  /// the kernel takes no more.
  int send(Channel& channel);

  /// What payloads in place still have to be sent? Then the rest of the stream needs their memory.
  [[nodiscard]] bool needs_others_memory() const;

 private:
  /// Bytes that leave one after the other.
  struct Piece {
    const std::byte* in_place = nullptr;  ///< nullptr: in own memory
    std::uint64_t position = 0;           ///< in own memory
    std::size_t bytes = 0;
  };
  static constexpr std::size_t kLeastBytes = 16384;
  static constexpr std::size_t kMostIdleBytes = std::size_t{1} << 20;

  struct Free {
    void operator()(std::byte* memory) const;
  };

  std::byte* add_header(const Frame& frame, std::size_t bytes);
  std::byte* extend(std::size_t bytes);
  void make_room(std::size_t bytes);
  void mark_sent(std::size_t bytes);
  [[nodiscard]] std::byte* at(std::uint64_t position) const { return memory_.get() + (position - base_); }

  // Own memory has positions, too, which only grow: [begin_, end_) are held, at memory_ + (position − base_).
  // base_ is a multiple of 64, and memory_ begins at one; so a position tells the place in a word.
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_ = 0;
  std::uint64_t base_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::deque<Piece> pieces_;
  std::uint16_t next_sequence_ = 0;
  std::uint64_t queued_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace verbena::transport::tcp
