// What a data cursor hands out to a worker alone, and to several of which one is slow.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"
#include <verbena/data_cursor.hpp>

namespace verbena::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Takes mini-batches until the iteration ends, at most `most`.
std::vector<ExampleRange> take(DataCursor& cursor, std::size_t most = 1000) {
  std::vector<ExampleRange> taken;
  while (taken.size() < most) {
    const absl::StatusOr<ExampleRange> batch = cursor.next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || batch->empty()) break;
    taken.push_back(*batch);
  }
  return taken;
}

/// A job of one worker, and that worker's session.
struct Alone {
  explicit Alone(const ConsistencyModel& model) : servers({.servers = 1, .workers = 1}) {
    auto connected = Session::connect(servers.session_options(0));
    EXPECT_TRUE(connected.ok()) << connected.status();
    session = std::move(*connected);
    EXPECT_TRUE(session->table<float>({.name = "rows", .rows = 1, .width = 1, .consistency = model}).ok());
  }
  ServerThreads servers;
  std::unique_ptr<Session> session;
};

TEST(DataCursorTest, HandsOutEachExampleOnce) {
  for (const ConsistencyModel& model : std::initializer_list<ConsistencyModel>{Bsp{}, Ssp{1}, ABsp{}}) {
    SCOPED_TRACE(to_string(model));
    Alone alone(model);
    DataCursor cursor(*alone.session, {.examples = 10, .mini_batch = 4});
    for (int iteration = 0; iteration < 3; ++iteration) {
      const std::vector<ExampleRange> all = take(cursor);
      EXPECT_THAT(all, ElementsAre(ExampleRange{0, 4}, ExampleRange{4, 8}, ExampleRange{8, 10}));
      EXPECT_EQ(cursor.left(), 0U);
      EXPECT_TRUE(take(cursor).empty()) << "an iteration that is over stays over";
      ASSERT_TRUE(alone.session->clock().ok());
    }
  }
}

TEST(DataCursorTest, WhatWasLeftComesFirst) {
  Alone alone(Bsp{});
  DataCursor cursor(*alone.session, {.examples = 10, .mini_batch = 4});
  EXPECT_THAT(take(cursor, 1), ElementsAre(ExampleRange{0, 4}));
  EXPECT_EQ(cursor.left(), 6U);
  ASSERT_TRUE(alone.session->clock().ok());
  EXPECT_THAT(take(cursor), ElementsAre(ExampleRange{4, 8}, ExampleRange{8, 10}, ExampleRange{0, 4}));
  ASSERT_TRUE(alone.session->clock().ok());
  EXPECT_THAT(take(cursor, 2), ElementsAre(ExampleRange{4, 8}, ExampleRange{8, 10}));
  ASSERT_TRUE(alone.session->clock().ok());
  EXPECT_THAT(take(cursor), ElementsAre(ExampleRange{0, 4}, ExampleRange{4, 8}, ExampleRange{8, 10}));
}

TEST(DataCursorTest, BeginsWhereAnotherOneWas) {
  Alone alone(Bsp{});
  DataCursor before(*alone.session, {.examples = 10, .mini_batch = 4});
  EXPECT_THAT(take(before, 1), ElementsAre(ExampleRange{0, 4}));
  EXPECT_EQ(before.next_example(), 4U);
  ASSERT_TRUE(alone.session->clock().ok());
  DataCursor cursor(*alone.session, {.examples = 10, .mini_batch = 4, .first = before.next_example()});
  EXPECT_THAT(take(cursor), ElementsAre(ExampleRange{4, 8}, ExampleRange{8, 10}, ExampleRange{0, 4}));
  EXPECT_EQ(cursor.next_example(), 4U);
  ASSERT_TRUE(alone.session->clock().ok());
  DataCursor at_the_end(*alone.session, {.examples = 10, .mini_batch = 4});
  EXPECT_EQ(take(at_the_end).size(), 3U);
  EXPECT_EQ(at_the_end.next_example(), 0U);
}

TEST(DataCursorTest, NoExamplesAreNoMiniBatches) {
  Alone alone(ABsp{});
  DataCursor cursor(*alone.session, {.examples = 0, .mini_batch = 4});
  EXPECT_TRUE(take(cursor).empty());
}

