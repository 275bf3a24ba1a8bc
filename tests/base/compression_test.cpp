#include "base/compression.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>

namespace verbena::base {
namespace {

/// Some bytes that come often, and some that do not.
std::string some_bytes(std::size_t count) {
  std::mt19937 random(7);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? random() : random() % 3);
  return bytes;
}

class CompressionTest : public ::testing::Test {
 protected:
  static std::string compress(const std::string& bytes, int level = 1, std::size_t most = 1 << 20) {
    Compressor compressor(level);
    const auto frame = compressor.compress(std::as_bytes(std::span(bytes)), most);
    return {reinterpret_cast<const char*>(frame.data()), frame.size()};
  }
  std::optional<std::string> decompress(const std::string& frame, std::size_t length) {
    std::vector<std::uint64_t> aligned(frame.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(aligned.data(), frame.data(), frame.size());
    const auto bytes =
        decompressor_.decompress(std::as_bytes(std::span(aligned)).first(frame.size()), length);
    if (!bytes) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }

  Decompressor decompressor_;
};

TEST_F(CompressionTest, BytesComeBackFromEveryLevel) {
  for (int level = 1; level <= kMaxCompressionLevel; ++level) {
    for (const std::size_t length : {1U, 100U, 30'000U, 7U}) {
      const std::string bytes = some_bytes(length);
      EXPECT_EQ(decompress(compress(bytes, level), length), bytes) << length << " bytes, level " << level;
    }
  }
  EXPECT_LT(compress(some_bytes(30'000)).size(), 20'000U);
  EXPECT_LT(compress(std::string(30'000, 'x'), 19).size(), 100U);
}

TEST_F(CompressionTest, TheFrameIsNotLongerThanAllowed) {
  const std::string bytes = some_bytes(10'000);
  const std::size_t length = compress(bytes).size();
  EXPECT_EQ(compress(bytes, 1, length - 1), "");
  EXPECT_EQ(compress(bytes, 1, 0), "");
  Compressor compressor(1);
  EXPECT_TRUE(compressor.compress(std::as_bytes(std::span(bytes)), 10).empty());
  EXPECT_EQ(compressor.compress(std::as_bytes(std::span(bytes)), 10'000).size(), length)
      << "and then goes on";
}

TEST_F(CompressionTest, WhatIsNotOneWholeFrameOfThatLengthIsRefused) {
  const std::string bytes = some_bytes(1000);
  const std::string frame = compress(bytes);
  for (std::size_t length = 0; length < frame.size(); ++length)
    EXPECT_FALSE(decompress(frame.substr(0, length), 1000)) << "the first " << length << " bytes of a frame";
  EXPECT_FALSE(decompress(frame, 999));
  EXPECT_FALSE(decompress(frame, 1001));
  EXPECT_FALSE(decompress(frame, 0));
  EXPECT_FALSE(decompress(frame + "x", 1000));
  EXPECT_FALSE(decompress(frame + frame, 2000)) << "two frames";
  EXPECT_FALSE(decompress(frame + compress(""), 1000)) << "and a frame of nothing";
  EXPECT_FALSE(decompress(bytes, 1000));
  const std::string skippable("\x50\x2a\x4d\x18\x01\0\0\0x", 9);
  EXPECT_FALSE(decompress(skippable + frame, 1000));
  EXPECT_FALSE(decompress(frame + skippable, 1000));
  std::string old = frame;
  old[0] = '\x27';
  EXPECT_FALSE(decompress(old, 1000)) << "as before zstd 0.8";
  EXPECT_EQ(decompress(frame, 1000), bytes) << "and then goes on";
}

/// Of frames that say so: a window of 2^41 bytes; contents of 2^62 bytes; nothing about their contents. The
/// block of each is 4 bytes as they are.
TEST_F(CompressionTest, NoMemoryIsTakenForWhatAFrameSays) {
  const std::string magic = "\x28\xb5\x2f\xfd";
  const std::string block("\x21\0\0abcd", 7);
  EXPECT_EQ(decompress(magic + std::string("\x20\x04", 2) + block, 4), "abcd")
      << "the others are as this one";
  EXPECT_FALSE(decompress(magic + std::string("\x80\xff\x04\0\0\0", 6) + block, 4));
  EXPECT_FALSE(decompress(magic + std::string("\xe0\0\0\0\0\0\0\0\x40", 9) + block, 4));
  EXPECT_FALSE(decompress(magic + std::string("\0\x50", 2) + block, 4));
}

TEST_F(CompressionTest, DamagedFramesDoNoHarm) {
  const std::string bytes = some_bytes(3000);
  const std::string frame = compress(bytes);
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = frame;
    for (std::size_t more = 1 + random() % 3; more > 0; --more)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto found = decompress(damaged, bytes.size());
    refused += found ? 0 : 1;
    EXPECT_EQ(found.value_or(bytes).size(), bytes.size());
  }
  EXPECT_GT(refused, 200);
  EXPECT_EQ(decompress(frame, bytes.size()), bytes);
}

/// The frame may be changed as soon as it has been read.
TEST_F(CompressionTest, TheFrameIsCopied) {
  const std::string bytes(1000, 'x');
  std::string frame = compress(bytes);
  std::vector<std::uint64_t> aligned(200);
  std::memcpy(aligned.data(), frame.data(), frame.size());
  const auto found = decompressor_.decompress(std::as_bytes(std::span(aligned)).first(frame.size()), 1000);
  std::fill(aligned.begin(), aligned.end(), 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::memcmp(found->data(), bytes.data(), bytes.size()), 0);
}

}  // namespace
}  // namespace verbena::base
