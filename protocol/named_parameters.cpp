#include "protocol/named_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace verbena::protocol {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

absl::StatusOr<NamedParameters> NamedParameters::parse(std::string_view what, std::string_view text) {
  const auto wrong = [&](std::string_view found) {
    return absl::InvalidArgumentError(
        fmt::format("{} \"{}\": expected NAME or NAME(PARAMETER=NUMBER,…), found {}", what, text, found));
  };
  NamedParameters named;
  const std::size_t open = text.find('(');
  named.name = trimmed(text.substr(0, open));
  if (open == std::string_view::npos) return named;
  std::string_view rest = trimmed(text);
  if (rest.back() != ')') return wrong("no \")\" at its end");
  rest = rest.substr(rest.find('(') + 1);
  rest.remove_suffix(1);
  if (trimmed(rest).empty()) return named;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = rest.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view each = rest.substr(0, comma);
    if (!is_last) rest.remove_prefix(comma + 1);
    const std::size_t equals = each.find('=');
    if (equals == std::string_view::npos) return wrong(fmt::format("\"{}\"", each));
    const std::string_view number = trimmed(each.substr(equals + 1));
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value))
      return wrong(fmt::format("\"{}\"", each));
    named.parameters.emplace_back(trimmed(each.substr(0, equals)), value);
  }
  return named;
}

absl::StatusOr<NamedParameters::Values> NamedParameters::values_of(
    std::string_view what, std::span<const NamedParameter> known) const {
  Values values = {};
  for (std::size_t i = 0; i < known.size(); ++i) values[i] = known[i].usual;
  std::array<bool, kMaxNamedParameters> given = {};
  for (const auto& [parameter, value] : parameters) {
    const auto found =
        std::find_if(known.begin(), known.end(),
                     [&name = parameter](const NamedParameter& one) { return one.name == name; });
    if (found == known.end()) {
      std::string names;
      for (const NamedParameter& one : known)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
      return absl::InvalidArgumentError(fmt::format("{} \"{}\" has no parameter \"{}\", but {}", what, name,
                                                    parameter, names.empty() ? "none" : names));
    }
    if (!(value >= found->least && value <= found->most)) {
      return absl::InvalidArgumentError(fmt::format("{} of {} \"{}\": expected {} to {}, found {}", parameter,
                                                    what, name, found->least, found->most, value));
    }
    const auto index = static_cast<std::size_t>(found - known.begin());
    if (std::exchange(given[index], true))
      return absl::InvalidArgumentError(fmt::format("{} of {} \"{}\" is given twice", parameter, what, name));
    values[index] = value;
  }
  return values;
}

}  // namespace verbena::protocol
