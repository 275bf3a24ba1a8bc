#include "job/line_stream.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace verbena::job {

bool LineStream::read(int descriptor, const std::function<void(std::string_view line)>& handle) {
  std::array<char, 1 << 14> block = {};
  for (;;) {
    const ssize_t got = ::read(descriptor, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    add({block.data(), static_cast<std::size_t>(got)}, handle);
  }
}

void LineStream::add(std::string_view bytes, const std::function<void(std::string_view line)>& handle) {
  const std::size_t new_bytes_at = unread_.size();  // before, there is no end of a line
  unread_.append(bytes);
  std::size_t begin = 0;
  for (std::size_t end = unread_.find('\n', new_bytes_at); end != std::string::npos;
       end = unread_.find('\n', begin)) {
    handle(std::string_view(unread_).substr(begin, end - begin));
    begin = end + 1;
  }
  unread_.erase(0, begin);
}

absl::Status write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable = {descriptor, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return absl::UnavailableError(fmt::format("cannot write: {}", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace verbena::job
