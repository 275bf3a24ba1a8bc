#include "cluster/frame_stream.hpp"

#include <sys/socket.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstdint>

namespace verbena::cluster {
namespace {

constexpr std::size_t kLengthBytes = 4;

}  // namespace

/// REQUIRES: the length has come
std::size_t FrameStream::announced() const {
  std::size_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(unread_[read_ + i]);
  return length;
}

bool FrameStream::has_whole_frame() const {
  const std::size_t have = unread_.size() - read_;
  return have >= kLengthBytes && have - kLengthBytes >= announced();
}

bool FrameStream::read(std::size_t most_bytes, std::size_t enough_bytes,
                       const std::function<bool(std::string_view frame)>& handle) {
  std::array<char, 1 << 16> block;  // not zeroed: filled before it is read
  bool open = true;
  for (std::size_t taken = 0; taken < enough_bytes;) {
    if (unread_.size() - read_ >= kLengthBytes && announced() > most_bytes) return false;
    if (has_whole_frame()) {
      const std::string_view frame = std::string_view(unread_).substr(read_ + kLengthBytes, announced());
      read_ += kLengthBytes + frame.size();
      taken += kLengthBytes + frame.size();
      if (!handle(frame)) return false;
      continue;
    }
    unread_.erase(0, std::exchange(read_, 0));
    if (!open) return false;
    const ssize_t got = ::recv(socket_.get(), block.data(), block.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) {
      open = false;  // but first what came before
      continue;
    }
    unread_.append(block.data(), static_cast<std::size_t>(got));
  }
  return true;
}

void FrameStream::add(std::string_view frame) {
  assert(frame.size() <= UINT32_MAX);
  for (std::size_t i = 0; i < kLengthBytes; ++i) unsent_ += static_cast<char>(frame.size() >> 8 * i & 0xff);
  unsent_ += frame;
}

bool FrameStream::write() {
  while (sent_ < unsent_.size()) {
    const ssize_t sent =
        ::send(socket_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    sent_ += static_cast<std::size_t>(sent);
  }
  // Not kept for the next one: a large answer is rare.
  unsent_ = {};
  sent_ = 0;
  return true;
}

}  // namespace verbena::cluster
