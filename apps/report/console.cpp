#include "apps/report/console.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

namespace verbena::apps {
namespace {

/// The first error of standard output, of which there is one. The stream itself remembers only that there was
/// an error.
std::atomic<int> first_error = 0;

void remember(int error) {
  int none = 0;
  first_error.compare_exchange_strong(none, error);
}

}  // namespace

void put(std::FILE* stream, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if (!written && stream == stdout) remember(errno);
}

void flush(std::FILE* stream) {
  if (std::fflush(stream) != 0 && stream == stdout) remember(errno);
}

absl::Status flush_output() {
  flush(stdout);
  const int error = first_error;
  if (error == 0 || error == EPIPE) return absl::OkStatus();
  return absl::UnknownError(
      fmt::format("standard output: {} ({})", std::strerror(error), ::strerrorname_np(error)));
}

}  // namespace verbena::apps
