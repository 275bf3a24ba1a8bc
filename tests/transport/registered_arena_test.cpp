#include "transport/registered_arena.hpp"

#include <gtest/gtest.h>
#include <jemalloc/jemalloc.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
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

struct Piece {
  std::span<std::byte> memory;
  std::byte mark;

  void fill() const { std::ranges::fill(memory, mark); }
  [[nodiscard]] bool whole() const {
    return std::ranges::all_of(memory, [&](std::byte value) { return value == mark; });
  }
};

TEST_F(RegisteredArenaTest, OneAllocationOfTheCapacityFits) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{4096}, std::size_t{5000},
                                  kMebibyte, 3 * kMebibyte + 1, 16 * kMebibyte, 33 * kMebibyte + 4097}) {
    auto arena = make(bytes);
    const std::span<std::byte> memory = arena->allocate(bytes, 64);
    ASSERT_EQ(memory.size(), bytes);
    expect_inside(*arena, memory);
    Piece{memory, std::byte{1}}.fill();
    EXPECT_LE(arena->region().bytes().size(), bytes + bytes / 4 + 20 * 4096) << bytes;
  }
}

TEST_F(RegisteredArenaTest, KeepsTheAccessAndAligns) {
  auto arena = make(8 * kMebibyte, Access::kRemoteRead);
  EXPECT_EQ(arena->region().access(), Access::kRemoteRead);
  for (std::size_t alignment = 1; alignment <= 65536; alignment *= 2) {
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{100}, std::size_t{5000}, std::size_t{40'000}}) {
      const std::span<std::byte> memory = arena->allocate(bytes, alignment);
      ASSERT_EQ(memory.size(), bytes) << alignment;
      expect_inside(*arena, memory);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % alignment, 0U);
      arena->deallocate(memory);
    }
  }
}

TEST_F(RegisteredArenaTest, IsExhaustedAndUsableAgainAfterDeallocating) {
  auto arena = make(4 * kMebibyte);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::span<std::byte>> pieces;
    const std::size_t bytes = std::size_t{1000} << (round % 6);
    while (true) {
      const std::span<std::byte> memory = arena->allocate(bytes, 8);
      if (memory.empty()) break;
      expect_inside(*arena, memory);
      pieces.push_back(memory);
      ASSERT_LE(pieces.size() * bytes, arena->region().bytes().size());
    }
    EXPECT_GE(pieces.size() * bytes, 2 * kMebibyte) << "round " << round << ", " << bytes;
    for (const std::span<std::byte>& memory : pieces) arena->deallocate(memory);
    // The pieces have been merged.
    const std::span<std::byte> whole = arena->allocate(4 * kMebibyte, 64);
    EXPECT_FALSE(whole.empty()) << "round " << round << ", " << bytes;
    arena->deallocate(whole);
  }
}

TEST_F(RegisteredArenaTest, ImpossibleSizesAreRefused) {
  auto arena = make(kMebibyte);
  EXPECT_TRUE(arena->allocate(0, 8).empty());
  EXPECT_TRUE(arena->allocate(kMebibyte * 64, 8).empty());
  EXPECT_TRUE(arena->allocate(SIZE_MAX, 8).empty());
  EXPECT_TRUE(arena->allocate(SIZE_MAX / 2, 64).empty());
  arena->deallocate({});
  EXPECT_EQ(RegisteredArena::create(*transport_, Access::kLocal, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisteredArena::create(*transport_, Access::kLocal, SIZE_MAX).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(RegisteredArenaTest, EndsWithAllocationsAliveAndGivesItsNumberBack) {
  const auto arenas = [] {
    unsigned count = 0;
    std::size_t size = sizeof count;
    EXPECT_EQ(::mallctl("arenas.narenas", &count, &size, nullptr, 0), 0);
    return count;
  };
  (void)make(kMebibyte);
  const unsigned before = arenas();
  for (int i = 0; i < 50; ++i) {
    auto arena = make(kMebibyte);
    for (int j = 0; j < 20; ++j) Piece{arena->allocate(3000, 64), std::byte{7}}.fill();
  }
  EXPECT_EQ(arenas(), before);
}

#ifdef VERBENA_SANITIZED
constexpr std::uint64_t kSeeds = 1;
#else
constexpr std::uint64_t kSeeds = 5;
#endif

TEST_F(RegisteredArenaTest, RandomSizesKeepTheirContentInTwoArenas) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const std::unique_ptr<RegisteredArena> arenas[] = {make(4 * kMebibyte), make(8 * kMebibyte)};
    std::vector<Piece> pieces[2];
    for (int step = 0; step < 6000; ++step) {
      const std::size_t which = random() % 2;
      std::vector<Piece>& mine = pieces[which];
      if (!mine.empty() && random() % 9 < 4) {
        std::swap(mine[random() % mine.size()], mine.back());
        ASSERT_TRUE(mine.back().whole());
        arenas[which]->deallocate(mine.back().memory);
        mine.pop_back();
        continue;
      }
      const std::size_t bytes = 1 + random() % (std::size_t{8} << (random() % 15));
      const std::size_t alignment = std::size_t{1} << (random() % 13);
      const std::span<std::byte> memory = arenas[which]->allocate(bytes, alignment);
      if (memory.empty()) continue;
      expect_inside(*arenas[which], memory);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % alignment, 0U);
      mine.push_back({memory, static_cast<std::byte>(random())});
      mine.back().fill();
    }
    for (const auto& mine : pieces) {
      EXPECT_TRUE(std::ranges::all_of(mine, [](const Piece& piece) { return piece.whole(); }));
    }
  }
}

TEST_F(RegisteredArenaTest, ThreadsShareAnArena) {
  auto arena = make(16 * kMebibyte);
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      std::vector<Piece> pieces;
      for (int step = 0; step < 2000; ++step) {
        if (pieces.size() > 50) {
          EXPECT_TRUE(pieces.back().whole());
          arena->deallocate(pieces.back().memory);
          pieces.pop_back();
        }
        const std::span<std::byte> memory = arena->allocate(1 + random() % 20'000, 64);
        if (memory.empty()) continue;
        pieces.push_back({memory, static_cast<std::byte>(random())});
        pieces.back().fill();
        std::swap(pieces[random() % pieces.size()], pieces.back());
      }
      for (const Piece& piece : pieces) {
        EXPECT_TRUE(piece.whole());
        arena->deallocate(piece.memory);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace verbena::transport
