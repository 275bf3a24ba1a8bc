// Text that others have written, as it may be shown.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace verbena::base {

/// One line of text for a terminal, a log, a page or an error. What could end the line, drive a terminal or
/// turn the direction of writing comes as JSON writes it, "\n" or "\u001b"; bytes that are no UTF-8 as
/// "\xff". All else, letters of every script, stays. JSON text keeps its meaning. Done twice, it changes
/// nothing more.
[[nodiscard]] std::string printable(std::string_view text);
/// Its code, and its message so.
[[nodiscard]] absl::Status printable(const absl::Status& status);
/// Likewise of text of several lines, which stay lines.
[[nodiscard]] std::string printable_lines(std::string_view text);

}  // namespace verbena::base
