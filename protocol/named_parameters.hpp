// Choices of a table that are written as NAME or NAME(PARAMETER=NUMBER,…), such as its update rule.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include <verbena/named_parameter.hpp>

namespace verbena::protocol {

/// Such a text, taken apart; views of it.
struct NamedParameters {
  std::string_view name;
  std::vector<std::pair<std::string_view, double>> parameters;

  /// `what`: what the text names, for errors: "the update rule". INVALID_ARGUMENT: it is no such text.
  static absl::StatusOr<NamedParameters> parse(std::string_view what, std::string_view text);

  /// The values of the parameters that there are, in their order: given, or the usual ones. INVALID_ARGUMENT:
  /// a parameter that there is not, or that is given twice, or with a value that is not allowed.
  using Values = std::array<double, kMaxNamedParameters>;
  [[nodiscard]] absl::StatusOr<Values> values_of(std::string_view what,
                                                 std::span<const NamedParameter> known) const;
};

}  // namespace verbena::protocol
