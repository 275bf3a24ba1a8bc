// Updates that are long enough to be read where they lie, in the worker's memory, if the server can map it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <latch>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"

namespace verbena::testing {
namespace {

constexpr std::uint32_t kLargeRows = 24;
constexpr std::uint32_t kLargeWidth = 700;
constexpr std::int64_t kLargeRounds = 30;

struct LargeCase {
  Maps maps;
  ConsistencyModel model;
};

class LargeUpdatesTest : public ::testing::TestWithParam<LargeCase> {};
INSTANTIATE_TEST_SUITE_P(, LargeUpdatesTest, ::testing::ValuesIn([] {
                           std::vector<LargeCase> cases;
                           for (const Maps maps : {Maps::kAll, Maps::kNone}) {
                             for (const ConsistencyModel& model :
                                  {ConsistencyModel(Bsp{}), ConsistencyModel(Ssp{2}),
                                   ConsistencyModel(Essp{1}), ConsistencyModel(Asp{}),
                                   ConsistencyModel(ABsp{}), ConsistencyModel(Vap{1e15}),
                                   ConsistencyModel(BoundedDelay{1}), ConsistencyModel(Sequential{})})
                               cases.push_back({maps, model});
                           }
                           return cases;
                         }()));

std::int64_t update_of(std::uint32_t worker, std::int64_t round, Key row, std::size_t i) {
  return static_cast<std::int64_t>((worker + 1) * (row + 3) * (i + 1)) * (round + 1);
}

/// All updates are applied once each, whole.
TEST_P(LargeUpdatesTest, AddUp) {
  ClusterOptions options = over(GetParam().maps, 2, 3);
  options.lanes = 2;
  if (std::holds_alternative<Essp>(GetParam().model)) options.update_budget_mb_per_s = 100;
  const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
    auto table = session.table<std::int64_t>(
        {.name = "rows", .rows = kLargeRows, .width = kLargeWidth, .consistency = GetParam().model});
    RETURN_IF_ERROR(table.status());
    std::vector<std::int64_t> values(std::size_t{kLargeRows} * kLargeWidth);
    std::mt19937 random(session.rank());
    for (std::int64_t round = 0; round < kLargeRounds; ++round) {
      std::vector<Key> keys(kLargeRows);
      for (Key row = 0; row < kLargeRows; ++row) keys[row] = row;
      std::shuffle(keys.begin(), keys.end(), random);
      std::vector<std::int64_t> updates;
      for (const Key row : keys) {
        for (std::size_t i = 0; i < kLargeWidth; ++i)
          updates.push_back(update_of(session.rank(), round, row, i));
      }
      RETURN_IF_ERROR(table->push(keys, updates));
      if (round % 3 == 0) RETURN_IF_ERROR(table->pull(KeyRange{0, kLargeRows}, values));
      RETURN_IF_ERROR(session.clock());
    }
    RETURN_IF_ERROR(session.barrier());
    RETURN_IF_ERROR(table->pull(KeyRange{0, kLargeRows}, values));
    for (Key row = 0; row < kLargeRows; ++row) {
      for (std::size_t i = 0; i < kLargeWidth; ++i) {
        std::int64_t expected = 0;
        for (std::uint32_t worker = 0; worker < session.workers(); ++worker) {
          for (std::int64_t round = 0; round < kLargeRounds; ++round)
            expected += update_of(worker, round, row, i);
        }
        if (values[row * kLargeWidth + i] != expected)
          return absl::InternalError("row " + std::to_string(row) + " is wrong");
      }
    }
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// The lanes may still read the memory of a worker that has left, or has died.
TEST(LargeUpdatesOfTheGoneTest, AreAppliedOrNot) {
  for (const bool says_goodbye : {true, false}) {
    for (int repetition = 0; repetition < 20; ++repetition) {
      ServerThreads servers({.servers = 1, .workers = 2, .server_threads = 2});
      std::latch joined(2);  // a server that has failed does not wait for workers that it has never seen
      auto stays = std::async(std::launch::async, [&]() -> absl::Status {
        auto session = Session::connect(servers.session_options(0));
        RETURN_IF_ERROR(session.status());
        auto table = (*session)->table<std::int64_t>(
            {.name = "rows", .rows = 64, .width = kLargeWidth, .consistency = Ssp{9}});
        RETURN_IF_ERROR(table.status());
        joined.count_down();
        for (int clock = 0; clock < 4; ++clock) RETURN_IF_ERROR((*session)->clock());
        RETURN_IF_ERROR((*session)->barrier());
        std::vector<std::int64_t> values(kLargeWidth);
        RETURN_IF_ERROR(table->pull(KeyRange{63, 64}, values));
        EXPECT_EQ(values.back(), 5);
        return absl::OkStatus();
      });
      {
        auto session = Session::connect(servers.session_options(1));
        ASSERT_TRUE(session.ok()) << session.status();
        auto table = (*session)->table<std::int64_t>(
            {.name = "rows", .rows = 64, .width = kLargeWidth, .consistency = Ssp{9}});
        ASSERT_TRUE(table.ok()) << table.status();
        joined.arrive_and_wait();
        const std::vector<std::int64_t> updates(std::size_t{64} * kLargeWidth, 1);
        for (int clock = 0; clock < 5; ++clock) {
          ASSERT_TRUE(table->push(KeyRange{0, 64}, updates).ok());
          if (clock < 4) {
            ASSERT_TRUE((*session)->clock().ok());
          }
        }
        if (!says_goodbye) {
          ASSERT_TRUE((*session)->give_up(absl::CancelledError("enough")).ok());
        }
      }
      const absl::Status status = stays.get();
      EXPECT_EQ(status.ok(), says_goodbye) << status;
      if (!says_goodbye) {
        EXPECT_THAT(message_of(status), ::testing::HasSubstr("enough"));
      }
    }
  }
}

TEST(LargeUpdatesAreLeftTest, WhereTheyLie) {
  for (const Maps maps : {Maps::kAll, Maps::kNone}) {
    const ClusterResult result = run_cluster(over(maps, 1, 1), [&](Session& session) -> absl::Status {
      auto table = session.table<float>({.name = "rows", .rows = 8, .width = 1000, .consistency = Essp{1}});
      RETURN_IF_ERROR(table.status());
      const std::uint64_t before = session.statistics().bytes_posted;
      RETURN_IF_ERROR(table->push(KeyRange{0, 8}, std::vector<float>(8000, 1)));
      RETURN_IF_ERROR(session.clock());
      const std::uint64_t posted = session.statistics().bytes_posted - before;
      EXPECT_EQ(posted < 8000 * sizeof(float), maps == Maps::kAll) << posted;
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

}  // namespace
}  // namespace verbena::testing
