// Dynamic tables in real jobs: rows move between nodes while workers pull and push them, in place and over
// messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/word_copy.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"

namespace verbena::testing {
namespace {

using ::testing::HasSubstr;

#ifdef VERBENA_SANITIZED
constexpr int kRounds = 150;
#else
constexpr int kRounds = 600;
#endif

TableOptions moving(std::uint64_t rows, std::uint32_t width) {
  return {.name = "moving",
          .rows = rows,
          .width = width,
          .consistency = Sequential{},
          .allocation = Allocation::kDynamic};
}

class MovingTest : public ::testing::TestWithParam<Maps> {};

/// Adds to the rows in place if they can be held; pushes to the others.
absl::Status hold_and_add(Table<std::int64_t>& table, std::span<const Key> keys,
                          std::span<const std::int64_t> updates) {
  const std::uint32_t width = table.width();
  std::vector<std::int64_t*> rows(keys.size());
  absl::StatusOr<HeldRows> held = table.hold(keys, rows);
  RETURN_IF_ERROR(held.status());
  std::vector<Key> others;
  std::vector<std::int64_t> others_updates;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto update = updates.subspan(i * width, width);
    if (rows[i] != nullptr) {
      base::add_words(rows[i], update.data(), width);
    } else {
      others.push_back(keys[i]);
      others_updates.insert(others_updates.end(), update.begin(), update.end());
    }
  }
  RETURN_IF_ERROR(held->release());
  return table.push(others, others_updates);
}

/// Each worker counts in a column of its own. Whatever rows move meanwhile, it sees its own count exactly,
/// and the counts of others never go back.
absl::Status count_while_rows_move(Session& session, std::uint64_t rows, int rounds) {
  auto opened = session.table<std::int64_t>(moving(rows, session.workers()));
  RETURN_IF_ERROR(opened.status());
  Table<std::int64_t>& table = *opened;
  RETURN_IF_ERROR(session.barrier());
  std::mt19937 random(session.rank() + 1);
  OwnCounts counts(session, table);
  for (int round = 0; round < rounds; ++round) {
    std::vector<Key> keys(1 + random() % 6);
    for (Key& key : keys) key = random() % rows;
    if (random() % 2 == 0) {
      Pending pending = table.localize(keys);
      if (random() % 2 == 0) RETURN_IF_ERROR(pending.wait());
    }
    std::vector<std::int64_t> updates = counts.count(keys);
    const auto way = random() % 4;
    if (way == 0) {
      Pending pending = table.push_async(keys, updates);
      std::ranges::fill(updates, 4711);  // they are the caller's again
      RETURN_IF_ERROR(pending.wait());
    } else if (way == 1) {
      RETURN_IF_ERROR(hold_and_add(table, keys, updates));
    } else {
      RETURN_IF_ERROR(table.push(keys, updates));
    }
    RETURN_IF_ERROR(counts.check(keys));
  }
  RETURN_IF_ERROR(session.barrier());
  RETURN_IF_ERROR(counts.check_all());
  return session.barrier();
}

TEST_P(MovingTest, NothingIsLostOrSeenTwiceWhileRowsMove) {
  for (const std::uint64_t rows : {1U, 7U, 100U}) {
    const ClusterResult result = run_cluster(over(GetParam(), 3, 4), [&](Session& session) {
      return count_while_rows_move(session, rows, GetParam() == Maps::kNone ? kRounds / 4 : kRounds);
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST_P(MovingTest, ALargeLocalizeComesInManyMessages) {
  constexpr std::uint64_t kRows = 5000;
  ClusterOptions options = over(GetParam(), 2, 1);
  options.inbox_bytes = options.push_ring_bytes = 8192;
  const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
    auto opened = session.table<float>(moving(kRows, 3));
    RETURN_IF_ERROR(opened.status());
    Table<float>& table = *opened;
    std::vector<float> updates(kRows * 3);
    std::iota(updates.begin(), updates.end(), 1.0F);
    RETURN_IF_ERROR(table.push(KeyRange{0, kRows}, updates));
    Pending first = table.localize(KeyRange{0, kRows});
    Pending same = table.localize(KeyRange{kRows / 2, kRows});
    RETURN_IF_ERROR(same.wait());
    RETURN_IF_ERROR(first.wait());
    EXPECT_EQ(session.statistics().rows_localized, kRows / 2) << "half of them were here";
    std::vector<float> values(kRows * 3);
    RETURN_IF_ERROR(table.pull(KeyRange{0, kRows}, values));
    EXPECT_EQ(values, updates);
    const SessionStatistics statistics = session.statistics();
    EXPECT_EQ(statistics.rows_pulled_locally + statistics.rows_pulled_remotely, kRows);
    EXPECT_EQ(statistics.rows_pulled_locally, GetParam() == Maps::kNone ? 0 : kRows);
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST_P(MovingTest, ARowGoesFromHandToHand) {
  constexpr int kTurns = 60;
  const ClusterResult result = run_cluster(over(GetParam(), 3, 3), [&](Session& session) -> absl::Status {
    auto opened = session.table<std::int32_t>(moving(3, 5));
    RETURN_IF_ERROR(opened.status());
    Table<std::int32_t>& table = *opened;
    for (int turn = 0; turn < kTurns; ++turn) {
      RETURN_IF_ERROR(table.localize(KeyRange{0, 3}).wait());
      RETURN_IF_ERROR(table.push(KeyRange{0, 3}, std::vector<std::int32_t>(15, 1)));
    }
    RETURN_IF_ERROR(session.barrier());
    std::vector<std::int32_t> values(15);
    RETURN_IF_ERROR(table.pull(KeyRange{0, 3}, values));
    EXPECT_THAT(values, ::testing::Each(3 * kTurns));
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

INSTANTIATE_TEST_SUITE_P(Memory, MovingTest, ::testing::Values(Maps::kAll, Maps::kOwnNode, Maps::kNone),
                         [](const auto& test) { return to_string(test.param); });

/// The row has left its place and is not here yet. Its home need not be asked, since the row comes here.
TEST(MovingTablesTest, APullOfARowThatComesHereAsksNobody) {
  for (const Maps maps : {Maps::kAll, Maps::kOwnNode}) {
    SCOPED_TRACE(to_string(maps));
    std::atomic<bool> is_gone = false;
    const ClusterResult result = run_cluster(over(maps, 2, 2), [&](Session& session) -> absl::Status {
      auto opened = session.table<float>(moving(2, 1));
      RETURN_IF_ERROR(opened.status());
      Table<float>& table = *opened;
      const std::vector<Key> key = {1};  // at home on node 1
      if (session.rank() == 1) {
        RETURN_IF_ERROR(table.push(key, std::vector<float>{3}));
        RETURN_IF_ERROR(session.barrier());
        // This does not take the row's lock, which would make the other worker ask for the row again.
        while (table.is_here(key[0])) std::this_thread::yield();
        is_gone = true;
        return session.barrier();
      }
      RETURN_IF_ERROR(session.barrier());
      Pending coming = table.localize(key);
      while (!is_gone) std::this_thread::yield();
      std::vector<float> value(1);
      RETURN_IF_ERROR(table.pull(key, value));
      EXPECT_EQ(value[0], 3);
      EXPECT_EQ(session.statistics().locations_asked, 0U);
      RETURN_IF_ERROR(coming.wait());
      return session.barrier();
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

/// So it has ended when localize() returns: no answer is needed.
TEST(MovingTablesTest, ALocalizeOfRowsThatAreHereAsksNobody) {
  for (const Maps maps : {Maps::kAll, Maps::kOwnNode}) {
    SCOPED_TRACE(to_string(maps));
    const ClusterResult result = run_cluster(over(maps, 2, 2), [&](Session& session) -> absl::Status {
      auto opened = session.table<float>(moving(2, 1));
      RETURN_IF_ERROR(opened.status());
      Table<float>& table = *opened;
      RETURN_IF_ERROR(session.barrier());
      if (session.rank() == 0) {
        const std::vector<Key> keys = {0, 1};  // at home here, and on node 1
        RETURN_IF_ERROR(table.localize(keys).wait());
        EXPECT_TRUE(table.localize(keys).done());
      }
      return session.barrier();
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(MovingTablesTest, WorkersOfANodeChangeARowAtOnceInPlace) {
  // So wide that a push holds the row's lock most of its time, and a thread that is interrupted has it.
  constexpr std::uint32_t kWidth = 2000;
  const int pushes = 5 * kRounds;
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 4}, [&](Session& session) -> absl::Status {
        auto opened = session.table<double>(moving(2, kWidth));
        RETURN_IF_ERROR(opened.status());
        Table<double>& table = *opened;
        RETURN_IF_ERROR(session.barrier());
        const std::vector<double> ones(kWidth, 1);
        std::vector<double> values(kWidth);
        const std::vector<Key> one{1};
        for (int i = 0; i < pushes; ++i) {
          RETURN_IF_ERROR(table.push(one, ones));
          if (i % 64 != 0) continue;
          RETURN_IF_ERROR(table.pull(one, values));
          if (*std::min_element(values.begin(), values.end()) < i + 1) return wrong("an own push is missing");
        }
        RETURN_IF_ERROR(session.barrier());
        RETURN_IF_ERROR(table.pull(one, values));
        EXPECT_THAT(values, ::testing::Each(4.0 * pushes));
        EXPECT_EQ(session.statistics().rows_pulled_remotely, 0U);
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(HeldRowsTest, NobodyElseTakesOrChangesThem) {
  constexpr Key kKey = 1;
  for (const bool localizes : {true, false}) {
    std::atomic<bool> is_held = false;
    std::atomic<bool> is_wanted = false;
    const ClusterResult result =
        run_cluster({.servers = 2, .workers = 2}, [&](Session& session) -> absl::Status {
          auto opened = session.table<float>(moving(10, 100));
          RETURN_IF_ERROR(opened.status());
          Table<float>& table = *opened;
          RETURN_IF_ERROR(session.barrier());
          const std::vector<Key> keys{kKey};
          std::vector<float*> rows(1);
          std::vector<float> values(100);
          if (session.rank() == 0) {
            absl::StatusOr<HeldRows> held = table.hold(keys, rows);
            RETURN_IF_ERROR(held.status());
            if (rows[0] == nullptr) return wrong("a free row on the own node cannot be held");
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rows[0]) % 64, 0U);
            is_held = true;
            while (!is_wanted) std::this_thread::yield();
            base::add_words(rows[0], std::vector<float>(100, 5).data(), 100);
            RETURN_IF_ERROR(held->release());
            EXPECT_EQ(session.statistics().rows_pushed_locally, 1U);
            return session.barrier();
          }
          while (!is_held) std::this_thread::yield();
          Pending pending =
              localizes ? table.localize(keys) : table.push_async(keys, std::vector<float>(100, 2));
          for (int i = 0; i < 50; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            RETURN_IF_ERROR(table.pull(KeyRange{8, 9}, std::span(values)));  // drives the session
            EXPECT_FALSE(localizes && pending.done());
          }
          if (!localizes) {
            RETURN_IF_ERROR(table.pull(KeyRange{0, 1}, values));
            EXPECT_EQ(session.statistics().rows_pushed_remotely, 0U);
          }
          is_wanted = true;
          RETURN_IF_ERROR(pending.wait());
          RETURN_IF_ERROR(table.pull(keys, values));
          EXPECT_THAT(values, ::testing::Each(localizes ? 5 : 7));
          return session.barrier();
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(HeldRowsTest, OneWorkerOfANodeHoldsARowAtATime) {
  std::atomic<int> turn = 0;
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 2}, [&](Session& session) -> absl::Status {
        auto opened = session.table<float>(moving(10, 1));
        RETURN_IF_ERROR(opened.status());
        Table<float>& table = *opened;
        RETURN_IF_ERROR(session.barrier());
        const std::vector<Key> keys{3, 4, 3};
        std::vector<float*> rows(3);
        if (session.rank() == 0) {
          absl::StatusOr<HeldRows> held = table.hold(keys, rows);
          RETURN_IF_ERROR(held.status());
          EXPECT_TRUE(rows[0] != nullptr && rows[1] != nullptr && rows[2] == nullptr)
              << "a key that comes twice is held once";
          turn = 1;
          while (turn == 1) std::this_thread::yield();
          // The worker leaves without having released the rows; then it holds nothing any more.
          alignas(HeldRows) std::array<std::byte, sizeof(HeldRows)> never_destroyed;
          new (never_destroyed.data()) HeldRows(*std::move(held));
          return absl::OkStatus();
        }
        while (turn == 0) std::this_thread::yield();
        RETURN_IF_ERROR(table.hold(keys, rows).status());
        EXPECT_THAT(rows, ::testing::Each(nullptr));
        turn = 2;
        return table.push(keys, std::vector<float>(3, 1));
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(HeldRowsTest, AGuardGivesBackWhatItHoldsAndNothingElse) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [](Session& session) -> absl::Status {
        auto table = session.table<float>(moving(10, 1));
        RETURN_IF_ERROR(table.status());
        std::vector<float*> rows(1);
        absl::StatusOr<HeldRows> held = table->hold(std::vector<Key>(), {});
        RETURN_IF_ERROR(held.status());
        absl::StatusOr<HeldRows> taken = table->hold(std::vector<Key>{3}, rows);
        RETURN_IF_ERROR(taken.status());
        *held = *std::move(taken);  // as a loop does that tries until it has the row
        const auto again = [&] { return table->hold(std::vector<Key>{4}, rows).status().code(); };
        EXPECT_EQ(again(), absl::StatusCode::kFailedPrecondition) << "the row is held";
        RETURN_IF_ERROR(held->release());
        EXPECT_EQ(again(), absl::StatusCode::kOk);
        return again() == absl::StatusCode::kOk ? absl::OkStatus() : wrong("a temporary has kept its row");
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(HeldRowsTest, WhoHoldsSomeMayNotWait) {
  ServerThreads servers({.servers = 1, .workers = 2});
  auto session = Session::connect(servers.session_options(0));
  ASSERT_TRUE(session.ok()) << session.status();
  auto table = (*session)->table<float>(moving(10, 1));
  ASSERT_TRUE(table.ok()) << table.status();
  float* row = nullptr;
  const absl::StatusOr<HeldRows> held = table->hold(std::vector<Key>{3}, {&row, 1});
  ASSERT_TRUE(held.ok());
  ASSERT_NE(row, nullptr);
  const absl::Status status = (*session)->barrier();  // the other worker is not there yet
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 0 holds 1 rows and would have to wait for "));
}

TEST(MovingTablesTest, WrongCallsAreRefused) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 1}, [](Session& session) -> absl::Status {
        TableOptions with_clocks = moving(10, 1);
        with_clocks.consistency = Ssp{1};
        const absl::Status refused = session.table<float>(with_clocks).status();
        EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
        EXPECT_THAT(message_of(refused), HasSubstr("sequential"));
        auto fixed = session.table<float>({.name = "fixed", .rows = 10, .width = 1});
        RETURN_IF_ERROR(fixed.status());
        const absl::Status is_static = fixed->localize(KeyRange{0, 1}).wait();
        EXPECT_EQ(is_static.code(), absl::StatusCode::kFailedPrecondition) << is_static;
        std::vector<float*> row(1);
        EXPECT_EQ(fixed->hold(std::vector<Key>{1}, row).status().code(),
                  absl::StatusCode::kFailedPrecondition);
        auto opened = session.table<float>(moving(10, 1));
        RETURN_IF_ERROR(opened.status());
        EXPECT_EQ(opened->hold(std::vector<Key>{10}, row).status().code(),
                  absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(opened->hold(std::vector<Key>{1, 2}, row).status().code(),
                  absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(opened->localize(KeyRange{5, 11}).wait().code(), absl::StatusCode::kInvalidArgument);
        RETURN_IF_ERROR(opened->localize(std::span<const Key>()).wait());
        return opened->localize(KeyRange{5, 10}).wait();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  EXPECT_EQ(Session::connect({.servers = {"shm:none"}, .node = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MovingTablesTest, AWorkerLeavesBehindWhatItHasLocalized) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2}, [](Session& session) -> absl::Status {
        auto opened = session.table<float>(moving(10, 1));
        RETURN_IF_ERROR(opened.status());
        Table<float>& table = *opened;
        RETURN_IF_ERROR(session.barrier());
        if (session.rank() == 1) {
          RETURN_IF_ERROR(table.push(KeyRange{0, 10}, std::vector<float>(10, 7)));
          static_cast<void>(table.localize(KeyRange{0, 10}));  // still under way when the worker leaves
          return absl::OkStatus();
        }
        std::vector<float> values(10);
        while (values != std::vector<float>(10, 7)) RETURN_IF_ERROR(table.pull(KeyRange{0, 10}, values));
        RETURN_IF_ERROR(table.localize(KeyRange{0, 10}).wait());
        RETURN_IF_ERROR(table.pull(KeyRange{0, 10}, values));
        EXPECT_EQ(values, std::vector<float>(10, 7));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// A worker's connection breaks in the middle of moves. The others are told, and do not wait for its rows.
TEST(MovingTablesTest, AMoverThatIsGoneEndsTheJobByItsName) {
  for (const std::uint64_t request : {30U, 80U, 200U}) {
    const ClusterResult result = run_cluster(with_broken_worker(request), [](Session& session) {
      return count_while_rows_move(session, 3, 1'000'000);
    });
    const absl::Status ended = check_end_by_name(result, "worker 1");
    EXPECT_TRUE(ended.ok()) << "request " << request << ": " << ended;
  }
}

}  // namespace
}  // namespace verbena::testing
