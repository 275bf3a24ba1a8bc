// --allocation: whether the rows that an application trains stay in place or move (docs/allocation.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <verbena/session.hpp>

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

enum class RowAllocation : std::uint8_t {
  kStatic,    ///< rows stay on their server
  kLocalize,  ///< each worker localizes what it is about to train
  kIntent,    ///< each worker says what it is about to train, and when
};

/// Adds --allocation, which sets `text`; parse_row_allocation() reads it.
void add_allocation_option(CLI::App& command, std::string& text);
/// Reads "static", "localize" or "intent". INVALID_ARGUMENT for anything else; the message names the three.
absl::StatusOr<RowAllocation> parse_row_allocation(const std::string& text);
/// The only consistency model that this allocation works with; nullopt if it works with any.
std::optional<ConsistencyModel> needed_consistency(RowAllocation allocation);
/// INVALID_ARGUMENT, in one line, if rows cannot be allocated in this way under that model.
absl::Status check(RowAllocation allocation, const ConsistencyModel& consistency);
/// The allocation with which the tables are made.
Allocation table_allocation(RowAllocation allocation);

}  // namespace verbena::apps
