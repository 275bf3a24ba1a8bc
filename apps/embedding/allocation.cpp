#include "apps/embedding/allocation.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

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

std::optional<ConsistencyModel> needed_consistency(RowAllocation allocation) {
  if (allocation == RowAllocation::kLocalize) return Sequential{};
  if (allocation == RowAllocation::kIntent) return Asp{};
  return std::nullopt;
}

absl::Status check(RowAllocation allocation, const ConsistencyModel& consistency) {
  const std::optional<ConsistencyModel> needed = needed_consistency(allocation);
  if (!needed || needed->index() == consistency.index()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--allocation {} needs --consistency {}, found {}",
                  allocation == RowAllocation::kLocalize ? "localize" : "intent", to_string(*needed),
                  to_string(consistency)));
}

Allocation table_allocation(RowAllocation allocation) {
  return allocation == RowAllocation::kStatic ? Allocation::kStatic : Allocation::kDynamic;
}

}  // namespace verbena::apps
