// A CountMin sketch (Cormode & Muthukrishnan, J. Algorithms'05) whose counts can be added up: those of
// several workers together are the counts of all. The counters of a key are in one line of memory, so that
// counting is one cache miss. Unlike that of protocol/count_min.hpp it raises all counters of a key:
// estimates of rare keys are worse, but sums of sketches are sketches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <verbena/keys.hpp>

namespace verbena::apps::sketch {

using Counter = std::int64_t;
inline constexpr std::uint32_t kCounters = 16;  ///< of a line
inline constexpr std::size_t kOfOne = 4;        ///< of a key

/// Where a key's counters are.
class Place {
 public:
  /// In a sketch of so many lines.
  Place(Key key, std::uint64_t lines);
  [[nodiscard]] std::uint64_t line() const { return line_; }
  /// The least of its counters, which is never less than how often the key has come.
  [[nodiscard]] Counter estimate(std::span<const Counter> counters) const {
    Counter least = counters[place(0)];
    for (std::size_t i = 1; i < kOfOne; ++i) least = std::min(least, counters[place(i)]);
    return least;
  }
  void count(std::span<Counter> counters) const {
    for (std::size_t i = 0; i < kOfOne; ++i) ++counters[place(i)];
  }

 private:
  /// A counter in the i-th quarter of the line, so that no two are the same.
  [[nodiscard]] std::size_t place(std::size_t i) const {
    constexpr std::size_t kEach = kCounters / kOfOne;
    return i * kEach + (bits_ >> (2 * i)) % kEach;
  }

  std::uint64_t line_;
  std::uint64_t bits_;
};

/// What one worker has counted since it has last given it away.
class Counts {
 public:
  explicit Counts(std::uint64_t lines);

  void add(std::span<const Key> keys);
  /// The lines that are not all zeros, ascending, and their counters. They are then zeros again. Valid until
  /// the next call.
  struct Lines {
    std::span<const Key> numbers;
    std::span<const Counter> counters;  ///< [lines, kCounters]
  };
  Lines take();

 private:
  [[nodiscard]] std::span<Counter> line(std::uint64_t number) {
    return std::span(counters_).subspan(number * kCounters, kCounters);
  }

  const std::uint64_t lines_;
  std::vector<Counter> counters_;  ///< of all lines
  std::vector<bool> is_counted_;   ///< by line
  std::vector<Key> counted_;       ///< lines
  std::vector<Key> numbers_;       ///< of the lines that were taken
  std::vector<Counter> taken_;
};

}  // namespace verbena::apps::sketch
