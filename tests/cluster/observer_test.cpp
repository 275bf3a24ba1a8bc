// Observers of whole jobs: what they are told, what they may not do, and that nobody notices what becomes of
// them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/peer.hpp"
#include "tests/cluster/promises.hpp"
#include "transport/shm/shm_transport.hpp"
#include <verbena/observer.hpp>

namespace verbena::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ObserverOptions observer_of(const ServerThreads& servers) {
  return {.servers = servers.session_options(0).servers, .timeout_ms = 20'000};
}

/// Runs `look` beside the only worker of a job, which has filled its tables before.
absl::Status look_at(const ClusterOptions& options, const std::function<absl::Status(Session&)>& fill,
                     const std::function<absl::Status(Observer&)>& look) {
  ServerThreads servers(options);
  auto session = Session::connect(servers.session_options(0));
  RETURN_IF_ERROR(session.status());
  RETURN_IF_ERROR(fill(**session));
  auto observer = Observer::connect(observer_of(servers));
  RETURN_IF_ERROR(observer.status());
  return look(**observer);
}

constexpr std::uint32_t kObservedWidth = 2;

absl::Status push_rows(Session& session, const TableOptions& options, std::span<const Key> keys) {
  auto table = session.table<double>(options);
  RETURN_IF_ERROR(table.status());
  for (std::size_t i = 0; i < keys.size(); ++i)
    RETURN_IF_ERROR(
        table->push(keys.subspan(i, 1), std::vector<double>(kObservedWidth, static_cast<double>(i + 1))));
  return session.barrier();
}

class ObservedTableTest : public ::testing::TestWithParam<KeySpace> {};

TEST_P(ObservedTableTest, IsSeenWithItsRows) {
  constexpr std::uint64_t kRows = 700;
  const TestRows rows(GetParam(), kRows);
  TableOptions options = rows.options("rows");
  options.width = kObservedWidth;
  options.consistency = Bsp{};
  options.rule = "sgd(rate=1)";
  const absl::Status status = look_at(
      {.servers = 2, .workers = 1, .lanes = 2, .lanes_step = 1, .server_threads = 2},
      [&](Session& session) { return push_rows(session, options, rows.all()); },
      [&](Observer& observer) -> absl::Status {
        const auto job = observer.job();
        RETURN_IF_ERROR(job.status());
        EXPECT_EQ(job->servers, 2);
        EXPECT_EQ(job->workers, 1);
        EXPECT_EQ(job->workers_left, 0);
        EXPECT_EQ(job->clock, 1);
        const auto tables = observer.tables();
        RETURN_IF_ERROR(tables.status());
        if (tables->size() != 1) return wrong("tables");
        const ObservedTable& table = tables->front();
        EXPECT_EQ(table.options.name, "rows");
        EXPECT_EQ(table.options.key_space, GetParam());
        EXPECT_EQ(table.options.rule, options.rule);
        EXPECT_EQ(to_string(table.options.consistency), "bsp");
        EXPECT_EQ(table.type, ValueType::kDouble);
        const auto memory = observer.memory(table);
        RETURN_IF_ERROR(memory.status());
        EXPECT_EQ(memory->rows, kRows);
        EXPECT_GE(memory->value_bytes, kRows * kObservedWidth * sizeof(double));
        const auto top = observer.call(table, "top(count=2)", kAllKeys);
        RETURN_IF_ERROR(top.status());
        EXPECT_THAT(top->keys, ElementsAre(rows.key(kRows - 1), rows.key(kRows - 2)));
        // More keys than a message takes, the last of which has no row.
        std::vector<Key> asked(rows.all().begin(), rows.all().end());
        asked.push_back(123'456'789);
        const auto some = observer.call(table, "values", asked);
        RETURN_IF_ERROR(some.status());
        EXPECT_EQ(some->keys.size(), kRows);
        EXPECT_EQ(some->numbers.size(), kRows * kObservedWidth);
        std::map<Key, std::vector<double>> seen;
        RETURN_IF_ERROR(observer.scan(table, [&](Key key, std::span<const double> values) {
          EXPECT_TRUE(seen.emplace(key, std::vector(values.begin(), values.end())).second);
          return absl::OkStatus();
        }));
        EXPECT_EQ(seen.size(), kRows);
        for (std::size_t i = 0; i < kRows; ++i)
          EXPECT_EQ(seen[rows.key(i)], std::vector<double>(kObservedWidth, -static_cast<double>(i + 1)));
        const auto none = observer.call(table, "norms", std::vector<Key>());
        RETURN_IF_ERROR(none.status());
        return none->numbers == std::vector<double>(5) ? absl::OkStatus() : wrong("norms of no keys");
      });
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(KeySpaces, ObservedTableTest, ::testing::Values(KeySpace::kDense, KeySpace::kSparse),
                         [](const auto& test) { return std::string(name_of(test.param)); });

/// A scan that takes several answers of each lane.
TEST(ObserverTest, ScansRowByRow) {
  constexpr std::uint64_t kRows = 5;
  constexpr std::uint32_t kWide = 30'000;
  std::size_t seen = 0;
  const absl::Status status = look_at(
      {.servers = 1, .workers = 1, .inbox_bytes = 4 << 20, .push_ring_bytes = 4 << 20},
      [&](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "wide", .rows = kRows, .width = kWide});
        return table.ok() ? session.barrier() : table.status();
      },
      [&](Observer& observer) -> absl::Status {
        const auto tables = observer.tables();
        RETURN_IF_ERROR(tables.status());
        RETURN_IF_ERROR(observer.scan(tables->front(), [&](Key key, std::span<const double> values) {
          EXPECT_EQ(key, seen++);
          EXPECT_EQ(values.size(), kWide);
          return absl::OkStatus();
        }));
        const auto all = observer.call(tables->front(), "values", kAllKeys);
        EXPECT_TRUE(absl::IsResourceExhausted(all.status())) << all.status();
        const auto gathered = observer.call(tables->front(), "gather", std::vector<Key>{0, 1, 2, 3, 4});
        EXPECT_TRUE(absl::IsResourceExhausted(gathered.status())) << gathered.status();
        const absl::Status stopped = observer.scan(
            tables->front(), [](Key, std::span<const double>) { return absl::CancelledError("enough"); });
        EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
        return observer.job().status();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen, kRows);
}

TEST(ObserverTest, OnlyLooks) {
  const absl::Status status = look_at(
      {.servers = 1, .workers = 1},
      [&](Session& session) -> absl::Status {
        RETURN_IF_ERROR(session.table<float>({.name = "rows", .rows = 3, .width = kObservedWidth}).status());
        auto moving = session.table<float>({.name = "moving",
                                            .rows = 3,
                                            .width = kObservedWidth,
                                            .consistency = Asp{},
                                            .allocation = Allocation::kDynamic});
        return moving.ok() ? session.barrier() : moving.status();
      },
      [&](Observer& observer) -> absl::Status {
        const auto tables = observer.tables();
        RETURN_IF_ERROR(tables.status());
        if (tables->size() != 2) return wrong("tables");
        const auto refused = [&](std::size_t table, std::string_view function) {
          return observer.call((*tables)[table], function, kAllKeys).status();
        };
        EXPECT_TRUE(absl::IsPermissionDenied(refused(0, "scale(factor=2)")));
        EXPECT_TRUE(absl::IsInvalidArgument(refused(0, "nonsense")));
        EXPECT_TRUE(absl::IsInvalidArgument(refused(0, "top(count=x)")));
        EXPECT_TRUE(absl::IsFailedPrecondition(refused(1, "norms")));
        EXPECT_EQ((*tables)[1].options.allocation, Allocation::kDynamic);
        // None of that is the end.
        return refused(0, "norms");
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ObserverTest, NeedsAllServers) {
  ServerThreads servers({.servers = 2, .workers = 1});
  ObserverOptions options = observer_of(servers);
  // In any order, and maybe several copies of one.
  std::swap(options.servers[0], options.servers[1]);
  options.servers.push_back(options.servers[0]);
  const auto observer = Observer::connect(options);
  ASSERT_TRUE(observer.ok()) << observer.status();
  const auto job = (*observer)->job();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->servers, 2U);
  options.servers = {observer_of(servers).servers[0]};
  EXPECT_THAT(message_of(Observer::connect(options).status()), HasSubstr("is server 0 of 2"));
  EXPECT_TRUE(absl::IsInvalidArgument(Observer::connect({}).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      Observer::connect({.servers = {"shm:nobody/server-0"}, .timeout_ms = 50}).status()));
}

/// A function that goes on until the test lets it.
std::atomic<bool> may_end = true;
struct Endless {
  static constexpr std::string_view kName = "endless";
  explicit Endless(const FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const FunctionRow& /*row*/, const Value* /*values*/) {
    while (!may_end) std::this_thread::yield();
    ++rows;
  }
  [[nodiscard]] FunctionResult result() const { return {.numbers = {static_cast<double>(rows)}}; }
  /// As a function may: what is merged into is the result of another part.
  static void merge(FunctionResult& result, const FunctionResult& part, const FunctionCall& /*call*/) {
    result.numbers[0] = std::max(result.numbers[0], part.numbers[0]);
  }
  std::uint64_t rows = 0;
};

/// An observer that goes while a lane is at its call, and one that asks again before it has its answer.
TEST(ObserverTest, MayGoAtAnyTime) {
  ASSERT_TRUE(register_server_function<Endless>().ok());
  ServerThreads servers({.servers = 1, .workers = 1, .lanes = 2, .server_threads = 3});
  auto session = Session::connect(servers.session_options(0));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->table<float>({.name = "rows", .rows = 3, .width = kObservedWidth}).ok());
  const protocol::Inspect endless{.text = "endless"};
  may_end = false;
  {
    const auto transport = *transport::make_shm_transport();
    Peer peer(*transport, *transport->connect(observer_of(servers).servers[0],
                                              transport->now() + std::chrono::seconds(20)));
    peer.say(protocol::Observe{});
    peer.say(endless);
    peer.say(endless);
    EXPECT_THAT(peer.hear<protocol::Failed>().reason, HasSubstr("before it has its answer"));
  }
  may_end = true;
  for (int times = 0; times < 20; ++times) {
    const auto transport = *transport::make_shm_transport();
    Peer peer(*transport, *transport->connect(observer_of(servers).servers[0],
                                              transport->now() + std::chrono::seconds(20)));
    peer.say(protocol::Observe{});
    peer.say(endless);
  }
  auto observer = Observer::connect(observer_of(servers));
  ASSERT_TRUE(observer.ok()) << observer.status();
  const auto rows = (*observer)->call((*observer)->tables()->front(), "endless", kAllKeys);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->numbers, ElementsAre(2)) << "of two lanes, one has two of the rows";
  EXPECT_TRUE((*session)->barrier().ok());
}

