#include "apps/program/metrics_pipe.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace verbena::apps {

absl::StatusOr<MetricsPipe> MetricsPipe::make(const std::string& path) {
  ::unlink(path.c_str());
  const bool is_made = ::mkfifo(path.c_str(), S_IRUSR | S_IWUSR) == 0;
  MetricsPipe pipe(
      path, base::FileDescriptor(is_made ? ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1));
  const int reason = errno;
  if (!is_made || pipe.descriptor_.get() < 0)
    return absl::InternalError(fmt::format("{}: {}", path, std::strerror(reason)));
  return pipe;
}

MetricsPipe::MetricsPipe(std::string path, base::FileDescriptor descriptor)
    : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

MetricsPipe::~MetricsPipe() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void MetricsPipe::read(std::chrono::milliseconds patience, absl::FunctionRef<void(std::string_view)> use) {
  pollfd wanted = {.fd = descriptor_.get(), .events = POLLIN, .revents = 0};
  ::poll(&wanted, 1, static_cast<int>(patience.count()));
  std::array<char, 65536> block{};
  for (ssize_t got = 0; (got = ::read(descriptor_.get(), block.data(), block.size())) > 0;)
    text_.append(block.data(), static_cast<std::size_t>(got));
  // Both ends are open: nothing stays behind, however this process ends.
  if (!text_.empty() && !path_.empty()) ::unlink(std::exchange(path_, "").c_str());
  // Before it is opened at its other end it is at its end, which is no reason to turn without rest.
  if ((wanted.revents & POLLHUP) != 0) ::poll(nullptr, 0, static_cast<int>(patience.count()));
  for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1))
    use(std::string_view(text_).substr(0, end));
}

}  // namespace verbena::apps
