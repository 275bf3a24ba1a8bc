#include "worker/fixed/update_buffer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <random>

#include "transport/shm/shm_transport.hpp"

namespace verbena::worker {
namespace {

using protocol::Row;

constexpr std::uint64_t kBufferedRows = 100;
constexpr Key kFirstBufferedKey = 1000;
constexpr std::size_t kStride = 8;

std::map<Row, double> contents(const UpdateBuffer& buffer) {
  std::map<Row, double> all;
  for (std::uint32_t i = 0; i < buffer.records(); ++i) {
    const Row row = buffer.row(i);
    double value = 0;
    std::memcpy(&value, buffer.find(row), sizeof value);
    Key key = 0;
    std::memcpy(&key, buffer.find(row) - sizeof key, sizeof key);
    EXPECT_EQ(key, kFirstBufferedKey + index_of(row));
    all[row] = value;
  }
  EXPECT_EQ(all.size(), buffer.records());
  return all;
}

TEST(UpdateBufferTest, WhatIsMovedIsInTheOtherAndNowhereElse) {
  const auto transport = transport::make_shm_transport({});
  ASSERT_TRUE(transport.ok());
  LocalMemory memory(**transport);
  std::mt19937 random(7);
  // Chunks of four records: the last record, mostly of another chunk, takes the place of one that is moved
  // out.
  const std::size_t chunk = sizeof(protocol::BulkHeader) + 4 * protocol::record_bytes(kStride);
  UpdateBuffer buffer(kBufferedRows, kStride, chunk, memory);
  UpdateBuffer other(kBufferedRows, kStride, chunk, memory);
  for (int round = 0; round < 50; ++round) {
    std::map<Row, double> stay;
    for (int i = 0; i < 30; ++i) {
      const Row row{random() % kBufferedRows};
      const UpdateBuffer::Found found = buffer.find_or_add(row, kFirstBufferedKey + index_of(row));
      const double value = round + i;
      std::memcpy(found.values, &value, sizeof value);
      stay[row] = value;
    }
    std::map<Row, double> go;
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
    for (const auto& [row, value] : go) {
      const auto& holding = other.chunk_of(row).memory.bytes;
      EXPECT_TRUE(other.find(row) >= holding.data() && other.find(row) < holding.data() + holding.size());
    }
    buffer.clear();
    other.clear();
    for (std::uint64_t row = 0; row < kBufferedRows; ++row) ASSERT_EQ(buffer.find(Row{row}), nullptr);
  }
}

/// Rows that come once or more, in chunks of eight records: what a run adds is what find_or_add() would have.
TEST(UpdateBufferTest, ARunAddsWhatOneAfterTheOtherDoes) {
  const auto transport = transport::make_shm_transport({});
  ASSERT_TRUE(transport.ok());
  LocalMemory memory(**transport);
  std::mt19937 random(11);
  const std::size_t chunk = sizeof(protocol::BulkHeader) + 8 * protocol::record_bytes(kStride);
  UpdateBuffer buffer(kBufferedRows, kStride, chunk, memory);
  const auto add = [](auto& to, Row row, double value, std::map<Row, double>& expected) {
    const UpdateBuffer::Found found = to.find_or_add(row, kFirstBufferedKey + index_of(row));
    EXPECT_EQ(found.fresh, !expected.contains(row));
    double sum = value;
    if (!found.fresh) {
      std::memcpy(&sum, found.values, sizeof sum);
      sum += value;
    }
    std::memcpy(found.values, &sum, sizeof sum);
    expected[row] += value;
  };
  int runs = 0;
  for (int round = 0; round < 50; ++round) {
    std::map<Row, double> expected;
    EXPECT_FALSE(round == 0 && buffer.can_run(1)) << "there is no memory yet";
    for (int step = 0; step < 40; ++step) {
      const std::size_t rows = 1 + random() % 5;
      const bool is_run = buffer.can_run(rows);
      EXPECT_FALSE(is_run && buffer.records() % 8 + rows > 8) << "the chunk has no room for them";
      std::optional<UpdateBuffer::Run> run;
      if (is_run) run.emplace(buffer);
      for (std::size_t i = 0; i < rows; ++i) {
        const Row row{random() % kBufferedRows};
        is_run ? add(*run, row, step, expected) : add(buffer, row, step, expected);
      }
      run.reset();
      runs += is_run ? 1 : 0;
      ASSERT_EQ(contents(buffer), expected);
    }
    buffer.clear();
  }
  EXPECT_GT(runs, 100);
  EXPECT_FALSE(UpdateBuffer(RowIndex::kSparse, kStride, chunk, memory).can_run(1)) << "it has no array";
}

}  // namespace
}  // namespace verbena::worker
