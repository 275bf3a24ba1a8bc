// What a checkpoint says of a table, and how the table's rows lie in it. docs/decisions/0042 has the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/open_table.hpp"

namespace verbena::protocol {

/// An object with each attribute by its name (visit_attributes()): numbers as numbers, the others as text.
[[nodiscard]] nlohmann::json description_of(const OpenTable& table);

/// The table number `number` that a description is of, which anyone may have written. INVALID_ARGUMENT names
/// the attribute that is missing or wrong, and what was expected. Other fields are ignored. Whether the
/// attributes go together is for check_together() to say.
absl::StatusOr<OpenTable> table_of(const nlohmann::json& description, std::uint32_t number);

/// Whether a table that is opened as `now` can take the rows of the one that was saved. Both have the same
/// type of values, width, keys and rule; if they are dense the same rows, if they are sparse the same initial
/// values and seed. The rest may be another one. INVALID_ARGUMENT: "table "w" was saved with width 16, and is
/// opened with width 32".
absl::Status check_resumable(const OpenTable& saved, const OpenTable& now);

/// The columns of a chunk of rows, in this order: how many bytes of each a row has; 0: there is none.
struct SavedColumns {
  std::uint32_t key_bytes = 0;
  std::uint32_t values_bytes = 0;  ///< row_stride_bytes()
  std::uint32_t state_bytes = 0;   ///< of the update rule
  std::uint32_t use_bytes = 0;     ///< a RowUse

  /// Of those that there are.
  [[nodiscard]] std::vector<std::uint32_t> row_bytes() const;
  friend bool operator==(const SavedColumns&, const SavedColumns&) = default;
};
/// Rows that are scattered, in any order, have their keys with them, and uses if `has_uses`: if the table's
/// eviction evicts(). The others lie in the order of their keys, and have no uses. `state_bytes`: of the
/// update rule.
[[nodiscard]] SavedColumns saved_columns(bool scattered, std::size_t stride_bytes, std::size_t state_bytes,
                                         bool has_uses);

}  // namespace verbena::protocol
