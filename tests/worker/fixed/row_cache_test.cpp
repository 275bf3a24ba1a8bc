#include "worker/fixed/row_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace verbena::worker {
namespace {

using protocol::Row;

constexpr std::uint64_t kCachedRows = 100;
constexpr std::size_t kCachedStride = 8;

/// Caches a row that holds its own number.
std::optional<Row> put(RowCache& cache, std::uint64_t row) {
  const RowCache::Place place = cache.insert(Row{row});
  if (place.row == nullptr) return std::nullopt;
  std::memcpy(place.row->values(), &row, sizeof row);
  place.row->set_clock(0);
  return place.evicted;
}

std::vector<std::uint64_t> cached(const RowCache& cache) {
  std::vector<std::uint64_t> rows;
  for (std::uint64_t row = 0; row < kCachedRows; ++row) {
    const CachedRow* const found = cache.find(Row{row});
    if (found == nullptr) continue;
    std::uint64_t held = 0;
    std::memcpy(&held, found->values(), sizeof held);
    EXPECT_EQ(held, row);
    rows.push_back(row);
  }
  return rows;
}

TEST(RowCacheTest, WithRoomForAllNothingIsEvicted) {
  for (const std::uint64_t most : {std::uint64_t{100}, UINT64_MAX}) {
    RowCache cache(kCachedRows, kCachedStride, most);
    EXPECT_FALSE(cache.is_bounded());
    for (std::uint64_t row = 0; row < kCachedRows; ++row) EXPECT_EQ(put(cache, row), std::nullopt);
    EXPECT_EQ(cached(cache).size(), 100U);
  }
}

TEST(RowCacheTest, ABoundIsKept) {
  RowCache cache(kCachedRows, kCachedStride, 7);
  EXPECT_TRUE(cache.is_bounded());
  for (std::uint64_t row = 0; row < kCachedRows; ++row) {
    const std::optional<Row> evicted = put(cache, row);
    EXPECT_EQ(evicted.has_value(), row >= 7) << row;
    EXPECT_TRUE(!evicted || cache.find(*evicted) == nullptr);
    EXPECT_EQ(cached(cache).size(), std::min<std::size_t>(row + 1, 7));
  }
}

TEST(RowCacheTest, WhatIsReadStays) {
  RowCache cache(kCachedRows, kCachedStride, 4);
  for (std::uint64_t row = 0; row < 4; ++row) put(cache, row);
  for (std::uint64_t row = 4; row < 50; ++row) {
    cache.read(Row{1});
    EXPECT_NE(put(cache, row), Row{1}) << row;
  }
  EXPECT_NE(cache.find(Row{1}), nullptr);
  // It is not read any more, and is evicted.
  for (std::uint64_t row = 50; row < 56; ++row) put(cache, row);
  EXPECT_EQ(cache.find(Row{1}), nullptr);
}

TEST(RowCacheTest, WhereAllAreReadOneGoesNevertheless) {
  RowCache cache(kCachedRows, kCachedStride, 3);
  for (std::uint64_t row = 0; row < 3; ++row) put(cache, row);
  for (std::uint64_t row = 0; row < 3; ++row) cache.read(Row{row});
  EXPECT_TRUE(put(cache, 10).has_value());
  EXPECT_EQ(cached(cache).size(), 3U);
}

TEST(RowCacheTest, NoRoomIsNoPlace) {
  RowCache cache(kCachedRows, kCachedStride, 0);
  EXPECT_EQ(cache.insert(Row{0}).row, nullptr);
  EXPECT_THAT(cached(cache), ::testing::IsEmpty());
}

}  // namespace
}  // namespace verbena::worker
