// Keys of the features of examples: a slot, and an index in it. The same in every process and version, since
// trained models are kept by them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <verbena/keys.hpp>

namespace verbena::apps {

// The upper 12 bits of a key are the slot, which is the field that the feature belongs to: a column or a
// namespace. The other 52 are the index, which is a number from the file, or a hash of text.
// ------------------------------------------------------------------------------------------------------------

inline constexpr std::uint64_t kMostSlot = 4'094;  ///< one less than fits, so that no key is kNoKey
inline constexpr std::uint64_t kMostIndex = (std::uint64_t{1} << 52U) - 1;

/// REQUIRES: slot <= kMostSlot, index <= kMostIndex
constexpr Key feature_key(std::uint64_t slot, std::uint64_t index) {
  return slot << 52U | index;
}
/// Of a feature's key.
constexpr std::uint64_t slot_of(Key key) {
  return key >> 52U;
}
/// No feature has this key, or a larger one.
inline constexpr Key kBeyondFeatures = (kMostSlot + 1) << 52U;

/// Words of 8 bytes, little-endian, the last one filled up with zeros, are put into mix() one after the
/// other, each together with what came out before: CBC, as with a block cipher, begun with the seed and the
/// size. mix() is that of SplitMix64 (Steele, Lea and Flood, 2014). Not for text that somebody chooses in
/// order to make collisions.
std::uint64_t hash_of_text(std::string_view text, std::uint64_t seed = 0);

/// The key of text: its index is the lower 52 bits of the hash.
/// REQUIRES: slot <= kMostSlot
Key text_key(std::uint64_t slot, std::string_view text, std::uint64_t seed = 0);

/// A slot that has a name, no number. Several names may have one slot; the seed keeps their texts apart.
struct NamedSlot {
  explicit NamedSlot(std::string_view name);
  [[nodiscard]] Key key(std::string_view text) const { return text_key(slot, text, seed); }

  std::uint64_t seed = 0;  ///< the hash of the name
  std::uint64_t slot = 0;  ///< 1 … kMostSlot
};

/// "slot:index", in decimal.
std::string feature_name(Key key);
/// The key of such a name; nullopt if there is none.
std::optional<Key> parse_feature_name(std::string_view name);

}  // namespace verbena::apps
