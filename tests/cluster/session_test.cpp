// What a user of the library meets: shapes of tables, wrong calls, asynchronous pulls, failures of others.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"
#include <verbena/consistency.hpp>
#include <verbena/data_cursor.hpp>
#include <verbena/sampling.hpp>

namespace verbena::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

template <class Value>
class ValueTypeTest : public ::testing::Test {};
using ValueTypes = ::testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(ValueTypeTest, ValueTypes);

TYPED_TEST(ValueTypeTest, SetsAndRangesOfRows) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    for (const std::uint32_t width : {1U, 3U, 16U}) {
      const ClusterResult result = run_cluster(
          {.servers = 3, .workers = 1, .lanes = 2, .read_path = path}, [&](Session& session) -> absl::Status {
            auto opened = session.table<TypeParam>({.name = "rows", .rows = 50, .width = width});
            RETURN_IF_ERROR(opened.status());
            Table<TypeParam>& table = *opened;
            EXPECT_EQ(table.rows(), 50U);
            EXPECT_EQ(table.width(), width);
            const std::vector<Key> keys{49, 0, 17, 0, 25};
            std::vector<TypeParam> updates;
            for (std::size_t i = 0; i < keys.size() * width; ++i)
              updates.push_back(static_cast<TypeParam>(i + 1));
            RETURN_IF_ERROR(table.push(keys, updates));
            RETURN_IF_ERROR(table.push(KeyRange{16, 18}, std::vector<TypeParam>(2 * width, 100)));
            for (int round = 0; round < 3; ++round) {  // first from the update buffer, then from the servers
              std::vector<TypeParam> values(keys.size() * width, -1);
              RETURN_IF_ERROR(table.pull(keys, values));
              for (std::uint32_t column = 0; column < width; ++column) {
                const auto at = [&](std::size_t i) { return values[i * width + column]; };
                const auto update = [&](std::size_t i) { return updates[i * width + column]; };
                EXPECT_EQ(at(0), update(0));
                EXPECT_EQ(at(1), update(1) + update(3));  // key 0 comes twice
                EXPECT_EQ(at(2), update(2) + 100);
                EXPECT_EQ(at(3), at(1));
              }
              std::vector<TypeParam> all(50 * width, -1);
              RETURN_IF_ERROR(table.pull(KeyRange{0, 50}, all));
              EXPECT_EQ(all[16 * width], 100);
              EXPECT_EQ(all[18 * width], 0);
              EXPECT_EQ(all[49 * width], updates[0]);
              RETURN_IF_ERROR(session.clock());
            }
            return absl::OkStatus();
          });
      EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    }
  }
}

