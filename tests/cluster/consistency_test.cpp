// Each model's promise, checked at every read of real jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <random>
#include <thread>

#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"

namespace verbena::testing {
namespace {

struct Case {
  std::string name;
  ConsistencyModel model;
  ReadPath read_path;
  std::uint32_t servers;
  std::uint32_t workers;
  std::uint32_t lanes;
  std::uint32_t server_threads;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<std::pair<std::string, ConsistencyModel>> models{{"Bsp", Bsp{}},     {"Ssp0", Ssp{0}},
                                                                     {"Ssp1", Ssp{1}},   {"Ssp3", Ssp{3}},
                                                                     {"Essp0", Essp{0}}, {"Essp2", Essp{2}}};
  for (const auto& [name, model] : models) {
    all.push_back({name + "InPlace", model, ReadPath::kInPlace, 2, 3, 1, 1});
    all.push_back({name + "Cached", model, ReadPath::kCached, 2, 3, 1, 1});
    all.push_back({name + "CachedLanes", model, ReadPath::kCached, 1, 2, 3, 3});
    all.push_back({name + "InPlaceLanes", model, ReadPath::kInPlace, 2, 2, 2, 2});
  }
  return all;
}

ClusterOptions options_of(const Case& test) {
  return {.servers = test.servers,
          .workers = test.workers,
          .lanes = test.lanes,
          .server_threads = test.server_threads,
          .read_path = test.read_path};
}

class ConsistencyTest : public ::testing::TestWithParam<Case> {};

TEST_P(ConsistencyTest, EveryReadKeepsThePromise) {
  const ClusterResult result = run_cluster(
      options_of(GetParam()), [&](Session& session) { return check_reads(session, GetParam().model, 60); });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST_P(ConsistencyTest, SmallRingsOnlySlowDown) {
  ClusterOptions options = options_of(GetParam());
  options.inbox_bytes = 4096;
  options.push_ring_bytes = 4096;
  const ClusterResult result =
      run_cluster(options, [&](Session& session) { return check_reads(session, GetParam().model, 30); });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

INSTANTIATE_TEST_SUITE_P(Models, ConsistencyTest, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

/// What each worker adds in BSP's order, computed one after the other.
float update_of(std::uint32_t worker, std::int64_t clock, Key key, std::uint32_t column, int part) {
  std::mt19937_64 random(worker * 1000003 + static_cast<std::uint64_t>(clock) * 97 + key * 31 + column * 7 +
                         static_cast<std::uint64_t>(part));
  return std::ldexp(static_cast<float>(random() % 100003) - 50000.0F, static_cast<int>(random() % 20) - 10);
}

TEST(BspTest, BitForBitTheSequentialResult) {
  constexpr std::uint64_t kRows = 23;
  constexpr std::uint32_t kWidth = 5;
  constexpr std::int64_t kClocks = 20;
  constexpr std::uint32_t kWorkers = 3;
  std::vector<float> expected(kRows * kWidth, 0);
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      for (Key key = 0; key < kRows; ++key) {
        for (std::uint32_t column = 0; column < kWidth; ++column) {
          // Two pushes of one clock are added up before they travel.
          expected[key * kWidth + column] +=
              update_of(worker, clock, key, column, 0) + update_of(worker, clock, key, column, 1);
        }
      }
    }
  }
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    for (const std::uint32_t lanes : {1U, 3U}) {
      std::mutex mutex;
      std::vector<std::vector<float>> finals;
      const ClusterResult result = run_cluster(
          {.servers = 2,
           .workers = kWorkers,
           .lanes = lanes,
           .lanes_step = 2,
           .server_threads = lanes,
           .read_path = path},
          [&](Session& session) -> absl::Status {
            auto table =
                session.table<float>({.name = "sums", .rows = kRows, .width = kWidth, .consistency = Bsp{}});
            RETURN_IF_ERROR(table.status());
            std::mt19937_64 random(session.rank() + lanes);
            std::vector<float> row(kWidth);
            for (std::int64_t clock = 0; clock < kClocks; ++clock) {
              for (int part = 0; part < 2; ++part) {
                for (Key key = 0; key < kRows; ++key) {
                  for (std::uint32_t column = 0; column < kWidth; ++column)
                    row[column] = update_of(session.rank(), clock, key, column, part);
                  RETURN_IF_ERROR((*table)->push(std::span(&key, 1), row));
                }
              }
              if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
              RETURN_IF_ERROR(session.clock());
            }
            std::vector<float> values(kRows * kWidth);
            RETURN_IF_ERROR((*table)->pull(KeyRange{0, kRows}, values));
            const std::lock_guard lock(mutex);
            finals.push_back(values);
            return absl::OkStatus();
          });
      ASSERT_TRUE(result.first_error().ok()) << result.first_error();
      for (const std::vector<float>& values : finals) EXPECT_EQ(values, expected);
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
          RETURN_IF_ERROR((*table)->pull(KeyRange{0, 100}, values));
          RETURN_IF_ERROR((*table)->push(KeyRange{0, 100}, ones));
          RETURN_IF_ERROR(session.clock());
        }
        RETURN_IF_ERROR(session.barrier());
        // A worker that reads nothing any more still gets what others have pushed, when it looks.
        RETURN_IF_ERROR((*table)->pull(KeyRange{0, 100}, values));
        if (session.statistics().rows_eagerly_received == 0) return wrong("nothing was pushed");
        if (values[0] != 40 || values[299] != 40) return wrong("saw " + std::to_string(values[0]));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
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
            for (Table<std::int64_t>* table : {*bsp, *essp}) {
              RETURN_IF_ERROR(table->push(KeyRange{0, 20}, ones));
              RETURN_IF_ERROR(table->pull(KeyRange{0, 20}, values));
              // Its own clock + 1, of the two others at least what the model says.
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
          RETURN_IF_ERROR((*table)->pull(KeyRange{0, 4}, values));
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

}  // namespace
}  // namespace verbena::testing
