// What a row of a sparse table holds before anyone has pushed to it: a function of the table's seed and the
// row's key. Workers and servers compute it alike, so that reading a row need not create it, and creating it
// changes nothing for readers. It depends on nothing else, such as the number of servers.
//
//   zero                                  0, the usual choice
//   constant(value=0)                     `value`
//   uniform(low=-0.01,high=0.01)          evenly between both
//   normal(mean=0,deviation=0.01)         from the normal distribution
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include <verbena/keys.hpp>
#include <verbena/value_type.hpp>

namespace verbena::protocol {

inline constexpr std::string_view kZeros = "zero";

/// A value. Thread-safe.
class InitialValues {
 public:
  /// Zeros.
  InitialValues() = default;
  /// `text`: one of the above. INVALID_ARGUMENT; for whole numbers, all but zero and whole constants are.
  static absl::StatusOr<InitialValues> find(std::string_view text, std::uint64_t seed, ValueType type);

  [[nodiscard]] bool is_zero() const { return kind_ == Kind::kZero; }
  /// Writes `width` values of `type`, the type that find() was told.
  void write(Key key, ValueType type, std::uint32_t width, std::byte* values) const;

 private:
  enum class Kind : std::uint8_t { kZero, kConstant, kUniform, kNormal };
  [[nodiscard]] double value(std::uint64_t key_seed, std::uint32_t index) const;

  Kind kind_ = Kind::kZero;
  std::uint64_t seed_ = 0;
  double first_ = 0;   ///< value, low, or mean
  double second_ = 0;  ///< high, or deviation
};

}  // namespace verbena::protocol
