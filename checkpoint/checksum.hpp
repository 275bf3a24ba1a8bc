// The checksum of checkpoints: XXH3 with 64 bits (github.com/Cyan4973/xxHash). It finds damage; it does not
// keep anybody from forging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace verbena::checkpoint {

/// Of bytes that come in pieces.
class Checksum {
 public:
  Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  ~Checksum();

  void add(std::span<const std::byte> bytes);
  /// Of all bytes until now.
  [[nodiscard]] std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of all these bytes.
[[nodiscard]] std::uint64_t checksum_of(std::span<const std::byte> bytes);

constexpr std::size_t kChecksumDigits = 16;
/// Hexadecimal, with lower-case letters and leading zeros.
[[nodiscard]] std::string checksum_text(std::uint64_t checksum);
/// nullopt for anything that checksum_text() does not write.
[[nodiscard]] std::optional<std::uint64_t> parse_checksum(std::string_view text);

}  // namespace verbena::checkpoint
