#include "apps/data/feature_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "apps/data/random.hpp"
#include "base/decimal.hpp"

namespace verbena::apps {

static_assert(std::endian::native == std::endian::little,
              "hash_of_text() would have to turn the words round");

std::uint64_t hash_of_text(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = mix(seed ^ mix(text.size()));
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::size_t bytes = std::min(sizeof word, text.size());
    std::memcpy(&word, text.data(), bytes);
    hash = mix(hash ^ word);
    text.remove_prefix(bytes);
  }
  return hash;
}

Key text_key(std::uint64_t slot, std::string_view text, std::uint64_t seed) {
  return feature_key(slot, hash_of_text(text, seed) & kMostIndex);
}

NamedSlot::NamedSlot(std::string_view name) : seed(hash_of_text(name)), slot(1 + seed % kMostSlot) {}

std::string feature_name(Key key) {
  return fmt::format("{}:{}", key >> 52U, key & kMostIndex);
}

std::optional<Key> parse_feature_name(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto slot = base::parse_decimal<std::uint64_t>(name.substr(0, colon));
  const auto index = base::parse_decimal<std::uint64_t>(name.substr(colon + 1));
  if (!slot || !index || *slot > kMostSlot || *index > kMostIndex) return std::nullopt;
  return feature_key(*slot, *index);
}

}  // namespace verbena::apps
