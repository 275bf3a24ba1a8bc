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
#include <span>
#include <vector>

namespace verbena::protocol {

/// Thread safety: none; one owner.
class CountMin {
 public:
  static constexpr std::size_t kOfOne = 4;  ///< counters of one thing
  static constexpr std::uint32_t kLineBits = 512;

  /// 2^`shift` lines of counters of 2, 4 or 8 bits, which count to 3, 15 or 255.
  CountMin(std::uint32_t counter_bits, std::uint32_t shift)
      : bits_(counter_bits),
        place_bits_(static_cast<std::uint32_t>(std::countr_zero(kLineBits / counter_bits))),
        shift_(shift),
        lines_(std::size_t{1} << shift) {}

  /// Counts the thing with this hash, all of whose bits look random, once more. Returns the estimate of how
  /// often it has come: one more than the counters count to if it has come more often than they can say.
  std::uint32_t add(std::uint64_t hash) {
    Line& line = lines_[index(hash)];
    const std::uint32_t after = smallest(line, hash) + 1;
    const std::uint64_t kept = std::min(after, most());
    for (std::size_t i = 0; i < kOfOne; ++i) {
      const Place at = place(hash, i);
      if ((line[at.word] >> at.bit & most()) < kept)
        line[at.word] = (line[at.word] & ~(std::uint64_t{most()} << at.bit)) | kept << at.bit;
    }
    return after;
  }
  [[nodiscard]] std::uint32_t estimate(std::uint64_t hash) const {
    return smallest(lines_[index(hash)], hash);
  }

  [[nodiscard]] std::uint32_t counter_bits() const { return bits_; }
  [[nodiscard]] std::uint32_t shift() const { return shift_; }
  [[nodiscard]] std::size_t lines() const { return lines_.size(); }
  [[nodiscard]] std::size_t counters_a_line() const { return std::size_t{1} << place_bits_; }
  [[nodiscard]] std::size_t bytes() const { return lines_.size() * sizeof(Line); }
  /// All counters, to be saved, or read back into a sketch of as many lines of the same counters.
  [[nodiscard]] std::span<const std::byte> memory() const { return std::as_bytes(std::span(lines_)); }
  [[nodiscard]] std::span<std::byte> memory() { return std::as_writable_bytes(std::span(lines_)); }

 private:
  struct alignas(64) Line : std::array<std::uint64_t, kLineBits / 64> {};
  struct Place {
    std::size_t word;
    std::uint32_t bit;
  };

  /// What a counter counts to; also the mask of its bits.
  [[nodiscard]] std::uint32_t most() const { return (1U << bits_) - 1; }
  /// By the highest bits, so that a line's things go to two neighbouring ones.
  [[nodiscard]] std::size_t index(std::uint64_t hash) const {
    return shift_ == 0 ? 0 : static_cast<std::size_t>(hash >> (64 - shift_));
  }
  /// By the lowest bits.
  [[nodiscard]] Place place(std::uint64_t hash, std::size_t i) const {
    const std::uint64_t counter = hash >> (i * place_bits_) & ((std::uint64_t{1} << place_bits_) - 1);
    const std::uint64_t bit = counter * bits_;
    return {.word = static_cast<std::size_t>(bit / 64), .bit = static_cast<std::uint32_t>(bit % 64)};
  }
  [[nodiscard]] std::uint32_t smallest(const Line& line, std::uint64_t hash) const {
    std::uint64_t least = most();
    for (std::size_t i = 0; i < kOfOne; ++i) {
      const Place at = place(hash, i);
      least = std::min(least, line[at.word] >> at.bit & most());
    }
    return static_cast<std::uint32_t>(least);
  }

  std::uint32_t bits_;
  std::uint32_t place_bits_;  ///< of a counter's number in its line
  std::uint32_t shift_;
  std::vector<Line> lines_;
};

}  // namespace verbena::protocol
