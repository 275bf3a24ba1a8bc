// A lane's part of a sparse table alone: how it gets memory, and what happens if there is none.
#include "server/sparse_part.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "consistency/model.hpp"
#include "server/sparse_shard.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::server {
namespace {

using protocol::KeyHash;
using protocol::Row;

class SparsePartTest : public ::testing::Test {
 protected:
  /// Carries orders out as a server does, up to `most_orders_`.
  void carry_out(RegionDesk::Order& order) {
    ++orders_;
    if (orders_ > most_orders_) {
      order.status = absl::ResourceExhaustedError("nothing is left");
    } else {
      order.shard->allocate(order);
    }
  }

  absl::Status create(const char* rule = "add", const char* eviction = "never") {
    const protocol::OpenTable open{.value_type = ValueType::kFloat,
                                   .key_space = KeySpace::kSparse,
                                   .rows = 1,
                                   .width = 2048,
                                   .name = "rows",
                                   .consistency = "asp",
                                   .rule = rule,
                                   .eviction = eviction};
    auto shard =
        SparseShard::create(*transport_, desk_, open, consistency::rules_of(Asp{}),
                            protocol::UpdateRule::find(rule, ValueType::kFloat, 2048).value(),
                            {protocol::InitialValues::find("constant(value=3)", 0, ValueType::kFloat).value(),
                             protocol::AdmissionRule(), protocol::EvictionRule::find(eviction).value()},
                            {});
    if (!shard.ok()) return shard.status();
    shard_ = *std::move(shard);
    part_ = shard_->part(0).sparse;
    return absl::OkStatus();
  }

  absl::StatusOr<Row> find_or_add(const KeyHash& hash, Key key) {
    const std::optional<Row> row = part_->find(hash, key);
    return row ? *row : part_->add(hash, key, /*now=*/0);
  }

