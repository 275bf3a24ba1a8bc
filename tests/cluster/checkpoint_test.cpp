// Checkpoints of whole jobs: what was saved is what is read back, by any number of servers, and a run that
// goes on from one does what the first one did.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/temporary_folder.hpp"
#include <verbena/table.hpp>

namespace verbena::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kSavedRows = 37;
constexpr std::uint32_t kSavedWidth = 3;  // a row has padding
constexpr std::int64_t kClocksBefore = 3;
constexpr std::int64_t kClocksAfter = 2;
/// So that hashes come to all parts of all servers.
constexpr std::uint64_t kSparseKeys = 300;

std::vector<std::byte> as_state(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Key sparse_key(std::uint64_t number) {
  return number * 0x9e3779b97f4a7c15U;
}

/// A worker's tables: dense and sparse, with rules that keep something of each row, and one whose rows move.
struct SavedTables {
  Table<float> dense;
  Table<float> sparse;
  Table<double> plain;
  std::optional<Table<std::int64_t>> moving;
};

absl::StatusOr<SavedTables> open_tables(Session& session, bool with_moving) {
  const auto dense = session.table<float>({.name = "dense",
                                           .rows = kSavedRows,
                                           .width = kSavedWidth,
                                           .consistency = Bsp{},
                                           .rule = "adagrad(rate=0.1)"});
  if (!dense.ok()) return dense.status();
  const auto sparse = session.table<float>({.name = "sparse",
                                            .key_space = KeySpace::kSparse,
                                            .width = kSavedWidth,
                                            .consistency = Bsp{},
                                            .rule = "adagrad(rate=0.1)",
                                            .initial = "uniform(low=-0.5,high=0.5)",
                                            .seed = 7,
                                            .admission = "count(least=3)",
                                            .eviction = "age(clocks=1000)"});
  if (!sparse.ok()) return sparse.status();
  const auto plain = session.table<double>(
      {.name = "plain", .rows = kSavedRows, .width = 1, .consistency = Ssp{.staleness = 1}});
  if (!plain.ok()) return plain.status();
  SavedTables tables{*dense, *sparse, *plain, std::nullopt};
  if (with_moving) {
    const auto moving = session.table<std::int64_t>({.name = "moving",
                                                     .rows = kSavedRows,
                                                     .width = 2,
                                                     .consistency = Sequential{},
                                                     .allocation = Allocation::kDynamic});
    if (!moving.ok()) return moving.status();
    tables.moving = *moving;
  }
  return tables;
}

/// What a worker pushes in a clock. A third of the sparse keys come in each clock, so that some have their
/// rows before a checkpoint, some after it, and some never.
absl::Status push_clock(Session& session, SavedTables& tables) {
  const std::int64_t clock = session.current_clock();
  const auto number = static_cast<float>(clock * 10 + session.rank() + 1);
  std::vector<Key> keys(kSavedRows);
  std::iota(keys.begin(), keys.end(), Key{0});
  std::vector<float> updates(kSavedRows * kSavedWidth);
  for (std::size_t i = 0; i < updates.size(); ++i) updates[i] = number / static_cast<float>(i + 3);
  RETURN_IF_ERROR(tables.dense.push(keys, updates));
  std::vector<Key> some;
  for (std::uint64_t i = session.rank(); i < kSparseKeys; ++i) {
    if ((i + static_cast<std::uint64_t>(clock)) % 3 != 0) some.push_back(sparse_key(i));
  }
  RETURN_IF_ERROR(tables.sparse.push(some, std::vector<float>(some.size() * kSavedWidth, number / 7)));
  RETURN_IF_ERROR(tables.plain.push(keys, std::vector<double>(kSavedRows, 1)));
  if (!tables.moving) return absl::OkStatus();
  std::vector<Key> mine;
  for (Key key = 0; key < kSavedRows; ++key) {
    if ((key + static_cast<Key>(clock)) % session.workers() == session.rank()) mine.push_back(key);
  }
  RETURN_IF_ERROR(tables.moving->localize(mine).wait());
  return tables.moving->push(keys, std::vector<std::int64_t>(kSavedRows * 2, clock + 1));
}

/// Of all rows, bit by bit.
struct AllRows {
  std::vector<float> dense = std::vector<float>(kSavedRows * kSavedWidth);
  std::vector<float> sparse = std::vector<float>(kSparseKeys * kSavedWidth);
  std::vector<double> plain = std::vector<double>(kSavedRows);
  std::vector<std::int64_t> moving = std::vector<std::int64_t>(kSavedRows * 2);

  friend bool operator==(const AllRows& a, const AllRows& b) {
    const auto same = [](const auto& x, const auto& y) {
      return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0;
    };
    return same(a.dense, b.dense) && same(a.sparse, b.sparse) && a.plain == b.plain && a.moving == b.moving;
  }
};

absl::StatusOr<AllRows> pull_all(SavedTables& tables) {
  AllRows all;
  RETURN_IF_ERROR(tables.dense.pull(KeyRange{0, kSavedRows}, all.dense));
  std::vector<Key> keys;
  for (std::uint64_t i = 0; i < kSparseKeys; ++i) keys.push_back(sparse_key(i));
  RETURN_IF_ERROR(tables.sparse.pull(keys, all.sparse));
  RETURN_IF_ERROR(tables.plain.pull(KeyRange{0, kSavedRows}, all.plain));
  if (tables.moving) RETURN_IF_ERROR(tables.moving->pull(KeyRange{0, kSavedRows}, all.moving));
  return all;
}

class CheckpointTest : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] std::string folder() const { return folder_.path("checkpoints"); }
  [[nodiscard]] std::string checkpoint(std::int64_t clock) const {
    return fmt::format("{}/ckpt-{}", folder(), clock);
  }

  /// Trains, makes a checkpoint in between, and returns the rows at the checkpoint and at the end.
  std::pair<AllRows, AllRows> run_from_the_beginning(const ClusterOptions& options, bool with_moving) {
    std::pair<AllRows, AllRows> rows;
    const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
      absl::StatusOr<SavedTables> tables = open_tables(session, with_moving);
      if (!tables.ok()) return tables.status();
      for (std::int64_t i = 0; i < kClocksBefore; ++i) {
        RETURN_IF_ERROR(push_clock(session, *tables));
        if (i + 1 < kClocksBefore) RETURN_IF_ERROR(session.clock());
      }
      RETURN_IF_ERROR(session.checkpoint({.folder = folder(), .notes = {{"data", "none"}}},
                                         as_state(fmt::format("worker {}", session.rank()))));
      return go_on(session, *tables, rows);
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    return rows;
  }

  static absl::Status go_on(Session& session, SavedTables& tables, std::pair<AllRows, AllRows>& rows) {
    const auto pull = [&](AllRows& to) -> absl::Status {
      const absl::StatusOr<AllRows> all = pull_all(tables);
      if (!all.ok()) return all.status();
      if (session.rank() == 0) to = *all;
      return session.barrier();
    };
    RETURN_IF_ERROR(pull(rows.first));
    for (std::int64_t i = 0; i < kClocksAfter; ++i) {
      RETURN_IF_ERROR(push_clock(session, tables));
      RETURN_IF_ERROR(session.clock());
    }
    RETURN_IF_ERROR(session.barrier());
    return pull(rows.second);
  }

  std::pair<AllRows, AllRows> resume(ClusterOptions options, bool with_moving) {
    options.resume = checkpoint(kClocksBefore);
    std::pair<AllRows, AllRows> rows;
    const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
      EXPECT_EQ(session.current_clock(), kClocksBefore);
      const auto state = session.resumed_state();
      if (!state.ok()) return state.status();
      EXPECT_EQ(*state, as_state(fmt::format("worker {}", session.rank())));
      absl::StatusOr<SavedTables> tables = open_tables(session, with_moving);
      if (!tables.ok()) return tables.status();
      return go_on(session, *tables, rows);
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    return rows;
  }

  TemporaryFolder folder_;
};

