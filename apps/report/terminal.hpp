// What may be sent to a terminal beside plain lines, and one line that is redrawn in place.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string_view>

#include "job/environment.hpp"

namespace verbena::apps {

struct TerminalUse {
  bool redraws = false;  ///< a line can be taken back: no file or pipe, and no TERM=dumb
  bool colours = false;  ///< likewise, and NO_COLOR is not set (or empty)
};
TerminalUse terminal_use(bool is_terminal, const job::Environment& variable);
/// Of this process's environment.
TerminalUse terminal_use(std::FILE* stream);

/// Redrawn with nothing but carriage returns and blanks: no escape sequences, whatever the terminal.
/// REQUIRES: the stream's TerminalUse::redraws.
class StatusLine {
 public:
  explicit StatusLine(std::FILE* terminal) : terminal_(terminal) {}
  ~StatusLine() { erase(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// As much of it as fits into one line.
  void show(std::string_view text);
  void erase();

 private:
  std::FILE* const terminal_;
  std::size_t drawn_columns_ = 0;  ///< 0: none is there
};

}  // namespace verbena::apps
