#include "apps/embedding/row_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "tests/cluster/cluster.hpp"

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using Rows = std::span<float* const>;

constexpr std::size_t kLarge = 0;  // tables
constexpr std::size_t kSmall = 1;
constexpr std::size_t kLargeRows = 10;
constexpr std::size_t kSmallRows = 2;
constexpr std::uint32_t kLargeWidth = 2 * kLanes;
constexpr std::uint32_t kSmallWidth = kLanes;

/// Row i begins with first + i and ends with -1.
RowSource numbered(std::size_t rows, std::size_t width, float first) {
  return {.rows = rows, .width = width, .make = [=](std::size_t id, std::span<float> row) {
            std::fill(row.begin(), row.end(), 0.0F);
            row.front() = first + static_cast<float>(id);
            row.back() = -1;
          }};
}
std::array<RowSource, 2> first_rows() {
  return {numbered(kLargeRows, kLargeWidth, 0), numbered(kSmallRows, kSmallWidth, 100)};
}

float& large(const Rows& rows, std::uint32_t place) {
  return rows[kLarge][place * kLargeWidth];
}
float& small(const Rows& rows, std::uint32_t place) {
  return rows[kSmall][place * kSmallWidth];
}

/// The first number of each row.
std::vector<float> all(RowStore& store, std::size_t table) {
  std::vector<float> values(table == kLarge ? kLargeRows : kSmallRows);
  EXPECT_TRUE(store.read(table, 1, values.data()).ok());
  return values;
}

struct MiniBatch {
  std::vector<std::uint32_t> some;
  std::vector<std::uint32_t> more;
  std::vector<std::uint32_t> of_small;
  void request(RowStore& store) {
    store.request(std::array<NeededRows, 3>{{{kLarge, some}, {kSmall, of_small}, {kLarge, more}}});
  }
};

/// The same for each store.
void expect_rows_to_be_trained(RowStore& store) {
  MiniBatch first{.some = {3, 4}, .more = {5, 3}, .of_small = {1}};
  MiniBatch second{.some = {6, 3}, .more = {7, 5}, .of_small = {0}};
  first.request(store);
  absl::StatusOr<Rows> rows = store.open();
  ASSERT_TRUE(rows.ok()) << rows.status();
  second.request(store);
  EXPECT_EQ(large(*rows, first.some[0]), 3);
  EXPECT_EQ(large(*rows, first.some[1]), 4);
  EXPECT_EQ(large(*rows, first.more[0]), 5);
  EXPECT_EQ((*rows)[kLarge][(first.more[0] + 1) * kLargeWidth - 1], -1) << "whole rows";
  EXPECT_EQ(small(*rows, first.of_small[0]), 101);
  EXPECT_EQ(first.more[1], first.some[0]) << "one place for one key";
  large(*rows, first.some[0]) += 0.5F;
  large(*rows, first.more[0]) += 0.25F;
  small(*rows, first.of_small[0]) += 0.5F;
  ASSERT_TRUE(store.close(1).ok());
  rows = store.open();
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(large(*rows, second.some[0]), 6);
  EXPECT_EQ(large(*rows, second.some[1]), 3.5F) << "trained after it was asked for";
  EXPECT_EQ(large(*rows, second.more[1]), 5.25F);
  EXPECT_EQ(small(*rows, second.of_small[0]), 100);
  large(*rows, second.some[1]) += 0.5F;
  ASSERT_TRUE(store.close(1).ok());
  // A mini-batch that was asked for when none was open.
  MiniBatch third{.some = {3, 5}, .more = {}, .of_small = {1}};
  third.request(store);
  rows = store.open();
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(large(*rows, third.some[0]), 4);
  EXPECT_EQ(large(*rows, third.some[1]), 5.25F);
  EXPECT_EQ(small(*rows, third.of_small[0]), 101.5F);
  ASSERT_TRUE(store.close(1).ok());
  ASSERT_TRUE(store.clock().ok());
  ASSERT_TRUE(store.barrier().ok());
  EXPECT_THAT(all(store, kLarge), ElementsAre(0, 1, 2, 4, 4, 5.25F, 6, 7, 8, 9));
  EXPECT_THAT(all(store, kSmall), ElementsAre(100, 101.5F));
}

/// `run` with the rows in tables.
absl::Status with_tables(Session& session, const std::function<void(TableRows&)>& run) {
  std::vector<Table<float>*> tables;
  for (const RowSource& source : first_rows()) {
    const auto table = session.table<float>({.name = std::to_string(tables.size()),
                                             .rows = source.rows,
                                             .width = static_cast<std::uint32_t>(source.width),
                                             .consistency = Bsp{}});
    if (!table.ok()) return table.status();
    tables.push_back(*table);
  }
  Slowdown none;
  TableRows store(session, tables, none);
  if (absl::Status status = store.initialize(first_rows()); !status.ok()) return status;
  run(store);
  return absl::OkStatus();
}

TEST(RowStoreTest, LocalRowsAreTrainedInPlace) {
  LocalRows store(first_rows());
  expect_rows_to_be_trained(store);
}

TEST(RowStoreTest, RowsOfTablesAreHandedOver) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    const auto result = verbena::testing::run_cluster(
        {.servers = 2, .workers = 1, .read_path = path},
        [&](Session& session) { return with_tables(session, expect_rows_to_be_trained); });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(RowStoreTest, WhatWorkersTrainIsAddedUp) {
  const auto result = verbena::testing::run_cluster({.servers = 2, .workers = 3}, [&](Session& session) {
    return with_tables(session, [&](RowStore& store) {
      MiniBatch batch{.some = {session.rank(), 9}, .more = {}, .of_small = {}};
      batch.request(store);
      const absl::StatusOr<Rows> rows = store.open();
      ASSERT_TRUE(rows.ok()) << rows.status();
      large(*rows, batch.some[0]) += 10;
      large(*rows, batch.some[1]) += 1;
      ASSERT_TRUE(store.close(1).ok());
      ASSERT_TRUE(store.barrier().ok());
      EXPECT_THAT(all(store, kLarge), ElementsAre(10, 11, 12, 3, 4, 5, 6, 7, 8, 12));
    });
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(RowStoreTest, SharesOfWhatWasTrainedArePushed) {
  const auto result = verbena::testing::run_cluster({.servers = 2, .workers = 2}, [&](Session& session) {
    return with_tables(session, [&](TableRows& store) {
      std::vector<float> shares(kLargeRows, 1);
      shares[3] = 0.5F;
      shares[4] = 0.25F;
      store.push_shares(kLarge, shares);
      MiniBatch first{.some = {2, 3}, .more = {}, .of_small = {0}};
      MiniBatch second{.some = {4, 3}, .more = {}, .of_small = {0}};
      first.request(store);
      absl::StatusOr<Rows> rows = store.open();
      ASSERT_TRUE(rows.ok()) << rows.status();
      second.request(store);
      for (const std::uint32_t place : first.some) large(*rows, place) += 8;
      small(*rows, first.of_small[0]) += 8;
      ASSERT_TRUE(store.close(1).ok());
      rows = store.open();
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(large(*rows, second.some[1]), 11) << "as trained";
      for (const std::uint32_t place : second.some) large(*rows, place) += 8;
      ASSERT_TRUE(store.close(1).ok());
      ASSERT_TRUE(store.barrier().ok());
      EXPECT_THAT(all(store, kLarge), ElementsAre(0, 1, 2 + 16, 3 + 16, 4 + 4, 5, 6, 7, 8, 9));
      EXPECT_THAT(all(store, kSmall), ElementsAre(100 + 16, 101));
    });
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::apps
