// What the program writes on its standard output and error. A reader that goes away and a full disk are found
// out when the program ends, and throw nothing in the middle of it.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace verbena::apps {

/// To stdout or stderr, buffered as they are.
void put(std::FILE* stream, std::string_view text);
/// What is in its buffer, at once.
void flush(std::FILE* stream);

template <class... Arguments>
void print_out(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  put(stdout, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  put(stderr, fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Whether all that was written on standard output has arrived, as far as someone wanted to read it: UNKNOWN,
/// with the first error's name, where a disk is full. That a reader has gone away (`| head`) is no failure.
absl::Status flush_output();

}  // namespace verbena::apps
