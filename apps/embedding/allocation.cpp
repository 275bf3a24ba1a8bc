#include "apps/embedding/allocation.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <variant>

#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kStatic = "static";
constexpr const char* kLocalize = "localize";
constexpr const char* kIntent = "intent";

/// The only consistency model that this allocation works with; nullopt if it works with any.
std::optional<ConsistencyModel> needed_consistency(RowAllocation allocation) {
  if (allocation == RowAllocation::kLocalize) return Sequential{};
  if (allocation == RowAllocation::kIntent) return Asp{};
  return std::nullopt;
}

const char* auto_allocation(const ConsistencyModel& consistency) {
  if (std::holds_alternative<Sequential>(consistency)) return kLocalize;
  return std::holds_alternative<Asp>(consistency) ? kIntent : kStatic;
}

}  // namespace

Allocation table_allocation(RowAllocation allocation) {
  return allocation == RowAllocation::kStatic ? Allocation::kStatic : Allocation::kDynamic;
}

void AllocationOption::add(CLI::App& command) {
  command
      .add_option("--allocation", text_,
                  "static: rows stay on their servers; localize: rows move to the node of the "
                  "worker that is about to train them (--consistency sequential, which is then "
                  "the default); intent: workers say which rows they are about to train, and rows "
                  "move or are copied accordingly (likewise asp); auto: localize under "
                  "sequential, intent under asp, else static")
      ->capture_default_str()
      ->type_name("auto|static|localize|intent");
}

std::string AllocationOption::default_consistency(bool is_one_node, std::uint32_t workers,
                                                  const std::string& otherwise) const {
  if (text_ == kAuto) return is_one_node ? to_string(workers > 1 ? of_several_ : of_one_) : otherwise;
  const absl::StatusOr<RowAllocation> allocation = parsed();
  const std::optional<ConsistencyModel> needed =
      allocation.ok() ? needed_consistency(*allocation) : std::nullopt;
  return needed ? to_string(*needed) : otherwise;
}

void AllocationOption::set_consistency(const ConsistencyModel& consistency) {
  if (text_ != kAuto) return;
  text_ = auto_allocation(consistency);
  was_auto_ = true;
}

std::optional<std::string> AllocationOption::chosen(std::string_view option) const {
  return option == "allocation" && text_ != kAuto ? std::optional(text_) : std::nullopt;
}

absl::Status AllocationOption::check(const ConsistencyModel& consistency) const {
  const absl::StatusOr<RowAllocation> allocation = parsed();
  if (!allocation.ok()) return allocation.status();
  const std::optional<ConsistencyModel> needed = needed_consistency(*allocation);
  if (!needed || needed->index() == consistency.index()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("--allocation {} needs --consistency {}, found {}", name(),
                                                to_string(*needed), to_string(consistency)));
}

absl::StatusOr<RowAllocation> AllocationOption::parsed() const {
  if (text_ == kStatic || text_ == kAuto) return RowAllocation::kStatic;
  if (text_ == kLocalize) return RowAllocation::kLocalize;
  if (text_ == kIntent) return RowAllocation::kIntent;
  return absl::InvalidArgumentError(
      fmt::format("--allocation: expected auto, static, localize or intent, found {}", text_));
}

std::string AllocationOption::name() const {
  return text_ == kAuto ? kStatic : text_;
}

}  // namespace verbena::apps
