// What workers and servers agree on about a table when it is opened.
//
// To add an attribute of a table, add a member to OpenTable and a line to visit_attributes(): it is then
// sent, saved, checked, compared and named in errors. (Also raise kVersion and update docs/protocol.md.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "protocol/admission.hpp"
#include "protocol/eviction.hpp"
#include "protocol/initial_values.hpp"
#include "protocol/update_rule.hpp"
#include <verbena/allocation.hpp>
#include <verbena/keys.hpp>
#include <verbena/value_type.hpp>

namespace verbena::protocol {

constexpr std::size_t kMaxNameBytes = 256;  ///< of each text
constexpr std::uint64_t kMaxRows = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxWidth = 1 << 20;

/// Worker → server. Tables are numbered in the order in which they are opened; each has a unique name.
struct OpenTable {
  std::uint32_t table = 0;
  ValueType value_type = ValueType::kFloat;
  KeySpace key_space = KeySpace::kDense;
  std::uint64_t rows = 0;  ///< of the whole table; if it is sparse, how many are expected
  std::uint32_t width = 0;
  std::string name;
  Allocation allocation = Allocation::kStatic;
  std::string consistency;  ///< as to_string() writes it
  std::string rule{kAddition};
  std::string initial{kZeros};          ///< what initial_values.hpp names
  std::uint64_t seed = 0;               ///< of the initial values and of the admission
  std::string admission{kAdmitAlways};  ///< what admission.hpp names
  std::string eviction{kEvictNever};    ///< what eviction.hpp names
  /// The folder of the checkpoint that the table's first rows are in; empty: it begins empty. At most
  /// kMaxPathBytes. It is no attribute: the table is the same without it.
  std::string checkpoint;
  friend bool operator==(const OpenTable&, const OpenTable&) = default;
};

/// Calls visit(name, member, is_valid, shown) for each attribute, in the order in which they travel: its name
/// in checkpoints, a pointer to the member, what a value must be, and a value as errors show it. Attributes
/// are enumerations with name_of(), std::uint32_t, std::uint64_t or strings of 1 to kMaxNameBytes bytes.
template <class Visitor>
void visit_attributes(Visitor&& visit) {
  const auto is_text = [](const std::string& text) { return !text.empty() && text.size() <= kMaxNameBytes; };
  visit("name", &OpenTable::name, is_text, [](const std::string& name) { return '"' + name + '"'; });
  visit(
      "rows", &OpenTable::rows, [](std::uint64_t rows) { return rows >= 1 && rows <= kMaxRows; },
      [](std::uint64_t rows) { return std::to_string(rows) + " rows"; });
  visit(
      "width", &OpenTable::width, [](std::uint32_t width) { return width >= 1 && width <= kMaxWidth; },
      [](std::uint32_t width) { return "width " + std::to_string(width); });
  visit(
      "value_type", &OpenTable::value_type, [](ValueType type) { return value_bytes(type) != 0; },
      [](ValueType type) { return std::string(name_of(type)); });
  visit(
      "allocation", &OpenTable::allocation,
      [](Allocation allocation) { return allocation <= Allocation::kDynamic; },
      [](Allocation allocation) { return std::string(name_of(allocation)); });
  visit("consistency", &OpenTable::consistency, is_text, [](const std::string& model) { return model; });
  visit("rule", &OpenTable::rule, is_text, [](const std::string& rule) { return "rule " + rule; });
  visit(
      "key_space", &OpenTable::key_space, [](KeySpace keys) { return keys <= KeySpace::kSparse; },
      [](KeySpace keys) { return std::string(name_of(keys)) + " keys"; });
  visit("initial", &OpenTable::initial, is_text,
        [](const std::string& initial) { return "initially " + initial; });
  visit(
      "seed", &OpenTable::seed, [](std::uint64_t) { return true; },
      [](std::uint64_t seed) { return "seed " + std::to_string(seed); });
  visit("admission", &OpenTable::admission, is_text,
        [](const std::string& admission) { return "admission " + admission; });
  visit("eviction", &OpenTable::eviction, is_text,
        [](const std::string& eviction) { return "eviction " + eviction; });
}

/// What a consistency model requires of its table.
struct ModelNeeds {
  bool sums = false;        ///< a rule that adds, because updates are weighted, or their sums bounded
  bool fractions = false;   ///< no whole numbers, because updates are weighted
  bool bounds_lead = true;  ///< of clocks; otherwise no rule that takes one step for a clock
  bool rows_stay = false;   ///< no dynamic table, because clocks do not follow a row that moves
};

/// Returns the table's update rule if model, rule, value type, keys, initial values, admission, eviction and
/// allocation go together. INVALID_ARGUMENT says which of them do not; it is also returned for a rule that is
/// not registered in this process.
absl::StatusOr<UpdateRule> check_together(const OpenTable& open, const ModelNeeds& needs);

/// How two tables differ, apart from their numbers, for a message: "10 rows, then 20 rows; float, then
/// double".
[[nodiscard]] std::string differences(const OpenTable& first, const OpenTable& then);

}  // namespace verbena::protocol
