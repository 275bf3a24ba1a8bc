// Random numbers that are the same with every standard library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace verbena::apps {

/// SplitMix64 (Steele, Lea and Flood, 2014): a number that tells nothing about x, or about mix(x + 1).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// The numbers of SplitMix64, one after the other.
class Random {
 public:
  using result_type = std::uint64_t;
  explicit Random(std::uint64_t state) : state_(state) {}
  /// Streams of one seed have nothing to do with one another.
  Random(std::uint64_t seed, std::uint64_t stream) : Random(mix(seed ^ mix(stream))) {}
  std::uint64_t operator()() {
    const std::uint64_t number = mix(state_);
    state_ += 0x9e3779b97f4a7c15U;
    return number;
  }
  /// Random(state()) goes on with the same numbers.
  [[nodiscard]] std::uint64_t state() const { return state_; }
  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return std::numeric_limits<std::uint64_t>::max(); }

 private:
  std::uint64_t state_;
};

/// Uniform below `bound`, with a bias below 2⁻⁶⁴ · bound. `random` must generate 64 bits.
template <class Generator>
std::size_t random_below(Generator& random, std::size_t bound) {
  static_assert(Generator::min() == 0 && Generator::max() == std::numeric_limits<std::uint64_t>::max());
  return static_cast<std::size_t>((static_cast<unsigned __int128>(random()) * bound) >> 64);
}

/// A number of 64 bits as one in [0, 1).
inline double to_unit_interval(std::uint64_t number) {
  return static_cast<double>(number >> 11) * 0x1p-53;
}

}  // namespace verbena::apps
