// The consistency models that a table can choose. What each promises: its own header, and
// docs/consistency.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "consistency/a_bsp.hpp"
#include "consistency/asp.hpp"
#include "consistency/bounded_delay.hpp"
#include "consistency/bsp.hpp"
#include "consistency/essp.hpp"
#include "consistency/rules.hpp"
#include "consistency/sequential.hpp"
#include "consistency/ssp.hpp"
#include "consistency/vap.hpp"

namespace verbena::consistency {

/// A worker a million clocks ahead is not bounded by anything; such a number is a slip of the hand.
inline constexpr std::uint32_t kMaxStaleness = 1'000'000;

using ConsistencyModel = std::variant<Bsp, ABsp, Ssp, Essp, BoundedDelay, Asp, Sequential, Vap>;

/// Reads "bsp", "a-bsp", "a-bsp:means", "ssp:2", "essp:2", "bounded-delay:2" (the number may be left out: 1),
/// "asp", "sequential", "vap:0.5". INVALID_ARGUMENT says what was expected.
absl::StatusOr<ConsistencyModel> parse_model(std::string_view text);
/// The inverse, with the number; exact.
std::string to_string(const ConsistencyModel& model);
/// INVALID_ARGUMENT for numbers that parse_model() would refuse.
absl::Status check(const ConsistencyModel& model);

inline Rules rules_of(const ConsistencyModel& model) {
  return std::visit([](const auto& one) { return one.rules(); }, model);
}
/// What a table whose rows move can promise: nothing that hangs on a lane's min clock, which a row leaves.
inline bool allows_moving_rows(const ConsistencyModel& model) {
  return std::holds_alternative<Sequential>(model) || std::holds_alternative<Asp>(model);
}
/// How many clocks a reader's copy may be behind; 0 where nothing bounds that, or nothing needs to.
std::uint32_t staleness(const ConsistencyModel& model);

}  // namespace verbena::consistency
