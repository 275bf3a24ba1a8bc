#include "base/peer_memory.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::base {
namespace {

TEST(PeerMemoryTest, AllBytesAreCopiedAndNoMore) {
  std::vector<std::uint64_t> from(5);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(from));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i + 1);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    std::vector<std::uint64_t> to(6);
    copy_once(reinterpret_cast<std::byte*>(to.data()), bytes.first(length));
    const std::span<const std::byte> copy = std::as_bytes(std::span(to));
    for (std::size_t i = 0; i < copy.size(); ++i)
      EXPECT_EQ(copy[i], i < length ? bytes[i] : std::byte{0}) << i << " of " << length;
  }
}

}  // namespace
}  // namespace verbena::base
