#include "worker/fixed/row_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace verbena::worker {
namespace {

constexpr KeyRange kCachedKeys = {100, 200};
constexpr std::size_t kCachedStride = 8;

/// Caches a row that holds its own key.
std::optional<Key> put(RowCache& cache, Key key) {
  const RowCache::Place place = cache.insert(key);
  if (place.row == nullptr) return std::nullopt;
  std::memcpy(place.row->values(), &key, sizeof key);
  place.row->set_clock(0);
  return place.evicted;
}

std::vector<Key> cached(const RowCache& cache) {
  std::vector<Key> keys;
  for (Key key = kCachedKeys.first; key < kCachedKeys.last; ++key) {
    const RowCache::Row* const row = cache.find(key);
    if (row == nullptr) continue;
    Key held = 0;
    std::memcpy(&held, row->values(), sizeof held);
    EXPECT_EQ(held, key);
    keys.push_back(key);
  }
  return keys;
}

TEST(RowCacheTest, WithRoomForAllNothingIsEvicted) {
  for (const std::uint64_t most : {std::uint64_t{100}, UINT64_MAX}) {
    RowCache cache(kCachedKeys, kCachedStride, most);
    EXPECT_FALSE(cache.is_bounded());
    for (Key key = kCachedKeys.first; key < kCachedKeys.last; ++key) EXPECT_EQ(put(cache, key), std::nullopt);
    EXPECT_EQ(cached(cache).size(), 100U);
  }
}

TEST(RowCacheTest, ABoundIsKept) {
  RowCache cache(kCachedKeys, kCachedStride, 7);
  EXPECT_TRUE(cache.is_bounded());
  for (Key key = kCachedKeys.first; key < kCachedKeys.last; ++key) {
    const std::optional<Key> evicted = put(cache, key);
    EXPECT_EQ(evicted.has_value(), key >= 107) << key;
    EXPECT_TRUE(!evicted || cache.find(*evicted) == nullptr);
    EXPECT_EQ(cached(cache).size(), std::min<std::size_t>(key - 99, 7));
  }
}

TEST(RowCacheTest, WhatIsReadStays) {
  RowCache cache(kCachedKeys, kCachedStride, 4);
  for (Key key = 100; key < 104; ++key) put(cache, key);
  for (Key key = 104; key < 150; ++key) {
    cache.touch(101);
    EXPECT_NE(put(cache, key), 101) << key;
  }
  EXPECT_NE(cache.find(101), nullptr);
  // Read no more, it goes.
  for (Key key = 150; key < 156; ++key) put(cache, key);
  EXPECT_EQ(cache.find(101), nullptr);
}

TEST(RowCacheTest, WhereAllAreReadOneGoesNevertheless) {
  RowCache cache(kCachedKeys, kCachedStride, 3);
  for (Key key = 100; key < 103; ++key) put(cache, key);
  for (Key key = 100; key < 103; ++key) cache.touch(key);
  EXPECT_TRUE(put(cache, 110).has_value());
  EXPECT_EQ(cached(cache).size(), 3U);
}

TEST(RowCacheTest, NoRoomIsNoPlace) {
  RowCache cache(kCachedKeys, kCachedStride, 0);
  EXPECT_EQ(cache.insert(100).row, nullptr);
  EXPECT_THAT(cached(cache), ::testing::IsEmpty());
}

}  // namespace
}  // namespace verbena::worker