  std::unique_ptr<transport::Transport> transport_ = transport::make_shm_transport().value();
  std::uint64_t orders_ = 0;
  std::uint64_t most_orders_ = UINT64_MAX;
  std::atomic<int> wakes_ = 0;
  RegionDesk desk_{[this](RegionDesk::Order& order) { carry_out(order); }, [this] { ++wakes_; }};
  std::unique_ptr<SparseShard> shard_;
  SparsePart* part_ = nullptr;
};

TEST_F(SparsePartTest, RowsStayWhereTheyAreWhileRegionsAreAdded) {
  ASSERT_TRUE(create("adagrad").ok());
  std::mt19937_64 random(1);
  std::vector<std::pair<Key, std::byte*>> made;
  for (int i = 0; i < 400; ++i) {
    const Key key = random();
    const absl::StatusOr<Row> row = find_or_add(KeyHash(key), key);
    ASSERT_TRUE(row.ok()) << row.status();
    EXPECT_EQ(find_or_add(KeyHash(key), key).value(), *row);
    EXPECT_EQ(part_->key_of(*row), key);
    made.emplace_back(key, part_->rows().values(*row));
    EXPECT_EQ(reinterpret_cast<const float*>(made.back().second)[2047], 3);
    EXPECT_EQ(*part_->rows().state(*row), std::byte{0});
    *part_->rows().state(*row) = std::byte{1};
  }
  for (const auto& [key, values] : made) {
    const std::optional<Row> row = part_->find(KeyHash(key), key);
    ASSERT_TRUE(row.has_value());
    EXPECT_EQ(part_->rows().values(*row), values);
    EXPECT_EQ(*part_->rows().state(*row), std::byte{1}) << "it is another row's";
  }
  EXPECT_FALSE(part_->find(KeyHash(7), 7).has_value());
}

/// Of the rows that are added, only few need another region or divide a segment.
TEST_F(SparsePartTest, WhoWatchesGrowthIsToldOfRegionsAndDivisionsOnly) {
  std::size_t told = 0;
  desk_.set_growth_watch([&](std::chrono::nanoseconds time) {
    EXPECT_GE(time.count(), 0);
    ++told;
  });
  ASSERT_TRUE(create().ok());
  const std::uint64_t first_orders = orders_;
  constexpr Key kRows = 4000;
  for (Key key = 0; key < kRows; ++key) ASSERT_TRUE(find_or_add(KeyHash(key), key).ok());
  EXPECT_GT(orders_, first_orders);
  EXPECT_GT(told, orders_ - first_orders);  // one division at least
  EXPECT_LT(told, kRows / 4);
}

TEST_F(SparsePartTest, WithoutMemoryTheTableIsRefusedOrSaysSo) {
  int refused = 0;
  for (most_orders_ = 0; most_orders_ < 20; ++most_orders_, orders_ = 0) {
    const absl::Status created = create();
    if (!created.ok()) {
      EXPECT_EQ(created.code(), absl::StatusCode::kResourceExhausted);
      ++refused;
      continue;
    }
    std::mt19937_64 random(1);
    absl::StatusOr<Row> row = Row{};
    for (int i = 0; i < 10'000 && row.ok(); ++i) {
      const Key key = random();
      row = find_or_add(KeyHash(key), key);
    }
    EXPECT_EQ(row.status().code(), absl::StatusCode::kResourceExhausted) << most_orders_;
  }
  EXPECT_GE(refused, 3) << "a root, segments, rows";
  EXPECT_LT(refused, 20);
}

/// What a row held stays until it is free, for workers may be reading it; then it is another's, with nothing
/// of what it was.
TEST_F(SparsePartTest, RowsThatAreGoneAreUsedAgainOnceTheyAreFree) {
  ASSERT_TRUE(create("adagrad", "age").ok());
  const Row row = find_or_add(KeyHash(1), 1).value();
  auto* const values = reinterpret_cast<float*>(part_->rows().values(row));
  values[0] = 5;
  *part_->rows().state(row) = std::byte{1};
  EXPECT_EQ(part_->evict(row), 1);
  EXPECT_EQ(part_->key_of(row), kNoKey);
  EXPECT_EQ(part_->former_key(row), 1);
  EXPECT_FALSE(part_->find(KeyHash(1), 1).has_value());
  EXPECT_EQ(part_->keys_in_use(), 0);
  EXPECT_NE(find_or_add(KeyHash(2), 2).value(), row) << "it is not free";
  EXPECT_EQ(values[0], 5);
  part_->free_row(row);
  EXPECT_EQ(part_->former_key(row), kNoKey);
  EXPECT_EQ(find_or_add(KeyHash(1), 1).value(), row);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(*part_->rows().state(row), std::byte{0});
  EXPECT_EQ(part_->rows_made(), 2);
}

TEST_F(SparsePartTest, ALimitedTableHasNoMoreRowsThanItMay) {
  ASSERT_TRUE(create("add", "lru(most_mb=1)").ok());  // of 8 KiB each
  std::mt19937_64 random(1);
  std::vector<Row> rows;
  while (part_->has_room()) rows.push_back(find_or_add(KeyHash(rows.size()), rows.size()).value());
  EXPECT_GT(rows.size(), 90);
  EXPECT_LT(rows.size(), 122);
  EXPECT_EQ(rows.size(), part_->most_keys());
  while (!part_->has_too_many_gone()) {
    part_->evict(rows.back());
    rows.pop_back();
  }
  EXPECT_TRUE(part_->has_room()) << "room was left for rows that wait until they are free";
  while (part_->has_room()) static_cast<void>(find_or_add(KeyHash(random()), random()));
  EXPECT_LE(part_->rows_made(), 122);
}

/// Segments that are retired by divisions serve for later ones: otherwise each division would take two more.
TEST_F(SparsePartTest, SegmentsAreUsedAgain) {
  ASSERT_TRUE(create().ok());
  std::uint64_t divisions = 0;
  Key keys = 0;
  for (; divisions < 12; ++keys) {
    ASSERT_TRUE(find_or_add(KeyHash(keys), keys).ok());
    for (const std::uint32_t segment : part_->take_retired()) {
      ++divisions;
      part_->free_segment(segment);
    }
  }
  const std::uint64_t segments =
      (part_->memory().index_bytes - protocol::kRootBytes) / sizeof(protocol::IndexSegment);
  EXPECT_LE(segments, divisions + 3) << "one more for each division, and two that are free or about to be";
  for (Key key = 0; key < keys; ++key) ASSERT_TRUE(part_->find(KeyHash(key), key)) << key;
}

/// The next region is there before it is needed if the server has time.
TEST_F(SparsePartTest, RegionsAreOrderedAhead) {
  ASSERT_TRUE(create().ok());
  desk_.start_threads({});  // from here on the lane may wait, but nobody carries orders out meanwhile
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    desk_.serve();
    const Key key = random();
    ASSERT_TRUE(find_or_add(KeyHash(key), key).ok());
  }
  EXPECT_GT(wakes_, 0);
}

TEST_F(SparsePartTest, ALaneThatWaitsIsServedOrCancelled) {
  ASSERT_TRUE(create().ok());
  desk_.start_threads({});
  std::atomic<int> made = 0;
  absl::Status ended;
  std::thread lane([&] {
    std::mt19937_64 random(1);
    for (;;) {
      const Key key = random();
      const absl::StatusOr<Row> row = find_or_add(KeyHash(key), key);
      ended = row.status();
      if (!ended.ok()) return;
      ++made;
    }
  });
  while (made < 2000) desk_.serve();
  desk_.close();
  lane.join();
  EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled) << ended;
}

}  // namespace
}  // namespace verbena::server
