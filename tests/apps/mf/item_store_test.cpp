#include "apps/mf/item_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
        TableItems items(session, **table, format, 8, slowdown);
        items.mini_batch_begins();
        if (absl::Status status = items.open(0, 8).status(); !status.ok()) return status;
        compute(milliseconds(1));
        items.mini_batch_ends(1);
        compute(milliseconds(5));  // between two mini-batches: taking what was pushed
        items.mini_batch_begins();
        compute(milliseconds(2));
        items.mini_batch_ends(1);
        items.mini_batch_begins();
        compute(milliseconds(4));
        if (absl::Status status = items.close(1); !status.ok()) return status;
        compute(milliseconds(9));  // between two slices: not the worker's computing
        return items.clock();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  EXPECT_THAT(slept_after, ElementsAre(milliseconds(0), milliseconds(2), milliseconds(2), milliseconds(6),
                                       milliseconds(14)));
  EXPECT_EQ(slept, milliseconds(14));
}

}  // namespace
}  // namespace verbena::apps::mf
