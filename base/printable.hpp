// Text that others have written, in a form that is safe to show.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace verbena::base {

/// One line of text for a terminal, a log, a page or an error. Characters that could end the line, control a
/// terminal or change the direction of writing appear as JSON writes them, "\n" or "\u001b"; bytes that are
/// not UTF-8 appear as "\xff". Everything else stays, including letters of every script. JSON text keeps its
/// meaning. A second call changes nothing more.
[[nodiscard]] std::string printable(std::string_view text);
/// The same code, with a printable message.
[[nodiscard]] absl::Status printable(const absl::Status& status);
/// The same for text of several lines, which stay lines.
[[nodiscard]] std::string printable_lines(std::string_view text);

}  // namespace verbena::base
