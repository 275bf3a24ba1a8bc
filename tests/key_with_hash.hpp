// Chooses keys of sparse tables by their hashes.
#pragma once

#include <cstdint>

#include <verbena/keys.hpp>

namespace verbena::testing {

/// The inverse of protocol::KeyHash's mixing.
constexpr Key key_with_hash(std::uint64_t bits) {
  bits = (bits ^ bits >> 33) * 0x9cb4b2f8129337db;
  bits = (bits ^ bits >> 33) * 0x4f74430c22a54005;
  return bits ^ bits >> 33;
}

}  // namespace verbena::testing
