// How often some of the features come, exactly: what a sketch's counts are compared with.
#pragma once

#include <cstddef>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "apps/sketch/sketch_lines.hpp"

namespace verbena::apps::sketch {

/// Of any number of features a sample of bounded size, in which rare ones are as likely to be as frequent
/// ones (Gibbons, VLDB'01): those whose hash ends with so many zeros, and with one more whenever there are
/// too many.
class SampledCounts {
 public:
  static constexpr std::size_t kMostKeys = std::size_t{1} << 15;

  void add(Key key);
  [[nodiscard]] const absl::flat_hash_map<Key, Counter>& counts() const { return counts_; }
  /// By how much the estimates of a sketch are wrong, all of the sample together, in parts of the counts that
  /// they ought to be; 0 if nothing has come. `counters`: of all its `lines`.
  [[nodiscard]] double relative_error(std::span<const Counter> counters, std::uint64_t lines) const;

 private:
  int least_zeros_ = 0;
  absl::flat_hash_map<Key, Counter> counts_;
};

}  // namespace verbena::apps::sketch
