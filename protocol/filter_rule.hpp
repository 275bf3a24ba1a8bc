// Which of its updates a worker keeps back at the end of a clock (TableOptions::filter), as text. What they
// do: worker/fixed/push_filter.hpp.
//
//   none                            all travel; the usual choice
//   significant(least=1,power=0)    rows with a value of at least least / (1 + clock)^power in size travel
//   top(share=0.1)                  of a lane's rows, this share with the largest values
//   random(share=0.5)               this share of the rows, drawn anew for each clock
//   bf16                            all, their values rounded to the 8 leading bits of a float (bfloat16)
//   int8                            all, rounded to multiples of a 127th of the largest one of the lane's
//   top(share=0.1)+int8, …          one of those that choose rows, and one of those that round
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace verbena::protocol {

inline constexpr std::string_view kNoFilter = "none";

struct FilterRule {
  enum class Kind : std::uint8_t { kNone, kSignificant, kTop, kRandom };
  enum class Rounding : std::uint8_t { kNone, kBfloat, kInt8 };

  /// INVALID_ARGUMENT: the text is none of the above.
  static absl::StatusOr<FilterRule> find(std::string_view text);

  Kind kind = Kind::kNone;
  double least = 0;
  double power = 0;
  double share = 1;
  Rounding rounding = Rounding::kNone;

  [[nodiscard]] bool sends_all() const { return kind == Kind::kNone && rounding == Rounding::kNone; }
};

}  // namespace verbena::protocol