TEST_P(CheckpointTest, GoesOnAsIfNothingHadHappenedOnAnyNumberOfServers) {
  const bool with_moving = GetParam();
  const auto expected =
      run_from_the_beginning({.servers = 2, .workers = 2, .lanes = 2, .lanes_step = 1}, with_moving);
  const auto summary = read_checkpoint(checkpoint(kClocksBefore));
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->workers, 2);
  EXPECT_EQ(summary->servers, 2);
  EXPECT_EQ(summary->notes, (std::map<std::string, std::string>{{"data", "none"}}));
  for (const std::uint32_t servers : {1U, 2U, 3U, 5U}) {
    SCOPED_TRACE(fmt::format("{} servers", servers));
    const auto resumed = resume(
        {.servers = servers, .workers = 2, .lanes = 1, .lanes_step = 1, .server_threads = 2}, with_moving);
    EXPECT_TRUE(resumed.first == expected.first) << "right after the checkpoint";
    EXPECT_TRUE(resumed.second == expected.second) << "in the end";
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, CheckpointTest, ::testing::Bool(), [](const auto& moving) {
  return moving.param ? "WithRowsThatMove" : "WithRowsThatStay";
});

/// The first worker to leave the barrier pushes at once: none of that may be in the checkpoint.
class CutTest : public CheckpointTest {};

