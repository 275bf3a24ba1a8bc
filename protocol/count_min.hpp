// A CountMin sketch (Cormode & Muthukrishnan, J. Algorithms'05): how often each of many things has come, in
// memory that does not grow with the number of things. An estimate is never too small.
//
// All counters of one thing are in one cache line ("blocked"), so that counting is one cache miss, and of
// these only the smallest are raised ("conservative"), which makes estimates of rare things better.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace verbena::protocol {

/// Thread safety: none; one owner.
template <class Counter>
class CountMin {
 public:
  static constexpr std::size_t kCounters = 64 / sizeof(Counter);  ///< of a line
  static constexpr std::size_t kOfOne = 4;                        ///< of one thing

  /// 2^`shift` lines.
  explicit CountMin(std::uint32_t shift) : lines_(std::size_t{1} << shift), shift_(shift) {}

  /// Counts the thing with this hash, all of whose bits look random, `times` times more. Returns the
  /// estimate of how often it has come, or the largest Counter.
  Counter add(std::uint64_t hash, Counter times = 1) {
    Line& line = lines_[index(hash)];
    const Counter estimate = smallest(line, hash);
    const Counter room = std::numeric_limits<Counter>::max() - estimate;
    const auto after = static_cast<Counter>(estimate + std::min(times, room));
    for (std::size_t i = 0; i < kOfOne; ++i) {
      Counter& counter = line[place(hash, i)];
      counter = std::max(counter, after);
    }
    return after;
  }
  [[nodiscard]] Counter estimate(std::uint64_t hash) const { return smallest(lines_[index(hash)], hash); }
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&lines_[index(hash)], 1); }

  [[nodiscard]] std::uint32_t shift() const { return shift_; }
  [[nodiscard]] std::size_t lines() const { return lines_.size(); }
  [[nodiscard]] std::size_t bytes() const { return lines_.size() * sizeof(Line); }
  /// All counters, to be saved, or read back into a sketch of as many lines.
  [[nodiscard]] std::span<const std::byte> memory() const { return std::as_bytes(std::span(lines_)); }
  [[nodiscard]] std::span<std::byte> memory() { return std::as_writable_bytes(std::span(lines_)); }

 private:
  struct alignas(64) Line : std::array<Counter, kCounters> {};

  /// By the highest bits, so that a line's things go to two neighbouring ones.
  [[nodiscard]] std::size_t index(std::uint64_t hash) const {
    return shift_ == 0 ? 0 : static_cast<std::size_t>(hash >> (64 - shift_));
  }
  /// By the lowest bits.
  static std::size_t place(std::uint64_t hash, std::size_t i) {
    constexpr auto kBits = static_cast<std::size_t>(std::countr_zero(kCounters));
    return static_cast<std::size_t>(hash >> (i * kBits)) % kCounters;
  }
  static Counter smallest(const Line& line, std::uint64_t hash) {
    Counter least = line[place(hash, 0)];
    for (std::size_t i = 1; i < kOfOne; ++i) least = std::min(least, line[place(hash, i)]);
    return least;
  }

  std::vector<Line> lines_;
  std::uint32_t shift_;
};

}  // namespace verbena::protocol
