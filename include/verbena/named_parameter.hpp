// Numbers that a text may give to what it names: "sgd(rate=0.5)", "top(count=100)".
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>

namespace verbena {

/// One of the numbers that a kind of rule or function takes.
struct NamedParameter {
  std::string_view name;
  double usual = 0;  ///< its value if the text does not give it
  double least = -std::numeric_limits<double>::max();
  double most = std::numeric_limits<double>::max();
};

/// Of the name of a rule or function.
inline constexpr std::size_t kMaxKindNameBytes = 64;
/// The most parameters that a kind may have.
inline constexpr std::size_t kMaxNamedParameters = 8;

}  // namespace verbena
