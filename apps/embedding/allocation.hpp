// --allocation: whether the rows that an application trains lie still or move (docs/allocation.md).
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

/// Adds --allocation; `text` is what parse_row_allocation() reads.
void add_allocation_option(CLI::App& command, std::string& text);
/// "static", "localize" or "intent"; INVALID_ARGUMENT says so.
absl::StatusOr<RowAllocation> parse_row_allocation(const std::string& text);
/// The only model that it works with; nothing if that is any.
std::optional<ConsistencyModel> needed_consistency(RowAllocation allocation);
/// INVALID_ARGUMENT, in one line, where rows cannot move so under that model.
absl::Status check(RowAllocation allocation, const ConsistencyModel& consistency);
/// What the tables are made with.
Allocation table_allocation(RowAllocation allocation);

}  // namespace verbena::apps
