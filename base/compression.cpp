#include "base/compression.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/peer_memory.hpp"

namespace verbena::base {
namespace {

constexpr std::size_t kMagicBytes = sizeof(std::uint32_t);

/// The first so many bytes of `words`, which grow if they are fewer.
std::span<std::byte> room_for(std::size_t bytes, std::vector<std::uint64_t>& words) {
  words.resize(std::max(words.size(), (bytes + sizeof words[0] - 1) / sizeof words[0]));
  return std::as_writable_bytes(std::span(words)).first(bytes);
}

/// It is one frame, and says that it holds `length` bytes. Frames from before zstd 0.8 begin otherwise, and
/// have decoders of their own, which nobody needs here. REQUIRES: at least kMagicBytes.
bool is_frame(std::span<const std::byte> frame, std::size_t length) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, frame.data(), sizeof magic);
  return magic == ZSTD_MAGICNUMBER && ZSTD_getFrameContentSize(frame.data(), frame.size()) == length &&
         ZSTD_findFrameCompressedSize(frame.data(), frame.size()) == frame.size();
}

}  // namespace

void Compressor::Free::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}

std::span<const std::byte> Compressor::compress(std::span<const std::byte> bytes, std::size_t most) {
  if (context_ == nullptr) context_.reset(ZSTD_createCCtx());
  if (context_ == nullptr) return {};
  try {
    frame_.resize(std::max(frame_.size(), most));
  } catch (const std::bad_alloc&) {
    return {};
  }
  const std::size_t length =
      ZSTD_compressCCtx(context_.get(), frame_.data(), most, bytes.data(), bytes.size(), level_);
  if (ZSTD_isError(length) != 0) return {};
  return std::span(frame_).first(length);
}

void Decompressor::Free::operator()(ZSTD_DCtx_s* context) const {
  ZSTD_freeDCtx(context);
}

std::optional<std::span<const std::byte>> Decompressor::decompress(std::span<const std::byte> frame,
                                                                   std::size_t length) {
  if (frame.size() < kMagicBytes) return std::nullopt;
  const std::span<std::byte> copy = room_for(frame.size(), frame_);
  copy_once(copy.data(), frame);
  if (!is_frame(copy, length)) return std::nullopt;
  const std::span<std::byte> bytes = room_for(length, bytes_);
  if (context_ == nullptr) context_.reset(ZSTD_createDCtx());
  if (context_ == nullptr) throw std::bad_alloc();
  // All at once, which takes no memory for a window, however large the frame says that it is. An error is a
  // larger number than any length.
  const std::size_t found =
      ZSTD_decompressDCtx(context_.get(), bytes.data(), bytes.size(), copy.data(), copy.size());
  if (found != length) return std::nullopt;
  return bytes;
}

}  // namespace verbena::base
