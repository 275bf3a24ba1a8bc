// What the options of a session and of a table must be, and a table's as they are sent to servers.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/open_table.hpp"
#include <verbena/session.hpp>
#include <verbena/value_type.hpp>

namespace verbena::worker {

class TableCore;

/// INVALID_ARGUMENT: what is wrong, and what was expected.
absl::Status check(const SessionOptions& options);
absl::Status check(const TableOptions& options, ValueType type);

/// `number`: the table's, in the order of opening.
protocol::OpenTable to_wire(std::uint32_t number, const TableOptions& options, ValueType type);
/// The options that to_wire() has sent; what servers are not told is as usual. INVALID_ARGUMENT: its
/// consistency is none.
absl::StatusOr<TableOptions> from_wire(const protocol::OpenTable& open);

/// Compares an open table with a request for a table of the same name. INVALID_ARGUMENT: in what they differ.
absl::Status check_same(const TableCore& table, const TableOptions& options, ValueType type);

}  // namespace verbena::worker
