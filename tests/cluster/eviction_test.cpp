// Rows of sparse tables that are taken away, in whole jobs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <vector>

#include "consistency/model.hpp"
#include "protocol/random_bits.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"

namespace verbena::testing {
namespace {

TableOptions evicting(ConsistencyModel model, std::string eviction, std::uint32_t width = 1) {
  return {.name = "rows",
          .key_space = KeySpace::kSparse,
          .width = width,
          .consistency = model,
          .initial = "constant(value=7)",
          .eviction = std::move(eviction)};
}

/// Under BSP all is known: who is gone when, whatever lanes, servers and the way to read.
TEST(EvictionTest, BspTakesRowsAwayAtAClock) {
  constexpr std::int64_t kClocks = 12;
  constexpr std::size_t kRows = 600;
  const TestRows rows(KeySpace::kSparse, kRows);
  for (const Maps maps : {Maps::kAll, Maps::kOwnNode, Maps::kNone}) {
    for (const char* const rule : {"add", "sgd(rate=1)"}) {
      ClusterOptions options = over(maps, 2, 2);
      options.lanes = 2;
      options.lanes_step = 1;
      const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
        TableOptions wanted = evicting(Bsp{}, "age(clocks=3)");
        wanted.rule = rule;
        auto table = session.table<double>(wanted);
        RETURN_IF_ERROR(table.status());
        const double step = std::string_view(rule) == "add" ? 1 : -1;
        std::vector<double> values(kRows);
        std::vector<double> expected(kRows, 7);
        std::vector<std::int64_t> pushed(kRows, -100);
        // Each row is pushed to in a run of clocks, and then not for a while that is a little too short, or a
        // little too long.
        const auto is_pushed = [](std::size_t i, std::int64_t clock) {
          return static_cast<std::uint64_t>(clock) % (3 + i % 4) == 0;
        };
        for (std::int64_t clock = 0; clock < kClocks; ++clock) {
          for (std::size_t i = 0; i < kRows; ++i) {
            if (!is_pushed(i, clock)) continue;
            if (i % 2 == session.rank())
              RETURN_IF_ERROR(table->push(std::span(&rows.all()[i], 1), {&step, 1}));
          }
          RETURN_IF_ERROR(session.clock());
          for (std::size_t i = 0; i < kRows; ++i) {
            if (is_pushed(i, clock)) {
              expected[i] += 1;
              pushed[i] = clock;
            } else if (clock - pushed[i] >= 3) {
              expected[i] = 7;
            }
          }
          RETURN_IF_ERROR(table->pull(rows.all(), values));
          for (std::size_t i = 0; i < kRows; ++i) {
            if (values[i] != expected[i]) {
              return wrong(fmt::format("{}: row {} is {} after clock {}, not {}", rule, i, values[i], clock,
                                       expected[i]));
            }
          }
          std::size_t there = 0;
          RETURN_IF_ERROR(table->scan([&](Key, std::span<const double>) {
            ++there;
            return absl::OkStatus();
          }));
          const auto there_are = static_cast<std::size_t>(
              std::count_if(expected.begin(), expected.end(), [](double value) { return value != 7; }));
          if (there != there_are) return wrong(fmt::format("a scan sees {} of {} rows", there, there_are));
        }
        return session.barrier();
      });
      EXPECT_TRUE(result.first_error().ok())
          << to_string(maps) << ' ' << rule << ": " << result.first_error();
    }
  }
}

struct Readers {
  const char* model;
  Maps maps;
  bool gathers = false;
};
class ChurnTest : public ::testing::TestWithParam<Readers> {};

