// Update rules other than addition, in every kind of table and on every way that an update takes. A rule of a
// program is a class like Steps here and Maximum in tests/maximum_rule.hpp; nothing else in the system knows
// it.
#include "protocol/update_rule.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/maximum_rule.hpp"
#include <verbena/table.hpp>

namespace verbena::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Updates are gradients. A step is the gradient divided by the root of the sum of all gradients' squares so
/// far (Adagrad).
struct Steps {
  static constexpr std::string_view kName = "test-steps";
  static std::size_t state_bytes(ValueType type, std::uint32_t width) { return value_bytes(type) * width; }
  template <class Value>
  static void combine(Value* update, const Value* later, std::uint32_t width) {
    for (std::uint32_t i = 0; i < width; ++i) update[i] += later[i];
  }
  template <class Value>
  static void apply(Value* row, std::byte* state, const Value* update, std::uint32_t width) {
    auto* const squares = reinterpret_cast<Value*>(state);
    for (std::uint32_t i = 0; i < width; ++i) {
      squares[i] += update[i] * update[i];
      const double step = static_cast<double>(update[i]) / std::sqrt(static_cast<double>(squares[i]));
      const auto value = static_cast<Value>(static_cast<double>(row[i]) - step);
      base::copy_words(row + i, &value, 1);
    }
  }
  template <class Value>
  static void predict(Value* /*row*/, const Value* /*update*/, std::uint32_t /*width*/) {}
};

struct AnotherAddition : Maximum {
  static constexpr std::string_view kName = protocol::kAddition;
};

class UpdateRuleTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool kOnce = [] {
      EXPECT_TRUE(register_update_rule<Maximum>().ok());
      EXPECT_TRUE(register_update_rule<Steps>().ok());
      return true;
    }();
    static_cast<void>(kOnce);
  }
};

constexpr std::uint64_t kTableRows = 40;
constexpr std::uint32_t kTableWidth = 3;

/// What worker `rank` pushes to a row in a clock.
std::vector<float> updates_of(std::uint32_t rank, std::int64_t clock, Key key) {
  std::vector<float> update(kTableWidth);
  for (std::uint32_t i = 0; i < kTableWidth; ++i)
    update[i] =
        static_cast<float>((key * 7 + i * 5 + static_cast<std::uint64_t>(clock) * 11 + rank * 13) % 97);
  return update;
}

/// Each worker sees at least its own largest update and nothing larger than any that was pushed; at the end
/// the largest of all.
absl::Status check_maximum(Session& session, const TableOptions& options) {
  auto table = session.table<float>(options);
  RETURN_IF_ERROR(table.status());
  constexpr std::int64_t kClocks = 6;
  std::vector<Key> keys(kTableRows);
  for (Key key = 0; key < kTableRows; ++key) keys[key] = key;
  std::vector<float> own(kTableRows * kTableWidth);
  std::vector<float> all(kTableRows * kTableWidth);
  std::vector<float> seen(kTableRows * kTableWidth);
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    if (options.allocation == Allocation::kDynamic) RETURN_IF_ERROR(table->intent(keys, clock, clock + 1));
    for (const Key key : keys) {
      for (std::uint32_t rank = 0; rank < session.workers(); ++rank) {
        const std::vector<float> update = updates_of(rank, clock, key);
        for (std::uint32_t i = 0; i < kTableWidth; ++i) {
          all[key * kTableWidth + i] = std::max(all[key * kTableWidth + i], update[i]);
          if (rank == session.rank())
            own[key * kTableWidth + i] = std::max(own[key * kTableWidth + i], update[i]);
        }
      }
      // Two pushes, so that the row's updates are combined. Mostly the second one is smaller.
      const std::vector<Key> one = {key};
      RETURN_IF_ERROR(table->push(one, updates_of(session.rank(), clock, key)));
      RETURN_IF_ERROR(table->push(one, std::vector<float>(kTableWidth, 1)));
    }
    RETURN_IF_ERROR(table->pull(keys, seen));
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] < std::max(own[i], 1.0F))
        return absl::InternalError("own updates are missing at " + std::to_string(i));
      if (seen[i] > 96) return absl::InternalError("nobody has pushed " + std::to_string(seen[i]));
    }
    RETURN_IF_ERROR(session.clock());
  }
  RETURN_IF_ERROR(session.barrier());
  RETURN_IF_ERROR(table->pull(keys, seen));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != std::max(all[i], 1.0F))
      return absl::InternalError("at the end " + std::to_string(seen[i]) + ", not " + std::to_string(all[i]));
  }
  return absl::OkStatus();
}

