// Bytes made fewer by zstd (RFC 8878), and back. Both ways keep what they work with, so that a call costs no
// allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace verbena::base {

constexpr int kMaxCompressionLevel = 19;  ///< higher ones need far more memory than what is compressed here

/// Thread safety: none.
class Compressor {
 public:
  /// `level`: 1, the fastest, to kMaxCompressionLevel.
  explicit Compressor(int level) : level_(level) {}

  /// One frame that holds the bytes and says how many they are. It stays until the next call. Empty: it would
  /// be longer than `most`, or there is no memory for the work.
  std::span<const std::byte> compress(std::span<const std::byte> bytes, std::size_t most);

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };

  int level_;
  std::unique_ptr<ZSTD_CCtx_s, Free> context_;
  std::vector<std::byte> frame_;
};

/// Thread safety: none.
class Decompressor {
 public:
  /// The `length` bytes that the frame holds, aligned to 8 bytes. They stay until the next call. nullopt: it
  /// is not one frame that says that it holds so many and does. The frame may lie where its sender still
  /// writes, and may be any bytes: it is copied first; besides the copy, room for `length` bytes and
  /// zstd's tables, which do not depend on the frame, are taken. Throws std::bad_alloc. REQUIRES: `frame` is
  /// aligned to 8 bytes.
  std::optional<std::span<const std::byte>> decompress(std::span<const std::byte> frame, std::size_t length);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
  // Words, because they are aligned.
  std::vector<std::uint64_t> frame_;
  std::vector<std::uint64_t> bytes_;
};

}  // namespace verbena::base
