#include "transport/registered_arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "transport/shm/shm_transport.hpp"

namespace verbena::transport {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

class RegisteredArenaTest : public ::testing::Test {
 protected:
  std::unique_ptr<RegisteredArena> make(std::size_t bytes, Access access = Access::kLocal) {
    auto arena = RegisteredArena::create(*transport_, access, bytes);
    EXPECT_TRUE(arena.ok()) << arena.status();
    return std::move(*arena);
  }

  static void expect_inside(const RegisteredArena& arena, std::span<const std::byte> memory) {
    const std::span<const std::byte> region = arena.region().bytes();
    EXPECT_GE(memory.data(), region.data());
    EXPECT_LE(memory.data() + memory.size(), region.data() + region.size());
  }

  std::shared_ptr<Transport> transport_ = *make_shm_transport({});
};

TEST_F(RegisteredArenaTest, OneAllocationOfTheCapacityFits) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{4096}, std::size_t{5000},
                                  kMebibyte, 3 * kMebibyte + 1, 33 * kMebibyte + 4097}) {
    auto arena = make(bytes);
    const std::span<std::byte> memory = arena->allocate(bytes, 64);
    ASSERT_EQ(memory.size(), bytes);
    expect_inside(*arena, memory);
    EXPECT_LE(arena->region().bytes().size(), bytes + 4096) << bytes;
  }
}

TEST_F(RegisteredArenaTest, KeepsTheAccessAndAligns) {
  auto arena = make(8 * kMebibyte, Access::kRemoteRead);
  EXPECT_EQ(arena->region().access(), Access::kRemoteRead);
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{100}, std::size_t{5000}, std::size_t{40'000}}) {
      const std::span<std::byte> memory = arena->allocate(bytes, alignment);
      ASSERT_EQ(memory.size(), bytes) << alignment;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % alignment, 0U);
    }
  }
}

TEST_F(RegisteredArenaTest, EachHasItsOwnUntilThereIsNoRoom) {
  std::mt19937_64 random(1);
  auto arena = make(4 * kMebibyte);
  struct Piece {
    std::span<std::byte> memory;
    std::byte mark;
  };
  std::vector<Piece> pieces;
  std::size_t sum = 0;
  while (true) {
    const std::span<std::byte> memory =
        arena->allocate(1 + random() % 20'000, std::size_t{1} << (random() % 7));
    if (memory.empty()) break;
    expect_inside(*arena, memory);
    EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte value) { return value == std::byte{0}; }));
    pieces.push_back({memory, static_cast<std::byte>(1 + random() % 255)});
    std::ranges::fill(memory, pieces.back().mark);
    sum += memory.size();
  }
  EXPECT_GE(sum, 3 * kMebibyte);
  for (const Piece& piece : pieces)
    EXPECT_TRUE(std::ranges::all_of(piece.memory, [&](std::byte value) { return value == piece.mark; }));
  EXPECT_EQ(arena->allocate(1, 1).size(), 1U) << "what is small still fits";
}

TEST_F(RegisteredArenaTest, ImpossibleSizesAreRefused) {
  auto arena = make(kMebibyte);
  EXPECT_TRUE(arena->allocate(0, 8).empty());
  EXPECT_TRUE(arena->allocate(kMebibyte * 64, 8).empty());
  EXPECT_TRUE(arena->allocate(SIZE_MAX, 8).empty());
  EXPECT_TRUE(arena->allocate(SIZE_MAX / 2, 64).empty());
  EXPECT_EQ(arena->allocate(kMebibyte, 64).size(), kMebibyte) << "what was refused took nothing";
  EXPECT_TRUE(arena->allocate(1, 4096).empty());
  EXPECT_EQ(RegisteredArena::create(*transport_, Access::kLocal, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisteredArena::create(*transport_, Access::kLocal, SIZE_MAX).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace verbena::transport
