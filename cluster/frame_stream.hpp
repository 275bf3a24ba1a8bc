// Frames over a stream socket: four bytes with the length, the low ones first, then so many bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/file_descriptor.hpp"

namespace verbena::cluster {

/// Both ways of one non-blocking socket, which it owns.
class FrameStream {
 public:
  FrameStream() = default;
  explicit FrameStream(base::FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Hands over the whole frames that have come, until handle() returns false; of more than about
  /// `enough_bytes` the rest stays for the next call. False: the other end has gone, or announces a frame of
  /// more than `most_bytes`, for which no memory is taken, or handle() has returned false.
  bool read(std::size_t most_bytes, std::size_t enough_bytes,
            const std::function<bool(std::string_view frame)>& handle);
  /// Whether read() has something to do though nothing may have come since.
  [[nodiscard]] bool has_whole_frame() const;

  /// REQUIRES: frame.size() < 2³²
  void add(std::string_view frame);
  /// Sends what the socket takes. False: the other end has gone.
  bool write();
  [[nodiscard]] std::size_t unsent_bytes() const { return unsent_.size() - sent_; }

  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  [[nodiscard]] std::size_t announced() const;

  base::FileDescriptor socket_;
  std::string unread_;
  std::size_t read_ = 0;  ///< of unread_, handed over
  std::string unsent_;
  std::size_t sent_ = 0;  ///< of unsent_
};

}  // namespace verbena::cluster
