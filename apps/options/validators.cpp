#include "apps/options/validators.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"

namespace verbena::apps {

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        std::int64_t number = 0;
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const bool good =
            error == std::errc() && stop == text.data() + text.size() && number >= least && number <= most;
        return good ? std::string()
                    : fmt::format("a whole number from {} to {} is expected, not \"{}\"", least, most, text);
      },
      "");
}

CLI::Validator positive_number() {
  return CLI::Validator(
      [](const std::string& text) {
        double number = 0;
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const bool good =
            error == std::errc() && stop == text.data() + text.size() && number > 0 && std::isfinite(number);
        return good ? std::string() : fmt::format("a number above 0 is expected, not \"{}\"", text);
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