TEST_P(CutTest, IsOfOneMoment) {
  constexpr int kRounds = 20;
  const ClusterOptions options{.servers = 3, .workers = 3, .lanes = 2, .server_threads = 2};
  const auto open = [](Session& session) {
    return session.table<std::int64_t>(
        {.name = "counts",
         .rows = kSavedRows,
         .width = 1,
         .consistency = GetParam() ? ConsistencyModel(Asp{}) : Ssp{.staleness = 5},
         .allocation = Allocation::kStatic});
  };
  const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
    auto counts = open(session);
    if (!counts.ok()) return counts.status();
    const std::vector<std::int64_t> ones(kSavedRows, 1);
    for (int round = 0; round < kRounds; ++round) {
      RETURN_IF_ERROR(counts->push(KeyRange{0, kSavedRows}, ones));
      RETURN_IF_ERROR(session.checkpoint({.folder = folder(), .keep = kRounds}, {}));
    }
    return session.finish_checkpoint();
  });
  ASSERT_TRUE(result.first_error().ok()) << result.first_error();
  for (int round = 1; round <= kRounds; round += 6) {
    ClusterOptions again{.servers = 1, .workers = 3};
    again.resume = checkpoint(round);
    const ClusterResult resumed = run_cluster(again, [&](Session& session) -> absl::Status {
      auto counts = open(session);
      if (!counts.ok()) return counts.status();
      std::vector<std::int64_t> found(kSavedRows);
      RETURN_IF_ERROR(counts->pull(KeyRange{0, kSavedRows}, found));
      EXPECT_EQ(found, std::vector<std::int64_t>(kSavedRows, 3 * round));
      return absl::OkStatus();
    });
    EXPECT_TRUE(resumed.first_error().ok()) << resumed.first_error();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CutTest, ::testing::Bool(),
                         [](const auto& has_no_bound) { return has_no_bound.param ? "Asp" : "Ssp"; });

class CheckpointErrorTest : public CheckpointTest {};

/// Keys come, are pushed to again, and are evicted, from one checkpoint to the next; rows of one table move.
class IncrementTest : public CheckpointTest {
 protected:
  static constexpr std::int64_t kCheckpoints = 7;
  static constexpr std::uint32_t kIncrements = 2;  // so that 1, 4 and 7 have all rows
  static constexpr std::uint64_t kRows = 400;
  static constexpr std::uint64_t kKeys = 600;

