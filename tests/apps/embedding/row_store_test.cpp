#include "apps/embedding/row_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Lt;
using Rows = std::span<const RowPointers>;

constexpr std::size_t kLarge = 0;  // indexes of the tables
constexpr std::size_t kSmall = 1;
constexpr std::size_t kLargeRows = 10;
constexpr std::size_t kSmallRows = 2;
constexpr std::uint32_t kLargeWidth = 5 * kLanes;  // long enough for rows to be held in place
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
  return rows[kLarge][place][0];
}
float& small(const Rows& rows, std::uint32_t place) {
  return rows[kSmall][place][0];
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

/// What holds for each kind of store: trains two mini-batches, of which the second is requested while the
/// first is open, and then a third one.
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
  EXPECT_EQ((*rows)[kLarge][first.more[0]][kLargeWidth - 1], -1) << "the whole row must be there";
  EXPECT_EQ(small(*rows, first.of_small[0]), 101);
  EXPECT_EQ(first.more[1], first.some[0]) << "a key that comes twice has one place";
  large(*rows, first.some[0]) += 0.5F;
  large(*rows, first.more[0]) += 0.25F;
  small(*rows, first.of_small[0]) += 0.5F;
  ASSERT_TRUE(store.close(1).ok());
  rows = store.open();
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(large(*rows, second.some[0]), 6);
  EXPECT_EQ(large(*rows, second.some[1]), 3.5F) << "must include what was trained after the request";
  EXPECT_EQ(large(*rows, second.more[1]), 5.25F);
  EXPECT_EQ(small(*rows, second.of_small[0]), 100);
  large(*rows, second.some[1]) += 0.5F;
  ASSERT_TRUE(store.close(1).ok());
  // A mini-batch that is requested while none is open.
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

ConsistencyModel model_of(RowAllocation allocation) {
  if (allocation == RowAllocation::kStatic) return Bsp{};
  return allocation == RowAllocation::kLocalize ? ConsistencyModel(Sequential{}) : ConsistencyModel(Asp{});
}

/// Calls `run` with a store whose rows are in tables.
absl::Status with_tables(Session& session, const std::function<void(TableRows&)>& run,
                         const FetchOptions& fetch = {}) {
  std::vector<Table<float>> tables;
  for (const RowSource& source : first_rows()) {
    const auto table = session.table<float>({.name = std::to_string(tables.size()),
                                             .rows = source.rows,
                                             .width = static_cast<std::uint32_t>(source.width),
                                             .consistency = model_of(fetch.allocation),
                                             .allocation = table_allocation(fetch.allocation)});
    if (!table.ok()) return table.status();
    tables.push_back(*table);
  }
  TrainingWatch none;
  TableRows store(session, tables, none, fetch);
  RETURN_IF_ERROR(store.initialize(first_rows()));
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

TEST(RowStoreTest, RowsThatMoveAreHandedOver) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    const auto result =
        verbena::testing::run_cluster({.servers = 2, .workers = 1, .read_path = path}, [&](Session& session) {
          return with_tables(session, expect_rows_to_be_trained,
                             {.allocation = RowAllocation::kLocalize, .lookahead = 1});
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

/// Adds 1 to some rows in each of many mini-batches. Some rows are in consecutive mini-batches, others in
/// mini-batches that are five apart.
void add_to_rows(TableRows& store, std::size_t mini_batches) {
  const auto keys_of = [](std::size_t n) {
    return std::vector<std::uint32_t>{static_cast<std::uint32_t>(n % kLargeRows),
                                      static_cast<std::uint32_t>(n / 2 % kLargeRows),
                                      static_cast<std::uint32_t>((n + 5) % kLargeRows)};
  };
  std::deque<MiniBatch> requested;
  std::size_t next = 0;
  const auto request = [&](std::size_t count) {
    while (next < mini_batches && requested.size() < count) {
      requested.push_back(
          {.some = keys_of(next), .more = {}, .of_small = {static_cast<std::uint32_t>(next % 2)}});
      requested.back().request(store);
      ++next;
    }
  };
  for (std::size_t n = 0; n < mini_batches; ++n) {
    request(std::max<std::size_t>(store.lookahead(), 1));
    const absl::StatusOr<Rows> rows = store.open();
    ASSERT_TRUE(rows.ok()) << rows.status();
    request(store.lookahead() + 1);
    for (const std::uint32_t place : requested.front().some) large(*rows, place) += 1;
    small(*rows, requested.front().of_small[0]) += 1;
    requested.pop_front();
    ASSERT_TRUE(store.close(1).ok());
  }
}

TEST(RowStoreTest, RowsAreAskedForAsFarAheadAsTheStoreLooks) {
  constexpr std::size_t kMiniBatches = 200;
  for (const FetchOptions& fetch :
       std::vector<FetchOptions>{{.allocation = RowAllocation::kStatic, .lookahead = 0},
                                 {.allocation = RowAllocation::kStatic, .lookahead = 1},
                                 {.allocation = RowAllocation::kLocalize, .lookahead = 0},
                                 {.allocation = RowAllocation::kLocalize, .lookahead = 1},
                                 {.allocation = RowAllocation::kLocalize, .lookahead = 2},
                                 {.allocation = RowAllocation::kLocalize, .lookahead = 7},
                                 {.allocation = RowAllocation::kIntent, .lookahead = 0},
                                 {.allocation = RowAllocation::kIntent, .lookahead = 1},
                                 {.allocation = RowAllocation::kIntent, .lookahead = 7}}) {
    std::vector<SessionStatistics> statistics(3);
    const auto result = verbena::testing::run_cluster({.servers = 2, .workers = 3}, [&](Session& session) {
      return with_tables(
          session,
          [&](TableRows& store) {
            ASSERT_TRUE(fetch.allocation != RowAllocation::kIntent ||
                        store.agree_on_clocks(kMiniBatches).ok());
            add_to_rows(store, kMiniBatches);
            ASSERT_TRUE(store.clock().ok());
            ASSERT_TRUE(store.barrier().ok());
            std::vector<float> sums = all(store, kLarge);
            for (std::size_t row = 0; row < sums.size(); ++row) sums[row] -= static_cast<float>(row);
            // Each mini-batch has three rows, and each row comes as often as any other.
            EXPECT_THAT(sums, Each(3.0F * 3 * kMiniBatches / kLargeRows)) << fetch.lookahead;
            EXPECT_THAT(all(store, kSmall),
                        ElementsAre(100 + 3 * kMiniBatches / 2, 101 + 3 * kMiniBatches / 2));
            ASSERT_TRUE(store.barrier().ok());
            statistics[session.rank()] = session.statistics();
          },
          fetch);
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    // Workers 0 and 2 are on the same node.
    const bool moves = fetch.allocation == RowAllocation::kLocalize;
    EXPECT_EQ(statistics[0].rows_localized + statistics[2].rows_localized > 0, moves);
    EXPECT_EQ(statistics[1].rows_localized > 0, moves);
  }
}

TEST(RowStoreTest, WorkersWithFewerMiniBatchesKeepTheClock) {
  const FetchOptions fetch{.allocation = RowAllocation::kIntent, .lookahead = 3};
  const auto result = verbena::testing::run_cluster({.servers = 2, .workers = 3}, [&](Session& session) {
    return with_tables(
        session,
        [&](TableRows& store) {
          const std::size_t mini_batches = 20 * session.rank();
          ASSERT_TRUE(store.agree_on_clocks(mini_batches).ok());
          const std::int64_t start = session.current_clock();
          for (int clock = 1; clock <= 2; ++clock) {
            add_to_rows(store, mini_batches);
            ASSERT_TRUE(store.clock().ok());
            EXPECT_EQ(session.current_clock(), start + 40 * clock)
                << "the worker with the most mini-batches determines the clocks";
          }
          ASSERT_TRUE(store.barrier().ok());
          std::vector<float> sums = all(store, kLarge);
          for (std::size_t row = 0; row < sums.size(); ++row) sums[row] -= static_cast<float>(row);
          EXPECT_THAT(sums, Each(2.0F * 3 * (20 + 40) / kLargeRows));
          ASSERT_TRUE(store.barrier().ok());
        },
        fetch);
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(RowStoreTest, LargeTablesAreFilledAndReadPieceByPiece) {
  constexpr std::size_t kRows = 5'000;  // 1 KiB each
  constexpr std::uint32_t kWidth = 256;
  const RowSource source = numbered(kRows, kWidth, 0);
  const auto result = verbena::testing::run_cluster({.servers = 2, .workers = 2}, [&](Session& session) {
    const auto table =
        session.table<float>({.name = "rows", .rows = kRows, .width = kWidth, .consistency = Bsp{}});
    if (!table.ok()) return table.status();
    TrainingWatch none;
    TableRows store(session, std::array{*table}, none);
    RETURN_IF_ERROR(store.initialize(std::array{source}));
    std::vector<float> whole(kRows * kWidth);
    RETURN_IF_ERROR(store.read(0, kWidth, whole.data()));
    std::vector<float> expected(kWidth);
    for (std::size_t row = 0; row < kRows; ++row) {
      source.make(row, expected);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             whole.begin() + static_cast<std::ptrdiff_t>(row * kWidth)))
          << row;
    }
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(RowStoreTest, RowsAreWantedByOthersWhoAreLikelyToUseThemMeanwhile) {
  const std::vector<double> uses = {0, 0.1, 0.2, 10};
  EXPECT_THAT(wanted_by_others(uses, 0), ElementsAre(false, false, false, true));
  EXPECT_THAT(wanted_by_others(uses, 4), ElementsAre(false, false, true, true));
  EXPECT_THAT(wanted_by_others(uses, 9), ElementsAre(false, true, true, true));
}

TEST(RowStoreTest, RowsThatAreToStayDoNotMove) {
  const auto result = verbena::testing::run_cluster({.servers = 2, .workers = 1}, [&](Session& session) {
    return with_tables(session,
                       [&](TableRows& store) {
                         store.leave_where_they_are(kLarge, std::vector<bool>(kLargeRows, true));
                         store.leave_where_they_are(kSmall, {true, false});
                         add_to_rows(store, 20);
                         ASSERT_TRUE(store.barrier().ok());
                         EXPECT_EQ(session.statistics().rows_localized, 1U)
                             << "only the second row of the small table, which the second server has";
                       },
                       {.allocation = RowAllocation::kLocalize, .lookahead = 2});
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(RowStoreTest, RowsThatAllWantAreIntendedOnce) {
  constexpr std::size_t kMiniBatches = 40;
  const auto result = verbena::testing::run_cluster({.servers = 2, .workers = 2}, [&](Session& session) {
    return with_tables(session,
                       [&](TableRows& store) {
                         store.leave_where_they_are(kLarge, std::vector<bool>(kLargeRows, true));
                         store.leave_where_they_are(kSmall, std::vector<bool>(kSmallRows, true));
                         ASSERT_TRUE(store.agree_on_clocks(kMiniBatches).ok());
                         ASSERT_TRUE(store.intend_for_ever().ok());
                         add_to_rows(store, kMiniBatches);
                         ASSERT_TRUE(store.clock().ok());
                         ASSERT_TRUE(store.barrier().ok());
                         std::vector<float> sums = all(store, kLarge);
                         for (std::size_t row = 0; row < sums.size(); ++row)
                           sums[row] -= static_cast<float>(row);
                         EXPECT_THAT(sums, Each(2.0F * 3 * kMiniBatches / kLargeRows));
                         const SessionStatistics statistics = session.statistics();
                         constexpr std::size_t kElsewhere = (kLargeRows + kSmallRows) / 2;
                         EXPECT_EQ(statistics.rows_moved_by_intent, 0U)
                             << "not even to the worker whose intent comes first";
                         EXPECT_EQ(statistics.rows_replicated, kElsewhere);
                         // Replicas are refreshed at first, after a barrier, and when they are too old, but
                         // not for each mini-batch that uses them.
                         EXPECT_LE(statistics.rows_refreshed,
                                   kElsewhere * (2 + kMiniBatches / (Asp::kMostClocksBehind + 1)));
                         ASSERT_TRUE(store.barrier().ok());
                       },
                       {.allocation = RowAllocation::kIntent, .lookahead = 2});
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(RowStoreTest, NearRowsMayBeDrawnForFarOnes) {
  constexpr std::size_t kDraws = 1000;
  const auto draws_of_far_rows = [](double share) {
    std::ptrdiff_t far = 0;
    const auto result = verbena::testing::run_cluster({.servers = 2, .workers = 1}, [&](Session& session) {
      return with_tables(session,
                         [&](TableRows& store) {
                           std::mt19937_64 random(1);
                           std::vector<std::uint32_t> keys(kDraws);
                           store.draw(kLarge, kLargeRows, random, keys);
                           far = std::ranges::count_if(keys, [](auto key) { return key >= kLargeRows / 2; });
                         },
                         {.allocation = RowAllocation::kLocalize, .near_draws = share});
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    return far;
  };
  EXPECT_THAT(draws_of_far_rows(0), AllOf(Gt(kDraws * 0.4), Lt(kDraws * 0.6)));
  EXPECT_THAT(draws_of_far_rows(0.5), AllOf(Gt(kDraws * 0.15), Lt(kDraws * 0.35)));
  EXPECT_EQ(draws_of_far_rows(1), 0);
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
      EXPECT_EQ(large(*rows, second.some[1]), 11) << "the worker itself sees all that it has trained";
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
