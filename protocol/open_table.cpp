#include "protocol/open_table.hpp"

#include <fmt/format.h>

#include <utility>

namespace verbena::protocol {

absl::StatusOr<UpdateRule> check_together(const OpenTable& open, const ModelNeeds& needs) {
  if (needs.fractions && is_whole(open.value_type)) {
    return absl::InvalidArgumentError(fmt::format(
        "table \"{}\": whole numbers cannot be weighted, as {} does", open.name, open.consistency));
  }
  const bool is_dynamic = open.allocation == Allocation::kDynamic;
  if (needs.rows_stay && is_dynamic) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\" is dynamic, which works with sequential and asp, not {}: clocks do not "
                    "follow a row that moves",
                    open.name, open.consistency));
  }
  const bool is_sparse = open.key_space == KeySpace::kSparse;
  if (is_sparse && is_dynamic) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\" is dynamic, and only rows of dense tables move", open.name));
  }
  if (!is_sparse && (open.initial != kZeros || open.seed != 0)) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\" is dense: its rows begin with zeros, only those of a sparse table with "
                    "\"{}\" or a seed",
                    open.name, open.initial));
  }
  for (const auto& [choice, usual] :
       {std::pair(open.admission, kAdmitAlways), std::pair(open.eviction, kEvictNever)}) {
    if (is_sparse || choice == usual) continue;
    return absl::InvalidArgumentError(fmt::format(
        "table \"{}\" is dense: it has all its rows, and \"{}\" is for sparse tables", open.name, choice));
  }
  const auto admission = AdmissionRule::find(open.admission, open.seed);
  if (!admission.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {}", open.name, std::string(admission.status().message())));
  }
  const auto eviction = EvictionRule::find(open.eviction);
  if (!eviction.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {}", open.name, std::string(eviction.status().message())));
  }
  const auto initial = InitialValues::find(open.initial, open.seed, open.value_type);
  if (!initial.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {}", open.name, std::string(initial.status().message())));
  }
  const absl::StatusOr<UpdateRule> rule = UpdateRule::find(open.rule, open.value_type, open.width);
  if (!rule.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {}", open.name, std::string(rule.status().message())));
  }
  if (needs.sums && !rule->is_addition()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {} works with sums, not with the rule \"{}\"", open.name, open.consistency,
                    open.rule));
  }
  if ((!needs.bounds_lead || is_dynamic) && rule->takes_one_step_a_clock()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": updates of the rule \"{}\" wait until all workers have finished their "
                    "clock, and in a {} table under {} nothing says how far they are apart",
                    open.name, open.rule, name_of(open.allocation), open.consistency));
  }
  if (is_dynamic && rule->changes_with_clock()) {
    return absl::InvalidArgumentError(fmt::format(
        "table \"{}\" is dynamic: no clock is known for the steps of the rule \"{}\"", open.name, open.rule));
  }
  if (is_dynamic && rule->state_bytes() > 0) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\" is dynamic: what the rule \"{}\" keeps of a row does not move with it",
                    open.name, open.rule));
  }
  return rule;
}

std::string differences(const OpenTable& first, const OpenTable& then) {
  std::string all;
  visit_attributes([&](auto, auto attribute, auto, auto shown) {
    if (first.*attribute == then.*attribute) return;
    all += fmt::format("{}{}, then {}", all.empty() ? "" : "; ", shown(first.*attribute),
                       shown(then.*attribute));
  });
  return all;
}

}  // namespace verbena::protocol
