// Sparse tables in whole jobs: growth while others read, initial values, update rules, eager pushes, and what
// is refused. tests/cluster/consistency_test.cpp checks the promises of all models.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "protocol/admission.hpp"
#include "protocol/initial_values.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"
#include "tests/key_with_hash.hpp"

namespace verbena::testing {
namespace {

/// Keys anywhere; then more than a segment has room for, whose hashes agree in all bits of the lane and the
/// first 12 that say which segment, so that the directory becomes larger than a root has room for.
std::vector<Key> growing_keys(std::size_t anywhere) {
  std::vector<Key> keys;
  std::mt19937_64 random(5);
  for (std::size_t i = 0; i < anywhere; ++i) keys.push_back(random());
  constexpr std::uint64_t kFixedBits = ((std::uint64_t{1} << 12) - 1) << 30 | std::uint64_t{1} << 63;
  for (std::uint64_t i = 0; i < 6'000; ++i) keys.push_back(key_with_hash(random() & ~kFixedBits));
  return keys;
}

struct Reading {
  const char* name = "";
  ReadPath path = ReadPath::kInPlace;
  bool gathers = false;
};
class GrowthTest : public ::testing::TestWithParam<Reading> {};

/// The values of a row are its key's lower half, which is pushed once. A reader must see the key's row as
/// soon as it has been told that the push is applied, and nothing else than the row or no row before.
TEST_P(GrowthTest, ReadersSeeEachRowWhileTheTableGrows) {
  const std::vector<Key> keys = growing_keys(300'000);
  std::atomic<std::size_t> pushed = 0;
  const auto value_of = [](Key key) { return static_cast<std::int64_t>(key >> 1 | 1); };
  const ClusterResult result = run_cluster(
      {.servers = 1,
       .workers = 2,
       .lanes = 2,
       .server_threads = 3,
       .read_path = GetParam().path,
       .gathers = GetParam().gathers},
      [&](Session& session) -> absl::Status {
        const bool reads = session.rank() == 1;
        auto table = session.table<std::int64_t>(
            {.name = "rows", .key_space = KeySpace::kSparse, .width = 1, .consistency = Asp{}});
        RETURN_IF_ERROR(table.status());
        constexpr std::size_t kBatch = 1000;
        std::vector<std::int64_t> values(kBatch);
        std::mt19937_64 random(session.rank());
        for (std::size_t done = 0; !reads && done < keys.size(); done += kBatch) {
          const auto batch = std::span(keys).subspan(done, std::min(kBatch, keys.size() - done));
          std::transform(batch.begin(), batch.end(), values.begin(), value_of);
          RETURN_IF_ERROR(table->push(batch, std::span(values).first(batch.size())));
          RETURN_IF_ERROR(session.barrier());
          pushed = done + batch.size();
        }
        if (!reads) return absl::OkStatus();
        std::vector<Key> some(200);
        values.resize(some.size());
        for (std::size_t barriers = 0; barriers < (keys.size() + kBatch - 1) / kBatch; ++barriers) {
          const std::size_t known = pushed;
          for (Key& key : some)
            key = keys[std::uniform_int_distribution<std::size_t>(0, keys.size() - 1)(random)];
          if (known > 0) {
            for (std::size_t i = 0; i < some.size() / 2; ++i) some[i] = keys[random() % known];
          }
          RETURN_IF_ERROR(table->pull(some, values));
          for (std::size_t i = 0; i < some.size(); ++i) {
            const bool must_be_there = known > 0 && i < some.size() / 2;
            if (values[i] == value_of(some[i]) || (!must_be_there && values[i] == 0)) continue;
            return wrong(fmt::format("key {}: {}, after {} keys", some[i], values[i], known));
          }
          RETURN_IF_ERROR(session.barrier());
        }
        values.resize(keys.size());
        RETURN_IF_ERROR(table->pull(keys, values));
        for (std::size_t i = 0; i < keys.size(); ++i) {
          if (values[i] != value_of(keys[i])) return wrong(fmt::format("key {} in the end", keys[i]));
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}
INSTANTIATE_TEST_SUITE_P(Paths, GrowthTest,
                         ::testing::Values(Reading{"InPlace", ReadPath::kInPlace},
                                           Reading{"FromAfar", ReadPath::kCached},
                                           Reading{"Gathered", ReadPath::kCached, true}),
                         [](const auto& test) { return std::string(test.param.name); });

/// The first pulls of a size go both ways, of which the session then knows the better one.
TEST(SparseTableTest, RowsFromAfarComeBothWaysAtFirst) {
  ClusterOptions options = over(Maps::kNone, 1, 1);
  const ClusterResult result = run_cluster(options, [](Session& session) -> absl::Status {
    auto table = session.table<float>(
        {.name = "rows", .key_space = KeySpace::kSparse, .width = 16, .consistency = Sequential{}});
    RETURN_IF_ERROR(table.status());
    std::vector<Key> keys(100);
    std::iota(keys.begin(), keys.end(), Key{1});
    std::vector<float> values(keys.size() * 16, 1);
    RETURN_IF_ERROR(table->push(keys, values));
    RETURN_IF_ERROR(session.barrier());
    std::uint64_t gathering_pulls = 0;
    for (int pull = 0; pull < 8; ++pull) {
      const std::uint64_t before = session.statistics().rows_gathered;
      RETURN_IF_ERROR(table->pull(keys, values));
      const std::uint64_t gathered = session.statistics().rows_gathered - before;
      if (gathered != 0 && gathered != keys.size()) return wrong("a part of the rows was gathered");
      gathering_pulls += gathered / keys.size();
      if (!std::all_of(values.begin(), values.end(), [](float value) { return value == 1; }))
        return wrong("a row has other values");
    }
    if (gathering_pulls != 4)
      return wrong(fmt::format("{} of the first 8 pulls were gathered", gathering_pulls));
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Rows that are gathered: narrow and wide ones, those that there are not, own updates that are not sent and
/// those that are, pulls of more keys than a message takes.
TEST(SparseTableTest, GatheredRowsAreThoseThatAReadFinds) {
  for (const char* const model : {"asp", "ssp:1", "essp:0", "bsp", "sequential"}) {
    ClusterOptions options = over(Maps::kNone, 2, 2);
    options.gathers = true;
    const ClusterResult result = run_cluster(options, [model](Session& session) -> absl::Status {
      for (const std::uint32_t width : {1U, 3U, 40U}) {
        constexpr std::size_t kRows = 20'000;
        auto table = session.table<float>({.name = fmt::format("rows {}", width),
                                           .key_space = KeySpace::kSparse,
                                           .width = width,
                                           .consistency = parse_consistency(model).value(),
                                           .initial = "constant(value=0.5)"});
        RETURN_IF_ERROR(table.status());
        const std::size_t rows = width == 1 ? kRows : 500;
        std::mt19937_64 random(7);
        std::vector<Key> keys;
        for (std::size_t i = 0; i < rows; ++i) keys.push_back(random());
        std::vector<Key> own;
        for (std::size_t i = session.rank(); i < rows; i += 3) own.push_back(keys[i]);
        const std::vector<float> updates(own.size() * width, 1);
        RETURN_IF_ERROR(table->push(own, updates));
        RETURN_IF_ERROR(session.barrier());
        RETURN_IF_ERROR(session.barrier());  // nobody pushes again before all have begun to read
        std::vector<float> values(rows * width);
        const auto expect = [&](std::size_t i, float more) {
          const float pushed = (i % 3 < 2 ? 1.5F : 0.5F) + (i % 3 == session.rank() ? more : 0);
          return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(i * width),
                             values.begin() + static_cast<std::ptrdiff_t>((i + 1) * width),
                             [&](float value) { return value == pushed; });
        };
        const std::uint64_t requests = session.statistics().requests_posted;
        RETURN_IF_ERROR(table->pull(keys, values));
        const std::uint64_t asked = session.statistics().requests_posted - requests;
        if (asked > rows / 4) return wrong(fmt::format("{} requests for {} rows", asked, rows));
        for (std::size_t i = 0; i < rows; ++i)
          if (!expect(i, 0)) return wrong(fmt::format("{}: row {} of width {}", model, i, width));
        RETURN_IF_ERROR(session.barrier());
        RETURN_IF_ERROR(table->push(own, updates));
        RETURN_IF_ERROR(table->pull(keys, values));
        for (std::size_t i = session.rank(); i < rows; i += 3)
          if (!expect(i, 1)) return wrong(fmt::format("{}: own row {} of width {}", model, i, width));
        RETURN_IF_ERROR(session.barrier());
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

/// One that opens the table late is told of all regions that there are.
TEST(SparseTableTest, LatecomersFindAllRows) {
  std::atomic<bool> is_full = false;
  constexpr std::size_t kRows = 20'000;
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2}, [&](Session& session) -> absl::Status {
        while (session.rank() == 1 && !is_full) std::this_thread::yield();
        auto table = session.table<float>(
            {.name = "rows", .key_space = KeySpace::kSparse, .width = 64, .consistency = Sequential{}});
        RETURN_IF_ERROR(table.status());
        const TestRows rows(KeySpace::kSparse, kRows);
        std::vector<float> values(kRows * 64, 1);
        if (session.rank() == 0) {
          RETURN_IF_ERROR(table->push(rows.all(), values));
          is_full = true;
        }
        values.assign(values.size(), 0);
        RETURN_IF_ERROR(table->pull(rows.all(), values));
        const bool all = std::all_of(values.begin(), values.end(), [](float value) { return value == 1; });
        return all ? absl::OkStatus() : wrong("a row is missing");
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Under BSP, so that all is known: workers' pushes count in the order of clocks and ranks, and those before
/// the key had its row are dropped.
TEST(SparseTableTest, KeysGetRowsWhenTheAdmissionSaysSo) {
  constexpr std::int64_t kClocks = 4;
  const TestRows rows(KeySpace::kSparse, 300);
  for (const std::string admission : {"count(least=3)", "probability(p=0.3)"}) {
    const ClusterResult result =
        run_cluster({.servers = 2, .workers = 2, .lanes = 2}, [&](Session& session) -> absl::Status {
          auto table = session.table<std::int64_t>({.name = "rows",
                                                    .key_space = KeySpace::kSparse,
                                                    .width = 1,
                                                    .consistency = Bsp{},
                                                    .initial = "constant(value=100)",
                                                    .seed = 3,
                                                    .admission = admission});
          RETURN_IF_ERROR(table.status());
          const protocol::AdmissionRule rule = protocol::AdmissionRule::find(admission, 3).value();
          std::vector<std::int64_t> values(300);
          for (std::int64_t clock = 0; clock < kClocks; ++clock) {
            RETURN_IF_ERROR(table->push(rows.all(), std::vector<std::int64_t>(300, session.rank() + 1)));
            RETURN_IF_ERROR(session.clock());
            RETURN_IF_ERROR(table->pull(rows.all(), values));
            for (std::size_t i = 0; i < 300; ++i) {
              std::int64_t expected = 100;
              bool is_there = false;
              for (std::int64_t push = 0; push < 2 * (clock + 1); ++push) {
                const protocol::PushOrigin origin{static_cast<std::uint32_t>(push % 2), push / 2};
                is_there = is_there || (rule.least() > 1 ? push >= 2 : rule.draws(rows.key(i), origin));
                if (is_there) expected += push % 2 + 1;
              }
              if (values[i] != expected)
                return wrong(
                    fmt::format("{}: {} in clock {}, not {}", admission, values[i], clock, expected));
            }
          }
          const auto norms = table->call("norms", kAllKeys);
          RETURN_IF_ERROR(norms.status());
          if (rule.least() > 1 && norms->numbers[0] != 300) return wrong("not all have rows");
          if (rule.least() == 1 && !(norms->numbers[0] > 250 && norms->numbers[0] < 300))
            return wrong(fmt::format("{} have rows", norms->numbers[0]));
          return session.barrier();
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

/// Before the first push, after it, and with a push that is not sent yet.
TEST(SparseTableTest, RowsBeginWithTheInitialValues) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    const ClusterResult result =
        run_cluster({.servers = 2, .workers = 2, .read_path = path}, [](Session& session) -> absl::Status {
          const std::string initial = "normal(mean=1,deviation=2)";
          auto table = session.table<double>({.name = "rows",
                                              .key_space = KeySpace::kSparse,
                                              .width = 3,
                                              .consistency = Bsp{},
                                              .initial = initial,
                                              .seed = 9});
          RETURN_IF_ERROR(table.status());
          const auto values = protocol::InitialValues::find(initial, 9, ValueType::kDouble);
          const TestRows rows(KeySpace::kSparse, 50);
          std::vector<double> expected(150);
          for (std::size_t i = 0; i < 50; ++i)
            values->write(rows.key(i), ValueType::kDouble, 3, reinterpret_cast<std::byte*>(&expected[i * 3]));
          std::vector<double> read(150);
          RETURN_IF_ERROR(table->pull(rows.all(), read));
          if (read != expected) return wrong("rows that nobody has pushed to");
          const std::vector<double> ones(75, 1);
          RETURN_IF_ERROR(table->push(rows.all().first(25), ones));
          for (std::size_t i = 0; i < 75; ++i) expected[i] += 1;
          RETURN_IF_ERROR(table->pull(rows.all(), read));
          if (read != expected) return wrong("with own updates");
          RETURN_IF_ERROR(session.barrier());
          for (std::size_t i = 0; i < 75; ++i) expected[i] += 1;  // the other's
          RETURN_IF_ERROR(table->pull(rows.all(), read));
          return read == expected ? absl::OkStatus() : wrong("rows that were pushed to");
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

/// In place and from a network, over two regions of rows, with updates that are sent and others that are not,
/// and while somebody adds rows; width 1 is padded to a stride of 8 bytes.
TEST(SparseTableTest, ScansFindEachRowOnce) {
  for (const Maps maps : {Maps::kAll, Maps::kNone}) {
    const ClusterResult result = run_cluster(over(maps, 1, 2), [](Session& session) -> absl::Status {
      auto table = session.table<float>(
          {.name = "rows", .key_space = KeySpace::kSparse, .width = 1, .consistency = Essp{1}});
      RETURN_IF_ERROR(table.status());
      constexpr std::size_t kRows = 80'000;  // more than a region has
      const TestRows rows(KeySpace::kSparse, 2 * kRows);
      std::vector<float> ones(kRows, 1);
      const auto scan = [&](std::size_t at_least, float expected) -> absl::Status {
        std::unordered_map<Key, float> found;
        RETURN_IF_ERROR(table->scan([&](Key key, std::span<const float> values) {
          return values.size() == 1 && found.try_emplace(key, values[0]).second ? absl::OkStatus()
                                                                                : wrong("a row twice");
        }));
        if (found.size() < at_least) return wrong(fmt::format("{} rows", found.size()));
        for (std::size_t i = 0; i < at_least; ++i) {
          const auto row = found.find(rows.key(i));
          if (row == found.end() || row->second != expected) return wrong(fmt::format("row {}", i));
        }
        return absl::OkStatus();
      };
      RETURN_IF_ERROR(scan(0, 0));
      RETURN_IF_ERROR(session.barrier());
      if (session.rank() == 0) RETURN_IF_ERROR(table->push(rows.all().first(kRows), ones));
      RETURN_IF_ERROR(session.barrier());
      RETURN_IF_ERROR(scan(kRows, 1));
      // Rank 1 adds rows, and rank 0 adds to those that it finds.
      if (session.rank() == 1) RETURN_IF_ERROR(table->push(rows.all().subspan(kRows), ones));
      if (session.rank() == 0) RETURN_IF_ERROR(table->push(rows.all().first(kRows), ones));
      if (session.rank() == 0) RETURN_IF_ERROR(scan(kRows, 2));
      RETURN_IF_ERROR(session.clock());
      if (session.rank() == 0) RETURN_IF_ERROR(scan(kRows, 2));
      const absl::Status stopped = table->scan([](Key, std::span<const float>) { return wrong("enough"); });
      if (stopped.message() != wrong("enough").message()) return wrong("it has not stopped");
      RETURN_IF_ERROR(session.barrier());
      std::size_t count = 0;
      RETURN_IF_ERROR(table->scan([&](Key, std::span<const float>) {
        ++count;
        return absl::OkStatus();
      }));
      return count == 2 * kRows ? session.barrier() : wrong(fmt::format("{} rows in the end", count));
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(SparseTableTest, AScanOfARangeFindsOnlyKeysInIt) {
  for (const Maps maps : {Maps::kAll, Maps::kNone}) {
    const ClusterResult result = run_cluster(over(maps, 2, 1), [](Session& session) -> absl::Status {
      auto table = session.table<float>({.name = "rows", .key_space = KeySpace::kSparse, .width = 1});
      RETURN_IF_ERROR(table.status());
      constexpr Key kFirst = Key{1} << 40;
      RETURN_IF_ERROR(table->push(KeyRange{kFirst, kFirst + 1000}, std::vector<float>(1000, 1)));
      RETURN_IF_ERROR(session.clock());
      std::set<Key> found;
      RETURN_IF_ERROR(table->scan(KeyRange{kFirst + 10, kFirst + 20}, [&](Key key, std::span<const float>) {
        found.insert(key);
        return absl::OkStatus();
      }));
      if (found.size() != 10 || *found.begin() != kFirst + 10 || *found.rbegin() != kFirst + 19)
        return wrong(fmt::format("{} rows", found.size()));
      const auto is_never_called = [](Key, std::span<const float>) { return wrong("a row"); };
      RETURN_IF_ERROR(table->scan(KeyRange{kFirst, kFirst}, is_never_called));
      const absl::Status refused = table->scan(KeyRange{kFirst + 1, kFirst}, is_never_called);
      return absl::IsInvalidArgument(refused) ? absl::OkStatus() : wrong(refused.ToString());
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(SparseTableTest, OnlySparseTablesAreScannedOrLocated) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "rows", .rows = 3, .width = 1});
        RETURN_IF_ERROR(table.status());
        const absl::Status status = table->scan([](Key, std::span<const float>) { return wrong("a row"); });
        if (!absl::IsFailedPrecondition(status)) return wrong(status.ToString());
        const absl::Status located = table->locate(KeyRange{0, 3}).status();
        return absl::IsFailedPrecondition(located) ? absl::OkStatus() : wrong(located.ToString());
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Handles are made before there is any row, some more when half of them are there; the index grows between
/// pulls. A pull by handles is one of the keys.
TEST(SparseTableTest, HandlesFindWhatKeysFind) {
  for (const Maps maps : {Maps::kAll, Maps::kNone}) {
    const ClusterResult result = run_cluster(over(maps, 2, 1), [](Session& session) -> absl::Status {
      constexpr std::size_t kRows = 3'000;
      constexpr std::uint32_t kWidth = 3;
      auto table = session.table<double>({.name = "rows",
                                          .key_space = KeySpace::kSparse,
                                          .width = kWidth,
                                          .consistency = Ssp{0},
                                          .initial = "uniform",
                                          .seed = 4});
      RETURN_IF_ERROR(table.status());
      std::vector<Key> keys;
      std::mt19937_64 random(3);
      for (std::size_t i = 0; i < kRows; ++i) keys.push_back(random());
      keys.push_back(keys.front());
      std::vector<double> by_keys(keys.size() * kWidth);
      std::vector<double> by_handles(by_keys.size());
      auto early = table->locate(keys);
      RETURN_IF_ERROR(early.status());
      EXPECT_THAT(early->keys(), ::testing::ElementsAreArray(keys));
      auto late = table->locate(KeyRange{0, 0});
      for (std::size_t times = 0; times < 4; ++times) {
        RETURN_IF_ERROR(table->pull(keys, by_keys));
        RETURN_IF_ERROR(table->pull(*early, by_handles));
        EXPECT_EQ(by_handles, by_keys);
        // What has not been sent yet is seen, too.
        for (std::size_t i = times % 2; i < kRows; i += 2) {
          const std::vector<double> update(kWidth, static_cast<double>(i + times));
          RETURN_IF_ERROR(table->push(std::span(&keys[i], 1), update));
        }
        if (times == 1) late = table->locate(keys);
        if (times >= 1) RETURN_IF_ERROR(late.status());
        RETURN_IF_ERROR(table->pull(keys, by_keys));
        RETURN_IF_ERROR(table->pull(times >= 1 ? *late : *early, by_handles));
        EXPECT_EQ(by_handles, by_keys);
        RETURN_IF_ERROR(session.barrier());
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(SparseTableTest, HandlesAreForTheirTable) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "one", .key_space = KeySpace::kSparse, .width = 2});
        RETURN_IF_ERROR(table.status());
        auto other = session.table<float>({.name = "other", .key_space = KeySpace::kSparse, .width = 2});
        RETURN_IF_ERROR(other.status());
        std::vector<float> values(4);
        auto handles = table->locate(std::vector<Key>{1, 2});
        RETURN_IF_ERROR(handles.status());
        EXPECT_TRUE(absl::IsInvalidArgument(other->pull(*handles, values)));
        EXPECT_TRUE(absl::IsInvalidArgument(table->pull(*handles, std::span(values).first(2))));
        EXPECT_TRUE(absl::IsInvalidArgument(table->locate(std::vector<Key>{kNoKey}).status()));
        RowHandles none;
        EXPECT_TRUE(other->pull(none, {}).ok());
        return table->pull(*handles, values);
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Under Sequential a pull finds the steps along all gradients that this worker has pushed, also of a push
/// that nobody waited for. Decision 34 lets other models pull without them.
TEST(SparseTableTest, SequentialPullsAwaitOwnGradients) {
  for (const KeySpace key_space : {KeySpace::kDense, KeySpace::kSparse}) {
    const ClusterResult result =
        run_cluster(over(Maps::kAll, 1, 1), [key_space](Session& session) -> absl::Status {
          auto table = session.table<float>({.name = "rows",
                                             .key_space = key_space,
                                             .rows = key_space == KeySpace::kDense ? 100U : 0U,
                                             .width = 1,
                                             .consistency = Sequential{},
                                             .rule = "sgd(rate=1)"});
          RETURN_IF_ERROR(table.status());
          const TestRows rows(key_space, 100);
          const std::vector<float> ones(100, 1);
          std::vector<float> values(100);
          for (int pushes = 1; pushes <= 50; ++pushes) {
            static_cast<void>(table->push_async(rows.all(), ones));
            RETURN_IF_ERROR(table->pull(rows.all(), values));
            for (const float value : values) {
              if (value != static_cast<float>(-pushes))
                return wrong(fmt::format("{} after {}", value, pushes));
            }
          }
          return absl::OkStatus();
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

/// Adagrad from zeros, under BSP: one step along the sum of both workers' gradients of a clock.
/// What a rule keeps beside a row goes with the row's initial values, also of a row that another key had
/// before.
TEST(SparseTableTest, RulesBeginWithTheInitialValues) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [](Session& session) -> absl::Status {
        auto table = session.table<double>({.name = "rows",
                                            .key_space = KeySpace::kSparse,
                                            .width = 1,
                                            .consistency = Bsp{},
                                            .rule = "ftrl(alpha=0.1)",
                                            .initial = "constant(value=2)",
                                            .eviction = "age(clocks=1)"});
        RETURN_IF_ERROR(table.status());
        for (Key key = 0; key < 4; ++key) {
          const double gradient = 0.001;
          double value = 0;
          RETURN_IF_ERROR(table->push(std::span(&key, 1), {&gradient, 1}));
          RETURN_IF_ERROR(session.clock());
          RETURN_IF_ERROR(table->pull(std::span(&key, 1), {&value, 1}));
          // z = -2 / 0.1 + g - |g| / 0.1 * 2, and n = g²
          const double expected = (20 - gradient + 20 * gradient) / ((1 + gradient) / 0.1);
          if (std::abs(value - expected) > 1e-12)
            return wrong(fmt::format("row {} is {}, not {}", key, value, expected));
          RETURN_IF_ERROR(session.clock());
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SparseTableTest, RulesTakeTheirSteps) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2, .lanes = 2}, [](Session& session) -> absl::Status {
        auto table = session.table<double>({.name = "weights",
                                            .key_space = KeySpace::kSparse,
                                            .width = 2,
                                            .consistency = Bsp{},
                                            .rule = "adagrad(rate=0.5,epsilon=1e-30)"});
        RETURN_IF_ERROR(table.status());
        const TestRows rows(KeySpace::kSparse, 40);
        std::vector<double> gradients(80);
        for (std::size_t i = 0; i < 80; ++i) gradients[i] = static_cast<double>(i + 1);
        for (int clock = 0; clock < 3; ++clock) {
          RETURN_IF_ERROR(table->push(rows.all(), gradients));
          RETURN_IF_ERROR(session.clock());
        }
        std::vector<double> weights(80);
        RETURN_IF_ERROR(table->pull(rows.all(), weights));
        for (const double weight : weights) {
          const double expected = -0.5 * (1 + 1 / std::sqrt(2.0) + 1 / std::sqrt(3.0));
          if (std::abs(weight - expected) > 1e-12) return wrong(fmt::format("{}, not {}", weight, expected));
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SparseTableTest, EagerPushesBringRowsThatAreThere) {
  const ClusterResult result = run_cluster(
      {.servers = 2, .workers = 2, .read_path = ReadPath::kCached}, [](Session& session) -> absl::Status {
        auto table = session.table<float>(
            {.name = "rows", .key_space = KeySpace::kSparse, .width = 3, .consistency = Essp{1}});
        RETURN_IF_ERROR(table.status());
        const TestRows rows(KeySpace::kSparse, 100);
        std::vector<float> values(300);
        const std::vector<float> ones(300, 1);
        for (int clock = 0; clock < 20; ++clock) {
          RETURN_IF_ERROR(table->pull(rows.all(), values));
          RETURN_IF_ERROR(table->push(rows.all(), ones));
          RETURN_IF_ERROR(session.clock());
        }
        RETURN_IF_ERROR(session.barrier());
        const std::uint64_t requests = session.statistics().requests_posted;
        RETURN_IF_ERROR(table->pull(rows.all(), values));
        if (session.statistics().requests_posted != requests) return wrong("rows were read again");
        if (session.statistics().rows_eagerly_received == 0) return wrong("nothing was pushed");
        if (values[0] != 40 || values[299] != 40) return wrong("saw " + std::to_string(values[0]));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SparseTableTest, WhatCannotBeIsRefused) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [](Session& session) -> absl::Status {
        const auto error = [&](const TableOptions& options) {
          return message_of(session.table<float>(options).status());
        };
        constexpr KeySpace kSparse = KeySpace::kSparse;
        EXPECT_THAT(error({.name = "a", .key_space = kSparse, .rows = 5, .width = 1}),
                    ::testing::HasSubstr("expected_rows"));
        EXPECT_THAT(error({.name = "a", .rows = 5, .width = 1, .expected_rows = 5}),
                    ::testing::HasSubstr("dense"));
        EXPECT_THAT(error({.name = "a", .rows = 5, .width = 1, .initial = "normal"}),
                    ::testing::HasSubstr("dense"));
        EXPECT_THAT(error({.name = "a",
                           .key_space = kSparse,
                           .width = 1,
                           .consistency = Asp{},
                           .allocation = Allocation::kDynamic}),
                    ::testing::HasSubstr("dynamic"));
        EXPECT_THAT(error({.name = "a", .key_space = kSparse, .width = 1, .initial = "glorot"}),
                    ::testing::HasSubstr("expected zero"));
        EXPECT_THAT(error({.name = "a", .key_space = static_cast<KeySpace>(2), .rows = 5, .width = 1}),
                    ::testing::HasSubstr("no key space"));
        auto table = session.table<float>({.name = "rows", .key_space = kSparse, .width = 1});
        RETURN_IF_ERROR(table.status());
        EXPECT_THAT(error({.name = "rows", .rows = 5, .width = 1}),
                    ::testing::HasSubstr("sparse keys, then dense keys"));
        const std::vector<Key> none = {1, kNoKey};
        std::vector<float> values(2);
        EXPECT_EQ(table->push(none, values).code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(message_of(table->pull(none, values)), ::testing::HasSubstr("no row has the key"));
        EXPECT_EQ(table->rows(), 0U);
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::testing
