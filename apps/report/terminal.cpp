#include "apps/report/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "apps/report/console.hpp"
#include "apps/report/format.hpp"
#include "base/printable.hpp"

namespace verbena::apps {
namespace {

std::size_t columns_of_terminal(std::FILE* terminal) {
  winsize size = {};
  return ::ioctl(::fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

TerminalUse terminal_use(bool is_terminal, const job::Environment& variable) {
  const auto value = [&](const char* name) {
    const char* text = variable(name);
    return std::string_view(text == nullptr ? "" : text);
  };
  const bool able = is_terminal && !value("TERM").empty() && value("TERM") != "dumb";
  return {.redraws = able, .colours = able && value("NO_COLOR").empty()};
}

TerminalUse terminal_use(std::FILE* stream) {
  return terminal_use(::isatty(::fileno(stream)) == 1, job::own_environment);
}

void StatusLine::show(std::string_view text) {
  // The last column would wrap on some terminals.
  const std::string line = first_columns(base::printable(text), columns_of_terminal(terminal_) - 1);
  const std::size_t columns = columns_of(line);
  const std::size_t rest = drawn_columns_ > columns ? drawn_columns_ - columns : 0;
  put(terminal_, "\r" + line + std::string(rest, ' '));
  flush(terminal_);
  drawn_columns_ = std::max(columns, std::size_t{1});
}

void StatusLine::erase() {
  if (drawn_columns_ == 0) return;
  put(terminal_, "\r" + std::string(drawn_columns_, ' ') + "\r");
  flush(terminal_);
  drawn_columns_ = 0;
}

}  // namespace verbena::apps
