// Copies what a lane has of tables, as it is at one moment, while the lane goes on changing it.
//
// The memory is in blocks. The lane copies some of them whenever it has looked after its tasks, and, before
// it changes one that is not copied yet, that one. So each block is copied once, as it was at that moment,
// and no block is read by two threads. Copies wait in buffers until they are sent.
//
// Memory: what is copied ahead has few buffers, and waits until they come back. What must be copied since it
// is about to change gets more, if there is none: with all that are under way at most what there is to copy.
#pragma once

#include <oneapi/tbb/concurrent_queue.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/zeroed_array.hpp"
#include "protocol/log_record.hpp"

namespace verbena::server {

/// How finely images are copied, how fast they are sent, and what may wait for a copy that joins. The
/// simulation has other ones, so that much happens meanwhile.
struct ImageGrain {
  /// A change costs the copy of so much once: of a few rows.
  std::size_t block_bytes = 4096;
  /// Of a buffer, and of a message with it.
  std::size_t buffer_bytes = std::size_t{2} << 20;
  /// What is copied ahead between two looks at the lane's tasks: some tens of microseconds.
  std::size_t bytes_a_turn = std::size_t{128} << 10;
  /// As many bytes of the log as the bulk has, and these, may wait for the one that joins, and with it.
  std::uint64_t spare_log_bytes = std::uint64_t{64} << 20;
  /// Of that, how much the one that joins goes by before it looks after other things.
  std::size_t log_bytes_a_turn = std::size_t{1} << 20;
  /// From one message to the next, at least, and from one such turn to the next.
  std::chrono::microseconds between_messages{0};
  /// How long the moment of an image may wait for the end of a clock, when lanes have least to write.
  std::chrono::microseconds waits_for_clock = std::chrono::seconds(10);
};

/// Blocks of a lane, each behind its protocol::ImageBlock.
class ImageBuffer {
 public:
  ImageBuffer() = default;
  /// Throws std::bad_alloc.
  explicit ImageBuffer(std::size_t bytes);

  [[nodiscard]] bool has_room(std::size_t block_bytes) const {
    return memory_ != nullptr && used_ + sizeof(protocol::ImageBlock) + block_bytes <= capacity_;
  }
  /// REQUIRES: has_room(block.bytes)
  void add(const protocol::ImageBlock& block, const std::byte* from);
  void clear() { used_ = block_bytes_ = 0; }

  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_.get(), used_}; }
  /// Of these, those of blocks.
  [[nodiscard]] std::uint64_t block_bytes() const { return block_bytes_; }

 private:
  std::unique_ptr<std::byte[], base::FreeMemory> memory_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::uint64_t block_bytes_ = 0;
  protocol::ImageBlock last_;      ///< the newest
  std::size_t place_of_last_ = 0;  ///< of what is before its bytes
};

/// The buffers of a lane: to be sent, and back.
struct ImageBuffers {
  tbb::concurrent_queue<ImageBuffer> full;
  tbb::concurrent_queue<ImageBuffer> free;
};

/// Thread safety: belongs to the lane.
class ImageCopier {
 public:
  /// `extents`: the lane's part of the bulk, in its order. Their memory stays, and so do the buffers. Throws
  /// std::bad_alloc.
  ImageCopier(std::uint32_t lane, std::span<const std::span<std::byte>> extents, const ImageGrain& grain,
              ImageBuffers& buffers);

  /// These bytes, of one row or of one thing of an index, are about to change. Those that are in no extent
  /// concern nobody.
  void before_change(const void* at, std::size_t bytes);
  /// Copies some blocks, if there is a buffer for them; false: there is none.
  bool copy_some();
  /// All is copied, and in the buffers that are full.
  [[nodiscard]] bool has_all() const { return blocks_left_ == 0; }
  /// There was no memory for what had to be copied: there will be no image.
  [[nodiscard]] bool has_failed() const { return has_failed_; }

 private:
  struct Extent {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::uint64_t offset = 0;       ///< in the lane's part of the bulk
    std::uint64_t first_block = 0;  ///< its number
  };
  [[nodiscard]] std::uint64_t blocks_of(const Extent& extent) const {
    return (extent.bytes + grain_.block_bytes - 1) / grain_.block_bytes;
  }
  [[nodiscard]] std::size_t bytes_of(const Extent& extent, std::uint64_t block) const;
  void copy(const Extent& extent, std::uint64_t block);
  [[nodiscard]] bool get_another_buffer();
  void hand_over();

  const std::uint32_t lane_;
  const ImageGrain grain_;
  ImageBuffers& buffers_;
  std::vector<Extent> extents_;  ///< by address
  std::vector<bool> are_copied_;
  std::uint64_t blocks_left_ = 0;
  std::size_t next_extent_ = 0;  ///< what is copied ahead: all before it is copied
  std::uint64_t next_block_ = 0;
  ImageBuffer filling_;
  bool has_failed_ = false;
};

}  // namespace verbena::server