TEST(DataCursorTest, WrongUseIsRefusedAndHarmless) {
  Alone alone(ABsp{});
  for (const DataCursor::Options& options :
       {DataCursor::Options{.examples = 3, .mini_batch = 0}, DataCursor::Options{.examples = 3, .first = 3},
        DataCursor::Options{.examples = consistency::kMaxExamples + 1}}) {
    DataCursor cursor(*alone.session, options);
    EXPECT_EQ(cursor.next().status().code(), absl::StatusCode::kInvalidArgument);
  }
  DataCursor cursor(*alone.session, {.examples = 3});
  DataCursor other(*alone.session, {.examples = 3});
  ASSERT_TRUE(cursor.next().ok());
  const absl::Status second = other.next().status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << second;
  EXPECT_THAT(message_of(second), HasSubstr("two data cursors in clock 0"));
  EXPECT_TRUE(cursor.next().ok());
  ASSERT_TRUE(alone.session->clock().ok());
  EXPECT_TRUE(other.next().ok()) << "a session may have several cursors, one in each clock";
}

/// The examples of one worker in one iteration.
struct Share {
  std::uint64_t processed = 0;
  std::uint64_t left = 0;
};

constexpr int kIterations = 20;
constexpr std::uint64_t kFewExamples = 40;
constexpr std::uint64_t kManyExamples = 400'000'000;  // too many to process
constexpr std::uint64_t kMiniBatch = 7;

/// One iteration of one worker. Worker 2 has far too many examples; the others begin once it has taken a
/// mini-batch.
absl::StatusOr<Share> iterate(Session& session, DataCursor& cursor, std::atomic<int>& begun, int iteration,
                              std::uint64_t& expected) {
  const bool slow = session.rank() == 2;
  Share share;
  for (;;) {
    if (!slow) {
      while (begun < iteration + 1) std::this_thread::yield();
    }
    const absl::StatusOr<ExampleRange> batch = cursor.next();
    RETURN_IF_ERROR(batch.status());
    if (batch->empty()) break;
    if (slow) begun = iteration + 1;
    if (batch->first != expected) return wrong("what was left did not come first");
    share.processed += batch->size();
    expected = batch->last == (slow ? kManyExamples : kFewExamples) ? 0 : batch->last;
  }
  share.left = cursor.left();
  return share;
}

/// Workers tell one another in a table of counts how many examples they have processed. To the table of means
/// each pushes its share of all examples, as if it had processed all of its own.
absl::Status train(Session& session, std::atomic<int>& begun) {
  const std::uint32_t workers = session.workers();
  auto means = session.table<double>(
      {.name = "means", .rows = 1, .width = workers, .consistency = ABsp{Updates::kMeans}});
  RETURN_IF_ERROR(means.status());
  auto counts = session.table<std::int64_t>(
      {.name = "counts", .rows = kIterations, .width = workers, .consistency = ABsp{}});
  RETURN_IF_ERROR(counts.status());
  const std::uint64_t mine = session.rank() == 2 ? kManyExamples : kFewExamples;
  const double all = 2.0 * kFewExamples + kManyExamples;
  DataCursor cursor(session, {.examples = mine, .mini_batch = kMiniBatch});
  std::uint64_t expected = 0;
  std::vector<double> row(workers);
  std::vector<double> sum(workers, 0);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const absl::StatusOr<Share> share = iterate(session, cursor, begun, iteration, expected);
    RETURN_IF_ERROR(share.status());
    const bool early = share->left > 0;
    if (session.rank() == 2 && !early) return wrong("the slow worker was not stopped");
    if (share->processed == 0) return wrong("no mini-batch at all");
    std::vector<double> update(workers, 0);
    update[session.rank()] = static_cast<double>(mine) / all;
    std::vector<std::int64_t> count(workers, 0);
    count[session.rank()] = static_cast<std::int64_t>(share->processed);
    RETURN_IF_ERROR(means->push(KeyRange{0, 1}, update));
    const auto at = static_cast<Key>(iteration);
    RETURN_IF_ERROR(counts->push(KeyRange{at, at + 1}, count));
    RETURN_IF_ERROR(means->pull(KeyRange{0, 1}, row));
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      const double seen = sum[worker] + (worker == session.rank() ? update[worker] : 0);
      if (std::abs(row[worker] - seen) > 1e-9) return wrong("own updates are seen as they were pushed");
    }
    RETURN_IF_ERROR(session.clock());
    RETURN_IF_ERROR(counts->pull(KeyRange{at, at + 1}, count));
    RETURN_IF_ERROR(means->pull(KeyRange{0, 1}, row));
    double processed = 0;
    for (const std::int64_t one : count) processed += static_cast<double>(one);
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      sum[worker] += static_cast<double>(count[worker]) / processed;
      if (std::abs(row[worker] - sum[worker]) > 1e-9)
        return wrong(fmt::format("iteration {}: worker {} weighs {} in all, expected {}", iteration, worker,
                                 row[worker], sum[worker]));
    }
  }
  return absl::OkStatus();
}

