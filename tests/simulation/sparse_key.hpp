// The keys of sparse tables in test jobs: far apart, as hashes are.
#pragma once

#include <cstdint>

#include "protocol/sparse_index.hpp"
#include <verbena/keys.hpp>

namespace verbena::simulation {

/// Of row `i`, counted from 0.
constexpr Key sparse_key(std::uint64_t i) {
  return (i + 1) * 0x9e3779b97f4a7c15;
}

/// The same, but the keys of rows 2j and 2j + 1 look alike: they have the same part, bucket and tag, and
/// their segments differ from the fourth division on.
constexpr Key paired_key(std::uint64_t i) {
  if (i % 2 == 0) return sparse_key(i);
  constexpr std::uint64_t kDiffers = std::uint64_t{1} << 38;
  // KeyHash's mixing and its inverse.
  std::uint64_t bits = sparse_key(i - 1);
  bits = (bits ^ bits >> 33) * 0xff51afd7ed558ccd;
  bits = (bits ^ bits >> 33) * 0xc4ceb9fe1a85ec53;
  bits = bits ^ bits >> 33 ^ kDiffers;
  bits = (bits ^ bits >> 33) * 0x9cb4b2f8129337db;
  bits = (bits ^ bits >> 33) * 0x4f74430c22a54005;
  return bits ^ bits >> 33;
}
static_assert(protocol::KeyHash(paired_key(2)).tag() == protocol::KeyHash(paired_key(3)).tag() &&
              protocol::KeyHash(paired_key(2)).bucket() == protocol::KeyHash(paired_key(3)).bucket() &&
              protocol::KeyHash(paired_key(2)).part() == protocol::KeyHash(paired_key(3)).part() &&
              protocol::KeyHash(paired_key(2)).segment_bits(3) ==
                  protocol::KeyHash(paired_key(3)).segment_bits(3) &&
              protocol::KeyHash(paired_key(2)).segment_bits(4) !=
                  protocol::KeyHash(paired_key(3)).segment_bits(4));

}  // namespace verbena::simulation