  struct Tables {
    Table<std::int64_t> dense;
    Table<float> sparse;
    Table<std::int64_t> moving;
  };
  static absl::StatusOr<Tables> open(Session& session) {
    const auto dense = session.table<std::int64_t>({.name = "dense",
                                                    .rows = kRows,
                                                    .width = 1,
                                                    .consistency = Bsp{},
                                                    .allocation = Allocation::kStatic});
    if (!dense.ok()) return dense.status();
    const auto sparse = session.table<float>({.name = "sparse",
                                              .key_space = KeySpace::kSparse,
                                              .width = 2,
                                              .consistency = Bsp{},
                                              .rule = "adagrad(rate=0.1)",
                                              .eviction = "age(clocks=3)"});
    if (!sparse.ok()) return sparse.status();
    const auto moving = session.table<std::int64_t>({.name = "moving",
                                                     .rows = kRows,
                                                     .width = 1,
                                                     .consistency = Sequential{},
                                                     .allocation = Allocation::kDynamic});
    if (!moving.ok()) return moving.status();
    return Tables{*dense, *sparse, *moving};
  }
  /// A few keys of each table, others in each clock.
  static absl::Status push(Session& session, Tables& tables) {
    const auto clock = static_cast<std::uint64_t>(session.current_clock());
    std::vector<Key> few;
    for (std::uint64_t i = 0; i < 20; ++i) few.push_back((clock * 50 + i * 3 + session.rank()) % kRows);
    RETURN_IF_ERROR(tables.dense.push(few, std::vector<std::int64_t>(few.size(), 1)));
    std::vector<Key> keys;
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      if (i % 8 == clock % 8 || i < 30) keys.push_back(sparse_key(i));
    }
    RETURN_IF_ERROR(tables.sparse.push(keys, std::vector<float>(keys.size() * 2, 0.5F)));
    RETURN_IF_ERROR(tables.moving.localize(few).wait());
    return tables.moving.push(few, std::vector<std::int64_t>(few.size(), 1));
  }
  struct Rows {
    std::vector<std::int64_t> dense = std::vector<std::int64_t>(kRows);
    std::vector<float> sparse = std::vector<float>(kKeys * 2);
    std::vector<std::int64_t> moving = std::vector<std::int64_t>(kRows);
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  static absl::StatusOr<Rows> pull(Tables& tables) {
    Rows rows;
    RETURN_IF_ERROR(tables.dense.pull(KeyRange{0, kRows}, rows.dense));
    std::vector<Key> keys;
    for (std::uint64_t i = 0; i < kKeys; ++i) keys.push_back(sparse_key(i));
    RETURN_IF_ERROR(tables.sparse.pull(keys, rows.sparse));
    RETURN_IF_ERROR(tables.moving.pull(KeyRange{0, kRows}, rows.moving));
    return rows;
  }
  [[nodiscard]] bool has_all(std::int64_t clock) const {
    return !absl::StrContains(contents(checkpoint(clock) + "/manifest.json"), "\"since\"");
  }
  [[nodiscard]] std::uintmax_t bytes_of(std::int64_t clock) const {
    std::uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoint(clock)))
      if (entry.path().filename() != "manifest.json") bytes += entry.file_size();
    return bytes;
  }
};

TEST_F(IncrementTest, EachIsWhatTheRowsWere) {
  std::vector<Rows> expected(kCheckpoints + 1);
  const ClusterOptions options{.servers = 2, .workers = 2, .lanes = 2, .lanes_step = 1};
  const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
    auto tables = open(session);
    if (!tables.ok()) return tables.status();
    for (std::int64_t i = 1; i <= kCheckpoints; ++i) {
      RETURN_IF_ERROR(push(session, *tables));
      RETURN_IF_ERROR(
          session.checkpoint({.folder = folder(), .keep = kCheckpoints, .increments = kIncrements}, {}));
      const absl::StatusOr<Rows> rows = pull(*tables);
      if (!rows.ok()) return rows.status();
      if (session.rank() == 0) expected[static_cast<std::size_t>(i)] = *rows;
      RETURN_IF_ERROR(session.barrier());
    }
    return session.finish_checkpoint();
  });
  ASSERT_TRUE(result.first_error().ok()) << result.first_error();
  // Barriers after pulls are clocks, too.
  std::vector<std::int64_t> clocks;
  for (std::int64_t i = 1; i <= kCheckpoints; ++i) clocks.push_back(2 * i - 1);
  EXPECT_LT(bytes_of(clocks[1]), bytes_of(clocks[0]));
  EXPECT_LT(bytes_of(clocks[2]), bytes_of(clocks[0]));
  EXPECT_GT(bytes_of(clocks[3]), bytes_of(clocks[2]));
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    for (const std::uint32_t servers : {1U, 3U}) {
      ClusterOptions again{
          .servers = servers, .workers = 2, .lanes = 1, .lanes_step = 1, .server_threads = 2};
      again.resume = checkpoint(clocks[i]);
      const ClusterResult resumed = run_cluster(again, [&](Session& session) -> absl::Status {
        auto tables = open(session);
        if (!tables.ok()) return tables.status();
        const absl::StatusOr<Rows> rows = pull(*tables);
        if (!rows.ok()) return rows.status();
        EXPECT_TRUE(*rows == expected[i + 1]) << "checkpoint " << i + 1 << ", " << servers << " servers";
        return session.barrier();
      });
      EXPECT_TRUE(resumed.first_error().ok()) << resumed.first_error();
    }
  }
}