/// Workers come and go as if there were no observers, and servers end without them.
TEST(ObserverTest, IsNotWaitedFor) {
  ServerThreads servers({.servers = 1, .workers = 1});
  auto observer = Observer::connect(observer_of(servers));
  ASSERT_TRUE(observer.ok()) << observer.status();
  EXPECT_EQ((*observer)->job()->clock, 0);
  EXPECT_TRUE((*observer)->tables()->empty());
  {
    auto session = Session::connect(servers.session_options(0));
    ASSERT_TRUE(session.ok()) << session.status();
    auto gone = Observer::connect(observer_of(servers));
    EXPECT_TRUE(gone.ok()) << gone.status();
    gone->reset();
    const TableOptions options{.name = "rows", .rows = 3, .width = kObservedWidth, .consistency = Bsp{}};
    EXPECT_TRUE(push_rows(**session, options, std::vector<Key>{0, 1, 2}).ok());
    EXPECT_EQ((*observer)->tables()->size(), 1);
  }
  for (const absl::Status& ended : servers.join(std::chrono::seconds(20))) EXPECT_TRUE(ended.ok()) << ended;
  const absl::Status status = (*observer)->job().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST(ObserverTest, AreNotTooMany) {
  ServerThreads servers({.servers = 1, .workers = 1});
  std::vector<std::unique_ptr<Observer>> observers;
  for (int i = 0; i < 16; ++i) {
    auto observer = Observer::connect(observer_of(servers));
    ASSERT_TRUE(observer.ok()) << observer.status();
    observers.push_back(*std::move(observer));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Observer::connect(observer_of(servers)).status()));
  observers.pop_back();
  // The server hears of it in its own time.
  absl::StatusOr<std::unique_ptr<Observer>> next = absl::UnknownError("not tried");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!next.ok() && std::chrono::steady_clock::now() < end) next = Observer::connect(observer_of(servers));
  EXPECT_TRUE(next.ok()) << next.status();
}

