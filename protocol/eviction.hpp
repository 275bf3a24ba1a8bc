// When rows of a sparse table are taken away again, so that a table whose keys come and go does not grow for
// ever. A key whose row was taken away reads as its initial values; the next push to it that the admission
// lets through makes a new row.
//
//   never                          the usual choice
//   age(clocks=1000)               rows that nobody has pushed to for so many clocks
//   count(least=1,half_life=1000)  rows with fewer pushes, where a push counts half after so many clocks.
//                                  A new row begins with `least`, as if it had come often enough before
//   norm(least=0.001,clocks=100)   rows whose values have a smaller L2 norm, and that nobody has pushed to
//                                  for so many clocks
//   lru(most_mb=1000)              those that nobody has pushed to for the longest time, when memory is short
//
// `most_mb` goes with each of them: how much memory all rows of the table may take, with what servers keep
// beside them, in millions of bytes. Once it is used, keys get no new rows before others have lost theirs. 0:
// as much as there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

namespace verbena::protocol {

inline constexpr std::string_view kEvictNever = "never";

/// What a lane remembers of a row's use. Zeros: a row that was made at clock 0.
struct RowUse {
  /// `last_push` of a row that no key has.
  static constexpr std::uint32_t kNoKeys = UINT32_MAX;
  std::uint32_t last_push = 0;  ///< the lane's min clock then
  float pushes = 0;             ///< as `half_life` counts them
};

/// One of these choices. A small value, to be copied.
class EvictionRule {
 public:
  /// Never.
  EvictionRule() = default;
  /// INVALID_ARGUMENT: the text is none of the above.
  static absl::StatusOr<EvictionRule> find(std::string_view text);

  [[nodiscard]] bool evicts() const { return kind_ != Kind::kNever; }
  /// Of the whole table; 0: no limit.
  [[nodiscard]] std::uint64_t most_bytes() const { return most_bytes_; }
  /// How many clocks go by before rows are looked at again: an eighth of what a row is given, so that none
  /// stays much longer.
  [[nodiscard]] std::int64_t clocks_between_sweeps() const;
  [[nodiscard]] bool is_lru() const { return kind_ == Kind::kLru; }

  /// Of a new row. `now`: the lane's min clock, here and below.
  [[nodiscard]] RowUse new_use(std::uint32_t now) const {
    return {.last_push = now, .pushes = static_cast<float>(least_pushes_)};
  }
  /// A row is pushed to.
  void count_push(RowUse& use, std::uint32_t now) const;
  /// The row is to go, unless its norm says otherwise. With lru never.
  [[nodiscard]] bool is_due(const RowUse& use, std::uint32_t now) const;
  /// Rows stay whose L2 norm is not below; nullopt: it does not matter.
  [[nodiscard]] std::optional<double> least_norm() const {
    return kind_ == Kind::kNorm ? std::optional(least_norm_) : std::nullopt;
  }

 private:
  enum class Kind : std::uint8_t { kNever, kAge, kCount, kNorm, kLru };

  Kind kind_ = Kind::kNever;
  std::uint32_t clocks_ = 0;  ///< age, norm
  double least_pushes_ = 0;
  double half_life_ = 0;
  double least_norm_ = 0;
  std::uint64_t most_bytes_ = 0;
};

}  // namespace verbena::protocol