TEST_F(UpdateRuleTest, AMaximumIsOneOverEveryModelAndPath) {
  struct Case {
    ConsistencyModel model;
    Allocation allocation;
  };
  const std::vector<Case> cases = {{Bsp{}, Allocation::kStatic},
                                   {Ssp{.staleness = 1}, Allocation::kStatic},
                                   {Essp{.staleness = 1}, Allocation::kStatic},
                                   {Asp{}, Allocation::kStatic},
                                   {Sequential{}, Allocation::kStatic},
                                   {Asp{}, Allocation::kDynamic},
                                   {Sequential{}, Allocation::kDynamic}};
  for (const Case& each : cases) {
    for (const ReadPath path : {ReadPath::kAuto, ReadPath::kCached}) {
      const TableOptions options{.name = "largest",
                                 .rows = kTableRows,
                                 .width = kTableWidth,
                                 .consistency = each.model,
                                 .allocation = each.allocation,
                                 .rule = std::string(Maximum::kName)};
      const ClusterResult result =
          run_cluster({.servers = 2, .workers = 3, .lanes = 2, .read_path = path},
                      [&](Session& session) { return check_maximum(session, options); });
      EXPECT_TRUE(result.first_error().ok()) << to_string(each.model) << ": " << result.first_error();
    }
  }
}

