// What the program writes on its standard output and error. A reader that goes away and a full disk are
// detected when the program ends; they do not throw in the middle of it.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace verbena::apps {

/// Writes to stdout or stderr, with the stream's own buffering.
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

/// Checks whether everything written to standard output has arrived, as far as somebody wanted to read it.
/// UNKNOWN, with the name of the first error, for instance if the disk is full. It is no failure that a
/// reader has gone away (`| head`).
absl::Status flush_output();

}  // namespace verbena::apps
