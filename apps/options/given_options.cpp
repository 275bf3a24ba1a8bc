#include "apps/options/given_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"

namespace verbena::apps {

void GivenOptions::watch(CLI::App& command, absl::FunctionRef<void()> add) {
  const std::vector<CLI::Option*> before = command.get_options();
  add();
  for (CLI::Option* option : command.get_options()) {
    if (std::find(before.begin(), before.end(), option) != before.end()) continue;
    option->each([this, name = option->get_single_name()](const std::string&) { names_.insert(name); });
  }
}

absl::Status GivenOptions::refuse_idle(
    absl::FunctionRef<std::string_view(std::string_view name)> why_idle) const {
  std::string_view why;
  std::vector<std::string> idle;
  for (const std::string& option : names_) {
    const std::string_view of_option = why_idle(option);
    if (of_option.empty() || (!idle.empty() && of_option != why)) continue;
    why = of_option;
    idle.push_back("--" + option);
  }
  if (idle.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: {}", absl::StrJoin(idle, ", "), why));
}

}  // namespace verbena::apps
