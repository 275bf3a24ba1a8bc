// How the lines of a file of triples are to be read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/data/separated_fields.hpp"

namespace verbena::apps {

inline constexpr std::size_t kTripleColumns = 3;
using TripleFields = std::array<std::string_view, kTripleColumns>;
/// The columns of head, relation and tail.
using TripleOrder = std::array<std::size_t, kTripleColumns>;

/// If several divide equally many lines into three, the first one is taken.
inline constexpr std::array<Separator, 4> kTripleSeparators = {
    {{"\t", "tabs"}, {"|", "\"|\""}, {",", "commas", true}, {";", "semicolons", true}}};
/// Whether blanks around fields between these separators are none of the field.
constexpr bool trims_fields(const Separator& separator) {
  return separator.text != "\t";
}

struct TripleLayout {
  TripleOrder order = {0, 1, 2};
  std::string_view told_by = {};  ///< for people; empty: it is the usual order
  bool has_header = false;
  /// The first line says how many follow, as OpenKE has it.
  std::optional<std::uint64_t> count = std::nullopt;
  Separator separator = kTripleSeparators.front();

  /// "head<TAB>relation<TAB>tail"
  [[nodiscard]] std::string description() const;
  /// Returns false if there are not three fields. They are valid until `parts` is used again.
  [[nodiscard]] bool split(std::string_view line, SplitLine& parts, TripleFields& fields) const;
};

/// Finds the order by a header, by a first line with the number of triples, or by what is in the columns of
/// all these lines; and what separates the columns: tabs, bars, commas, semicolons, or, behind a number of
/// triples, blanks. `usual`: the order if nothing tells another one.
TripleLayout find_triple_layout(std::span<const std::string> first_lines, const TripleLayout& usual = {});

/// So many lines are enough to find the layout.
inline constexpr std::size_t kTriplesLookedAt = 5'000;

}  // namespace verbena::apps
