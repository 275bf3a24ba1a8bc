// Intents in real jobs. A row that only one node intends to use comes to it; if several do, the others get
// replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "protocol/partition.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"

namespace verbena::testing {
namespace {

using ::testing::Each;

#ifdef VERBENA_SANITIZED
constexpr int kClocks = 150;
#else
constexpr int kClocks = 600;
#endif

TableOptions dynamic(std::uint64_t rows, std::uint32_t width, const ConsistencyModel& consistency = Asp{}) {
  return {.name = "intended",
          .rows = rows,
          .width = width,
          .consistency = consistency,
          .allocation = Allocation::kDynamic};
}

class IntentTest : public ::testing::TestWithParam<Maps> {};

/// One clock is one mini-batch, whose keys are announced three clocks ahead. Each worker counts in a column
/// of its own: it sees its own count exactly, the counts of others never go back, and at the end each update
/// is there once.
absl::Status count_with_intents(Session& session, const TableOptions& options, int clocks) {
  const std::uint32_t width = session.workers();
  const std::uint32_t me = session.rank();
  auto opened = session.table<std::int64_t>(options);
  RETURN_IF_ERROR(opened.status());
  Table<std::int64_t>& table = *opened;
  RETURN_IF_ERROR(session.barrier());
  std::mt19937 random(me + 1);
  OwnCounts counts(session, table);
  constexpr std::size_t kAhead = 3;
  std::vector<std::vector<Key>> batches;
  const auto tell_next = [&]() -> absl::Status {
    std::vector<Key>& keys = batches.emplace_back(1 + random() % 6);
    // A third of the draws are from rows that all workers use, the others from rows that are mostly this
    // worker's.
    for (Key& key : keys)
      key = (random() % 3 == 0 ? 0 : me * options.rows / width) + random() % options.rows / width;
    const std::int64_t from = session.current_clock() + static_cast<std::int64_t>(batches.size()) - 1;
    return table.intent(keys, from, from + 1);
  };
  for (std::size_t i = 0; i < kAhead; ++i) RETURN_IF_ERROR(tell_next());
  for (int clock = 0; clock < clocks; ++clock) {
    RETURN_IF_ERROR(tell_next());
    const std::vector<Key> keys = batches.front();
    const std::vector<std::int64_t> updates = counts.count(keys);
    RETURN_IF_ERROR(table.push(keys, updates));
    RETURN_IF_ERROR(counts.check(keys));
    batches.erase(batches.begin());
    RETURN_IF_ERROR(session.clock());
  }
  RETURN_IF_ERROR(session.barrier());
  RETURN_IF_ERROR(counts.check_all());
  return session.barrier();
}

TEST_P(IntentTest, NothingIsLostOrSeenTwice) {
  for (const ConsistencyModel& consistency : {ConsistencyModel(Asp{}), ConsistencyModel(Sequential{})}) {
    for (const std::uint64_t rows : {4U, 100U}) {
      const ClusterResult result = run_cluster(over(GetParam(), 3, 4), [&](Session& session) {
        return count_with_intents(session, dynamic(rows, session.workers(), consistency),
                                  GetParam() == Maps::kNone ? kClocks / 4 : kClocks);
      });
      EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    }
  }
}

TEST_P(IntentTest, TheOnlyOneGetsTheRowsAndTheNextOneReplicas) {
  constexpr std::uint64_t kRows = 50;
  const ClusterResult result = run_cluster(over(GetParam(), 2, 2), [&](Session& session) -> absl::Status {
    auto opened = session.table<float>(dynamic(kRows, 3));
    RETURN_IF_ERROR(opened.status());
    Table<float>& table = *opened;
    RETURN_IF_ERROR(session.barrier());
    const KeyRange all{0, kRows};
    std::vector<float> values(kRows * 3);
    const auto until = [&](std::uint64_t SessionStatistics::*count, std::uint64_t expected) -> absl::Status {
      while (session.statistics().*count < expected) RETURN_IF_ERROR(table.pull(all, values));
      EXPECT_EQ(session.statistics().*count, expected);
      return absl::OkStatus();
    };
    const auto intend = [&] { return table.intent(all, 0, 1'000'000); };
    const bool first = session.rank() == 0;
    if (first) RETURN_IF_ERROR(intend());
    if (first)
      RETURN_IF_ERROR(until(&SessionStatistics::rows_moved_by_intent, kRows / 2));  // half of them were here
    RETURN_IF_ERROR(session.barrier());
    if (!first) RETURN_IF_ERROR(intend());
    if (!first) RETURN_IF_ERROR(until(&SessionStatistics::rows_replicated, kRows));
    RETURN_IF_ERROR(table.push(all, std::vector<float>(kRows * 3, 1)));
    RETURN_IF_ERROR(table.pull(all, values));
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 1);
    if (!first) {
      EXPECT_EQ(session.statistics().rows_pushed_to_replicas, kRows);
      EXPECT_GE(session.statistics().rows_pulled_from_replicas, kRows);
    } else {
      EXPECT_EQ(session.statistics().rows_replicated, 0U);
    }
    RETURN_IF_ERROR(session.barrier());
    RETURN_IF_ERROR(table.pull(all, values));
    EXPECT_THAT(values, Each(2));
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Two tables. Worker 0 intends to use all rows of the first one for ever. So they are on its node, and their
/// homes know it: whoever else intends to use them gets replicas. The second table is for pulls that drive
/// the session.
class RowsOfTheFirst {
 public:
  static constexpr std::uint64_t kRows = 20;

  explicit RowsOfTheFirst(Session& session, std::uint32_t nodes = 2)
      : session_(session), rows_elsewhere_(kRows - protocol::RangePartition(kRows, nodes).range(0).size()) {}
  /// Each worker must call it.
  absl::Status open() {
    auto opened = session_.table<float>(dynamic(kRows, 1));
    RETURN_IF_ERROR(opened.status());
    table_ = *opened;
    auto others = session_.table<float>({.name = "of the first server",
                                         .rows = 1,
                                         .width = 1,
                                         .consistency = Asp{},
                                         .allocation = Allocation::kDynamic});
    RETURN_IF_ERROR(others.status());
    others_ = *others;
    RETURN_IF_ERROR(session_.barrier());
    if (session_.rank() == 0) {
      RETURN_IF_ERROR(table().intent(all(), session_.current_clock(), 1'000'000));
      RETURN_IF_ERROR(until([&] { return session_.statistics().rows_moved_by_intent == rows_elsewhere_; }));
    }
    return session_.barrier();
  }
  [[nodiscard]] Table<float>& table() { return table_; }
  [[nodiscard]] static KeyRange all() { return {0, kRows}; }
  /// Brings the second table's row here, so that until() does not wait for another node.
  absl::Status localize_others() { return others_.localize(KeyRange{0, 1}).wait(); }
  /// Drives the session until `reached`, without a pull from table().
  template <class Reached>
  absl::Status until(const Reached& reached) {
    std::vector<float> value(1);
    while (!reached()) RETURN_IF_ERROR(others_.pull(KeyRange{0, 1}, value));
    return absl::OkStatus();
  }
  absl::Status until_refreshed(std::uint64_t rows) {
    return until([&] { return session_.statistics().rows_refreshed >= rows; });
  }

 private:
  Session& session_;
  const std::uint64_t rows_elsewhere_;  ///< rows of table() on other nodes, at first
  Table<float> table_;
  Table<float> others_;
};

TEST_P(IntentTest, AReplicaIsReadAnewWhenItsUseIsToldOrItIsTooOld) {
  constexpr std::uint64_t kRows = RowsOfTheFirst::kRows;
  std::atomic<int> step = 0;
  const ClusterResult result = run_cluster(over(GetParam(), 2, 3), [&](Session& session) -> absl::Status {
    RowsOfTheFirst rows(session);
    RETURN_IF_ERROR(rows.open());
    Table<float>& table = rows.table();
    const KeyRange all = RowsOfTheFirst::all();
    std::vector<float> values(kRows);
    if (session.rank() == 0) {
      RETURN_IF_ERROR(rows.until([&] { return step == 2; }));
      RETURN_IF_ERROR(table.push(all, std::vector<float>(kRows, 1)));
      step = 3;
    } else if (session.rank() == 2) {
      RETURN_IF_ERROR(rows.until([&] { return step == 3; }));
      // Until the push is applied.
      while (values != std::vector<float>(kRows, 1)) RETURN_IF_ERROR(table.pull(all, values));
      step = 4;
    } else {
      RETURN_IF_ERROR(table.intent(all, session.current_clock(), 1'000'000));
      RETURN_IF_ERROR(rows.until_refreshed(kRows));
      RETURN_IF_ERROR(table.pull(all, values));
      EXPECT_THAT(values, Each(0));
      // An intent announces the use in its first clock: that refreshes the replicas once more.
      RETURN_IF_ERROR(session.clock());
      RETURN_IF_ERROR(rows.until_refreshed(2 * kRows));
      step = 2;
      RETURN_IF_ERROR(rows.until([&] { return step == 4; }));
      for (int clock = 0; clock < Asp::kMostClocksBehind; ++clock) {
        RETURN_IF_ERROR(session.clock());
        RETURN_IF_ERROR(table.pull(all, values));
        EXPECT_THAT(values, Each(0)) << "the later clocks of a long intent must not refresh replicas";
      }
      RETURN_IF_ERROR(session.clock());
      EXPECT_EQ(session.statistics().rows_refreshed, 2 * kRows);
      RETURN_IF_ERROR(table.pull(all, values));
      EXPECT_THAT(values, Each(1)) << "a replica that is too old must be read again";
      EXPECT_EQ(session.statistics().rows_refreshed, 3 * kRows);
      const std::int64_t use = session.current_clock() + 2;
      RETURN_IF_ERROR(table.intent(all, use, use + 1));
      RETURN_IF_ERROR(session.clock());
      RETURN_IF_ERROR(rows.until_refreshed(4 * kRows));
    }
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST_P(IntentTest, AReplicaIsReadOnceAndAClockBeforeItsUse) {
  constexpr std::uint64_t kRows = RowsOfTheFirst::kRows;
  std::atomic<bool> is_over = false;
  const ClusterResult result = run_cluster(over(GetParam(), 2, 2), [&](Session& session) -> absl::Status {
    RowsOfTheFirst rows(session);
    RETURN_IF_ERROR(rows.open());
    Table<float>& table = rows.table();
    const KeyRange all = RowsOfTheFirst::all();
    std::vector<float> values(kRows);
    if (session.rank() == 0) {
      RETURN_IF_ERROR(rows.until([&] { return is_over.load(); }));
    } else {
      const std::int64_t use = session.current_clock() + 3;
      RETURN_IF_ERROR(table.intent(all, use, use + 1));
      RETURN_IF_ERROR(rows.until([&] { return session.statistics().rows_replicated == kRows; }));
      RETURN_IF_ERROR(session.clock());
      EXPECT_EQ(session.statistics().rows_refreshed, 0U);
      RETURN_IF_ERROR(session.clock());
      RETURN_IF_ERROR(rows.until([&] { return session.statistics().rows_refreshed == kRows; }));
      RETURN_IF_ERROR(session.clock());
      RETURN_IF_ERROR(table.pull(all, values));
      EXPECT_EQ(session.statistics().rows_pulled_from_replicas, kRows);
      for (int clock = 0; clock < 2; ++clock) RETURN_IF_ERROR(session.clock());
      EXPECT_EQ(session.statistics().rows_refreshed, kRows);
      is_over = true;
    }
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Worker 0 has announced intents on all rows. When the rows have come to it, worker 1 intends to use them
/// for ever, and gets replicas.
absl::Status share_with_second(Session& session, Table<float>& table, std::vector<float>& values) {
  const KeyRange all{0, table.rows()};
  const bool first = session.rank() == 0;
  while (first && session.statistics().rows_moved_by_intent < table.rows() / 2)
    RETURN_IF_ERROR(table.pull(all, values));
  RETURN_IF_ERROR(session.barrier());
  if (!first) RETURN_IF_ERROR(table.intent(all, session.current_clock(), 1'000'000));
  while (!first && session.statistics().rows_replicated < table.rows())
    RETURN_IF_ERROR(table.pull(all, values));
  return absl::OkStatus();
}

TEST_P(IntentTest, WhoIsLeftAloneGetsTheRows) {
  constexpr std::uint64_t kRows = 20;
  const ClusterResult result = run_cluster(over(GetParam(), 2, 2), [&](Session& session) -> absl::Status {
    auto opened = session.table<float>(dynamic(kRows, 1));
    RETURN_IF_ERROR(opened.status());
    Table<float>& table = *opened;
    const KeyRange all{0, kRows};
    std::vector<float> values(kRows);
    const bool leaves = session.rank() == 0;
    RETURN_IF_ERROR(session.barrier());
    const std::int64_t now = session.current_clock();
    if (leaves) RETURN_IF_ERROR(table.intent(all, now, now + 3));
    RETURN_IF_ERROR(share_with_second(session, table, values));
    RETURN_IF_ERROR(table.push(all, std::vector<float>(kRows, 1)));
    RETURN_IF_ERROR(session.barrier());
    RETURN_IF_ERROR(session.barrier());
    while (!leaves && session.statistics().rows_moved_by_intent < kRows) {
      RETURN_IF_ERROR(table.pull(all, values));
      RETURN_IF_ERROR(table.push(all, std::vector<float>(kRows, 1)));
      RETURN_IF_ERROR(table.push(all, std::vector<float>(kRows, -1)));
    }
    if (!leaves) RETURN_IF_ERROR(session.clock());  // drops the replicas
    if (leaves) RETURN_IF_ERROR(session.clock());
    RETURN_IF_ERROR(session.barrier());
    RETURN_IF_ERROR(table.pull(all, values));
    EXPECT_THAT(values, Each(2));
    if (!leaves) {
      const std::uint64_t before = session.statistics().rows_pulled_from_replicas;
      RETURN_IF_ERROR(table.pull(all, values));
      EXPECT_EQ(session.statistics().rows_pulled_from_replicas, before);
    }
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Worker 1 was told that the rows are shared, then worker 4 on the same node has localized them. Worker 1
/// must read what it changes in place, though it learns only now that the rows are here.
TEST_P(IntentTest, ARowThatAnotherOfTheNodeHasBroughtGetsNoReplica) {
  std::atomic<int> step = 0;
  const auto reaches = [&](int next) {
    while (step < next) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const ClusterResult result = run_cluster(over(GetParam(), 3, 5), [&](Session& session) -> absl::Status {
    RowsOfTheFirst rows(session, 3);
    RETURN_IF_ERROR(rows.open());
    Table<float>& table = rows.table();
    const auto intend = [&] { return table.intent(rows.all(), session.current_clock(), 1'000'000); };
    if (session.rank() == 1) {
      reaches(1);
      RETURN_IF_ERROR(intend());
      step = 2;
      reaches(3);
      std::vector<Key> keys(rows.kRows);
      std::iota(keys.begin(), keys.end(), Key{0});
      std::vector<float*> held(keys.size());
      absl::StatusOr<HeldRows> holding = table.hold(keys, held);
      RETURN_IF_ERROR(holding.status());
      int polls = 0;
      const bool maps_own_node = GetParam() != Maps::kNone;
      if (maps_own_node) RETURN_IF_ERROR(rows.until([&] { return ++polls == 10'000; }));
      for (float* const row : held) {
        EXPECT_EQ(row != nullptr, maps_own_node);
        if (row != nullptr) std::atomic_ref(*row).store(7, std::memory_order_relaxed);
      }
      RETURN_IF_ERROR(holding->release());
      std::vector<float> values(keys.size());
      RETURN_IF_ERROR(table.pull(keys, values));
      EXPECT_THAT(values, Each(maps_own_node ? 7 : 0));
    }
    if (session.rank() == 2) {  // on a third node
      RETURN_IF_ERROR(intend());
      RETURN_IF_ERROR(rows.until([&] { return session.statistics().rows_replicated == rows.kRows; }));
      step = 1;  // the homes know that the rows are shared
    }
    if (session.rank() == 4) {  // on worker 1's node
      reaches(2);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the homes answer worker 1
      RETURN_IF_ERROR(table.localize(rows.all()).wait());
      RETURN_IF_ERROR(rows.localize_others());
      step = 3;
    }
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Also rows that it has announced to use for long.
TEST_P(IntentTest, WhoLeavesLetsItsRowsGo) {
  constexpr std::uint64_t kRows = 20;
  const ClusterResult result = run_cluster(over(GetParam(), 2, 2), [&](Session& session) -> absl::Status {
    auto opened = session.table<float>(dynamic(kRows, 1));
    RETURN_IF_ERROR(opened.status());
    Table<float>& table = *opened;
    const KeyRange all{0, kRows};
    std::vector<float> values(kRows);
    const auto until = [&](std::uint64_t SessionStatistics::*count, std::uint64_t expected) -> absl::Status {
      while (session.statistics().*count < expected) RETURN_IF_ERROR(table.pull(all, values));
      EXPECT_EQ(session.statistics().*count, expected);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(session.barrier());
    const std::int64_t now = session.current_clock();
    if (session.rank() == 0) {
      RETURN_IF_ERROR(table.intent(all, now, now + 1'000'000));
      RETURN_IF_ERROR(until(&SessionStatistics::rows_moved_by_intent, kRows / 2));
    }
    RETURN_IF_ERROR(session.barrier());
    if (session.rank() == 1) {
      RETURN_IF_ERROR(table.intent(all, now, now + 1'000'000));
      RETURN_IF_ERROR(until(&SessionStatistics::rows_replicated, kRows));
      EXPECT_EQ(session.statistics().rows_moved_by_intent, 0U);
    }
    RETURN_IF_ERROR(session.barrier());
    if (session.rank() == 0) return absl::OkStatus();
    return until(&SessionStatistics::rows_moved_by_intent, kRows);
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Also if clocks are short and updates of replicas are sent only every few clocks: others wait for the rows.
TEST_P(IntentTest, ThatAnIntentIsOverIsToldAtOnce) {
  constexpr std::uint64_t kGroups = 4;  // their intents end at successive clocks
  constexpr std::uint64_t kGroupRows = 10;
  constexpr std::uint64_t kRows = kGroups * kGroupRows;
  constexpr std::int64_t kShortClocks = 100;
  std::atomic<std::uint64_t> moved = 0;  // to the second worker
  std::atomic<bool> is_over = false;
  const ClusterResult result = run_cluster(over(GetParam(), 2, 2), [&](Session& session) -> absl::Status {
    auto opened = session.table<float>(dynamic(kRows, 1));
    RETURN_IF_ERROR(opened.status());
    Table<float>& table = *opened;
    const KeyRange all{0, kRows};
    std::vector<float> values(kRows);
    const bool first = session.rank() == 0;
    RETURN_IF_ERROR(session.barrier());
    const std::int64_t end = session.current_clock() + kShortClocks;
    for (std::uint64_t group = 0; first && group < kGroups; ++group) {
      const KeyRange some{group * kGroupRows, (group + 1) * kGroupRows};
      RETURN_IF_ERROR(table.intent(some, session.current_clock(), end + static_cast<std::int64_t>(group)));
    }
    RETURN_IF_ERROR(share_with_second(session, table, values));
    RETURN_IF_ERROR(session.barrier());
    while (first && session.current_clock() < end - 1) RETURN_IF_ERROR(session.clock());
    for (std::uint64_t group = 1; first && group <= kGroups; ++group) {
      RETURN_IF_ERROR(session.clock());
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (moved < group * kGroupRows && std::chrono::steady_clock::now() < deadline)
        RETURN_IF_ERROR(table.pull(all, values));
      EXPECT_GE(moved, group * kGroupRows);
    }
    is_over = is_over || first;
    while (!first && !is_over) {
      RETURN_IF_ERROR(table.pull(all, values));
      moved = session.statistics().rows_moved_by_intent;
    }
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// A worker that has waited for the others' clock intends to use rows that they used in it. The rows must
/// come to it, and not count as shared.
TEST_P(IntentTest, RowsOfAClockThatIsOverAreFree) {
  const ClusterOptions options = over(GetParam(), 4, 4);
  constexpr int kTurns = 50;
  constexpr std::uint64_t kTurnRows = 10;
  constexpr std::uint64_t kOtherRows = 5'000;  // of each worker; to announce so many takes long
  std::atomic<std::uint64_t> replicated = 0;
  const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
    TableOptions many = dynamic(options.workers * kOtherRows, 1);
    many.name = "others";
    auto others = session.table<float>(many);
    RETURN_IF_ERROR(others.status());
    auto opened = session.table<float>(dynamic(options.workers * kTurnRows, 1));
    RETURN_IF_ERROR(opened.status());
    const auto turns = session.table<float>(
        {.name = "turns", .rows = 1, .width = 1, .consistency = BoundedDelay{.delay = 0}});
    RETURN_IF_ERROR(turns.status());
    RETURN_IF_ERROR(session.barrier());
    const std::uint64_t me = session.rank();
    for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
      const std::int64_t clock = session.current_clock();
      const KeyRange own{me * kOtherRows, (me + 1) * kOtherRows};
      RETURN_IF_ERROR(others->intent(own, clock, clock + 1));
      // At first these are rows of another node. For rows that are here, localize() below would not wait for
      // the home's answer, and an intent cannot end before that answer.
      const std::uint64_t group = (me + turn + 1) % options.workers;
      const KeyRange rows{group * kTurnRows, (group + 1) * kTurnRows};
      RETURN_IF_ERROR(opened->intent(rows, clock, clock + 1));
      // An intent on a row that is on its way cannot end.
      RETURN_IF_ERROR(others->localize(own).wait());
      RETURN_IF_ERROR(opened->localize(rows).wait());
      RETURN_IF_ERROR(session.clock());
    }
    replicated += session.statistics().rows_replicated;
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  // With random delays of messages, a clock and the intents that it causes now and then overtake the end of
  // an intent.
  const std::uint64_t overtaken = GetParam() == Maps::kNone ? options.workers * kTurns * kTurnRows / 10 : 0;
  EXPECT_LE(replicated, overtaken);
}

INSTANTIATE_TEST_SUITE_P(Memory, IntentTest, ::testing::Values(Maps::kAll, Maps::kOwnNode, Maps::kNone),
                         [](const auto& test) { return to_string(test.param); });

TEST(IntentsTest, WrongCallsAreRefused) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 1}, [](Session& session) -> absl::Status {
        auto fixed = session.table<float>({.name = "fixed", .rows = 10, .width = 1});
        RETURN_IF_ERROR(fixed.status());
        EXPECT_EQ(fixed->intent(KeyRange{0, 1}, 0, 1).code(), absl::StatusCode::kFailedPrecondition);
        auto opened = session.table<float>(dynamic(10, 1));
        RETURN_IF_ERROR(opened.status());
        EXPECT_EQ(opened->intent(KeyRange{5, 11}, 0, 1).code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(opened->intent(KeyRange{5, 6}, 1, 0).code(), absl::StatusCode::kInvalidArgument);
        RETURN_IF_ERROR(opened->intent(std::span<const Key>(), 0, 1));
        RETURN_IF_ERROR(opened->intent(KeyRange{5, 6}, -5, 0));
        for (int clock = 0; clock < 20; ++clock) RETURN_IF_ERROR(session.clock());
        EXPECT_EQ(session.statistics().rows_moved_by_intent, 0U)
            << "an intent whose clocks are over is ignored";
        return opened->intent(KeyRange{5, 10}, 0, 100);  // the worker leaves with this intent
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// When a session has failed, all operations on its tables have ended, and none may begin.
TEST(IntentsTest, AFailedSessionBeginsNothing) {
  ServerThreads servers({.servers = 3, .workers = 2});
  const std::vector<Key> shared = {0};
  std::vector<float> values(1);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Table<float>> tables;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    auto session = Session::connect(servers.session_options(rank));
    ASSERT_TRUE(session.ok()) << session.status();
    auto table = (*session)->table<float>(dynamic(3, 1));
    ASSERT_TRUE(table.ok()) << table.status();
    sessions.push_back(*std::move(session));
    tables.push_back(*table);
  }
  const auto intend_until = [&](std::uint32_t rank, std::int64_t from,
                                std::uint64_t SessionStatistics::*count) {
    ASSERT_TRUE(tables[rank].intent(shared, from, from + 100).ok());
    while (sessions[rank]->statistics().*count == 0)
      ASSERT_TRUE(tables[rank].pull(std::vector<Key>{1}, values).ok());
  };
  intend_until(1, 0, &SessionStatistics::rows_moved_by_intent);
  intend_until(0, 2, &SessionStatistics::rows_replicated);
  servers.stop(2);
  // Each clock reads the replica again, until one finds that the server is gone.
  absl::Status status;
  std::uint64_t refreshed = 0;
  while (status.ok()) {
    const std::int64_t use = sessions[0]->current_clock() + 2;
    static_cast<void>(tables[0].intent(shared, use, use + 1));
    refreshed = sessions[0]->statistics().rows_refreshed;
    status = sessions[0]->clock();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(sessions[0]->statistics().rows_refreshed, refreshed);
}

/// The clocks before the static table is opened have been told to no server.
TEST(IntentsTest, AStaticTableMayComeLater) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2}, [](Session& session) -> absl::Status {
        auto opened = session.table<float>(dynamic(10, 1));
        RETURN_IF_ERROR(opened.status());
        for (int clock = 0; clock < 5; ++clock) RETURN_IF_ERROR(session.clock());
        auto fixed = session.table<float>({.name = "fixed", .rows = 10, .width = 1, .consistency = Bsp{}});
        RETURN_IF_ERROR(fixed.status());
        RETURN_IF_ERROR(fixed->push(KeyRange{0, 10}, std::vector<float>(10, 1)));
        RETURN_IF_ERROR(session.clock());
        std::vector<float> values(10);
        RETURN_IF_ERROR(fixed->pull(KeyRange{0, 10}, values));
        EXPECT_THAT(values, Each(2));
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(IntentsTest, AWorkerThatIsGoneEndsTheJobByItsName) {
  for (const std::uint64_t request : {30U, 80U, 200U}) {
    const ClusterResult result = run_cluster(with_broken_worker(request), [](Session& session) {
      return count_with_intents(session, dynamic(3, session.workers()), 1'000'000);
    });
    const absl::Status ended = check_end_by_name(result, "worker 1");
    EXPECT_TRUE(ended.ok()) << "request " << request << ": " << ended;
  }
}

}  // namespace
}  // namespace verbena::testing
