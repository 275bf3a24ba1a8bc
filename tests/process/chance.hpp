// What tests choose by chance. They print the seed: VERBENA_TEST_SEED chooses the same again.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace verbena::process_test {

/// What the variable says; `otherwise`, if it is not set.
inline std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

class Chance {
 public:
  Chance() : seed_(number_from("VERBENA_TEST_SEED", std::random_device()())), engine_(seed_) {}
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  /// From 0 to `count` - 1.
  std::uint64_t below(std::uint64_t count) {
    return std::uniform_int_distribution<std::uint64_t>(0, count - 1)(engine_);
  }
  /// From 0 to `most`.
  double up_to(double most) { return std::uniform_real_distribution<>(0, most)(engine_); }

 private:
  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

}  // namespace verbena::process_test
