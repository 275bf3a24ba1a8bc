// Numbers as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::apps {

std::string format_seconds(double seconds);                         ///< "0.42 s", "83.1 s"
std::string format_short_time(double seconds);                      ///< "524 µs", "1.31 ms", "2.78 s"
std::string format_clock(double seconds);                           ///< "0:42", "1:02:03"; for times to come
std::string format_rate(double per_second, std::string_view unit);  ///< "2.31 M tokens/s"
std::string format_count(double count);                             ///< "2.31 M"
std::string format_objective(double value);                         ///< six significant digits
std::string format_share(double share);                             ///< "12.3 %"

/// How many columns of a terminal the UTF-8 text takes, if no character is wide and none combines.
std::size_t columns_of(std::string_view text);
/// The beginning of the text, in whole characters: so many columns at most.
std::string first_columns(std::string_view text, std::size_t columns);

}  // namespace verbena::apps
