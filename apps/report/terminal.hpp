// What may be sent to a terminal in addition to plain lines, and one line that is redrawn in place.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string_view>

#include "job/environment.hpp"

namespace verbena::apps {

struct TerminalUse {
  bool redraws = false;  ///< a line can be erased: not a file or pipe, and not TERM=dumb
  bool colours = false;  ///< `redraws`, and NO_COLOR is not set (or empty)
};
TerminalUse terminal_use(bool is_terminal, const job::Environment& variable);
/// For a stream, with this process's environment.
TerminalUse terminal_use(std::FILE* stream);

/// Redrawn with just carriage returns and blanks; no escape sequences, on any terminal. REQUIRES: the
/// stream's TerminalUse::redraws.
class StatusLine {
 public:
  explicit StatusLine(std::FILE* terminal) : terminal_(terminal) {}
  ~StatusLine() { erase(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Shows as much of the text as fits into one line.
  void show(std::string_view text);
  void erase();

 private:
  std::FILE* const terminal_;
  std::size_t drawn_columns_ = 0;  ///< 0: none is there
};

}  // namespace verbena::apps
