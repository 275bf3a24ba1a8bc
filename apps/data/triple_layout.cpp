#include "apps/data/triple_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "apps/data/fields.hpp"
#include "apps/data/header.hpp"
#include "base/decimal.hpp"

namespace verbena::apps {
namespace {

constexpr std::array<std::string_view, kTripleColumns> kParts = {"head", "relation", "tail"};
constexpr std::string_view kHeadNames[] = {"head",   "h",     "subject", "subj",  "s",       "source",
                                           "src",    "from",  "headid",  "heads", "entity1", "e1",
                                           "entity", "start", "startid", "sub"};
constexpr std::string_view kRelationNames[] = {
    "relation", "r",    "rel",      "predicate", "pred",       "p",     "relations",
    "property", "edge", "edgetype", "type",      "relationid", "label", "relationtype"};
constexpr std::string_view kTailNames[] = {"tail",    "t",   "object", "obj",    "o",
                                           "target",  "dst", "to",     "tailid", "tails",
                                           "entity2", "e2",  "value",  "end",    "endid"};
/// Counts tell which column is which only if there are at least kFewTriples triples, and kManyTimes times
/// fewer relations than entities.
constexpr std::size_t kFewTriples = 20;
constexpr std::size_t kManyTimes = 4;
constexpr Separator kBetweenNumbers = {"", "blanks"};

using Names = absl::flat_hash_set<std::string>;

/// What is in a column.
struct Column {
  void add(std::string_view name) {
    names.emplace(name);
    if (name != last) ++changes;
    last = name;
  }
  /// Whether the lines are sorted by this column. Then the number of its names in a file's first lines tells
  /// nothing about their number in the whole file.
  [[nodiscard]] bool is_sorted() const { return changes < 2 * names.size(); }

  Names names;
  std::size_t changes = 0;  ///< lines that have another name than the line before
  std::string last;
};
using Columns = std::array<Column, kTripleColumns>;

std::optional<TripleOrder> order_by_header(const TripleFields& fields) {
  const auto places = columns_by_name<kTripleColumns>(fields, {kHeadNames, kRelationNames, kTailNames});
  TripleOrder order = {};
  std::array<bool, kTripleColumns> taken = {};
  for (std::size_t part = 0; part < kTripleColumns; ++part) {
    if (!places[part].has_value() || std::exchange(taken[*places[part]], true)) return std::nullopt;
    order[part] = *places[part];
  }
  return order;
}

std::size_t shared(const Names& a, const Names& b) {
  return static_cast<std::size_t>(
      std::count_if(a.begin(), a.end(), [&](const std::string& name) { return b.contains(name); }));
}

bool all_numbers(const Names& names) {
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return base::parse_decimal<std::uint64_t>(name).has_value();
  });
}

/// Entities are both heads and tails; relations are neither, but if names are numbers, they may be equal to
/// those of entities. Relations are few, and repeat.
std::optional<std::size_t> relation_column(const Columns& columns, std::size_t triples) {
  const bool are_numbers = std::all_of(columns.begin(), columns.end(),
                                       [](const Column& column) { return all_numbers(column.names); });
  std::optional<std::size_t> found;
  for (std::size_t column = 0; column < kTripleColumns; ++column) {
    const Names& one = columns[(column + 1) % kTripleColumns].names;
    const Names& other = columns[(column + 2) % kTripleColumns].names;
    const Names& own = columns[column].names;
    const bool is_apart = !are_numbers && shared(one, other) > 0 && shared(own, one) == 0 &&
                          shared(own, other) == 0 && own.size() <= std::min(one.size(), other.size());
    const bool is_small = triples >= kFewTriples && !(are_numbers && columns[column].is_sorted()) &&
                          own.size() * kManyTimes <= std::min(one.size(), other.size()) &&
                          shared(one, other) > 0;
    if (!is_apart && !is_small) continue;
    if (found.has_value()) return std::nullopt;
    found = column;
  }
  return found;
}

/// The one that divides most lines into three.
Separator separator_of(std::span<const std::string> lines) {
  TripleLayout best;
  std::size_t most = 0;
  SplitLine parts;
  TripleFields fields;
  for (const Separator& separator : kTripleSeparators) {
    const TripleLayout layout{.separator = separator};
    const auto divided =
        static_cast<std::size_t>(std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
          return layout.split(line, parts, fields);
        }));
    if (divided > most) best = layout;
    most = std::max(most, divided);
    if (most == lines.size()) break;
  }
  return best.separator;
}

TripleOrder with_relation_in(std::size_t column) {
  switch (column) {
    case 0:
      return {1, 0, 2};
    case 2:
      return {0, 2, 1};
    default:
      return {0, 1, 2};
  }
}

}  // namespace

std::string TripleLayout::description() const {
  std::array<std::string_view, kTripleColumns> names;
  for (std::size_t part = 0; part < kTripleColumns; ++part) names[order[part]] = kParts[part];
  const std::string_view between = separator.text.empty()   ? " "
                                   : separator.text == "\t" ? "<TAB>"
                                                            : separator.text;
  return fmt::format("{}{}{}{}{}", names[0], between, names[1], between, names[2]);
}

bool TripleLayout::split(std::string_view line, SplitLine& parts, TripleFields& fields) const {
  if (!parts.split(line, separator) || parts.count() != kTripleColumns) return false;
  std::ranges::copy(parts.fields(), fields.begin());
  if (trims_fields(separator)) {
    for (std::string_view& field : fields) field = trimmed(field);
  }
  return true;
}

TripleLayout find_triple_layout(std::span<const std::string> first_lines, const TripleLayout& usual) {
  TripleLayout layout = usual;
  layout.has_header = false;
  layout.count.reset();
  layout.separator = separator_of(first_lines);
  if (first_lines.empty()) return layout;
  std::string_view first = first_lines.front();
  if (const std::optional<std::uint64_t> count = base::parse_decimal<std::uint64_t>(next_field(first));
      count && is_all_blank(first)) {
    layout.count = count;
    layout.separator = kBetweenNumbers;
    if (usual.told_by.empty()) {
      layout.order = with_relation_in(2);
      layout.told_by = "by the number of triples in the first line, as OpenKE has it";
    }
    return layout;
  }
  Columns columns;
  std::size_t triples = 0;
  SplitLine parts;
  TripleFields fields;
  for (const std::string& line : first_lines.subspan(1)) {
    if (!layout.split(line, parts, fields)) continue;
    for (std::size_t n = 0; n < kTripleColumns; ++n) columns[n].add(fields[n]);
    ++triples;
  }
  if (layout.split(first_lines.front(), parts, fields)) {
    const std::optional<TripleOrder> named = order_by_header(fields);
    const bool comes_again = std::any_of(fields.begin(), fields.end(), [&](std::string_view field) {
      return std::any_of(columns.begin(), columns.end(),
                         [&](const Column& column) { return column.names.contains(std::string(field)); });
    });
    if (named.has_value() && !comes_again) {
      layout.order = *named;
      layout.told_by = "by the header";
      layout.has_header = true;
      return layout;
    }
    for (std::size_t n = 0; n < kTripleColumns; ++n) columns[n].add(fields[n]);
    ++triples;
  }
  if (!usual.told_by.empty()) return layout;  // another file has told the order
  const std::optional<std::size_t> relation = relation_column(columns, triples);
  if (relation.has_value() && layout.order[1] != *relation) {
    layout.order = with_relation_in(*relation);
    layout.told_by = "by what is in the columns";
  }
  return layout;
}

}  // namespace verbena::apps