/// After one that could not be written comes one with all rows: nobody knows what the servers have seen of
/// it.
TEST_F(IncrementTest, AFailedOneIsNothingToBuildUpon) {
  write_file(folder_.path("file"), "in the way");
  const ClusterResult result = run_cluster({}, [&](Session& session) -> absl::Status {
    auto tables = open(session);
    if (!tables.ok()) return tables.status();
    const CheckpointOptions good{.folder = folder(), .keep = 9, .increments = 9};
    CheckpointOptions impossible = good;
    impossible.folder = folder_.path("file") + "/checkpoints";
    for (const CheckpointOptions* const options : {&good, &good, &std::as_const(impossible), &good, &good}) {
      RETURN_IF_ERROR(push(session, *tables));
      RETURN_IF_ERROR(session.checkpoint(*options, {}));
      EXPECT_EQ(session.finish_checkpoint().ok(), options == &good);
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.first_error().ok()) << result.first_error();
  EXPECT_TRUE(has_all(1));
  EXPECT_FALSE(has_all(2));
  EXPECT_TRUE(has_all(4));
  EXPECT_FALSE(has_all(5));
}

/// Servers compare only with what they were told to remember.
TEST_F(IncrementTest, OneThatIsNoBaseIsNothingToBuildUpon) {
  const ClusterResult result = run_cluster({}, [&](Session& session) -> absl::Status {
    auto tables = open(session);
    if (!tables.ok()) return tables.status();
    for (const std::uint32_t increments : {0U, 5U, 5U}) {
      RETURN_IF_ERROR(push(session, *tables));
      RETURN_IF_ERROR(session.checkpoint({.folder = folder(), .keep = 9, .increments = increments}, {}));
      RETURN_IF_ERROR(session.finish_checkpoint());
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.first_error().ok()) << result.first_error();
  EXPECT_TRUE(has_all(1));
  EXPECT_TRUE(has_all(2));
  EXPECT_FALSE(has_all(3));
}

/// One worker is in the barrier long before the other has pushed, and has moved rows.
TEST_F(CheckpointErrorTest, RowsThatMoveAreCopiedWhenTheLastWorkerIsThere) {
  const auto open = [](Session& session) {
    return session.table<std::int64_t>({.name = "moving",
                                        .rows = kSavedRows,
                                        .width = 1,
                                        .consistency = Sequential{},
                                        .allocation = Allocation::kDynamic});
  };
  const ClusterResult result = run_cluster({}, [&](Session& session) -> absl::Status {
    auto moving = open(session);
    if (!moving.ok()) return moving.status();
    if (session.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    RETURN_IF_ERROR(moving->localize(KeyRange{0, kSavedRows}).wait());
    RETURN_IF_ERROR(moving->push(KeyRange{0, kSavedRows}, std::vector<std::int64_t>(kSavedRows, 1)));
    return session.checkpoint({.folder = folder()}, {});
  });
  ASSERT_TRUE(result.first_error().ok()) << result.first_error();
  ClusterOptions again{.servers = 3};
  again.resume = checkpoint(1);
  const ClusterResult resumed = run_cluster(again, [&](Session& session) -> absl::Status {
    auto moving = open(session);
    if (!moving.ok()) return moving.status();
    std::vector<std::int64_t> found(kSavedRows);
    RETURN_IF_ERROR(moving->pull(KeyRange{0, kSavedRows}, found));
    EXPECT_EQ(found, std::vector<std::int64_t>(kSavedRows, 2));
    return absl::OkStatus();
  });
  EXPECT_TRUE(resumed.first_error().ok()) << resumed.first_error();
}

TEST_F(CheckpointErrorTest, WhatCannotBeWrittenStopsNobody) {
  write_file(folder_.path("file"), "in the way");
  const ClusterResult result = run_cluster({}, [&](Session& session) -> absl::Status {
    auto tables = open_tables(session, false);
    if (!tables.ok()) return tables.status();
    const CheckpointOptions impossible{.folder = folder_.path("file") + "/checkpoints"};
    for (int i = 0; i < 2; ++i) {
      RETURN_IF_ERROR(push_clock(session, *tables));
      RETURN_IF_ERROR(session.checkpoint(impossible, {}));
      const absl::Status failed = session.finish_checkpoint();
      EXPECT_FALSE(failed.ok());
      EXPECT_THAT(message_of(failed), HasSubstr(folder_.path("file")));
    }
    RETURN_IF_ERROR(session.checkpoint({.folder = folder()}, {}));
    return session.finish_checkpoint();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  EXPECT_TRUE(newest_checkpoint(folder()).ok());
}

TEST_F(CheckpointErrorTest, TablesNeedNamesThatCanBeShown) {
  const ClusterResult result = run_cluster({}, [&](Session& session) -> absl::Status {
    RETURN_IF_ERROR(session.table<float>({.name = std::string(256, 'n'), .rows = 1, .width = 1}).status());
    RETURN_IF_ERROR(session.checkpoint({.folder = folder()}, {}));
    RETURN_IF_ERROR(session.finish_checkpoint());
    RETURN_IF_ERROR(session.table<float>({.name = "a\nb", .rows = 1, .width = 1}).status());
    const absl::Status refused = session.checkpoint({.folder = folder()}, {});
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(message_of(refused), HasSubstr("table \"a\\nb\": expected a name"));
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST_F(CheckpointErrorTest, KeepsAsManyAsItIsTold) {
  const ClusterResult result = run_cluster({}, [&](Session& session) -> absl::Status {
    auto tables = open_tables(session, false);
    if (!tables.ok()) return tables.status();
    for (int i = 0; i < 5; ++i) RETURN_IF_ERROR(session.checkpoint({.folder = folder(), .keep = 2}, {}));
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"ckpt-4", "ckpt-5"}));
}

TEST_F(CheckpointErrorTest, OtherTablesAreRefusedByName) {
  static_cast<void>(run_from_the_beginning({}, false));
  const auto refusal = [&](const TableOptions& options) {
    ClusterOptions again;
    again.resume = checkpoint(kClocksBefore);
    const ClusterResult result =
        run_cluster(again, [&](Session& session) { return session.table<float>(options).status(); });
    EXPECT_FALSE(result.workers[0].ok());
    return message_of(result.first_error());
  };
  EXPECT_THAT(refusal({.name = "another", .rows = kSavedRows, .width = 3, .consistency = Bsp{}}),
              HasSubstr("has no table \"another\""));
  EXPECT_THAT(refusal({.name = "dense",
                       .rows = kSavedRows,
                       .width = 4,
                       .consistency = Bsp{},
                       .rule = "adagrad(rate=0.1)"}),
              HasSubstr("width"));
}

/// A flipped bit is found by newest_checkpoint(), which names the file and takes the one before.
TEST_F(CheckpointErrorTest, DamageIsFoundAndAnOlderOneTaken) {
  const ClusterResult result = run_cluster({}, [&](Session& session) -> absl::Status {
    auto tables = open_tables(session, false);
    if (!tables.ok()) return tables.status();
    for (int i = 0; i < 2; ++i) {
      RETURN_IF_ERROR(push_clock(session, *tables));
      RETURN_IF_ERROR(session.checkpoint({.folder = folder()}, {}));
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.first_error().ok()) << result.first_error();
  const std::string damaged = checkpoint(2) + "/server-1";
  std::string bytes = contents(damaged);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_file(damaged, bytes);
  std::vector<std::string> passed_over;
  const auto newest = newest_checkpoint(folder(), &passed_over);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->clock, 1);
  ASSERT_EQ(passed_over.size(), 1);
  EXPECT_THAT(passed_over[0], HasSubstr("server-1"));
  // Who takes the damaged one all the same hears of it, and trains on nothing half-loaded.
  ClusterOptions again;
  again.resume = checkpoint(2);
  const ClusterResult resumed =
      run_cluster(again, [&](Session& session) { return open_tables(session, false).status(); });
  // The server that has found it says so; the others hear of it from one another.
  EXPECT_THAT(message_of(resumed.first_error()), HasSubstr("ckpt-2/server-1"));
}

/// Workers that were not there when it was saved have no state.
TEST_F(CheckpointErrorTest, AnotherNumberOfWorkersHasNoState) {
  static_cast<void>(run_from_the_beginning({}, false));
  ClusterOptions again{.workers = 3};
  again.resume = checkpoint(kClocksBefore);
  const ClusterResult result = run_cluster(again, [&](Session& session) -> absl::Status {
    const auto state = session.resumed_state();
    EXPECT_EQ(state.ok(), session.rank() < 2);
    if (!state.ok()) {
      EXPECT_EQ(state.status().code(), absl::StatusCode::kNotFound);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::testing
