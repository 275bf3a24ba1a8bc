#include "apps/report/console.hpp"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "job/child_message.hpp"

namespace verbena::apps {
namespace {

/// The first error of standard output, of which there is one. The stream itself remembers only that there was
/// an error.
std::atomic<int> first_error = 0;

void remember(int error) {
  int none = 0;
  first_error.compare_exchange_strong(none, error);
}

/// Of the stream, like first_error.
LogFormat format_of_log = LogFormat::kText;

void write_to(std::FILE* stream, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if (!written && stream == stdout) remember(errno);
}

/// An object for each line.
void put_as_json(std::string_view level, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    write_to(stderr, json_log_line(level, text.substr(0, end), std::chrono::system_clock::now()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

void set_log_format(LogFormat format) {
  format_of_log = format;
}
LogFormat log_format() {
  return format_of_log;
}

std::string json_log_line(std::string_view level, std::string_view text,
                          std::chrono::system_clock::time_point time) {
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return job::to_line(
      {{"time", fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                            (milliseconds - seconds).count())},
       {"level", level},
       {"process", ::getpid()},
       {"message", text}});
}

void put(std::FILE* stream, std::string_view text) {
  if (stream == stderr && format_of_log == LogFormat::kJson) return put_as_json("info", text);
  write_to(stream, text);
}

void put_warning(std::FILE* stream, std::string_view text) {
  if (format_of_log == LogFormat::kJson) return put_as_json("warning", text);  // as spdlog calls it
  write_to(stream, text);
}

void put_error(std::string_view message) {
  if (format_of_log == LogFormat::kJson) return put_as_json("error", message);
  write_to(stderr, fmt::format("verbena: error: {}\n", message));
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
