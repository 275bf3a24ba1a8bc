// Keys drawn at random, such as the negative samples of embeddings: Table::prepare_sample() draws them and
// tells the table about them; Table::pull_sample() pulls their rows when they are needed.
//
// A sample may prefer keys that are near (in place or in a replica), because they cost no message. This
// changes the distribution. Let p be the requested distribution, N the set of near keys, m = p(N) their total
// probability, and a = `preference`. If a drawn key is not near, then with probability a it is drawn again
// until a near key comes, at most kMostRedraws times. So near keys keep their proportions among each other,
// and so do the other keys:
//
//   q(k) = p(k) · (1 + (1 − m) · s / m)   for k ∈ N           s = a · (1 − (1 − m)^kMostRedraws)
//   q(k) = p(k) · (1 − s)                 for all others
//
// The total variation distance of q from p is s · (1 − m): 0 for a = 0, at most a, and negligible if most of
// the drawn keys are near anyway. The draws of a sample are not independent of each other if N depends on
// earlier use: a worker sees again what it has used lately. Over time each key is near now and then, and it
// gets its share to the extent that all keys are near equally often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include <verbena/keys.hpp>

namespace verbena {

/// How often, at most, a key is drawn again in a sample that prefers near keys.
inline constexpr int kMostRedraws = 16;

/// Draws numbers from 0 on in proportion to weights, each in constant time (alias method: Walker 1977, Vose
/// 1991). Each probability is exact to within 2⁻³².
class AliasTable {
 public:
  /// REQUIRES: 1 to 2³² weights, each finite and 0 or more; their sum is finite and not 0.
  explicit AliasTable(std::span<const double> weights);
  /// `random` is a generator of 64 bits.
  template <class Generator>
  [[nodiscard]] std::uint32_t draw(Generator& random) const {
    static_assert(Generator::min() == 0 && Generator::max() == std::numeric_limits<std::uint64_t>::max());
    // The upper half of the product is the column; the bits below it are uniform within the column.
    __extension__ using Wide = unsigned __int128;
    const auto scaled = static_cast<Wide>(random()) * columns_.size();
    const auto drawn = static_cast<std::uint32_t>(scaled >> 64U);
    const Column& column = columns_[drawn];
    return static_cast<std::uint32_t>(scaled >> 32U) < column.limit ? drawn : column.other;
  }

 private:
  struct Column {
    std::uint32_t limit = 0;  ///< · 2⁻³²: the share of this column that belongs to its own number
    std::uint32_t other = 0;  ///< the number that has the rest
  };
  std::vector<Column> columns_;
};

class KeyDistribution {
 public:
  /// REQUIRES: the range is not empty.
  static KeyDistribution uniform(KeyRange range) { return {range.first, range.size()}; }
  /// Key first + i with probability weights[i] / Σ weights, see AliasTable.
  /// INVALID_ARGUMENT for weights that are negative or not finite, or whose sum is not positive, and for more
  /// than 2³².
  static absl::StatusOr<KeyDistribution> weighted(Key first, std::span<const double> weights);

  [[nodiscard]] KeyRange range() const { return {first_, first_ + size_}; }
  [[nodiscard]] Key draw(std::mt19937_64& random) const;

 private:
  KeyDistribution(Key first, std::uint64_t size) : first_(first), size_(size) {}

  Key first_;
  std::uint64_t size_;
  std::optional<AliasTable> weighted_;  ///< none: all keys are equally likely
};

struct SampleOptions {
  /// The clocks in which the sample is used: from … to − 1. For a dynamic table this is an intent. from = to:
  /// no intent.
  std::int64_t from = 0;
  std::int64_t to = 0;
  /// 0: keys as they are drawn. 1: near keys as often as possible. A preference costs a bias (see above).
  double preference = 0;
};

/// Keys that were drawn and are to be pulled.
class Sample {
 public:
  [[nodiscard]] std::span<const Key> keys() const { return keys_; }
  /// How many of them were drawn instead of others because they are near.
  [[nodiscard]] std::size_t redrawn() const { return redrawn_; }

 private:
  friend class UntypedTable;
  std::vector<Key> keys_;
  std::size_t redrawn_ = 0;
};

}  // namespace verbena
