#include "server/image_copier.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "server/stored_rows.hpp"

namespace verbena::server {

namespace {

/// How many buffers of each lane are for what is copied ahead.
constexpr std::size_t kBuffersAhead = 2;
constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;

}  // namespace

/// A large page, if the system has them: getting small ones costs more than copying what they take.
ImageBuffer::ImageBuffer(std::size_t bytes) : capacity_(bytes) {
  const bool is_large = bytes % kLargePageBytes == 0;
  memory_.reset(
      static_cast<std::byte*>(is_large ? std::aligned_alloc(kLargePageBytes, bytes) : std::malloc(bytes)));
  if (memory_ == nullptr) throw std::bad_alloc();
  if (is_large) static_cast<void>(::madvise(memory_.get(), bytes, MADV_HUGEPAGE));
}

void ImageBuffer::add(const protocol::ImageBlock& block, const std::byte* from) {
  const bool goes_on = used_ > 0 && block.lane == last_.lane && block.offset == last_.offset + last_.bytes;
  if (goes_on) {
    last_.bytes += block.bytes;
  } else {
    last_ = block;
    place_of_last_ = used_;
    used_ += sizeof last_;
  }
  std::memcpy(memory_.get() + place_of_last_, &last_, sizeof last_);
  std::memcpy(memory_.get() + used_, from, block.bytes);
  used_ += block.bytes;
  block_bytes_ += block.bytes;
}

ImageCopier::ImageCopier(std::uint32_t lane, std::span<const std::span<std::byte>> extents,
                         const ImageGrain& grain, ImageBuffers& buffers)
    : lane_(lane), grain_(grain), buffers_(buffers) {
  std::uint64_t offset = 0;
  for (const std::span<std::byte> extent : extents) {
    if (!extent.empty())
      extents_.push_back({.begin = extent.data(), .bytes = extent.size(), .offset = offset});
    offset += extent.size();
  }
  std::ranges::sort(extents_, std::less<>(), &Extent::begin);
  for (Extent& extent : extents_) {
    extent.first_block = blocks_left_;
    blocks_left_ += blocks_of(extent);
  }
  are_copied_.resize(blocks_left_);
  const std::uint64_t most = offset / grain_.buffer_bytes + 1;
  for (std::size_t i = 0; i < std::min<std::uint64_t>(kBuffersAhead, most); ++i)
    buffers_.free.push(ImageBuffer(grain_.buffer_bytes));
}

std::size_t ImageCopier::bytes_of(const Extent& extent, std::uint64_t block) const {
  return std::min(grain_.block_bytes, extent.bytes - block * grain_.block_bytes);
}

void ImageCopier::before_change(const void* at, std::size_t bytes) {
  if (has_all() || has_failed_) return;
  const auto* const begin = static_cast<const std::byte*>(at);
  const auto after = std::ranges::upper_bound(extents_, begin, std::less<>(), &Extent::begin);
  if (after == extents_.begin() || bytes == 0) return;
  const Extent& extent = *(after - 1);
  const auto offset = static_cast<std::size_t>(begin - extent.begin);
  if (offset >= extent.bytes) return;
  const std::size_t last = std::min(offset + bytes, extent.bytes) - 1;
  for (std::uint64_t block = offset / grain_.block_bytes; block <= last / grain_.block_bytes; ++block) {
    if (are_copied_[extent.first_block + block]) continue;
    if (!filling_.has_room(bytes_of(extent, block)) && !get_another_buffer()) return;
    copy(extent, block);
  }
  if (has_all()) hand_over();
}

/// False: there is no memory for it.
bool ImageCopier::get_another_buffer() {
  hand_over();
  if (buffers_.free.try_pop(filling_)) return true;
  try {
    filling_ = ImageBuffer(grain_.buffer_bytes);
  } catch (const std::bad_alloc&) {
    has_failed_ = true;
  }
  return !has_failed_;
}

bool ImageCopier::copy_some() {
  if (has_failed_) return false;
  bool worked = false;
  std::size_t left = grain_.bytes_a_turn;
  while (next_extent_ < extents_.size()) {
    const Extent& extent = extents_[next_extent_];
    if (next_block_ == blocks_of(extent)) {
      ++next_extent_;
      next_block_ = 0;
      continue;
    }
    if (!are_copied_[extent.first_block + next_block_]) {
      const std::size_t bytes = bytes_of(extent, next_block_);
      if (worked && bytes > left) break;
      if (!filling_.has_room(bytes)) {
        hand_over();
        if (!buffers_.free.try_pop(filling_)) break;
      }
      copy(extent, next_block_);
      left -= std::min(left, bytes);
      worked = true;
    }
    ++next_block_;
  }
  if (has_all()) hand_over();
  return worked;
}

/// REQUIRES: there is room
void ImageCopier::copy(const Extent& extent, std::uint64_t block) {
  const std::uint64_t at = block * grain_.block_bytes;
  filling_.add({.lane = lane_,
                .bytes = static_cast<std::uint32_t>(bytes_of(extent, block)),
                .offset = extent.offset + at},
               extent.begin + at);
  are_copied_[extent.first_block + block] = true;
  --blocks_left_;
}

void ImageCopier::hand_over() {
  if (filling_.bytes().empty()) return;
  buffers_.full.push(std::move(filling_));
  filling_ = ImageBuffer();
}

void StoredRows::copy_before_change(protocol::Row row, std::size_t before_bytes, ImageCopier& copier) const {
  copier.before_change(values(row) - before_bytes, strides_.row_bytes);
  if (const std::byte* const kept = state(row)) copier.before_change(kept, strides_.state_bytes);
  if (chunk(row).uses != nullptr) copier.before_change(&use(row), sizeof(protocol::RowUse));
}

}  // namespace verbena::server
