#include "checkpoint/checksum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace verbena::checkpoint {

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh3);
}
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(std::uint64_t checksum) {
  return fmt::format("{:016x}", checksum);
}

std::optional<std::uint64_t> parse_checksum(std::string_view text) {
  const bool is_lower_hex =
      std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (text.size() != kChecksumDigits || !is_lower_hex) return std::nullopt;
  std::uint64_t checksum = 0;
  std::from_chars(text.data(), text.data() + text.size(), checksum, 16);
  return checksum;
}

}  // namespace verbena::checkpoint
