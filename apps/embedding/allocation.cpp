#include "apps/embedding/allocation.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <variant>

namespace verbena::apps {

void add_allocation_option(CLI::App& command, std::string& text) {
  command
      .add_option(
          "--allocation", text,
          "static: rows stay on their servers; localize: rows move to the node of the worker that is "
          "about to train them (--consistency sequential, which is then the default); intent: workers say "
          "which rows they are about to train, and rows move or are copied accordingly (likewise asp)")
      ->capture_default_str()
      ->type_name("static|localize|intent");
}

absl::StatusOr<RowAllocation> parse_row_allocation(const std::string& text) {
  if (text == "static") return RowAllocation::kStatic;
  if (text == "localize") return RowAllocation::kLocalize;
  if (text == "intent") return RowAllocation::kIntent;
  return absl::InvalidArgumentError(
      fmt::format("--allocation: expected static, localize or intent, found {}", text));
}

std::string default_consistency(RowAllocation allocation) {
  switch (allocation) {
    case RowAllocation::kStatic:
      return consistency::to_string(Bsp{});
    case RowAllocation::kLocalize:
      return consistency::to_string(Sequential{});
    case RowAllocation::kIntent:
      return consistency::to_string(Asp{});
  }
  return "";
}

absl::Status check(RowAllocation allocation, const ConsistencyModel& consistency) {
  const auto needs = [&](std::string_view name) {
    return absl::InvalidArgumentError(fmt::format("--allocation {} needs --consistency {}, found {}", name,
                                                  default_consistency(allocation),
                                                  consistency::to_string(consistency)));
  };
  if (allocation == RowAllocation::kLocalize && !std::holds_alternative<Sequential>(consistency)) {
    return needs("localize");
  }
  if (allocation == RowAllocation::kIntent && !std::holds_alternative<Asp>(consistency)) {
    return needs("intent");
  }
  return absl::OkStatus();
}

Allocation table_allocation(RowAllocation allocation) {
  return allocation == RowAllocation::kStatic ? Allocation::kStatic : Allocation::kDynamic;
}

}  // namespace verbena::apps