/// Each key has one worker, which pushes to it in each clock of some runs of clocks; between them, the row
/// goes, and its memory becomes other keys'. A row counts the pushes of the newest run: a reader that sees
/// more has seen what the row was before, or another's row.
TEST_P(ChurnTest, NobodyReadsWhatARowWasBefore) {
  constexpr std::int64_t kClocks = 240;
  constexpr std::int64_t kRun = 8;
  constexpr std::size_t kKeys = 90;
  constexpr std::uint32_t kChurning = 3;
  constexpr std::uint32_t kValues = 4;
  const TestRows rows(KeySpace::kSparse, kKeys);
  ClusterOptions options = over(GetParam().maps, 2, kChurning);
  options.gathers = GetParam().gathers;
  const ConsistencyModel model = parse_consistency(GetParam().model).value();
  // Runs of a key come with gaps that are long enough for the row to be gone.
  const auto is_pushed = [](std::size_t i, std::int64_t clock) {
    const auto turn = static_cast<std::uint64_t>(clock / kRun);
    return turn % 2 == i / kChurning % 2 && protocol::random_bits(i * 1000 + turn) % 4 != 0;
  };
  const auto pushes = [&](std::size_t i, std::int64_t first, std::int64_t last) {
    std::int64_t sum = 0;
    for (std::int64_t clock = std::max<std::int64_t>(first, 0); clock < last; ++clock)
      sum += is_pushed(i, clock) ? 1 : 0;
    return sum;
  };
  std::atomic<std::uint64_t> seen_absent = 0;
  const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
    auto table = session.table<std::int64_t>(evicting(model, "age(clocks=1)", kValues));
    RETURN_IF_ERROR(table.status());
    const auto others =
        session.table<std::int64_t>({.name = "clocks", .rows = kChurning, .width = 1, .consistency = model});
    RETURN_IF_ERROR(others.status());
    const auto ahead = static_cast<std::int64_t>(consistency::staleness(model)) + 1;
    std::mt19937_64 random(session.rank());
    std::vector<std::int64_t> values(kKeys * kValues);
    // Handles of all keys, most of which have no row yet; all of them lose it and get another one.
    auto handles = table->locate(rows.all());
    RETURN_IF_ERROR(handles.status());
    for (std::int64_t clock = 0; clock < kClocks; ++clock) {
      for (std::size_t i = session.rank(); i < kKeys; i += kChurning) {
        if (!is_pushed(i, clock)) continue;
        const auto sign = static_cast<std::int64_t>(i + 1);
        const std::vector<std::int64_t> update(kValues, sign);
        RETURN_IF_ERROR(table->push(std::span(&rows.all()[i], 1), update));
      }
      RETURN_IF_ERROR(session.clock());
      for (int times = 0; times < 3; ++times) {
        const bool by_handles = times == 2;
        std::vector<Key> some;
        std::vector<std::size_t> which;
        for (std::size_t i = 0; i < kKeys; ++i) {
          if (!by_handles && random() % 2 == 0) continue;
          some.push_back(rows.key(i));
          which.push_back(i);
        }
        const std::span<std::int64_t> out = std::span(values).first(some.size() * kValues);
        RETURN_IF_ERROR(by_handles ? table->pull(*handles, out) : table->pull(some, out));
        for (std::size_t k = 0; k < some.size(); ++k) {
          const auto sign = static_cast<std::int64_t>(which[k] + 1);
          // A row of the run before is gone when this one begins; a whole turn lies between them.
          const std::int64_t turn = (clock + 1) / kRun;
          const std::int64_t most = pushes(which[k], (turn - 1) * kRun, clock + 1 + ahead);
          for (std::uint32_t at = 0; at < kValues; ++at) {
            const std::int64_t value = out[k * kValues + at] - 7;
            seen_absent += value == 0 ? 1 : 0;
            if (value % sign == 0 && value / sign <= most && value >= 0) continue;
            return wrong(fmt::format("row {} counts {} of {} pushes in clock {}", which[k], value / sign,
                                     most, clock + 1));
          }
        }
      }
    }
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  EXPECT_GT(seen_absent, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ChurnTest,
                         ::testing::Values(Readers{"ssp:1", Maps::kAll}, Readers{"ssp:1", Maps::kNone},
                                           Readers{"essp:1", Maps::kAll}, Readers{"essp:1", Maps::kNone},
                                           Readers{"bsp", Maps::kNone}, Readers{"ssp:0", Maps::kOwnNode},
                                           Readers{"ssp:1", Maps::kNone, true},
                                           Readers{"essp:1", Maps::kOwnNode, true}),
                         [](const auto& test) {
                           std::string name =
                               fmt::format("{}_{}{}", test.param.model, to_string(test.param.maps),
                                           test.param.gathers ? "_gathered" : "");
                           std::erase_if(name, [](char c) { return c == ':' || c == ' '; });
                           return name;
                         });

/// Ten times as many keys come as there is room for: some pushes make no row, but the table stays within its
/// memory, and those that are pushed to all the time keep theirs.
TEST(EvictionTest, ALimitedTableKeepsWhatIsUsed) {
  constexpr std::size_t kRoom = 20'000;
  constexpr std::size_t kHot = 2'000;
  constexpr std::size_t kBatch = 1'000;
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 2}, [&](Session& session) -> absl::Status {
        auto table = session.table<float>(evicting(Ssp{1}, "lru(most_mb=1)", 1));
        RETURN_IF_ERROR(table.status());
        const TestRows hot(KeySpace::kSparse, kHot);
        const std::vector<float> ones(kBatch, 1);
        std::mt19937_64 random(session.rank() + 1);
        std::size_t most_seen = 0;
        for (std::size_t come = 0; come < 10 * kRoom; come += kBatch) {
          std::vector<Key> keys(kBatch);
          std::generate(keys.begin(), keys.end(), std::ref(random));
          RETURN_IF_ERROR(table->push(hot.all(), std::vector<float>(kHot, 1)));
          RETURN_IF_ERROR(table->push(keys, ones));
          RETURN_IF_ERROR(session.clock());
          // Reads alone hold a worker back. All that one pushes which is far ahead counts as equally old.
          float value = 0;
          RETURN_IF_ERROR(table->pull(hot.all().first(1), {&value, 1}));
          if (come % (20 * kBatch) != 0) continue;
          const auto memory = table->memory();
          RETURN_IF_ERROR(memory.status());
          const std::uint64_t of_rows = memory->value_bytes + memory->state_bytes + memory->book_bytes;
          if (of_rows > 1'000'000) return wrong(fmt::format("rows take {} bytes", of_rows));
          most_seen = std::max(most_seen, static_cast<std::size_t>(memory->rows));
        }
        RETURN_IF_ERROR(session.barrier());
        if (most_seen > 1'000'000 / 48 || most_seen < 10'000) return wrong(fmt::format("{} rows", most_seen));
        std::vector<float> values(kHot);
        RETURN_IF_ERROR(table->pull(hot.all(), values));
        for (const float value : values) {
          if (value != 7 + 2 * 10 * kRoom / kBatch)
            return wrong(fmt::format("a row that is used is {}", value));
        }
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// More than may be gone under other models: under BSP the clock is the bound.
TEST(EvictionTest, BspTakesAllRowsThatAreDue) {
  constexpr std::size_t kRows = 20'000;
  const TestRows rows(KeySpace::kSparse, kRows);
  for (const std::uint32_t lanes : {1U, 3U}) {
    ClusterOptions options{.servers = 1, .workers = 2};
    options.lanes = lanes;
    const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
      auto table = session.table<double>(evicting(Bsp{}, "age(clocks=1)"));
      RETURN_IF_ERROR(table.status());
      if (session.rank() == 0) RETURN_IF_ERROR(table->push(rows.all(), std::vector<double>(kRows, 1.0)));
      RETURN_IF_ERROR(session.clock());
      RETURN_IF_ERROR(session.clock());
      RETURN_IF_ERROR(session.clock());
      const auto memory = table->memory();
      RETURN_IF_ERROR(memory.status());
      return memory->rows == 0 ? absl::OkStatus() : wrong(fmt::format("{} rows are there", memory->rows));
    });
    EXPECT_TRUE(result.first_error().ok()) << lanes << " lanes: " << result.first_error();
  }
}

TEST(EvictionTest, TheNormDecides) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [&](Session& session) -> absl::Status {
        TableOptions options = evicting(Bsp{}, "norm(least=5,clocks=1)", 2);
        options.initial = "zero";
        auto table = session.table<float>(options);
        RETURN_IF_ERROR(table.status());
        RETURN_IF_ERROR(table->push(std::vector<Key>{1, 2}, std::vector<float>{3, 3, -4, 3}));
        for (int clock = 0; clock < 3; ++clock) RETURN_IF_ERROR(session.clock());
        std::vector<float> values(4);
        RETURN_IF_ERROR(table->pull(std::vector<Key>{1, 2}, values));
        EXPECT_THAT(values, ::testing::ElementsAre(0, 0, -4, 3));
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(EvictionTest, MemoryIsToldByPart) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2, .lanes = 2}, [&](Session& session) -> absl::Status {
        auto dense = session.table<float>(
            {.name = "dense", .rows = 1000, .width = 4, .consistency = Ssp{1}, .rule = "adagrad"});
        RETURN_IF_ERROR(dense.status());
        const auto memory = dense->memory();
        RETURN_IF_ERROR(memory.status());
        EXPECT_EQ(memory->rows, 1000);
        EXPECT_EQ(memory->value_bytes, 16'000);
        EXPECT_EQ(memory->state_bytes, 16'000);
        EXPECT_EQ(memory->bytes(), 32'000);
        auto sparse = session.table<float>(evicting(Ssp{1}, "age"));
        RETURN_IF_ERROR(sparse.status());
        const TestRows rows(KeySpace::kSparse, 500);
        RETURN_IF_ERROR(sparse->push(rows.all(), std::vector<float>(500, 1)));
        RETURN_IF_ERROR(session.barrier());
        const auto of_sparse = sparse->memory();
        RETURN_IF_ERROR(of_sparse.status());
        EXPECT_EQ(of_sparse->rows, 500);
        EXPECT_EQ(of_sparse->value_bytes, 500 * 16);
        EXPECT_EQ(of_sparse->book_bytes, 500 * 8);
        EXPECT_GT(of_sparse->index_bytes, 500 * 8);
        EXPECT_EQ(of_sparse->refused, 0);
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(EvictionTest, WhatDoesNotGoTogetherIsRefused) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [&](Session& session) -> absl::Status {
        const auto dense = session.table<float>({.name = "dense", .rows = 3, .width = 1, .eviction = "age"});
        EXPECT_THAT(message_of(dense.status()), ::testing::HasSubstr("for sparse tables"));
        const auto unknown = session.table<float>(evicting(Bsp{}, "old"));
        EXPECT_THAT(message_of(unknown.status()), ::testing::HasSubstr("expected never, age"));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::testing