/// An observer that breaks the rules is refused; the job goes on, and so do other observers.
TEST(ObserverTest, MustKeepTheRules) {
  ServerThreads servers({.servers = 1, .workers = 1});
  auto session = Session::connect(servers.session_options(0));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->table<float>({.name = "rows", .rows = 3, .width = kObservedWidth}).ok());
  auto honest = Observer::connect(observer_of(servers));
  ASSERT_TRUE(honest.ok()) << honest.status();
  const protocol::Inspect norms{.text = "norms"};
  const std::vector<std::pair<std::vector<protocol::ControlMessage>, std::string>> all = {
      {{norms}, "before it said that it observes"},
      {{protocol::Describe{}}, "before it said that it observes"},
      {{protocol::Observe{}, protocol::Describe{.table = 1}}, "table 1 of 1"},
      {{protocol::Observe{}, protocol::Inspect{.table = 1, .text = "norms"}}, "table 1, lane 0"},
      {{protocol::Observe{}, protocol::Inspect{.lane = 1, .text = "norms"}}, "table 0, lane 1"},
      {{protocol::Observe{}, protocol::Goodbye{}}, "before its hello"},
      {{protocol::Observe{}, protocol::Hello{.workers = 1, .servers = 1}}, "observes, and said hello"},
      {{protocol::Observe{}, protocol::Observed{.servers = 1, .lanes = 1}}, "before its hello"},
  };
  for (const auto& [said, answer] : all) {
    const auto transport = *transport::make_shm_transport();
    Peer peer(*transport, *transport->connect(observer_of(servers).servers[0],
                                              transport->now() + std::chrono::seconds(20)));
    for (const protocol::ControlMessage& message : said) peer.say(message);
    EXPECT_THAT(peer.hear<protocol::Failed>().reason, HasSubstr(answer));
  }
  EXPECT_TRUE((*honest)->job().ok());
  EXPECT_TRUE((*session)->barrier().ok());
}

}  // namespace
}  // namespace verbena::testing
