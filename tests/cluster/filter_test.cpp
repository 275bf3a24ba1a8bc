// Filters of pushes in whole jobs: nothing is lost, and each worker sees what it keeps back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"

namespace verbena::testing {
namespace {

constexpr std::uint64_t kFilteredRows = 60;

std::vector<Key> keys_of(std::uint32_t worker, int clock) {
  std::mt19937_64 random(static_cast<std::uint64_t>(clock) * 2 + worker);
  std::vector<Key> keys(1 + random() % 30);
  for (Key& key : keys) key = random() % kFilteredRows;
  return keys;
}

class FilterTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FilterTest, LosesNothingAndShowsItsOwnWorkerAll) {
  for (const KeySpace key_space : {KeySpace::kDense, KeySpace::kSparse}) {
    for (const std::string filter : {"significant(least=3)", "top(share=0.2)", "random(share=0.5)"}) {
      for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
        const ClusterResult result = run_cluster(
            {.servers = 2, .workers = 2, .lanes = 2, .read_path = path},
            [&](Session& session) -> absl::Status {
              // A sparse table has these keys, too.
              TableOptions options{.name = "rows",
                                   .key_space = key_space,
                                   .rows = key_space == KeySpace::kDense ? kFilteredRows : 0,
                                   .width = 2,
                                   .consistency = parse_consistency(GetParam()).value(),
                                   .filter = filter};
              auto table = session.table<std::int64_t>(options);
              RETURN_IF_ERROR(table.status());
              OwnCounts counts(session, *table, kFilteredRows);
              std::vector<std::int64_t> expected(kFilteredRows * 2);
              for (int clock = 0; clock < 20; ++clock) {
                // All know what the other pushes.
                for (std::uint32_t worker = 0; worker < 2; ++worker) {
                  for (const Key key : keys_of(worker, clock)) ++expected[key * 2 + worker];
                }
                const std::vector<Key> keys = keys_of(session.rank(), clock);
                RETURN_IF_ERROR(table->push(keys, counts.count(keys)));
                RETURN_IF_ERROR(counts.check(keys));
                RETURN_IF_ERROR(clock == 10 ? session.barrier() : session.clock());
                RETURN_IF_ERROR(counts.check(keys_of(session.rank(), clock + 1)));
              }
              const SessionStatistics statistics = session.statistics();
              if (statistics.rows_kept_back == 0) return wrong("nothing was kept back");
              if (statistics.rows_shipped < 100) return wrong("nothing has travelled");
              RETURN_IF_ERROR(session.barrier());
              RETURN_IF_ERROR(session.barrier());
              std::vector<std::int64_t> values(expected.size());
              RETURN_IF_ERROR(table->pull(KeyRange{0, kFilteredRows}, values));
              return values == expected ? absl::OkStatus() : wrong("something is lost, or there twice");
            });
        EXPECT_TRUE(result.first_error().ok()) << filter << ": " << result.first_error();
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Models, FilterTest,
                         ::testing::Values("bsp", "a-bsp", "ssp:1", "asp", "bounded-delay:1"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& letter : name) letter = letter == ':' || letter == '-' ? '_' : letter;
                           return name;
                         });

/// Of eager pushes one that is on its way may be older than what was read before: so only own updates count.
TEST(FilterEsspTest, EagerPushesKeepOwnUpdates) {
  const ClusterResult result = run_cluster(
      {.servers = 2, .workers = 2, .read_path = ReadPath::kCached}, [](Session& session) -> absl::Status {
        auto table = session.table<std::int64_t>({.name = "rows",
                                                  .rows = kFilteredRows,
                                                  .width = 2,
                                                  .consistency = Essp{1},
                                                  .filter = "significant(least=4)"});
        RETURN_IF_ERROR(table.status());
        const KeyRange all{0, kFilteredRows};
        std::vector<std::int64_t> ones(kFilteredRows * 2);
        for (std::size_t i = session.rank(); i < ones.size(); i += 2) ones[i] = 1;
        std::vector<std::int64_t> values(kFilteredRows * 2);
        for (std::int64_t clock = 0; clock < 30; ++clock) {
          RETURN_IF_ERROR(table->push(all, ones));
          RETURN_IF_ERROR(table->pull(all, values));
          for (std::size_t i = session.rank(); i < values.size(); i += 2) {
            if (values[i] != clock + 1) return wrong("own updates are missing, or there twice");
          }
          RETURN_IF_ERROR(session.clock());
        }
        RETURN_IF_ERROR(session.barrier());
        RETURN_IF_ERROR(session.barrier());
        RETURN_IF_ERROR(table->pull(all, values));
        return values == std::vector<std::int64_t>(values.size(), 30) ? absl::OkStatus()
                                                                      : wrong("something is lost");
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(FilterEndTest, TheEndOfASessionSendsAll) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 2}, [](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "rows",
                                           .rows = 10,
                                           .width = 1,
                                           .consistency = Asp{},
                                           .filter = "significant(least=100)"});
        RETURN_IF_ERROR(table.status());
        if (session.rank() == 0) {
          RETURN_IF_ERROR(table->push(KeyRange{0, 10}, std::vector<float>(10, 1)));
          RETURN_IF_ERROR(session.clock());
          return session.statistics().rows_shipped == 0 ? absl::OkStatus() : wrong("has not been kept back");
        }
        std::vector<float> values(10);
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (values[0] + values[9] != 2 && std::chrono::steady_clock::now() < deadline) {
          RETURN_IF_ERROR(table->pull(KeyRange{0, 10}, values));
          RETURN_IF_ERROR(session.clock());
          std::this_thread::yield();
        }
        return values == std::vector<float>(10, 1) ? absl::OkStatus() : wrong("the updates have not come");
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// A change comes after what its caller has pushed, also after what was kept back of it; and what looks sees
/// it, where updates are applied at once.
TEST(FilterCallTest, CallsComeAfterWhatWasKeptBack) {
  for (const char* const model : {"bsp", "asp"}) {
    const ClusterResult result =
        run_cluster({.servers = 1, .workers = 1}, [&](Session& session) -> absl::Status {
          auto table = session.table<float>({.name = "rows",
                                             .rows = 10,
                                             .width = 1,
                                             .consistency = parse_consistency(model).value(),
                                             .filter = "significant(least=10)"});
          RETURN_IF_ERROR(table.status());
          const std::vector<Key> key = {3};
          RETURN_IF_ERROR(table->push(key, std::vector<float>{4}));
          RETURN_IF_ERROR(session.clock());
          if (session.statistics().rows_shipped != 0) return wrong("has not been kept back");
          if (std::string_view(model) == "asp") {
            const auto norms = table->call("norms", kAllKeys);
            RETURN_IF_ERROR(norms.status());
            if (norms->numbers[4] != 4) return wrong("is not seen");
          }
          PendingResult scaled = table->call_async("scale(factor=10)", kAllKeys);
          RETURN_IF_ERROR(session.clock());
          RETURN_IF_ERROR(scaled.wait());
          RETURN_IF_ERROR(session.barrier());
          std::vector<float> value(1);
          RETURN_IF_ERROR(table->pull(key, value));
          return value[0] == 40 ? absl::OkStatus() : wrong(std::to_string(value[0]));
        });
    EXPECT_TRUE(result.first_error().ok()) << model << ": " << result.first_error();
  }
}

TEST(FilterErrorTest, OnlyWhereUpdatesTravelAtTheEndOfAClock) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [](Session& session) -> absl::Status {
        const auto error_of = [&](const char* model, const char* filter, Allocation allocation) {
          return message_of(session
                                .table<float>({.name = model,
                                               .rows = 10,
                                               .width = 1,
                                               .consistency = parse_consistency(model).value(),
                                               .allocation = allocation,
                                               .filter = filter})
                                .status());
        };
        for (const char* const model : {"sequential", "vap:1", "a-bsp:means"})
          EXPECT_THAT(error_of(model, "top", Allocation::kStatic),
                      ::testing::HasSubstr("keeps updates back"));
        EXPECT_THAT(error_of("asp", "top", Allocation::kDynamic), ::testing::HasSubstr("keeps updates back"));
        EXPECT_THAT(error_of("bsp", "some", Allocation::kStatic),
                    ::testing::HasSubstr("expected none, significant"));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::testing
