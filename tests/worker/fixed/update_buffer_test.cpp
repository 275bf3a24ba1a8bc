#include "worker/fixed/update_buffer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "transport/shm/shm_transport.hpp"

namespace verbena::worker {
namespace {

constexpr KeyRange kKeys{100, 200};
constexpr std::size_t kStride = 8;

std::map<Key, double> contents(const UpdateBuffer& buffer) {
  std::map<Key, double> all;
  for (std::uint32_t i = 0; i < buffer.records(); ++i) {
    const Key key = buffer.key(i);
    double value = 0;
    std::memcpy(&value, buffer.find(key), sizeof value);
    all[key] = value;
  }
  EXPECT_EQ(all.size(), buffer.records());
  return all;
}

TEST(UpdateBufferTest, WhatIsMovedIsInTheOtherAndNowhereElse) {
  const auto transport = transport::make_shm_transport({});
  ASSERT_TRUE(transport.ok());
  LocalMemory memory(**transport);
  std::mt19937 random(7);
  // Chunks of four records: the last one of another chunk takes a moved one's place.
  const std::size_t chunk = sizeof(protocol::BulkHeader) + 4 * protocol::record_bytes(kStride);
  UpdateBuffer buffer(kKeys, kStride, chunk, memory);
  UpdateBuffer other(kKeys, kStride, chunk, memory);
  for (int round = 0; round < 50; ++round) {
    std::map<Key, double> stay;
    for (int i = 0; i < 30; ++i) {
      const Key key = kKeys.first + random() % kKeys.size();
      const UpdateBuffer::Found found = buffer.find_or_add(key);
      const double value = round + i;
      std::memcpy(found.values, &value, sizeof value);
      stay[key] = value;
    }
    std::map<Key, double> go;
    for (auto at = stay.begin(); at != stay.end();) {
      if (random() % 3 != 0) {
        ++at;
        continue;
      }
      ASSERT_TRUE(buffer.move_to(at->first, other));
      EXPECT_EQ(buffer.find(at->first), nullptr);
      go.insert(*at);
      at = stay.erase(at);
    }
    EXPECT_EQ(contents(buffer), stay);
    EXPECT_EQ(contents(other), go);
    for (const auto& [key, value] : go) {
      const auto& holding = other.chunk_of(key).memory.bytes;
      EXPECT_TRUE(other.find(key) >= holding.data() && other.find(key) < holding.data() + holding.size());
    }
    buffer.clear();
    other.clear();
    for (Key key = kKeys.first; key < kKeys.last; ++key) ASSERT_EQ(buffer.find(key), nullptr);
  }
}

}  // namespace
}  // namespace verbena::worker