TEST_F(UpdateRuleTest, AStateIsKeptBesideEachRow) {
  const TableOptions options{.name = "weights",
                             .rows = kTableRows,
                             .width = 1,
                             .consistency = Bsp{},
                             .rule = std::string(Steps::kName)};
  const ClusterResult result = run_cluster({.servers = 2, .workers = 1, .lanes = 2}, [&](Session& session) {
    auto weights = session.table<double>(options);
    RETURN_IF_ERROR(weights.status());
    const std::vector<Key> keys = {kTableRows - 2, kTableRows - 1};  // side by side in memory
    std::vector<double> expected(2);
    std::vector<double> squares(2);
    std::vector<double> values(2);
    for (const double gradient : {3.0, 4.0, 12.0}) {
      // Both pushes are combined to one gradient a row, and each of these is one step.
      RETURN_IF_ERROR(weights->push(keys, std::vector<double>{gradient - 1, gradient}));
      RETURN_IF_ERROR(weights->push(keys, std::vector<double>{1, gradient}));
      RETURN_IF_ERROR(weights->pull(keys, values));
      if (values != expected) return absl::InternalError("a gradient shows before its step");
      RETURN_IF_ERROR(session.clock());
      for (std::size_t i = 0; i < 2; ++i) {
        const double sum = gradient * static_cast<double>(i + 1);
        squares[i] += sum * sum;
        expected[i] -= sum / std::sqrt(squares[i]);
      }
      RETURN_IF_ERROR(weights->pull(keys, values));
      if (values != expected)
        return absl::InternalError(fmt::format("other steps, to {} and {}", values[0], values[1]));
    }
    std::vector<double> all(kTableRows);
    RETURN_IF_ERROR(weights->pull(KeyRange{0, kTableRows}, all));
    if (std::count(all.begin(), all.end(), 0.0) != kTableRows - 2)
      return absl::InternalError("another row changed");
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// What a worker pushes to a row in a clock: gradients of both signs, whose sum depends on the order in which
/// floats are added. Not all workers push to all rows.
std::vector<float> gradient_of(std::uint32_t rank, std::int64_t clock, Key key) {
  std::vector<float> gradient = updates_of(rank, clock, key);
  for (float& number : gradient) number = (number - 48) / 7 * (rank == 1 ? 1e4F : 1);
  return gradient;
}
bool is_pushed(std::uint32_t rank, std::int64_t clock, Key key) {
  return (key + 3 * rank + static_cast<std::uint64_t>(clock)) % 7 != 0;
}

/// The rows of a plain loop that takes one step of the rule in each clock, along the sum of all gradients.
class PlainSteps {
 public:
  explicit PlainSteps(const std::string& rule)
      : rule_(protocol::UpdateRule::find(rule, ValueType::kFloat, kTableWidth).value()),
        rows_(kTableRows * kTableWidth),
        states_(kTableRows * (rule_.state_bytes() / sizeof(double) + 1)) {}

  void step(std::uint32_t workers, std::int64_t clock) {
    rule_.set_clock(clock);
    for (Key key = 0; key < kTableRows; ++key) {
      std::vector<float> sum;
      for (std::uint32_t rank = 0; rank < workers; ++rank) {
        if (!is_pushed(rank, clock, key)) continue;
        const std::vector<float> gradient = gradient_of(rank, clock, key);
        if (sum.empty()) {
          sum = gradient;
        } else {
          for (std::uint32_t i = 0; i < kTableWidth; ++i) sum[i] += gradient[i];
        }
      }
      if (sum.empty()) continue;
      rule_.apply(reinterpret_cast<std::byte*>(rows_.data() + key * kTableWidth),
                  reinterpret_cast<std::byte*>(states_.data() + key * (states_.size() / kTableRows)),
                  reinterpret_cast<const std::byte*>(sum.data()));
    }
  }
  [[nodiscard]] const std::vector<float>& rows() const { return rows_; }

 private:
  protocol::UpdateRule rule_;
  std::vector<float> rows_;
  std::vector<double> states_;
};

TEST_F(UpdateRuleTest, UnderBspAClocksGradientsAreOneStep) {
  constexpr std::int64_t kClocks = 5;
  for (const std::string rule :
       {"sgd(rate=0.5,decay=0.5)", "momentum", "adagrad(rate=0.5)", "rowwise-adagrad(initial=1)",
        "adam(rate=0.1,power=0.5)", "ftrl(l1=0.3,l2=0.01)"}) {
    for (const ConsistencyModel& model : {ConsistencyModel(Bsp{}), ConsistencyModel(ABsp{})}) {
      for (const ReadPath path : {ReadPath::kAuto, ReadPath::kCached}) {
        const TableOptions options{
            .name = "weights", .rows = kTableRows, .width = kTableWidth, .consistency = model, .rule = rule};
        const auto check = [&](Session& session) {
          auto table = session.table<float>(options);
          RETURN_IF_ERROR(table.status());
          PlainSteps expected(rule);
          std::vector<float> seen(kTableRows * kTableWidth);
          for (std::int64_t clock = 0; clock < kClocks; ++clock) {
            for (Key key = 0; key < kTableRows; ++key) {
              if (!is_pushed(session.rank(), clock, key)) continue;
              RETURN_IF_ERROR(table->push(std::vector<Key>{key}, gradient_of(session.rank(), clock, key)));
            }
            RETURN_IF_ERROR(session.clock());
            expected.step(session.workers(), clock);
            RETURN_IF_ERROR(table->pull(KeyRange{0, kTableRows}, seen));
            if (seen != expected.rows()) return absl::InternalError(fmt::format("other rows at {}", clock));
          }
          return absl::OkStatus();
        };
        const ClusterResult result =
            run_cluster({.servers = 2, .workers = 4, .lanes = 2, .read_path = path}, check);
        EXPECT_TRUE(result.first_error().ok())
            << rule << ", " << to_string(model) << ": " << result.first_error();
      }
    }
  }
}

TEST_F(UpdateRuleTest, UnderOtherModelsEachWorkersPushIsAStep) {
  for (const ConsistencyModel& model :
       {ConsistencyModel(Ssp{.staleness = 1}), ConsistencyModel(Essp{.staleness = 1}),
        ConsistencyModel(Asp{}), ConsistencyModel(Sequential{})}) {
    const TableOptions options{
        .name = "weights", .rows = kTableRows, .width = 1, .consistency = model, .rule = "adagrad(rate=1)"};
    const ClusterResult result =
        run_cluster({.servers = 2, .workers = 2, .lanes = 2}, [&](Session& session) -> absl::Status {
          auto table = session.table<double>(options);
          RETURN_IF_ERROR(table.status());
          RETURN_IF_ERROR(table->push(std::vector<Key>{7}, std::vector<double>{1}));
          RETURN_IF_ERROR(session.barrier());
          std::vector<double> seen(1);
          RETURN_IF_ERROR(table->pull(std::vector<Key>{7}, seen));
          // Two steps of g = 1; one step along both would be 1.
          const double expected = -1 - 1 / std::sqrt(2);
          if (std::abs(seen[0] - expected) < 1e-9) return absl::OkStatus();
          return absl::InternalError(fmt::format("{}, not {}", seen[0], expected));
        });
    EXPECT_TRUE(result.first_error().ok()) << to_string(model) << ": " << result.first_error();
  }
}

TEST_F(UpdateRuleTest, WhatARuleCannotDoIsRefused) {
  const auto refused = [](TableOptions options) {
    options.name = "rows";
    options.rows = 10;
    options.width = 1;
    absl::Status status;
    run_cluster({.servers = 1, .workers = 1}, [&](Session& session) {
      status = session.table<float>(options).status();
      EXPECT_TRUE(session.clock().ok()) << "a wrong call does not fail the session";
      return absl::OkStatus();
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return message_of(status);
  };
  const std::string maximum(Maximum::kName);
  const std::string steps(Steps::kName);
  EXPECT_THAT(
      refused({.rule = "nonsense"}),
      HasSubstr("no update rule \"nonsense\" is registered in this process, but \"add\", \"adagrad\""));
  EXPECT_THAT(refused({.consistency = Vap{.value_bound = 1}, .rule = maximum}), HasSubstr("works with sums"));
  EXPECT_THAT(refused({.consistency = ABsp{.updates = Updates::kMeans}, .rule = maximum}),
              HasSubstr("works with sums"));
  EXPECT_THAT(refused({.consistency = Asp{}, .allocation = Allocation::kDynamic, .rule = steps}),
              HasSubstr("does not move with it"));
  EXPECT_THAT(refused({.consistency = Asp{}, .allocation = Allocation::kDynamic, .rule = "adam"}),
              HasSubstr("no clock is known"));
  EXPECT_THAT(refused({.rule = "sgd(rate=-1)"}), HasSubstr("expected 0 to 1e+30, found -1"));
}

TEST_F(UpdateRuleTest, StepsWithoutStateGoWithRowsThatMove) {
  const TableOptions options{.name = "weights",
                             .rows = kTableRows,
                             .width = 1,
                             .consistency = Sequential{},
                             .allocation = Allocation::kDynamic,
                             .rule = "sgd(rate=0.5)"};
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2}, [&](Session& session) -> absl::Status {
        auto table = session.table<double>(options);
        RETURN_IF_ERROR(table.status());
        const std::vector<Key> keys = {3, kTableRows - 1};
        if (session.rank() == 0) RETURN_IF_ERROR(table->localize(keys).wait());
        RETURN_IF_ERROR(table->push(keys, std::vector<double>{1, 2}));
        RETURN_IF_ERROR(session.barrier());
        std::vector<double> seen(2);
        RETURN_IF_ERROR(table->pull(keys, seen));
        if (seen == std::vector<double>{-1, -2}) return absl::OkStatus();
        return absl::InternalError(fmt::format("{} and {}", seen[0], seen[1]));
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST_F(UpdateRuleTest, AKindThatLacksSomethingIsRefused) {
  EXPECT_EQ(register_update_rule({.name = "test-nothing"}).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(register_update_rule(
                  {.name = "test-hollow", .functions = [](ValueType) { return UpdateRuleFunctions(); }})
                  .ok());
  const absl::Status status = protocol::UpdateRule::find("test-hollow", ValueType::kFloat, 1).status();
  EXPECT_THAT(message_of(status), HasSubstr("has not all functions for float"));
}

TEST_F(UpdateRuleTest, ANameIsTakenOnce) {
  EXPECT_EQ(register_update_rule<Maximum>().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(register_update_rule<AnotherAddition>().code(), absl::StatusCode::kAlreadyExists);
}

/// A rule that takes one step for all workers' updates of a clock does so under any model with clocks.
TEST(OneStepTest, IsTakenForAllWorkers) {
  for (const ConsistencyModel& model : {ConsistencyModel(Bsp{}), ConsistencyModel(Ssp{2}),
                                        ConsistencyModel(Essp{1}), ConsistencyModel(BoundedDelay{3})}) {
    for (const Maps maps : {Maps::kAll, Maps::kNone}) {
      const ClusterResult result = run_cluster(over(maps, 1, 3), [&](Session& session) -> absl::Status {
        auto table = session.table<float>(
            {.name = "rows", .rows = 5, .width = 2, .consistency = model, .rule = "proximal(l1=2)"});
        RETURN_IF_ERROR(table.status());
        // By itself no worker's gradient moves a weight. All of them do, one clock after the other.
        const std::vector<float> push = {-1, 1};
        for (int clock = 0; clock < 3; ++clock) {
          RETURN_IF_ERROR(table->push(KeyRange{3, 4}, push));
          RETURN_IF_ERROR(session.clock());
        }
        RETURN_IF_ERROR(session.barrier());
        std::vector<float> row(2);
        RETURN_IF_ERROR(table->pull(KeyRange{3, 4}, row));
        EXPECT_NEAR(row[0], 1, 1e-6) << to_string(model);
        EXPECT_EQ(row[1], -3);
        return absl::OkStatus();
      });
      EXPECT_TRUE(result.first_error().ok()) << to_string(model) << ": " << result.first_error();
    }
  }
}

TEST(OneStepTest, NeedsABoundOnClocks) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [](Session& session) -> absl::Status {
        const auto error_of = [&](const ConsistencyModel& model, std::uint32_t width) {
          return message_of(
              session
                  .table<float>(
                      {.name = "rows", .rows = 5, .width = width, .consistency = model, .rule = "proximal"})
                  .status());
        };
        EXPECT_THAT(error_of(Sequential{}, 2), ::testing::HasSubstr("nothing says how far they are apart"));
        EXPECT_THAT(error_of(Asp{}, 2), ::testing::HasSubstr("nothing says how far they are apart"));
        EXPECT_THAT(error_of(Bsp{}, 3),
                    ::testing::HasSubstr("expected a width that is a multiple of 2, found 3"));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Updates that wait for other workers keep none of other tables waiting: neither what is pushed at once, nor
/// what a call must see, nor a read of what was sent. One worker goes ahead, the other comes later.
TEST(OneStepTest, KeepsNoOtherTableWaiting) {
  for (const Maps maps : {Maps::kAll, Maps::kNone}) {
    std::atomic<bool> is_ahead = false;
    const ClusterResult result = run_cluster(over(maps, 1, 2), [&](Session& session) -> absl::Status {
      auto steps = session.table<float>(
          {.name = "steps", .rows = 4, .width = 2, .consistency = BoundedDelay{3}, .rule = "proximal(l1=1)"});
      auto at_once = session.table<std::int64_t>(
          {.name = "at once", .rows = 4, .width = 1, .consistency = Sequential{}});
      auto sums = session.table<std::int64_t>(
          {.name = "sums", .rows = 4, .width = 1, .consistency = BoundedDelay{3}});
      RETURN_IF_ERROR(steps.status());
      RETURN_IF_ERROR(at_once.status());
      RETURN_IF_ERROR(sums.status());
      const bool goes_ahead = session.rank() == 0;
      while (!goes_ahead && !is_ahead) std::this_thread::yield();
      const std::vector<float> push = {-1, 1};
      const std::vector<std::int64_t> one = {1};
      std::vector<std::int64_t> value(1);
      for (std::int64_t clock = 0; clock < 3; ++clock) {
        RETURN_IF_ERROR(steps->push(KeyRange{1, 2}, push));
        RETURN_IF_ERROR(sums->push(KeyRange{2, 3}, one));
        RETURN_IF_ERROR(session.clock());
        if (!goes_ahead) continue;
        RETURN_IF_ERROR(at_once->push(KeyRange{3, 4}, one));
        RETURN_IF_ERROR(sums->push(KeyRange{2, 3}, one));
        const auto norms = sums->call("norms", KeyRange{2, 3});
        RETURN_IF_ERROR(norms.status());
        EXPECT_EQ(norms->numbers[2], static_cast<double>(2 * (clock + 1)))
            << "a call sees its caller's pushes";
        RETURN_IF_ERROR(sums->pull(KeyRange{2, 3}, value));
        EXPECT_EQ(value[0], 2 * (clock + 1));
      }
      if (goes_ahead) is_ahead = true;
      RETURN_IF_ERROR(session.barrier());
      std::vector<float> row(2);
      RETURN_IF_ERROR(steps->pull(KeyRange{1, 2}, row));
      EXPECT_EQ(row[1], -2) << "of both workers";
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

/// A worker that only pushes is not much further ahead than the model lets readers be.
TEST(OneStepTest, BoundsWhoOnlyPushes) {
  std::atomic<int> ahead = 0;
  const ClusterResult result = run_cluster(over(Maps::kAll, 1, 2), [&](Session& session) -> absl::Status {
    auto steps = session.table<float>(
        {.name = "steps", .rows = 4, .width = 2, .consistency = Ssp{1}, .rule = "proximal(l1=1)"});
    RETURN_IF_ERROR(steps.status());
    if (session.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      EXPECT_LE(ahead, 5);
    }
    const std::vector<float> push = {-1, 1};
    for (int clock = 0; clock < 20; ++clock) {
      RETURN_IF_ERROR(steps->push(KeyRange{1, 2}, push));
      RETURN_IF_ERROR(session.clock());
      if (session.rank() == 0) ++ahead;
    }
    return session.barrier();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::testing
