#include "apps/options/validators.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/decimal.hpp"

namespace verbena::apps {

CLI::Validator positive_number() {
  return CLI::Validator(
      [](const std::string& text) {
        const std::optional<double> number = base::parse_decimal<double>(text);
        return number && *number > 0 ? std::string()
                                     : fmt::format("a number above 0 is expected, not \"{}\"", text);
      },
      "");
}

CLI::Validator one_of(const std::vector<std::string>& choices) {
  return CLI::Validator(
      [choices](const std::string& text) {
        const bool known = std::find(choices.begin(), choices.end(), text) != choices.end();
        return known ? std::string()
                     : fmt::format("one of {} is expected, not \"{}\"", absl::StrJoin(choices, ", "), text);
      },
      "");
}

CLI::Validator accepted_by(std::function<absl::Status(const std::string&)> check) {
  return CLI::Validator(
      [check = std::move(check)](const std::string& text) { return std::string(check(text).message()); }, "");
}

}  // namespace verbena::apps
