// What workers and servers agree on about a table when it is opened.
//
// Another attribute of a table is a member of OpenTable and a line in visit_attributes(): it is then sent,
// checked, compared and named in errors. (kVersion counts up, and docs/protocol.md says it.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "protocol/update_rule.hpp"
#include <verbena/allocation.hpp>
#include <verbena/value_type.hpp>

namespace verbena::protocol {

constexpr std::size_t kMaxNameBytes = 256;  ///< of each text
constexpr std::uint64_t kMaxRows = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxWidth = 1 << 20;

/// Worker → server. Tables are numbered in the order in which they are opened; each has a name of its own.
struct OpenTable {
  std::uint32_t table = 0;
  ValueType value_type = ValueType::kFloat;
  std::uint64_t rows = 0;  ///< of the whole table
  std::uint32_t width = 0;
  std::string name;
  Allocation allocation = Allocation::kStatic;
  std::string consistency;  ///< as to_string() writes it
  std::string rule{kAddition};
  friend bool operator==(const OpenTable&, const OpenTable&) = default;
};

/// Calls visit(member, is_valid, shown) for each attribute, in the order in which they travel: a pointer to
/// the member, what a value must be, and a value as errors show it. Enumerations, std::uint32_t and
/// std::uint64_t, and texts.
template <class Visitor>
void visit_attributes(Visitor&& visit) {
  const auto is_text = [](const std::string& text) { return !text.empty() && text.size() <= kMaxNameBytes; };
  visit(&OpenTable::name, is_text, [](const std::string& name) { return '"' + name + '"'; });
  visit(
      &OpenTable::rows, [](std::uint64_t rows) { return rows >= 1 && rows <= kMaxRows; },
      [](std::uint64_t rows) { return std::to_string(rows) + " rows"; });
  visit(
      &OpenTable::width, [](std::uint32_t width) { return width >= 1 && width <= kMaxWidth; },
      [](std::uint32_t width) { return "width " + std::to_string(width); });
  visit(
      &OpenTable::value_type, [](ValueType type) { return value_bytes(type) != 0; },
      [](ValueType type) { return std::string(name_of(type)); });
  visit(
      &OpenTable::allocation, [](Allocation allocation) { return allocation <= Allocation::kDynamic; },
      [](Allocation allocation) { return std::string(name_of(allocation)); });
  visit(&OpenTable::consistency, is_text, [](const std::string& model) { return model; });
  visit(&OpenTable::rule, is_text, [](const std::string& rule) { return "rule " + rule; });
}

/// What a consistency model asks of a table that has it.
struct ModelNeeds {
  bool sums = false;       ///< a rule that adds: updates are weighted, or their sums bounded
  bool fractions = false;  ///< no whole numbers: updates are weighted
  bool rows_stay = false;  ///< no dynamic table: clocks do not follow a row that moves
};

/// The table's update rule, where model, rule, value type and allocation go together. INVALID_ARGUMENT says
/// which of them do not; also for a rule that is not registered in this process.
absl::StatusOr<UpdateRule> check_together(const OpenTable& open, const ModelNeeds& needs);

/// In what they differ, their numbers aside, for a message: "10 rows, then 20 rows; float, then double".
[[nodiscard]] std::string differences(const OpenTable& first, const OpenTable& then);

}  // namespace verbena::protocol