TEST(SessionTest, APullOfManyRowsTakesInWhatWasPushed) {
  constexpr std::uint64_t kRows = 256;
  constexpr int kMostPulls = 100;
  std::atomic<bool> clocked = false;
  const ClusterResult result =
      run_cluster({.servers = 1, .read_path = ReadPath::kCached}, [&](Session& session) -> absl::Status {
        auto opened = session.table<float>(
            {.name = "rows", .rows = kRows, .width = 1, .consistency = Essp{.staleness = 5}});
        RETURN_IF_ERROR(opened.status());
        Table<float>& table = *opened;
        std::vector<float> values(kRows);
        RETURN_IF_ERROR(session.barrier());
        RETURN_IF_ERROR(table.pull(KeyRange{0, kRows}, values));  // subscribes
        RETURN_IF_ERROR(session.barrier());
        if (session.rank() == 1) {
          RETURN_IF_ERROR(table.push(KeyRange{0, 1}, std::vector<float>{1}));
          RETURN_IF_ERROR(session.clock());
          clocked = true;
          return session.barrier();
        }
        RETURN_IF_ERROR(session.clock());
        while (!clocked) std::this_thread::yield();
        // No pull has to wait, so nothing forces one to look for pushed rows: it must do so now and then by
        // itself.
        int pulls = 0;
        do {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          RETURN_IF_ERROR(table.pull(KeyRange{0, kRows}, values));
        } while (values[0] == 0 && ++pulls < kMostPulls);
        EXPECT_EQ(values[0], 1) << "after " << pulls << " pulls";
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SessionTest, WrongCallsAreRefusedAndHarmless) {
  for (const bool is_dynamic : {false, true}) {
    TableOptions options{.name = "rows", .rows = 10, .width = 2};
    if (is_dynamic) {
      options.consistency = Sequential{};
      options.allocation = Allocation::kDynamic;
    }
    const ClusterResult result = run_cluster({.workers = 1}, [&](Session& session) -> absl::Status {
      auto opened = session.table<float>(options);
      RETURN_IF_ERROR(opened.status());
      Table<float>& table = *opened;
      std::vector<float> values(4);
      const std::vector<Key> outside{3, 10};
      const std::vector<Key> inside{3, 9};
      for (const absl::Status& status :
           {table.pull(outside, values), table.push(outside, values),
            table.pull_async(outside, values).wait(), table.push_async(outside, values).wait(),
            table.pull(KeyRange{9, 11}, values), table.push(KeyRange{9, 11}, values),
            table.pull(inside, std::span(values).first(3)), table.pull(inside, {}), table.push(inside, {}),
            table.push(KeyRange{0, 1}, values), table.pull(KeyRange{5, 4}, values),
            table.pull(KeyRange{UINT64_MAX, 1}, values),
            table.pull_async(KeyRange{UINT64_MAX, 1}, values).wait()}) {
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      }
      EXPECT_THAT(message_of(table.pull(outside, values)), HasSubstr("keys below 10, not 10"));
      RETURN_IF_ERROR(table.pull(inside, values));
      RETURN_IF_ERROR(table.push(inside, values));
      RETURN_IF_ERROR(table.pull(std::span<const Key>{}, {}));
      RETURN_IF_ERROR(table.push(std::span<const Key>{}, {}));
      RETURN_IF_ERROR(table.push(KeyRange{11, 11}, {}));  // an empty range may be anywhere
      return table.pull(KeyRange{11, 11}, {});
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

/// A row that has been pulled before is pulled in a few instructions. They see whatever makes a pull wrong,
/// or makes it find something else.
TEST(SessionTest, OneRowAgainAndAgainIsLookedAtAsAnyOther) {
  constexpr std::uint64_t kRows = 40;
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    for (const ConsistencyModel& model : {ConsistencyModel(Essp{1}), ConsistencyModel(Bsp{})}) {
      SCOPED_TRACE(to_string(model));
      const ClusterResult result = run_cluster(
          {.servers = 2, .workers = 1, .lanes = 2, .read_path = path}, [&](Session& session) -> absl::Status {
            auto opened =
                session.table<float>({.name = "rows", .rows = kRows, .width = 40, .consistency = model});
            RETURN_IF_ERROR(opened.status());
            Table<float>& table = *opened;
            std::vector<float> all(kRows * 40);
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i);
            RETURN_IF_ERROR(table.push(KeyRange{0, kRows}, all));
            for (int round = 0; round < 2; ++round) {
              RETURN_IF_ERROR(session.barrier());
              RETURN_IF_ERROR(table.pull(KeyRange{0, kRows}, all));
            }
            std::vector<float> values(41);
            const auto pull = [&](Key key, std::size_t width) {
              return table.pull(std::span(&key, 1), std::span(values).first(width));
            };
            const std::uint64_t pulled = session.statistics().rows_pulled;
            const auto counted = [&] {
              const std::vector<std::uint64_t> reads = session.statistics().staleness.reads_by_lag;
              return std::accumulate(reads.begin(), reads.end(), std::uint64_t{0});
            };
            const std::uint64_t counted_before = counted();
            // Each key after another one of its lane, and not.
            for (std::uint64_t i = 0; i < 3 * kRows; ++i) {
              const Key key = i < kRows ? i : i * 7 % kRows;
              values.assign(41, -1);
              RETURN_IF_ERROR(pull(key, 40));
              for (std::size_t k = 0; k < 40; ++k)
                EXPECT_EQ(values[k], static_cast<float>(key * 40 + k)) << key;
              EXPECT_EQ(values[40], -1);
              EXPECT_EQ(pull(kRows, 40).code(), absl::StatusCode::kInvalidArgument);
              EXPECT_EQ(pull(UINT64_MAX - key, 40).code(), absl::StatusCode::kInvalidArgument);
              EXPECT_EQ(pull(key, 39).code(), absl::StatusCode::kInvalidArgument);
              EXPECT_EQ(pull(key, 41).code(), absl::StatusCode::kInvalidArgument);
            }
            EXPECT_EQ(session.statistics().rows_pulled - pulled, 3 * kRows);
            EXPECT_EQ(counted() - counted_before, 3 * kRows);
            RETURN_IF_ERROR(pull(3, 40));
            std::jthread([&] {
              EXPECT_EQ(pull(3, 40).code(), absl::StatusCode::kFailedPrecondition);
            }).join();
            // This worker's own update, before it is sent, while it is under way, and when it is applied.
            const std::vector<float> ones(40, 1);
            for (int clock = 0; clock < 4; ++clock) {
              for (int again = 0; again < 3; ++again) {
                RETURN_IF_ERROR(pull(3, 40));
                EXPECT_EQ(values[0], 120 + clock);
              }
              const Key key = 3;
              RETURN_IF_ERROR(table.push(std::span(&key, 1), ones));
              for (int again = 0; again < 3; ++again) {
                RETURN_IF_ERROR(pull(3, 40));
                EXPECT_EQ(values[0], 121 + clock);
              }
              RETURN_IF_ERROR(session.clock());
            }
            return absl::OkStatus();
          });
      EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    }
  }
}

/// Who only pulls single rows that it has hears of others, too: of their pushes, and of the server's end.
TEST(SessionTest, OneRowAgainAndAgainIsAsFreshAsAnyOther) {
  ServerThreads servers({.servers = 1, .workers = 2, .read_path = ReadPath::kCached});
  auto reader = Session::connect(servers.session_options(0));
  auto pusher = Session::connect(servers.session_options(1));
  ASSERT_TRUE(reader.ok() && pusher.ok());
  const TableOptions options{.name = "rows", .rows = 10, .width = 1, .consistency = Essp{5}};
  auto read = (*reader)->table<float>(options);
  auto pushed = (*pusher)->table<float>(options);
  ASSERT_TRUE(read.ok() && pushed.ok());
  const Key key = 3;
  const std::vector<float> one{1};
  std::vector<float> value(1);
  const auto pull_until = [&](const std::function<bool(const absl::Status&)>& is_there) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    absl::Status status;
    while (!is_there(status) && std::chrono::steady_clock::now() < end)
      status = read->pull(std::span(&key, 1), value);
    return status;
  };
  ASSERT_TRUE(read->pull(std::span(&key, 1), value).ok());  // subscribes
  for (int clock = 1; clock <= 3; ++clock) {
    ASSERT_TRUE((*reader)->clock().ok());
    ASSERT_TRUE(pushed->push(std::span(&key, 1), one).ok());
    ASSERT_TRUE((*pusher)->clock().ok());
    const absl::Status status =
        pull_until([&](const absl::Status&) { return value[0] == static_cast<float>(clock); });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(value[0], clock);
  }
  servers.stop(0);
  const absl::Status status = pull_until([](const absl::Status& pulled) { return !pulled.ok(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  for (int again = 0; again < 200; ++again)
    EXPECT_EQ(read->pull(std::span(&key, 1), value), status) << "pull " << again << " after it";
}

TEST(SessionTest, WrongTablesAreRefused) {
  const ClusterResult result = run_cluster({.workers = 1}, [](Session& session) -> absl::Status {
    for (const TableOptions& options :
         {TableOptions{.name = "", .rows = 1, .width = 1}, TableOptions{.name = "a", .rows = 0, .width = 1},
          TableOptions{.name = "a", .rows = 1, .width = 0},
          TableOptions{.name = "a", .rows = std::uint64_t{1} << 41, .width = 1}}) {
      const absl::Status status = session.table<float>(options).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SessionTest, ImpossibleSessionsAreRefused) {
  EXPECT_EQ(Session::connect({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Session::connect({.servers = {"shm:none"}, .rank = 1, .workers = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Session::connect({.servers = {"shm:none"}, .inbox_bytes = 7}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status nobody =
      Session::connect({.servers = {"shm:nobody-listens"}, .timeout_ms = 50}).status();
  EXPECT_EQ(nobody.code(), absl::StatusCode::kDeadlineExceeded) << nobody;
  EXPECT_THAT(message_of(nobody), HasSubstr("nobody-listens"));
}

TEST(SessionTest, TablesMustAgree) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 2}, [](Session& session) -> absl::Status {
        const std::uint32_t width = session.rank() == 0 ? 2 : 3;
        return session.table<float>({.name = "rows", .rows = 10, .width = width}).status();
      });
  EXPECT_THAT(message_of(result.servers[0]), HasSubstr("open table 0 differently"));
}

TEST(SessionTest, TooLargeARowOrATableIsSaid) {
  ClusterOptions options{.servers = 1, .workers = 1};
  options.inbox_bytes = options.push_ring_bytes = 4096;
  ClusterResult result = run_cluster(options, [](Session& session) {
    return session.table<float>({.name = "wide", .rows = 10, .width = 1000}).status();
  });
  EXPECT_THAT(message_of(result.workers[0]), HasSubstr("ask for larger rings"));
  result = run_cluster({.servers = 1, .workers = 1}, [](Session& session) {
    return session.table<float>({.name = "vast", .rows = std::uint64_t{1} << 36, .width = 1000}).status();
  });
  EXPECT_EQ(result.workers[0].code(), absl::StatusCode::kResourceExhausted) << result.workers[0];
  EXPECT_THAT(message_of(result.workers[0]), HasSubstr("\"vast\""));
}

TEST(SessionTest, AsynchronousPullsEndInAnyOrder) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    const ClusterResult result =
        run_cluster({.servers = 2, .workers = 2, .read_path = path}, [](Session& session) -> absl::Status {
          auto opened =
              session.table<std::int32_t>({.name = "rows", .rows = 500, .width = 4, .consistency = Ssp{1}});
          RETURN_IF_ERROR(opened.status());
          Table<std::int32_t>& table = *opened;
          for (int clock = 0; clock < 10; ++clock) {
            RETURN_IF_ERROR(table.push(KeyRange{0, 500}, std::vector<std::int32_t>(2000, 1)));
            RETURN_IF_ERROR(session.clock());
            std::vector<std::vector<std::int32_t>> values(5, std::vector<std::int32_t>(400));
            std::vector<Pending> pulls;
            for (Key part = 0; part < 5; ++part)
              pulls.push_back(table.pull_async(KeyRange{part * 100, part * 100 + 100}, values[part]));
            for (int part = 4; part >= 0; --part) {
              RETURN_IF_ERROR(pulls[static_cast<std::size_t>(part)].wait());
              EXPECT_TRUE(pulls[static_cast<std::size_t>(part)].done());
              for (const std::int32_t value : values[static_cast<std::size_t>(part)])
                EXPECT_GE(value, clock + 1);
            }
            // Not waited for: clock() ends it.
            Pending left = table.pull_async(KeyRange{0, 100}, values[0]);
            RETURN_IF_ERROR(session.clock());
            EXPECT_TRUE(left.done());
          }
          return absl::OkStatus();
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(SessionTest, CacheLimitIsKeptAndReadsGoOn) {
  const ClusterResult result = run_cluster(
      {.servers = 2, .workers = 2, .read_path = ReadPath::kCached}, [](Session& session) -> absl::Status {
        auto table = session.table<float>(
            {.name = "rows", .rows = 100, .width = 1, .consistency = Essp{0}, .cache_rows = 10});
        RETURN_IF_ERROR(table.status());
        std::vector<float> values(100);
        for (int clock = 0; clock < 5; ++clock) {
          RETURN_IF_ERROR(table->push(KeyRange{0, 100}, std::vector<float>(100, 1)));
          RETURN_IF_ERROR(session.barrier());
          RETURN_IF_ERROR(table->pull(KeyRange{0, 100}, values));
          for (const float value : values) EXPECT_GE(value, 2.0F * static_cast<float>(clock + 1));
        }
        EXPECT_LE(session.statistics().rows_eagerly_received, 10U * 6);
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SessionTest, AWorkerThatLeavesHoldsNobodyBack) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 3}, [](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "rows", .rows = 10, .width = 1, .consistency = Bsp{}});
        RETURN_IF_ERROR(table.status());
        const int clocks = 3 * (static_cast<int>(session.rank()) + 1);
        for (int clock = 0; clock < clocks; ++clock) {
          RETURN_IF_ERROR(table->push(KeyRange{0, 10}, std::vector<float>(10, 1)));
          RETURN_IF_ERROR(session.clock());
        }
        std::vector<float> values(10);
        RETURN_IF_ERROR(table->pull(KeyRange{0, 10}, values));
        if (session.rank() == 2) {
          EXPECT_EQ(values[0], 18);
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SessionTest, AStalenessWithoutMeaningIsRefused) {
  ServerThreads servers({.servers = 1, .workers = 1});
  auto session = Session::connect(servers.session_options(0));
  ASSERT_TRUE(session.ok()) << session.status();
  const TableOptions options = {.name = "rows", .rows = 1, .width = 1, .consistency = Ssp{kMaxStaleness + 1}};
  EXPECT_EQ((*session)->table<float>(options).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE((*session)->clock().ok()) << "a table that is refused does not fail the session";
}

TEST(SessionTest, ATableOfANameThatIsOpenIsTheSame) {
  const TableOptions options{.name = "rows", .rows = 10, .width = 2, .consistency = Ssp{1}};
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 1}, [&](Session& session) -> absl::Status {
        auto first = session.table<float>(options);
        RETURN_IF_ERROR(first.status());
        auto other = session.table<float>({.name = "other", .rows = 10, .width = 2});
        RETURN_IF_ERROR(other.status());
        const std::vector<float> ones(20, 1);
        RETURN_IF_ERROR(first->push(KeyRange{0, 10}, ones));
        RETURN_IF_ERROR(session.clock());
        auto second = session.table<float>(options);
        RETURN_IF_ERROR(second.status());
        EXPECT_EQ(*second, *first);
        EXPECT_NE(*second, *other);
        std::vector<float> values(20);
        RETURN_IF_ERROR(second->pull(KeyRange{0, 10}, values));
        EXPECT_EQ(values, ones) << "not a second, zeroed one";
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SessionTest, ATableOfANameThatIsOpenButDiffersIsRefused) {
  const TableOptions first{.name = "rows", .rows = 10, .width = 2, .consistency = Asp{}};
  const auto with = [&](const std::function<void(TableOptions&)>& change) {
    TableOptions options = first;
    change(options);
    return options;
  };
  const std::vector<std::pair<TableOptions, std::string>> others = {
      {with([](TableOptions& options) { options.rows = 11; }), "10 rows, then 11 rows"},
      {with([](TableOptions& options) { options.width = 3; }), "width 2, then width 3"},
      {with([](TableOptions& options) { options.consistency = Bsp{}; }), "asp, then bsp"},
      {with([](TableOptions& options) { options.allocation = Allocation::kDynamic; }),
       "static, then dynamic"},
      {with([](TableOptions& options) { options.cache_rows = 5; }), "then 5"},
  };
  const ClusterResult result = run_cluster({.workers = 1}, [&](Session& session) -> absl::Status {
    auto opened = session.table<float>(first);
    RETURN_IF_ERROR(opened.status());
    for (const auto& [options, difference] : others) {
      const absl::Status status = session.table<float>(options).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(message_of(status), HasSubstr("\"rows\" is open already"));
      EXPECT_THAT(message_of(status), HasSubstr(difference));
    }
    for (const absl::Status& status :
         {session.table<double>(first).status(), session.table<std::int32_t>(first).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(message_of(status), HasSubstr("float, then "));
    }
    std::vector<float> values(20);
    RETURN_IF_ERROR(opened->pull(KeyRange{0, 10}, values));  // the refused calls have changed nothing
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SessionTest, TablesOfWorkersDifferByName) {
  const auto job = [](const TableOptions& first, const TableOptions& then) {
    const ClusterResult result =
        run_cluster({.servers = 1, .workers = 2}, [&](Session& session) -> absl::Status {
          RETURN_IF_ERROR(session.table<float>(session.rank() == 0 ? first : then).status());
          return session.barrier();
        });
    return message_of(result.servers[0]);
  };
  const TableOptions rows{.name = "rows", .rows = 10, .width = 1};
  TableOptions columns = rows;
  columns.name = "columns";
  EXPECT_THAT(job(rows, columns), AllOf(HasSubstr("open table 0 differently"), HasSubstr("\"columns\"")));
  TableOptions wide = rows;
  wide.width = 2;
  EXPECT_THAT(job(rows, wide), AllOf(HasSubstr("open table 0 differently"), HasSubstr("width 2")));
}

/// A call from a thread that the session does not belong to does nothing.
TEST(SessionTest, AnotherThreadIsRefusedAndNamed) {
  ServerThreads servers({.servers = 1, .workers = 1});
  auto connected = Session::connect(servers.session_options(0));
  ASSERT_TRUE(connected.ok()) << connected.status();
  Session& session = **connected;
  auto opened = session.table<float>({.name = "rows", .rows = 10, .width = 1, .consistency = Asp{}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  auto moving = session.table<float>(
      {.name = "moving", .rows = 10, .width = 1, .consistency = Asp{}, .allocation = Allocation::kDynamic});
  ASSERT_TRUE(moving.ok()) << moving.status();
  Table<float>& table = *opened;
  std::vector<float> values(10);
  const std::vector<float> ones(10, 1);
  const std::vector<Key> keys{3};
  std::vector<float*> rows(1);
  HeldRows held;
  const std::vector<float> one{1};
  std::vector<float> value(1);
  DataCursor cursor(session, {.examples = 10});
  Pending pending = table.pull_async(KeyRange{0, 10}, values);
  const auto calls = [&] {
    std::mt19937_64 random(1);
    return std::vector<absl::Status>{
        table.push(KeyRange{0, 10}, ones),
        table.push(keys, one),
        table.pull(KeyRange{0, 10}, values),
        table.pull(keys, value),
        table.push_async(KeyRange{0, 10}, ones).wait(),
        table.pull_async(KeyRange{0, 10}, values).wait(),
        moving->push(keys, one),
        moving->pull(keys, value),
        moving->localize(keys).wait(),
        moving->intent(keys, 0, 1),
        moving->hold(keys, rows).status(),
        held.release(),
        moving->prepare_sample(KeyDistribution::uniform({0, 10}), 1, random).status(),
        cursor.next().status(),
        session.table<float>({.name = "more", .rows = 1, .width = 1, .consistency = Asp{}}).status(),
        session.clock(),
        session.barrier(),
        session.give_up(absl::AbortedError("?"))};
  };
  std::vector<absl::Status> refused;
  std::string other;
  absl::StatusOr<HeldRows> holds = moving->hold(keys, rows);
  ASSERT_TRUE(holds.ok()) << holds.status();
  held = *std::move(holds);
  std::thread([&] {
    other = fmt::format("thread {} (\"stranger\")", ::gettid());
    ::pthread_setname_np(::pthread_self(), "stranger");
    refused = calls();
    if (!pending.done()) refused.push_back(pending.wait());
  }).join();
  ASSERT_GE(refused.size(), 18U);
  for (std::size_t i = 0; i < refused.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(refused[i].code(), absl::StatusCode::kFailedPrecondition) << refused[i];
    EXPECT_THAT(message_of(refused[i]), HasSubstr("the session of worker 0"));
    EXPECT_THAT(message_of(refused[i]), HasSubstr(fmt::format("thread {} (", ::gettid())));
    EXPECT_THAT(message_of(refused[i]), HasSubstr(other));
  }
  EXPECT_TRUE(held.release().ok());
  EXPECT_TRUE(session.clock().ok());
  ASSERT_TRUE(table.pull(KeyRange{0, 10}, values).ok());
  EXPECT_EQ(values, std::vector<float>(10, 0));

  // After take_over() the session belongs to the calling thread. Another thread may destroy it.
  std::thread([&] {
    session.take_over();
    EXPECT_TRUE(table.push(KeyRange{0, 10}, ones).ok());
    EXPECT_TRUE(session.clock().ok());
  }).join();
  EXPECT_EQ(session.clock().code(), absl::StatusCode::kFailedPrecondition);
  session.take_over();
  ASSERT_TRUE(table.pull(KeyRange{0, 10}, values).ok());
  EXPECT_EQ(values, ones);
  std::thread([&] { connected->reset(); }).join();
  EXPECT_TRUE(servers.join(std::chrono::seconds(20))[0].ok());
}

TEST(SessionTest, IsAskedWhileItWaits) {
  ServerThreads servers({.servers = 1, .workers = 2});
  std::atomic<int> asked = 0;
  SessionOptions options = servers.session_options(0);
  options.on_wait = [&]() -> absl::Status {
    return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("enough of this");
  };
  // The other worker opens the table, and then lets this one wait for it.
  std::atomic<bool> over = false;
  std::thread other([&] {
    auto second = Session::connect(servers.session_options(1));
    ASSERT_TRUE(second.ok()) << second.status();
    auto rows = (*second)->table<float>({.name = "rows", .rows = 10, .width = 1, .consistency = Bsp{}});
    EXPECT_TRUE(rows.ok()) << rows.status();
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  auto session = Session::connect(options);
  ASSERT_TRUE(session.ok()) << session.status();
  auto rows = (*session)->table<float>({.name = "rows", .rows = 10, .width = 1, .consistency = Bsp{}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  const absl::Status ended = (*session)->barrier();
  EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled) << ended;
  EXPECT_EQ(message_of(ended), "enough of this");
  EXPECT_EQ((*session)->clock().code(), absl::StatusCode::kCancelled);  // the session is broken
  EXPECT_EQ((*session)->poll().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
  session->reset();
  over = true;
  other.join();
  servers.join(std::chrono::seconds(20));
}

TEST(SessionTest, GoesOnByPolling) {
  const ClusterResult result = run_cluster(
      {.servers = 2, .workers = 2, .read_path = ReadPath::kCached}, [](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "rows", .rows = 10, .width = 1, .consistency = Bsp{}});
        RETURN_IF_ERROR(table.status());
        RETURN_IF_ERROR(table->push(KeyRange{0, 10}, std::vector<float>(10, 1)));
        RETURN_IF_ERROR(session.clock());
        std::vector<float> values(10);
        Pending pull = table->pull_async(KeyRange{0, 10}, values);
        while (!pull.done()) RETURN_IF_ERROR(session.poll());
        EXPECT_EQ(values, std::vector<float>(10, 2));
        return pull.wait();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SessionTest, GivingUpIsToldToAll) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 3}, [](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "rows", .rows = 10, .width = 1, .consistency = Bsp{}});
        RETURN_IF_ERROR(table.status());
        for (int clock = 0; clock < 100; ++clock) {
          if (session.rank() == 1 && clock == 3) return absl::InvalidArgumentError("line 7: no number");
          RETURN_IF_ERROR(session.clock());
        }
        return absl::OkStatus();
      });
  for (const std::size_t worker : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(result.workers[worker].code(), absl::StatusCode::kAborted) << result.workers[worker];
    EXPECT_THAT(message_of(result.workers[worker]), HasSubstr("worker 1"));
    EXPECT_THAT(message_of(result.workers[worker]), HasSubstr("line 7: no number"));
  }
  for (const absl::Status& server : result.servers) EXPECT_THAT(message_of(server), HasSubstr("worker 1"));
}

TEST(SessionTest, AServerThatDiesIsNamed) {
  ServerThreads servers({.servers = 2, .workers = 1});
  auto session = Session::connect(servers.session_options(0));
  ASSERT_TRUE(session.ok()) << session.status();
  auto table = (*session)->table<float>({.name = "rows", .rows = 10, .width = 1, .consistency = Bsp{}});
  ASSERT_TRUE(table.ok()) << table.status();
  servers.stop(1);
  absl::Status status;
  const auto start = std::chrono::steady_clock::now();
  while (status.ok() && std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) {
    status = (*session)->clock();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(message_of(status), HasSubstr("server 1"));
  // The session stays broken, with the same status.
  std::vector<float> values(10);
  EXPECT_EQ(table->pull(KeyRange{0, 10}, values), status);
  EXPECT_EQ((*session)->clock(), status);
}

/// Another worker neither goes on nor leaves, as one that is stopped.
TEST(SessionTest, EachWaitHasADeadline) {
  using Wait = std::function<absl::Status(Session&, Table<float>&, std::vector<float>&)>;
  const std::vector<std::pair<ConsistencyModel, Wait>> waits = {
      {Bsp{}, [](Session& session, auto&, auto&) { return session.clock(); }},
      {Ssp{1}, [](Session& session, auto&, auto&) { return session.barrier(); }},
      {Ssp{0},
       [](Session& session, auto& table, auto& values) {
         RETURN_IF_ERROR(session.clock());
         return table.pull(KeyRange{0, 10}, values);
       }},
      {Essp{0}, [](Session& session, auto& table, auto& values) {
         RETURN_IF_ERROR(session.clock());
         return table.pull_async(KeyRange{0, 10}, values).wait();
       }}};
  for (const auto& [model, wait] : waits) {
    SCOPED_TRACE(to_string(model));
    ServerThreads servers({.servers = 2, .workers = 2});
    auto idle = Session::connect(servers.session_options(1));
    ASSERT_TRUE(idle.ok()) << idle.status();
    SessionOptions options = servers.session_options(0);
    options.clock_timeout_ms = 100;
    auto session = Session::connect(options);
    ASSERT_TRUE(session.ok()) << session.status();
    auto table = (*session)->table<float>({.name = "rows", .rows = 10, .width = 1, .consistency = model});
    ASSERT_TRUE(table.ok()) << table.status();
    std::vector<float> values(10);
    const absl::Status status = wait(**session, *table, values);
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(message_of(status), HasSubstr("worker 0 waited 0.1 s for"));
    EXPECT_EQ((*session)->clock(), status) << "the session stays broken";
  }
}

TEST(SessionTest, ASecondWorkerOfOneRankIsRefused) {
  ServerThreads servers({.servers = 1, .workers = 2});
  auto first = Session::connect(servers.session_options(0));
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = Session::connect(servers.session_options(0)).status();
  EXPECT_FALSE(second.ok());
  EXPECT_THAT(message_of(second), HasSubstr("worker 0"));
  SessionOptions other = servers.session_options(1);
  other.workers = 3;
  EXPECT_FALSE(Session::connect(other).ok());
  // The job goes on.
  auto right = Session::connect(servers.session_options(1));
  EXPECT_TRUE(right.ok()) << right.status();
}

TEST(SessionTest, WhoGivesUpGetsNoRowsAnyMore) {
  // As memory that belongs to somebody else by then.
  std::vector<float> values(10, -1);
  bool was_done = true;
  const ClusterResult result = run_cluster(over(Maps::kNone, 1, 1), [&](Session& session) -> absl::Status {
    auto table = session.table<float>({.name = "t", .rows = 10, .width = 1, .consistency = Essp{1}});
    RETURN_IF_ERROR(table.status());
    const Pending pull = table->pull_async(KeyRange{0, 10}, values);
    was_done = pull.done();
    return absl::CancelledError("enough");
  });
  EXPECT_FALSE(was_done);
  EXPECT_EQ(values, std::vector<float>(10, -1));
}

}  // namespace
}  // namespace verbena::testing
