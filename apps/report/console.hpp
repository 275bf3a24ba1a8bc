// What the program writes on its standard output and error, which may be read by programs (LogFormat). A
// reader that goes away and a full disk are detected when the program ends; they do not throw in the middle
// of it.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace verbena::apps {

/// How this process writes on standard error. Results on standard output are for people always.
enum class LogFormat : std::uint8_t {
  kText,
  kJson,  ///< each line is a JSON object: "time", "level", "process", "message"
};
/// Call it before there are other threads. By default lines are text.
void set_log_format(LogFormat format);
[[nodiscard]] LogFormat log_format();
/// `level`: as spdlog calls them. `text`: without a newline.
std::string json_log_line(std::string_view level, std::string_view text,
                          std::chrono::system_clock::time_point time);

/// Writes whole lines to stdout or stderr, with the stream's own buffering.
void put(std::FILE* stream, std::string_view text);
/// Writes the content of the stream's buffer at once.
void flush(std::FILE* stream);

template <class... Arguments>
void print_out(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  put(stdout, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  put(stderr, fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Something has happened, and the program goes on: writes it to `stream`, or, for programs, as a warning to
/// standard error. `text`: whole lines.
void put_warning(std::FILE* stream, std::string_view text);
/// Writes "verbena: error: …" to standard error.
void put_error(std::string_view message);

/// Checks whether everything written to standard output has arrived, as far as somebody wanted to read it.
/// UNKNOWN, with the name of the first error, for instance if the disk is full. It is no failure that a
/// reader has gone away (`| head`).
absl::Status flush_output();

}  // namespace verbena::apps
