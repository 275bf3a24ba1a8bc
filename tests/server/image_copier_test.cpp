// That what a lane changes is copied before. Whether lanes say so of all that they change is the simulation's
// to show (simulate --model repair, and its broken variants).
#include "server/image_copier.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace verbena::server {
namespace {

using ::testing::ElementsAre;

/// Memory in two extents, of 10 and 7 bytes, in blocks of 4.
class ImageCopierTest : public ::testing::Test {
 protected:
  static constexpr ImageGrain kGrain{.block_bytes = 4, .buffer_bytes = 64, .bytes_a_turn = 4};

  static std::span<std::byte> memory(std::string& text) { return std::as_writable_bytes(std::span(text)); }
  /// Puts what is in the buffers that are full where it belongs; returns how many there were.
  int take() {
    int taken = 0;
    for (ImageBuffer buffer; buffers_.full.try_pop(buffer); ++taken) {
      std::span<const std::byte> bytes = buffer.bytes();
      std::uint64_t in_blocks = 0;
      while (!bytes.empty()) {
        protocol::ImageBlock block;
        std::memcpy(&block, bytes.data(), sizeof block);
        EXPECT_EQ(block.lane, 3U);
        bytes = bytes.subspan(sizeof block);
        std::memcpy(image_.data() + block.offset, bytes.data(), block.bytes);
        bytes = bytes.subspan(block.bytes);
        in_blocks += block.bytes;
      }
      EXPECT_EQ(buffer.block_bytes(), in_blocks);
      buffer.clear();
      buffers_.free.push(std::move(buffer));
    }
    return taken;
  }
  void change(std::string& text, std::size_t at, const std::string& to) {
    copier_.before_change(text.data() + at, to.size());
    text.replace(at, to.size(), to);
  }

  std::string first_ = "abcdefghij";
  std::string second_ = "klmnopq";
  ImageBuffers buffers_;
  const std::vector<std::span<std::byte>> extents_ = {memory(first_), memory(second_)};
  ImageCopier copier_{3, extents_, kGrain, buffers_};
  std::string image_ = std::string(17, '.');
};

TEST_F(ImageCopierTest, CopiesAllBitByBit) {
  int turns = 0;
  for (; !copier_.has_all() && turns < 10; ++turns) {
    EXPECT_TRUE(copier_.copy_some());
    take();
  }
  EXPECT_EQ(turns, 5);
  take();
  EXPECT_EQ(image_, "abcdefghijklmnopq");
}

TEST_F(ImageCopierTest, WhatIsAboutToChangeIsCopiedBefore) {
  change(first_, 3, "DE");  // two blocks
  change(second_, 6, "Q");
  change(first_, 4, "X");  // copied already
  while (!copier_.has_all()) {
    copier_.copy_some();
    change(first_, 9, "J");
    take();
  }
  take();
  EXPECT_EQ(image_, "abcdefghijklmnopq");
  EXPECT_EQ(first_ + second_, "abcDXfghiJklmnopQ");
}

TEST_F(ImageCopierTest, MemoryThatIsNotInTheImageConcernsNobody) {
  std::string another = "what has come since";
  copier_.before_change(another.data(), another.size());
  copier_.before_change(first_.data() + first_.size(), 1);
  EXPECT_EQ(take(), 0);
  EXPECT_FALSE(copier_.has_all());
}

TEST_F(ImageCopierTest, WhatIsCopiedAheadWaitsForBuffersAndChangesDoNot) {
  std::string text(400, 'x');
  const std::vector<std::span<std::byte>> extents = {memory(text)};
  ImageBuffers buffers;
  ImageCopier copier(0, extents, kGrain, buffers);
  int turns = 0;
  while (copier.copy_some() && turns < 1000) ++turns;
  EXPECT_LT(turns, 50) << "two buffers, and no more";
  EXPECT_FALSE(copier.has_all());
  copier.before_change(text.data(), text.size());
  EXPECT_TRUE(copier.has_all());
  EXPECT_FALSE(copier.has_failed());
}

TEST_F(ImageCopierTest, NeighboursAreOneBlockOnTheWay) {
  copier_.before_change(first_.data(), first_.size());
  copier_.before_change(second_.data(), second_.size());
  ASSERT_TRUE(copier_.has_all());
  ImageBuffer buffer;
  ASSERT_TRUE(buffers_.full.try_pop(buffer));
  EXPECT_EQ(buffer.bytes().size(), sizeof(protocol::ImageBlock) + 17);
}

}  // namespace
}  // namespace verbena::server
