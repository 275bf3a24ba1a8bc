// What each consistency model decides, as data. What it promises: <verbena/consistency.hpp>.
#pragma once

#include <cstdint>
#include <variant>

#include "absl/status/status.h"
#include "consistency/rules.hpp"
#include <verbena/consistency.hpp>

namespace verbena::consistency {

constexpr Rules rules_of(const Bsp& /*model*/) {
  return {.read_bound = 0, .clock_bound = 0, .holds_updates_back = true};
}
constexpr Rules rules_of(const ABsp& model) {
  return {.read_bound = 0,
          .clock_bound = 0,
          .holds_updates_back = true,
          .ends_early = true,
          .weighs_means = model.updates == Updates::kMeans};
}
constexpr Rules rules_of(const Ssp& model) {
  return {.read_bound = model.staleness};
}
constexpr Rules rules_of(const Essp& model) {
  return {.read_bound = model.staleness, .pushes_eagerly = true};
}
constexpr Rules rules_of(const BoundedDelay& model) {
  return {.read_bound = model.delay, .clock_bound = model.delay};
}
constexpr Rules rules_of(const Asp& /*model*/) {
  return {.cache = CacheRule::kForOneClock};
}
constexpr Rules rules_of(const Sequential& /*model*/) {
  return {.cache = CacheRule::kNever, .pushes_at_once = true};
}
constexpr Rules rules_of(const Vap& model) {
  return {.cache = CacheRule::kNever, .value_bound = model.value_bound};
}
inline Rules rules_of(const ConsistencyModel& model) {
  return std::visit([](const auto& one) { return rules_of(one); }, model);
}

/// INVALID_ARGUMENT for numbers that parse_consistency() would refuse.
absl::Status check(const ConsistencyModel& model);

/// Whether a table with moving rows can promise this model: none that depends on a lane's min clock, because
/// a row that moves leaves its lane.
inline bool allows_moving_rows(const ConsistencyModel& model) {
  return std::holds_alternative<Sequential>(model) || std::holds_alternative<Asp>(model);
}
/// How many clocks a reader's copy may be behind; 0 if nothing bounds that, or nothing needs to.
std::uint32_t staleness(const ConsistencyModel& model);

}  // namespace verbena::consistency
