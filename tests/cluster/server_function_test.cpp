// Calls of server functions in whole jobs: what they see and change under each model, in tables of both kinds
// of keys; results in pieces; functions of the program's own; and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"
#include <verbena/server_function.hpp>

namespace verbena::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kFunctionWidth = 3;

/// Updates are added up in double by the function, so that sums are exact.
std::vector<float> values_of(std::uint64_t row) {
  std::vector<float> values(kFunctionWidth);
  for (std::uint32_t i = 0; i < kFunctionWidth; ++i) values[i] = static_cast<float>(row * kFunctionWidth + i);
  return values;
}

struct FunctionCase {
  const char* model = "";
  KeySpace key_space = KeySpace::kDense;
};

TableOptions called_table(const TestRows& rows, const char* model) {
  TableOptions options = rows.options("rows");
  options.width = kFunctionWidth;
  options.consistency = parse_consistency(model).value();
  return options;
}

class ServerFunctionTest : public ::testing::TestWithParam<FunctionCase> {};

/// Each worker calls for all rows, some keys and a range, before and after all have pushed.
TEST_P(ServerFunctionTest, SeesWhatAPullWouldSee) {
  constexpr std::uint64_t kRows = 500;
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2, .lanes = 2}, [&](Session& session) -> absl::Status {
        const TestRows rows(GetParam().key_space, kRows);
        auto table = session.table<float>(called_table(rows, GetParam().model));
        RETURN_IF_ERROR(table.status());
        auto norms = table->call("norms", kAllKeys);
        RETURN_IF_ERROR(norms.status());
        const double made = GetParam().key_space == KeySpace::kDense ? kRows : 0;
        if (norms->numbers != std::vector<double>{made, 0, 0, 0, 0}) return wrong("norms of nothing");
        RETURN_IF_ERROR(session.barrier());
        double sum = 0;
        double squares = 0;
        for (std::uint64_t row = session.rank(); row < kRows; row += session.workers())
          RETURN_IF_ERROR(table->push(rows.all().subspan(row, 1), values_of(row)));
        for (std::uint64_t i = 0; i < kRows * kFunctionWidth; ++i) {
          sum += static_cast<double>(i);
          squares += static_cast<double>(i * i);
        }
        RETURN_IF_ERROR(session.barrier());
        norms = table->call("norms", kAllKeys);
        RETURN_IF_ERROR(norms.status());
        const double most = kRows * kFunctionWidth - 1;
        if (norms->numbers != std::vector<double>{double{kRows}, most, sum, squares, most})
          return wrong(fmt::format("norms are {}", fmt::join(norms->numbers, " ")));
        // A list; of a sparse table with a key that has no row.
        std::vector<Key> some = {rows.key(7), rows.key(3)};
        if (GetParam().key_space == KeySpace::kSparse) some.push_back(12345);
        const auto regularizer = table->call("regularizer(l1=1,l2=2)", some);
        RETURN_IF_ERROR(regularizer.status());
        double expected = 0;
        for (const std::uint64_t row : {3U, 7U}) {
          for (const float value : values_of(row))
            expected += static_cast<double>(value) + static_cast<double>(value) * static_cast<double>(value);
        }
        if (regularizer->numbers != std::vector<double>{expected}) return wrong("a list of keys");
        const KeyRange range{rows.key(100), rows.key(100) + 2};
        const auto of_range = table->call("norms", range);
        RETURN_IF_ERROR(of_range.status());
        const auto in_range = static_cast<double>(std::count_if(
            rows.all().begin(), rows.all().end(), [&](Key key) { return range.contains(key); }));
        if (of_range->numbers[0] != in_range) return wrong(fmt::format("{} rows", of_range->numbers[0]));
        const auto top = table->call("top(count=3)", kAllKeys);
        RETURN_IF_ERROR(top.status());
        if (top->keys != std::vector<Key>{rows.key(kRows - 1), rows.key(kRows - 2), rows.key(kRows - 3)})
          return wrong("the largest rows");
        if (!std::is_sorted(top->numbers.rbegin(), top->numbers.rend())) return wrong("the largest first");
        const auto none = table->call("norms", std::vector<Key>());
        RETURN_IF_ERROR(none.status());
        if (none->numbers != std::vector<double>(5)) return wrong("no keys");
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// One worker sets, scales and sets again, in the order in which it calls; all see it after a barrier.
TEST_P(ServerFunctionTest, ChangesRowsInOrder) {
  constexpr std::uint64_t kRows = 300;
  const ClusterResult result = run_cluster(
      {.servers = 2, .workers = 2, .lanes = 1, .lanes_step = 1}, [&](Session& session) -> absl::Status {
        const TestRows rows(GetParam().key_space, kRows);
        auto table = session.table<float>(called_table(rows, GetParam().model));
        RETURN_IF_ERROR(table.status());
        std::vector<float> values(kRows * kFunctionWidth, 1);
        RETURN_IF_ERROR(table->pull(rows.all(), values));  // so that rows are cached, and subscribed
        RETURN_IF_ERROR(session.barrier());
        std::vector<PendingResult> calls;
        if (session.rank() == 0) {
          RETURN_IF_ERROR(table->push(rows.all(), std::vector<float>(kRows * kFunctionWidth, 5)));
          std::vector<double> numbers(kRows * kFunctionWidth);
          for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
          calls.push_back(table->call_async("set", rows.all(), numbers));
          calls.push_back(table->call_async("scale(factor=10)", kAllKeys));
          calls.push_back(table->call_async("set", rows.all().first(1), std::vector<double>{-1, -2, -3}));
        }
        RETURN_IF_ERROR(session.barrier());
        for (PendingResult& call : calls) RETURN_IF_ERROR(call.result().status());
        RETURN_IF_ERROR(session.barrier());  // an eager push may come after a barrier, but not after two
        RETURN_IF_ERROR(table->pull(rows.all(), values));
        for (std::size_t i = 0; i < values.size(); ++i) {
          const float expected =
              i < kFunctionWidth ? -1.0F - static_cast<float>(i) : 10 * static_cast<float>(i);
          if (values[i] != expected) return wrong(fmt::format("value {} is {}", i, values[i]));
        }
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

INSTANTIATE_TEST_SUITE_P(Models, ServerFunctionTest,
                         ::testing::Values(FunctionCase{"bsp"}, FunctionCase{"ssp:1"}, FunctionCase{"essp:1"},
                                           FunctionCase{"asp"}, FunctionCase{"sequential"},
                                           FunctionCase{"bsp", KeySpace::kSparse},
                                           FunctionCase{"essp:1", KeySpace::kSparse},
                                           FunctionCase{"sequential", KeySpace::kSparse}),
                         [](const auto& test) {
                           std::string name = test.param.model;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name + name_of(test.param.key_space);
                         });

/// Under BSP the callers' changes come after all updates of the clock, in the order of ranks.
TEST(ServerFunctionOrderTest, CallersTakeTurnsUnderBsp) {
  constexpr std::int64_t kClocks = 5;
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 3, .lanes = 2}, [&](Session& session) -> absl::Status {
        auto table = session.table<double>({.name = "rows", .rows = 20, .width = 1, .consistency = Bsp{}});
        RETURN_IF_ERROR(table.status());
        double expected = 0;
        std::vector<double> values(20);
        for (std::int64_t clock = 0; clock < kClocks; ++clock) {
          // Rank 0 multiplies by 2, rank 1 sets, rank 2 multiplies by 3; each pushes after its call.
          const std::vector<double> numbers(20, static_cast<double>(clock));
          std::vector<Key> all(20);
          for (Key key = 0; key < all.size(); ++key) all[key] = key;
          const std::uint32_t rank = session.rank();
          static_cast<void>(
              rank == 1 ? table->call_async(clock % 2 == 0 ? "scale(factor=7)" : "set", all,
                                            clock % 2 == 0 ? std::span<const double>() : std::span(numbers))
                        : table->call_async(rank == 0 ? "scale(factor=2)" : "scale(factor=3)", kAllKeys));
          RETURN_IF_ERROR(table->push(all, std::vector<double>(20, 1)));
          const auto norms = table->call("norms", kAllKeys);
          RETURN_IF_ERROR(norms.status());
          if (norms->numbers[4] != expected)
            return wrong(fmt::format("{} in clock {}", norms->numbers[4], clock));
          RETURN_IF_ERROR(session.clock());
          expected = (expected + 3) * 2;
          expected = (clock % 2 == 0 ? expected * 7 : static_cast<double>(clock)) * 3;
          RETURN_IF_ERROR(table->pull(all, values));
          if (values != std::vector<double>(20, expected))
            return wrong(fmt::format("{} after clock {}, not {}", values[0], clock, expected));
        }
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Weights that are set are weights that the rule goes on from.
TEST(ServerFunctionRuleTest, RulesGoOnFromWhatWasSet) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [&](Session& session) -> absl::Status {
        for (const char* const rule : {"ftrl(alpha=0.5,l1=1,l2=0.1)", "adagrad(rate=0.1)", "sgd(rate=0.5)"}) {
          auto table = session.table<float>({.name = rule,
                                             .key_space = KeySpace::kSparse,
                                             .width = 2,
                                             .consistency = Sequential{},
                                             .rule = rule});
          RETURN_IF_ERROR(table.status());
          const std::vector<Key> keys = {1, 99};
          RETURN_IF_ERROR(table->push(keys, std::vector<float>{4, -4, 3, 3}));
          RETURN_IF_ERROR(table->call("set", keys, std::vector<double>{0.5, -0.25, 0, 2}).status());
          std::vector<float> values(4);
          RETURN_IF_ERROR(table->pull(keys, values));
          if (values != std::vector<float>{0.5, -0.25, 0, 2}) return wrong("what was set");
          // A gradient of 0 changes nothing.
          RETURN_IF_ERROR(table->push(keys, std::vector<float>(4, 0)));
          RETURN_IF_ERROR(table->pull(keys, values));
          for (std::size_t i = 0; i < 4; ++i) {
            const float expected[] = {0.5, -0.25, 0, 2};
            if (std::abs(values[i] - expected[i]) > 1e-6F)
              return wrong(fmt::format("{}: {} instead of {}", rule, values[i], expected[i]));
          }
          // As if somebody had pushed the gradient of the regularizer.
          RETURN_IF_ERROR(table->call("regularize(l2=1)", kAllKeys).status());
          RETURN_IF_ERROR(table->pull(keys, values));
          if (!(values[0] < 0.5 && values[1] > -0.25 && values[2] == 0 && values[3] < 2))
            return wrong(fmt::format("{}: {}", rule, fmt::join(values, " ")));
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Results, and lists of keys, that need many messages; rings that have room for few.
TEST(ServerFunctionSizeTest, LargeCallsTravelInPieces) {
  constexpr std::uint64_t kRows = 20'000;
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2, .lanes = 2, .inbox_bytes = 8192, .push_ring_bytes = 8192},
                  [&](Session& session) -> absl::Status {
                    const TestRows rows(KeySpace::kSparse, kRows);
                    TableOptions options = rows.options("rows");
                    options.width = 1;
                    options.consistency = Asp{};
                    auto table = session.table<std::int64_t>(options);
                    RETURN_IF_ERROR(table.status());
                    std::vector<double> numbers(kRows);
                    for (std::size_t i = 0; i < kRows; ++i) numbers[i] = static_cast<double>(i + 1);
                    if (session.rank() == 0)
                      RETURN_IF_ERROR(table->call("set", rows.all(), numbers).status());
                    RETURN_IF_ERROR(session.barrier());
                    std::vector<PendingResult> calls;
                    for (int i = 0; i < 100; ++i)
                      calls.push_back(table->call_async("norms", rows.all().first(600)));
                    const auto top = table->call(fmt::format("top(count={})", kRows), kAllKeys);
                    RETURN_IF_ERROR(top.status());
                    for (PendingResult& call : calls) {
                      const auto one = call.result();
                      RETURN_IF_ERROR(one.status());
                      if (one->numbers[0] != 600) return wrong("one of many calls");
                    }
                    if (top->keys.size() != kRows) return wrong(fmt::format("{} keys", top->keys.size()));
                    for (std::size_t i = 0; i < kRows; ++i) {
                      if (top->keys[i] != rows.key(kRows - 1 - i)) return wrong(fmt::format("key {}", i));
                    }
                    return session.barrier();
                  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Servers without rows of any table are not told of clocks, and need not be asked.
TEST(ServerFunctionSizeTest, ATableMayHaveFewerRowsThanThereAreServers) {
  const ClusterResult result =
      run_cluster({.servers = 3, .workers = 1, .lanes = 2}, [&](Session& session) -> absl::Status {
        const auto table = session.table<float>({.name = "one row", .rows = 1, .width = 1});
        RETURN_IF_ERROR(table.status());
        RETURN_IF_ERROR(session.clock());
        const auto norms = table->call("norms", kAllKeys);
        RETURN_IF_ERROR(norms.status());
        if (norms->numbers[0] != 1) return wrong(fmt::format("{} rows", norms->numbers[0]));
        const auto memory = table->memory();
        RETURN_IF_ERROR(memory.status());
        return memory->rows == 1 ? absl::OkStatus() : wrong("memory of one row");
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// The example of <verbena/server_function.hpp>.
struct Sum {
  static constexpr std::string_view kName = "test-sum";
  explicit Sum(const FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    for (std::uint32_t i = 0; i < row.width(); ++i) sum += static_cast<double>(values[i]);
  }
  [[nodiscard]] FunctionResult result() const { return {.numbers = {sum}}; }
  double sum = 0;
};

/// Says more than may be said.
struct Chatter {
  static constexpr std::string_view kName = "test-chatter";
  explicit Chatter(const FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const FunctionRow& /*row*/, const Value* /*values*/) {}
  [[nodiscard]] static FunctionResult result() { return {.keys = std::vector<Key>(kMaxFunctionResults + 1)}; }
};

TEST(ServerFunctionOwnTest, AProgramCanRegisterItsOwn) {
  ASSERT_TRUE(register_server_function<Sum>().ok());
  ASSERT_TRUE(register_server_function<Chatter>().ok());
  EXPECT_THAT(message_of(register_server_function<Sum>()), HasSubstr("already the server function"));
  EXPECT_THAT(message_of(register_server_function({.name = "a b", .make = server_function_kind<Sum>().make})),
              HasSubstr("expected a name"));
  EXPECT_THAT(message_of(register_server_function({.name = "nothing"})), HasSubstr("has make()"));
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 1}, [&](Session& session) -> absl::Status {
        auto table =
            session.table<std::int32_t>({.name = "rows", .rows = 40, .width = 2, .consistency = Ssp{1}});
        RETURN_IF_ERROR(table.status());
        RETURN_IF_ERROR(table->push(KeyRange{5, 15}, std::vector<std::int32_t>(20, 3)));
        const auto sum = table->call("test-sum", kAllKeys);  // of this worker's push, which it sends before
        RETURN_IF_ERROR(sum.status());
        EXPECT_THAT(sum->numbers, ElementsAre(60));
        EXPECT_THAT(message_of(table->call("test-chatter", kAllKeys).status()),
                    HasSubstr("a result of 65537 keys"));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(ServerFunctionErrorTest, WrongCallsChangeNothing) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [&](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "rows", .rows = 40, .width = 2, .consistency = Bsp{}});
        RETURN_IF_ERROR(table.status());
        auto moving = session.table<float>({.name = "moving",
                                            .rows = 40,
                                            .width = 2,
                                            .consistency = Asp{},
                                            .allocation = Allocation::kDynamic});
        RETURN_IF_ERROR(moving.status());
        const std::vector<Key> keys = {1, 2};
        const auto error_of = [&](std::string_view function, const Keys& of,
                                  std::span<const double> numbers = {}) {
          return message_of(table->call(function, of, numbers).status());
        };
        const std::vector<double> numbers(5);
        EXPECT_THAT(error_of("no-such", kAllKeys), HasSubstr("no server function \"no-such\" is registered"));
        EXPECT_THAT(error_of("top(number=3)", kAllKeys), HasSubstr("has no parameter \"number\", but count"));
        EXPECT_THAT(error_of("top(count=0)", kAllKeys), HasSubstr("expected 1 to 65536, found 0"));
        EXPECT_THAT(error_of("regularize(l1=1)", kAllKeys), HasSubstr("takes gradients, and not \"add\""));
        EXPECT_THAT(error_of("set", keys), HasSubstr("with 2 numbers for each, found 0"));
        EXPECT_THAT(error_of("set", keys, numbers), HasSubstr("5 numbers for 2 keys"));
        EXPECT_THAT(error_of("set", kAllKeys, numbers), HasSubstr("5 numbers for a range"));
        EXPECT_THAT(error_of("norms", std::vector<Key>{40}), HasSubstr("keys below 40, not 40"));
        EXPECT_THAT(error_of("norms", KeyRange{3, 2}), HasSubstr("no range starts at 3 and ends at 2"));
        EXPECT_THAT(error_of("scale(factor=2)", kAllKeys),
                    HasSubstr("under bsp rows change when the clock ends"));
        EXPECT_THAT(error_of(std::string(300, 'x'), kAllKeys), HasSubstr("at most 256 bytes, found 300"));
        EXPECT_THAT(message_of(moving->call("norms", kAllKeys).status()), HasSubstr("\"moving\" is dynamic"));
        const auto norms = table->call("norms", kAllKeys);
        RETURN_IF_ERROR(norms.status());
        EXPECT_THAT(norms->numbers, ElementsAre(40, 0, 0, 0, 0));
        std::vector<PendingResult> calls;
        for (int i = 0; i < 32; ++i) calls.push_back(table->call_async("scale(factor=2)", kAllKeys));
        EXPECT_THAT(message_of(table->call_async("scale(factor=2)", kAllKeys).wait()),
                    HasSubstr("needs more: call it for fewer keys"));
        // Those that look have room, and nothing waits in the clock for what ends after it.
        RETURN_IF_ERROR(table->call("norms", kAllKeys).status());
        EXPECT_THAT(message_of(table->call_async("norms", kAllKeys, {}, {.after = {calls.back()}}).wait()),
                    HasSubstr("cannot begin after a call that changes rows"));
        std::vector<float> row(2);
        EXPECT_THAT(message_of(table->pull_async(KeyRange{0, 1}, row, {.after = {calls.back()}}).wait()),
                    HasSubstr("cannot begin after a call that changes rows"));
        RETURN_IF_ERROR(session.clock());
        for (PendingResult& call : calls) RETURN_IF_ERROR(call.wait());
        return table->call_async("scale(factor=2)", kAllKeys).done() ? wrong("has not waited for the clock")
                                                                     : absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::testing
