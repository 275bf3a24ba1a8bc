#include "apps/mf/item_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "apps/conditions/slowdown.hpp"
#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"

namespace verbena::apps::mf {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;

TEST(TableItemsTest, ASlowWorkerIsSlowMiniBatchByMiniBatch) {
  nanoseconds time{0};
  nanoseconds slept{0};
  const SlowdownClock clock{.now = [&] { return time + slept; },
                            .processor_time = [&] { return time; },
                            .sleep = [&](nanoseconds length) { slept += length; }};
  std::vector<nanoseconds> slept_after;
  const auto compute = [&](nanoseconds length) {
    slept_after.push_back(slept);
    time += length;
  };
  const verbena::testing::ClusterResult result =
      verbena::testing::run_cluster({.workers = 1}, [&](Session& session) -> absl::Status {
        const RowFormat format{.rank = 3};
        auto table = session.table<float>({.name = "items", .rows = 8, .width = 4, .consistency = Bsp{}});
        if (!table.ok()) return table.status();
        Slowdown slowdown({{.worker = 0, .factor = 3}}, 0, clock);
        TableItems items(session, *table, format, 8, slowdown);
        items.mini_batch_begins();
        RETURN_IF_ERROR(items.open(0, 8).status());
        compute(milliseconds(1));
        items.mini_batch_ends(1);
        compute(milliseconds(5));  // between two mini-batches, to take what was pushed: not slowed
        items.mini_batch_begins();
        compute(milliseconds(2));
        items.mini_batch_ends(1);
        items.mini_batch_begins();
        compute(milliseconds(4));
        RETURN_IF_ERROR(items.close(1));
        compute(milliseconds(9));  // between two slices, not the worker's computing: not slowed
        return items.clock();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  EXPECT_THAT(slept_after, ElementsAre(milliseconds(0), milliseconds(2), milliseconds(2), milliseconds(6),
                                       milliseconds(14)));
  EXPECT_EQ(slept, milliseconds(14));
}

TEST(MiniBatchItemsTest, TrainsEachRowOfAMiniBatchAsIfItWereInPlace) {
  constexpr std::size_t kItems = 7;
  constexpr std::size_t kUsers = 5;
  const RowFormat format{.rank = 3};
  const auto first = [&](Side side, std::size_t id, std::span<float> row) {
    initial_row(format, 1, side, id, row);
  };
  LocalRows store(std::array{
      RowSource{.rows = kItems, .width = format.width(), .make = [&](std::size_t id, std::span<float> row) {
                  first(Side::kItem, id, row);
                }}});
  FactorRows items(kItems, format);
  FactorRows users(kUsers, format);
  FactorRows users_again(kUsers, format);
  std::vector<float> packed(format.width());
  for (std::size_t id = 0; id < kItems; ++id) {
    first(Side::kItem, id, packed);
    items.unpack(packed, id);
  }
  for (std::size_t id = 0; id < kUsers; ++id) {
    first(Side::kUser, id, packed);
    users.unpack(packed, id);
    users_again.unpack(packed, id);
  }
  const Step step{.learning_rate = 0.1F, .regularization = 0.02F};
  MiniBatchItems mini_batches(store, kItems, format, 4, false);
  // Some items come several times, in one mini-batch or in different ones.
  const std::vector<std::vector<Rating>> all = {
      {{0, 6, 1}, {1, 6, -1}, {2, 0, 1}, {3, 6, 0.5F}}, {{4, 3, 1}, {0, 6, 2}, {1, 1, 1}}, {{2, 6, 1}}};
  for (const std::vector<Rating>& ratings : all) {
    train(ratings, users.rows(), items.rows(), format.shape(), step);
    MiniBatch batch{.ratings = ratings, .places = {}};
    mini_batches.request(batch);
    const absl::StatusOr<Rows> rows = mini_batches.open(batch);
    ASSERT_TRUE(rows.ok()) << rows.status();
    train(batch.ratings, users_again.rows(), *rows, format.shape(), step);
    ASSERT_TRUE(mini_batches.close(batch).ok());
  }
  std::vector<float> expected(kItems * format.width());
  items.pack(expected);
  std::vector<float> found(kItems * format.width());
  ASSERT_TRUE(store.read(0, format.width(), found.data()).ok());
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace verbena::apps::mf
