// The promise of each model, checked at each read in real jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::testing {
namespace {

struct Setting {
  std::string name;
  ConsistencyModel model;
  ReadPath read_path;
  std::uint32_t servers;
  std::uint32_t workers;
  std::uint32_t lanes;
  std::uint32_t server_threads;
  KeySpace key_space = KeySpace::kDense;
};

std::vector<Setting> cases() {
  std::vector<Setting> all;
  const std::vector<std::pair<std::string, ConsistencyModel>> models{{"Bsp", Bsp{}},
                                                                     {"ABsp", ABsp{}},
                                                                     {"Ssp0", Ssp{0}},
                                                                     {"Ssp1", Ssp{1}},
                                                                     {"Ssp3", Ssp{3}},
                                                                     {"Essp0", Essp{0}},
                                                                     {"Essp2", Essp{2}},
                                                                     {"BoundedDelay0", BoundedDelay{0}},
                                                                     {"BoundedDelay2", BoundedDelay{2}},
                                                                     {"Asp", Asp{}},
                                                                     {"Sequential", Sequential{}},
                                                                     {"VapOfNothing", Vap{0.1}},
                                                                     {"VapOfMuch", Vap{100}}};
  for (const auto& [name, model] : models) {
    all.push_back({name + "InPlace", model, ReadPath::kInPlace, 2, 3, 1, 1});
    all.push_back({name + "Cached", model, ReadPath::kCached, 2, 3, 1, 1});
    all.push_back({name + "CachedLanes", model, ReadPath::kCached, 1, 2, 3, 3});
    all.push_back({name + "InPlaceLanes", model, ReadPath::kInPlace, 2, 2, 2, 2});
    all.push_back({name + "SparseInPlace", model, ReadPath::kInPlace, 2, 3, 2, 1, KeySpace::kSparse});
    all.push_back({name + "SparseCached", model, ReadPath::kCached, 2, 2, 2, 2, KeySpace::kSparse});
  }
  return all;
}

ClusterOptions options_of(const Setting& test) {
  return {.servers = test.servers,
          .workers = test.workers,
          .lanes = test.lanes,
          .server_threads = test.server_threads,
          .read_path = test.read_path};
}

class ConsistencyTest : public ::testing::TestWithParam<Setting> {};

TEST_P(ConsistencyTest, EveryReadKeepsThePromise) {
  const ClusterResult result = run_cluster(options_of(GetParam()), [&](Session& session) {
    return check_reads(session, GetParam().model, 60, false, GetParam().key_space);
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST_P(ConsistencyTest, SmallRingsOnlySlowDown) {
  ClusterOptions options = options_of(GetParam());
  options.inbox_bytes = 4096;
  options.push_ring_bytes = 4096;
  const ClusterResult result = run_cluster(options, [&](Session& session) {
    return check_reads(session, GetParam().model, 30, false, GetParam().key_space);
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST_P(ConsistencyTest, BudgetsKeepThePromise) {
  ClusterOptions options = options_of(GetParam());
  options.push_budget_mb_per_s = 0.5;
  options.update_budget_mb_per_s = 2;
  const ClusterResult result = run_cluster(options, [&](Session& session) {
    return check_reads(session, GetParam().model, 30, true, GetParam().key_space);
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

INSTANTIATE_TEST_SUITE_P(Models, ConsistencyTest, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(BspTest, BitForBitTheSequentialResult) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    for (const auto& [lanes, key_space] :
         {std::pair(1U, KeySpace::kDense), std::pair(3U, KeySpace::kDense), std::pair(1U, KeySpace::kSparse),
          std::pair(3U, KeySpace::kSparse)}) {
      const ClusterResult result =
          run_cluster({.servers = 2,
                       .workers = 3,
                       .lanes = lanes,
                       .lanes_step = 2,
                       .server_threads = lanes,
                       .read_path = path},
                      [space = key_space](Session& session) { return check_sequential(session, 20, space); });
      EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    }
  }
}

TEST(EsspTest, PushesComeUnasked) {
  const ClusterResult result = run_cluster(
      {.servers = 2, .workers = 2, .read_path = ReadPath::kCached}, [](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "rows", .rows = 100, .width = 3, .consistency = Essp{1}});
        RETURN_IF_ERROR(table.status());
        std::vector<float> values(300);
        const std::vector<float> ones(300, 1);
        for (int clock = 0; clock < 20; ++clock) {
          RETURN_IF_ERROR(table->pull(KeyRange{0, 100}, values));
          RETURN_IF_ERROR(table->push(KeyRange{0, 100}, ones));
          RETURN_IF_ERROR(session.clock());
        }
        RETURN_IF_ERROR(session.barrier());
        // What others have pushed has come by eager pushes; this pull sees it.
        RETURN_IF_ERROR(table->pull(KeyRange{0, 100}, values));
        if (session.statistics().rows_eagerly_received == 0) return wrong("nothing was pushed");
        if (values[0] != 40 || values[299] != 40) return wrong("saw " + std::to_string(values[0]));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

// Worker 0 stays in its clock until worker 1 has seen an update of that clock.
TEST(ManagedCommunicationTest, UpdatesArriveWithinTheirClock) {
  std::atomic<bool> seen = false;
  const ClusterResult result = run_cluster(
      {.workers = 2,
       .read_path = ReadPath::kCached,
       .push_budget_mb_per_s = 10,
       .update_budget_mb_per_s = 10},
      [&](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "row", .rows = 200, .width = 1, .consistency = Essp{1}});
        RETURN_IF_ERROR(table.status());
        std::vector<float> values(200);
        RETURN_IF_ERROR(table->pull(KeyRange{0, 200}, values));  // subscribes
        RETURN_IF_ERROR(session.barrier());
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!seen && std::chrono::steady_clock::now() < deadline) {
          if (session.rank() == 0) {
            RETURN_IF_ERROR(table->push(KeyRange{0, 200}, std::vector<float>(200, 1)));
          } else {
            RETURN_IF_ERROR(table->pull(KeyRange{0, 200}, values));
            seen = values[0] > 0 && values[199] > 0;
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (!seen) return wrong("nothing was seen of a running clock");
        if (session.rank() == 0 && session.statistics().rows_shipped_ahead == 0)
          return wrong("nothing was shipped ahead");
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

// A burst of the budget takes 63 of 300 rows. The last rows change most.
TEST(ManagedCommunicationTest, TheMostImportantUpdatesGoFirst) {
  constexpr std::size_t kRows = 300;
  constexpr std::size_t kBurst = 63;
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    std::atomic<bool> seen = false;
    const ClusterResult result = run_cluster(
        {.servers = 1, .workers = 2, .read_path = path, .update_budget_mb_per_s = 0.1},
        [&](Session& session) -> absl::Status {
          auto table =
              session.table<double>({.name = "rows", .rows = kRows, .width = 1, .consistency = Asp{}});
          RETURN_IF_ERROR(table.status());
          std::vector<double> values(kRows, session.rank() == 0 ? 1000 : 0);
          RETURN_IF_ERROR(table->push(KeyRange{0, kRows}, values));
          RETURN_IF_ERROR(session.barrier());
          RETURN_IF_ERROR(table->pull(KeyRange{0, kRows}, values));
          RETURN_IF_ERROR(session.barrier());
          if (session.rank() == 0) {
            // Long enough for the budget to be full again.
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            std::vector<double> updates(kRows, 1);
            std::fill(updates.end() - kBurst, updates.end(), 500);
            const std::uint64_t before = session.statistics().rows_shipped_ahead;
            RETURN_IF_ERROR(table->push(KeyRange{0, kRows}, updates));
            if (session.statistics().rows_shipped_ahead - before != kBurst) return wrong("another burst");
          }
          const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (!seen && std::chrono::steady_clock::now() < deadline) {
            if (session.rank() == 1) {
              RETURN_IF_ERROR(session.clock());  // under ASP a cached row is good for one clock
              RETURN_IF_ERROR(table->pull(KeyRange{0, kRows}, values));
              const auto changed = [](double value) { return value != 1000; };
              seen = std::all_of(values.end() - kBurst, values.end(), changed);
              if (std::any_of(values.begin(), values.end() - kBurst, changed)) return wrong("a lesser one");
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          return seen ? absl::OkStatus() : wrong("nothing was seen of a running clock");
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(ManagedCommunicationTest, ABudgetIsANumber) {
  for (const double budget : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_EQ(Session::connect({.servers = {"shm:x"}, .update_budget_mb_per_s = budget}).status().code(),
              absl::StatusCode::kInvalidArgument);
    const auto transport = transport::make_shm_transport({});
    ASSERT_TRUE(transport.ok());
    EXPECT_EQ(server::Server::create(**transport, {.address = "shm:x", .push_budget_mb_per_s = budget})
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

/// Sums of floats depend on their order, which numbers of very different sizes show. A worker's updates of a
/// clock must be added up first and then be added to the row, in its own reads as in the server.
TEST(HeldBackTest, ReadsAreTheSameToTheBitWhereverTheRowIs) {
  constexpr std::uint64_t kRows = 24;
  struct Way {
    std::string name;
    ClusterOptions options;
    std::uint64_t cache_rows = kRows;
  };
  std::vector<Way> ways;
  ways.push_back({"in place", {.servers = 2, .workers = 3, .read_path = ReadPath::kInPlace}});
  ways.push_back(
      {"in place, three lanes", {.servers = 1, .workers = 3, .lanes = 3, .read_path = ReadPath::kInPlace}});
  ways.push_back({"cached", {.servers = 2, .workers = 3, .read_path = ReadPath::kCached}});
  ways.push_back({"few cached",
                  {.servers = 2, .workers = 3, .lanes = 2, .read_path = ReadPath::kCached},
                  /*cache_rows=*/4});
  ways.push_back({"from a network", over(Maps::kNone, 2, 3)});
  ways.push_back({"from a network, few cached", over(Maps::kNone, 2, 3), /*cache_rows=*/4});
  for (const ConsistencyModel& model : {ConsistencyModel(Bsp{}), ConsistencyModel(ABsp{})}) {
    std::vector<std::vector<float>> first;
    for (const Way& way : ways) {
      std::vector<std::vector<float>> seen(3);
      const ClusterResult result = run_cluster(way.options, [&](Session& session) -> absl::Status {
        auto table = session.table<float>(
            {.name = "rows", .rows = kRows, .width = 3, .consistency = model, .cache_rows = way.cache_rows});
        RETURN_IF_ERROR(table.status());
        std::mt19937 random(session.rank());
        std::vector<Key> keys(10);
        std::vector<float> values(keys.size() * 3);
        for (int clock = 0; clock < 10; ++clock) {
          for (int step = 0; step < 5; ++step) {
            for (Key& key : keys) key = random() % kRows;
            for (float& value : values)
              value = std::ldexp(static_cast<float>(random() % 1000) - 500, static_cast<int>(random() % 24));
            RETURN_IF_ERROR(table->push(keys, values));
            for (Key& key : keys) key = random() % kRows;
            RETURN_IF_ERROR(table->pull(keys, values));
            seen[session.rank()].insert(seen[session.rank()].end(), values.begin(), values.end());
          }
          std::vector<float> all(kRows * 3);
          RETURN_IF_ERROR(table->pull(KeyRange{0, kRows}, all));
          seen[session.rank()].insert(seen[session.rank()].end(), all.begin(), all.end());
          RETURN_IF_ERROR(session.clock());
        }
        return absl::OkStatus();
      });
      EXPECT_TRUE(result.first_error().ok()) << way.name << ": " << result.first_error();
      if (first.empty()) first = seen;
      EXPECT_TRUE(seen == first) << way.name << " under " << to_string(model);
    }
  }
}

TEST(MixedModelsTest, TablesOfOneSessionKeepTheirOwnPromises) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    const ClusterResult result =
        run_cluster({.servers = 2, .workers = 3, .read_path = path}, [](Session& session) -> absl::Status {
          auto bsp =
              session.table<std::int64_t>({.name = "bsp", .rows = 20, .width = 1, .consistency = Bsp{}});
          RETURN_IF_ERROR(bsp.status());
          auto essp =
              session.table<std::int64_t>({.name = "essp", .rows = 20, .width = 1, .consistency = Essp{2}});
          RETURN_IF_ERROR(essp.status());
          const std::vector<std::int64_t> ones(20, 1);
          std::vector<std::int64_t> values(20);
          for (std::int64_t clock = 0; clock < 40; ++clock) {
            for (Table<std::int64_t> table : {*bsp, *essp}) {
              RETURN_IF_ERROR(table.push(KeyRange{0, 20}, ones));
              RETURN_IF_ERROR(table.pull(KeyRange{0, 20}, values));
              // It sees clock + 1 of its own updates, and of each of the two others at least what the model
              // promises.
              const std::int64_t stale = table == *bsp ? 0 : std::min<std::int64_t>(clock, 2);
              for (const std::int64_t value : values) {
                if (value < 3 * clock + 1 - 2 * stale ||
                    value > 3 * clock + 1 + 2 * (table == *bsp ? 0 : 3)) {
                  return wrong("at clock " + std::to_string(clock) + " saw " + std::to_string(value));
                }
              }
            }
            RETURN_IF_ERROR(session.clock());
          }
          return absl::OkStatus();
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(SspTest, FastWorkerWaitsForTheSlowOne) {
  std::atomic<std::int64_t> slow_clock = 0;
  std::atomic<std::int64_t> furthest = 0;
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 2}, [&](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "rows", .rows = 4, .width = 2, .consistency = Ssp{2}});
        RETURN_IF_ERROR(table.status());
        std::vector<float> values(8);
        for (int clock = 0; clock < 12; ++clock) {
          if (session.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          RETURN_IF_ERROR(table->pull(KeyRange{0, 4}, values));
          if (session.rank() == 1) {
            furthest = std::max<std::int64_t>(furthest, clock - slow_clock);
            if (clock - slow_clock > 3) return wrong("ran ahead by " + std::to_string(clock - slow_clock));
          }
          if (session.rank() == 0) slow_clock = clock + 1;
          RETURN_IF_ERROR(session.clock());
        }
        if (session.rank() == 1 && session.statistics().waited_seconds == 0) return wrong("never waited");
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  EXPECT_GE(furthest, 1);
}

/// Worker 1 does nothing until worker 0 is far ahead.
class UnboundedTest : public ::testing::TestWithParam<ConsistencyModel> {};

TEST_P(UnboundedTest, NobodyWaitsForAnotherWorker) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    std::atomic<bool> far_ahead = false;
    ClusterOptions options{.servers = 1, .workers = 2, .read_path = path};
    const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
      auto table = session.table<double>({.name = "rows", .rows = 4, .width = 2, .consistency = GetParam()});
      RETURN_IF_ERROR(table.status());
      std::vector<double> values(8);
      if (session.rank() == 1) far_ahead.wait(false);
      for (int clock = 0; clock < 20; ++clock) {
        RETURN_IF_ERROR(table->push(KeyRange{0, 4}, values));
        RETURN_IF_ERROR(table->pull(KeyRange{0, 4}, values));
        RETURN_IF_ERROR(session.clock());
      }
      far_ahead = true;
      far_ahead.notify_all();
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, UnboundedTest,
                         ::testing::Values(ConsistencyModel(Asp{}), ConsistencyModel(Sequential{}),
                                           ConsistencyModel(Vap{1})),
                         [](const auto& test) {
                           const std::string name = to_string(test.param);
                           return name.substr(0, name.find(':'));
                         });

TEST(BoundedDelayTest, AClockBeginsWhenThoseBeforeTheDelayHaveFinished) {
  std::atomic<std::int64_t> slow_clock = 0;
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 2}, [&](Session& session) -> absl::Status {
        auto table =
            session.table<float>({.name = "rows", .rows = 1, .width = 1, .consistency = BoundedDelay{2}});
        RETURN_IF_ERROR(table.status());
        for (int clock = 0; clock < 12; ++clock) {
          // Nobody reads or writes: what waits is clock().
          if (session.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
          if (session.rank() == 1 && clock - slow_clock > 2)
            return wrong("ran ahead by " + std::to_string(clock - slow_clock));
          if (session.rank() == 0) slow_clock = clock + 1;
          RETURN_IF_ERROR(session.clock());
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(DependenciesTest, AnOperationBeginsAfterThoseItNames) {
  std::atomic<bool> checked = false;
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 2}, [&](Session& session) -> absl::Status {
        auto late = session.table<float>({.name = "late", .rows = 1, .width = 1, .consistency = Ssp{0}});
        RETURN_IF_ERROR(late.status());
        auto early = session.table<float>({.name = "early", .rows = 1, .width = 1, .consistency = Asp{}});
        RETURN_IF_ERROR(early.status());
        if (session.rank() == 1) checked.wait(false);
        RETURN_IF_ERROR(session.clock());
        if (session.rank() == 1) return absl::OkStatus();
        float first = 0;
        float second = 0;
        float third = 0;
        const Key key = 0;
        const std::span<const Key> keys(&key, 1);
        Pending waits = late->pull_async(keys, std::span(&first, 1));  // for worker 1's clock
        Pending free = early->pull_async(keys, std::span(&second, 1));
        Pending bound = early->pull_async(keys, std::span(&third, 1), {.after = {free, waits}});
        const bool right = !waits.done() && free.done() && !bound.done();
        checked = true;
        checked.notify_all();
        if (!right) return wrong("what has ended before worker 1's clock");
        const float one = 1;
        RETURN_IF_ERROR(early->push_async(keys, std::span(&one, 1), {.after = {bound}}).wait());
        if (!bound.done() || !waits.done()) return wrong("a push has overtaken what it comes after");
        if (third != 0) return wrong("the pull has seen a push that comes after it");
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SequentialTest, WhatHasBeenPushedIsSeenByTheNextPull) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    std::atomic<std::int64_t> pushed = 0;
    const ClusterResult result =
        run_cluster({.servers = 2, .workers = 3, .read_path = path}, [&](Session& session) -> absl::Status {
          auto table = session.table<std::int64_t>(
              {.name = "sums", .rows = 8, .width = 1, .consistency = Sequential{}});
          RETURN_IF_ERROR(table.status());
          std::vector<std::int64_t> values(8);
          const std::vector<std::int64_t> ones(8, 1);
          for (int round = 0; round < 200; ++round) {
            RETURN_IF_ERROR(table->push(KeyRange{0, 8}, ones));
            ++pushed;
            const std::int64_t least = pushed;
            RETURN_IF_ERROR(table->pull(KeyRange{0, 8}, values));
            for (const std::int64_t value : values) {
              if (value < least)
                return wrong("saw " + std::to_string(value) + " of " + std::to_string(least));
            }
          }
          return absl::OkStatus();
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(VapTest, WaitingForTheBoundIsCounted) {
  for (const double bound : {1.0, 1e6}) {
    const ClusterResult result =
        run_cluster({.servers = 1, .workers = 2}, [&](Session& session) -> absl::Status {
          auto table =
              session.table<float>({.name = "rows", .rows = 4, .width = 2, .consistency = Vap{bound}});
          RETURN_IF_ERROR(table.status());
          const std::vector<float> updates(8, 0.2F);
          for (int push = 0; push < 20; ++push) RETURN_IF_ERROR(table->push(KeyRange{0, 4}, updates));
          const std::uint64_t waits = session.statistics().value_bound_waits;
          if ((waits > 0) != (bound < 2)) return wrong("waited " + std::to_string(waits) + " times");
          return absl::OkStatus();
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

}  // namespace
}  // namespace verbena::testing