TEST(DataCursorTest, TheFirstToFinishEndsTheIterationForAll) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    for (const std::uint32_t server_threads : {1U, 2U}) {
      std::atomic<int> begun = 0;
      const ClusterResult result = run_cluster(
          {.servers = 2, .workers = 3, .lanes = 2, .server_threads = server_threads, .read_path = path},
          [&](Session& session) { return train(session, begun); });
      EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    }
  }
}

/// No worker is slow, so the result is that of BSP, to the last bit.
TEST(DataCursorTest, WithEqualSpeedsABspIsBsp) {
  const auto run = [](const ConsistencyModel& model) {
    std::vector<float> rows;
    const ClusterResult result =
        run_cluster({.servers = 1, .workers = 2}, [&](Session& session) -> absl::Status {
          auto table = session.table<float>({.name = "sums", .rows = 1, .width = 8, .consistency = model});
          RETURN_IF_ERROR(table.status());
          // One mini-batch each: a worker that has begun has finished.
          DataCursor cursor(session, {.examples = 5, .mini_batch = 5});
          for (int iteration = 0; iteration < 50; ++iteration) {
            for (;;) {
              const absl::StatusOr<ExampleRange> batch = cursor.next();
              RETURN_IF_ERROR(batch.status());
              if (batch->empty()) break;
              std::vector<float> update(8);
              for (std::size_t i = 0; i < update.size(); ++i)
                update[i] =
                    1.0F / static_cast<float>(7 * iteration + static_cast<int>(3 * i + session.rank()) + 1);
              RETURN_IF_ERROR(table->push(KeyRange{0, 1}, update));
            }
            RETURN_IF_ERROR(session.clock());
          }
          std::vector<float> mine(8);
          RETURN_IF_ERROR(table->pull(KeyRange{0, 1}, mine));
          if (session.rank() == 0) rows = mine;
          return absl::OkStatus();
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    return rows;
  };
  const std::vector<float> bsp = run(Bsp{});
  EXPECT_EQ(bsp.size(), 8U);
  EXPECT_EQ(run(ABsp{}), bsp);
  EXPECT_EQ(run(ABsp{Updates::kMeans}), bsp);
}

TEST(DataCursorTest, OneWhoHasNothingEndsNothing) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 2}, [](Session& session) -> absl::Status {
        RETURN_IF_ERROR(
            session.table<float>({.name = "rows", .rows = 1, .width = 1, .consistency = ABsp{}}).status());
        DataCursor cursor(session, {.examples = session.rank() == 0 ? 0U : 1000U, .mini_batch = 1});
        for (int iteration = 0; iteration < 5; ++iteration) {
          if (take(cursor).size() != (session.rank() == 0 ? 0 : 1000)) return wrong("ended early");
          RETURN_IF_ERROR(session.clock());
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(DataCursorTest, MeansOfWholeNumbersAreRefused) {
  Alone alone(ABsp{Updates::kMeans});
  const auto table = alone.session->table<std::int32_t>(
      {.name = "whole", .rows = 1, .width = 1, .consistency = ABsp{Updates::kMeans}});
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(table.status().message()), HasSubstr("\"whole\""));
  EXPECT_TRUE(alone.session->clock().ok()) << "a table that is refused does not fail the session";
}

}  // namespace
}  // namespace verbena::testing
