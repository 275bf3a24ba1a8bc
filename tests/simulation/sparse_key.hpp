// The keys of sparse tables in test jobs: far apart, as hashes are.
#pragma once

#include <cstdint>

#include <verbena/keys.hpp>

namespace verbena::simulation {

/// Of row `i`, counted from 0.
constexpr Key sparse_key(std::uint64_t i) {
  return (i + 1) * 0x9e3779b97f4a7c15;
}

}  // namespace verbena::simulation
