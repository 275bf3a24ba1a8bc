// The consistency models a table can choose. What each promises: docs/consistency.md and the rules in
// rules.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace verbena::consistency {

/// Bulk synchronous: a read at clock c sees exactly the updates of clocks < c, and this worker's own.
struct Bsp {
  friend bool operator==(const Bsp&, const Bsp&) = default;
};
/// Stale synchronous (Ho et al., NIPS'13): a read at clock c sees all updates of clocks ≤ c − staleness − 1.
struct Ssp {
  std::uint32_t staleness = 1;
  friend bool operator==(const Ssp&, const Ssp&) = default;
};
/// Eager stale synchronous (Dai et al., AAAI'15): as SSP, and fresh rows are pushed each time the min clock
/// advances.
struct Essp {
  std::uint32_t staleness = 1;
  friend bool operator==(const Essp&, const Essp&) = default;
};

/// A worker a million clocks ahead is not bounded by anything; such a number is a slip of the hand.
inline constexpr std::uint32_t kMaxStaleness = 1'000'000;

using ConsistencyModel = std::variant<Bsp, Ssp, Essp>;

/// Reads "bsp", "ssp:2", "essp:2" (the staleness may be left out: 1).
/// INVALID_ARGUMENT says what was expected.
absl::StatusOr<ConsistencyModel> parse_model(std::string_view text);
/// The inverse: "bsp", "ssp:2".
std::string to_string(const ConsistencyModel& model);
/// 0 for BSP.
std::uint32_t staleness(const ConsistencyModel& model);

}  // namespace verbena::consistency
