// The built-in rules against their formulas, worked out here by hand or written down a second time.
#include "protocol/gradient_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "protocol/update_rule.hpp"

namespace verbena::protocol {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

/// One row of a table with the rule, and what the rule keeps of it.
template <class Value = double>
class RuledRow {
 public:
  explicit RuledRow(std::string_view rule, std::uint32_t width = 1)
      : rule_(*UpdateRule::find(rule, value_type_of<Value>(), width)),
        values_(width),
        state_(rule_.state_bytes() / sizeof(double) + 1) {}

  /// The row after a step.
  const std::vector<Value>& step(std::vector<Value> gradients, std::int64_t clock = 0) {
    rule_.set_clock(clock);
    rule_.apply(reinterpret_cast<std::byte*>(values_.data()), reinterpret_cast<std::byte*>(state_.data()),
                reinterpret_cast<const std::byte*>(gradients.data()));
    return values_;
  }

 private:
  UpdateRule rule_;
  std::vector<Value> values_;
  std::vector<double> state_;  // aligned as states are
};

constexpr double kExact = 1e-12;

TEST(GradientRulesTest, SgdGoesAgainstTheGradient) {
  RuledRow<> row("sgd(rate=0.5)", 2);
  EXPECT_THAT(row.step({1, -2}), ElementsAre(-0.5, 1));
  EXPECT_THAT(row.step({1, 0}), ElementsAre(-1, 1));
}

TEST(GradientRulesTest, MomentumKeepsItsCourse) {
  RuledRow<> row("momentum(rate=0.1,momentum=0.5)");
  EXPECT_NEAR(row.step({1})[0], -0.1, kExact);
  EXPECT_NEAR(row.step({1})[0], -0.25, kExact);
  EXPECT_NEAR(row.step({0})[0], -0.325, kExact);
}

TEST(GradientRulesTest, AdagradStepsShrink) {
  RuledRow<> row("adagrad(rate=0.1)", 2);
  EXPECT_THAT(row.step({1, 0}), Pointwise(DoubleNear(1e-9), {-0.1, 0.0}));
  EXPECT_THAT(row.step({1, 3}), Pointwise(DoubleNear(1e-9), {-0.1 - 0.1 / std::sqrt(2.0), -0.1}));
  RuledRow<> later("adagrad(rate=0.1,initial=3)");
  EXPECT_NEAR(later.step({1})[0], -0.05, 1e-9);
}

TEST(GradientRulesTest, RowwiseAdagradHasOneRateForARow) {
  RuledRow<> row("rowwise-adagrad(rate=0.1)", 2);
  // The mean of the squares is 12.5.
  EXPECT_THAT(row.step({3, 4}),
              Pointwise(DoubleNear(1e-9), {-0.3 / std::sqrt(12.5), -0.4 / std::sqrt(12.5)}));
  EXPECT_EQ(UpdateRule::find("rowwise-adagrad", ValueType::kFloat, 100)->state_bytes(), 8);
}

TEST(GradientRulesTest, AdamCorrectsItsBiasByTheClock) {
  RuledRow<> row("adam(rate=0.1)");
  double m = 0;
  double v = 0;
  double w = 0;
  // The row is not in every clock: its moments wait, and the correction goes on.
  for (const std::int64_t clock : {0, 1, 5}) {
    const double g = static_cast<double>(clock) + 0.5;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double t = static_cast<double>(clock) + 1;
    w -= 0.1 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)) * m / (std::sqrt(v) + 1e-8);
    EXPECT_NEAR(row.step({g}, clock)[0], w, kExact) << "clock " << clock;
  }
  // The first step of Adam is as long as the rate, whatever the gradient.
  EXPECT_NEAR(RuledRow<>("adam").step({1e4})[0], -0.001, 1e-9);
}

TEST(GradientRulesTest, FtrlShrinksOnBothSidesOfZero) {
  for (const double side : {1.0, -1.0}) {
    RuledRow<> row("ftrl(alpha=0.1,beta=1,l1=1)");
    // z = 2, n = 4.
    EXPECT_NEAR(row.step({side * 2})[0], side * -1 / 30, kExact);
    // z = 2 − 0.5 + (√4.25 − 2) / 0.1 / 30.
    const double root = std::sqrt(4.25);
    const double z = 1.5 + (root - 2) / 3;
    EXPECT_NEAR(row.step({side * -0.5})[0], side * -(z - 1) / ((1 + root) / 0.1), kExact);
  }
  RuledRow<> small("ftrl(l1=3,l2=0.5)", 2);
  const std::vector<double> values = small.step({2, 4});
  EXPECT_EQ(values[0], 0) << "below l1";
  EXPECT_NEAR(values[1], -1 / (5 / 0.1 + 0.5), kExact);
}

TEST(GradientRulesTest, FtrlDividesByNothingThatIsZero) {
  RuledRow<float> row("ftrl(beta=0)", 2);
  EXPECT_THAT(row.step({0, 1e-30F}), ElementsAre(0, 0));
  EXPECT_TRUE(std::isnan(row.step({std::numeric_limits<float>::quiet_NaN(), 0})[0])) << "stays visible";
}

TEST(GradientRulesTest, RatesFallWithTheClock) {
  RuledRow<> decaying("sgd(rate=1,decay=0.5)");
  EXPECT_NEAR(decaying.step({1}, 0)[0], -1, kExact);
  EXPECT_NEAR(decaying.step({1}, 2)[0], -1.25, kExact);
  RuledRow<> root("sgd(rate=1,power=0.5)");
  EXPECT_NEAR(root.step({1}, 3)[0], -0.5, kExact);
  EXPECT_FALSE(UpdateRule::find("sgd", ValueType::kFloat, 1)->changes_with_clock());
  EXPECT_TRUE(UpdateRule::find("sgd(decay=0.9)", ValueType::kFloat, 1)->changes_with_clock());
  EXPECT_TRUE(UpdateRule::find("adam", ValueType::kFloat, 1)->changes_with_clock());
}

/// A program's rule whose rate falls for the first time at clock 10.
struct LateSteps {
  static constexpr std::string_view kName = "test-late";
  static constexpr NamedParameter kParameters[] = {{.name = "rate", .usual = 1}};
  static void constants(const double* parameters, std::int64_t clock, double* constants) {
    constants[0] = clock < 10 ? parameters[0] : parameters[0] / 2;
  }
  template <class Value>
  static void combine(Value* /*update*/, const Value* /*later*/, std::uint32_t /*width*/) {}
  template <class Value>
  static void apply(Value* row, std::byte* /*state*/, const Value* update, std::uint32_t /*width*/,
                    const double* constants) {
    *row -= static_cast<Value>(constants[0]) * *update;
  }
  template <class Value>
  static void predict(Value* /*row*/, const Value* /*update*/, std::uint32_t /*width*/) {}
};

TEST(GradientRulesTest, AProgramsRuleHasParametersAndAClock) {
  ASSERT_TRUE(register_update_rule<LateSteps>().ok());
  RuledRow<> row("test-late(rate=2)");
  EXPECT_EQ(row.step({1}, 0)[0], -2);
  EXPECT_EQ(row.step({1}, 9)[0], -4);
  EXPECT_EQ(row.step({1}, 10)[0], -5);
  EXPECT_TRUE(UpdateRule::find("test-late", ValueType::kFloat, 1)->changes_with_clock());
  EXPECT_EQ(register_update_rule(
                {.name = "test late", .functions = [](ValueType) { return UpdateRuleFunctions(); }})
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GradientRulesTest, WideRowsAreStepsOfEachNumber) {
  constexpr std::uint32_t kWidth = 200;  // more than a piece, and a part of one
  for (const std::string rule : {"momentum", "adagrad", "adam", "ftrl", "sgd"}) {
    RuledRow<float> wide(rule, kWidth);
    std::vector<RuledRow<float>> narrow;
    for (std::uint32_t i = 0; i < kWidth; ++i) narrow.emplace_back(rule);
    for (int round = 0; round < 3; ++round) {
      std::vector<float> gradients(kWidth);
      for (std::uint32_t i = 0; i < kWidth; ++i) gradients[i] = static_cast<float>(i % 7) - 3;
      const std::vector<float> values = wide.step(gradients);
      for (std::uint32_t i = 0; i < kWidth; ++i)
        ASSERT_EQ(values[i], narrow[i].step({gradients[i]})[0]) << rule << ", number " << i;
    }
  }
}

TEST(GradientRulesTest, RefusesWhatIsNoRule) {
  const auto refusal = [](std::string_view text, ValueType type = ValueType::kFloat) {
    const absl::Status status = UpdateRule::find(text, type, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal("sgd(rate=0.1"), ::testing::HasSubstr("found no \")\" at its end"));
  EXPECT_THAT(refusal("sgd(rate)"), ::testing::HasSubstr("NAME(PARAMETER=NUMBER,…), found \"rate\""));
  EXPECT_THAT(refusal("sgd(rate=)"), ::testing::HasSubstr("found \"rate=\""));
  EXPECT_THAT(refusal("sgd(rate=1x)"), ::testing::HasSubstr("found \"rate=1x\""));
  EXPECT_THAT(refusal("sgd(rate=nan)"), ::testing::HasSubstr("found \"rate=nan\""));
  EXPECT_THAT(refusal("sgd(rate=1,)"), ::testing::HasSubstr("found \"\""));
  EXPECT_EQ(refusal("sgd(rte=1)"),
            "the update rule \"sgd\" has no parameter \"rte\", but rate, decay, power");
  EXPECT_EQ(refusal("sgd(rate=-1)"), "rate of the update rule \"sgd\": expected 0 to 1e+30, found -1");
  EXPECT_EQ(refusal("sgd(rate=1,rate=2)"), "rate of the update rule \"sgd\" is given twice");
  EXPECT_EQ(refusal("add(rate=1)"), "the update rule \"add\" has no parameter \"rate\", but none");
  EXPECT_THAT(refusal("sdg"),
              ::testing::HasSubstr("no update rule \"sdg\" is registered in this process, but \"add\", "
                                   "\"adagrad\", \"adam\", \"ftrl\", \"momentum\", \"proximal\", "
                                   "\"rowwise-adagrad\", \"sgd\""));
  EXPECT_THAT(refusal("sgd", ValueType::kInt32), ::testing::HasSubstr("has not all functions for int32"));
  EXPECT_THAT(refusal(")"), ::testing::HasSubstr("is registered"));
  EXPECT_THAT(refusal("("), ::testing::HasSubstr("at its end"));
  EXPECT_TRUE(UpdateRule::find("add()", ValueType::kInt32, 1).ok());
  EXPECT_TRUE(UpdateRule::find(" sgd ( rate = 0.5 , power = 1 ) ", ValueType::kDouble, 1).ok());
}

/// The step against a search for the least of what it is to make least.
TEST(GradientRulesTest, ProximalStepsMakeTheModelLeast) {
  RuledRow<> row("proximal(l1=0.5,damping=2)", 2);
  double w = 0;
  double most = 1;
  const std::vector<std::pair<double, double>> pushes = {
      {-0.4, 1}, {-3, 1}, {0.2, 4}, {100, 1}, {-100, 0.01}, {1, 10}, {0.3, 30}, {-0.7, 2}, {5, 3}, {0, 0}};
  for (const auto& [g, u] : pushes) {
    const auto value_at = [&, g = g, u = u](double d) {
      return g * d + 2 * u * d * d / 2 + 0.5 * std::abs(w + d);
    };
    double best = 0;
    for (int i = -200'000; i <= 200'000; ++i) {
      const double d = most * i / 200'000;
      if (value_at(d) < value_at(best)) best = d;
    }
    if (most > std::abs(w) && value_at(-w) <= value_at(best)) best = -w;  // exactly 0
    const std::vector<double> found = row.step({g, u});
    EXPECT_NEAR(found[0], w + best, 1e-4) << g << ", " << u;
    EXPECT_EQ(found[1], g) << "the row tells the gradient";
    most = std::min(5.0, 2 * std::abs(found[0] - w) + 0.1);
    w = found[0];
  }
  EXPECT_EQ(RuledRow<>("proximal(l1=1)", 2).step({0.9, 1})[0], 0);
}

TEST(GradientRulesTest, ProximalTakesOneStepAClock) {
  EXPECT_TRUE(UpdateRule::find("proximal", ValueType::kFloat, 2)->takes_one_step_a_clock());
  EXPECT_FALSE(UpdateRule::find("ftrl", ValueType::kFloat, 2)->takes_one_step_a_clock());
}

}  // namespace
}  // namespace verbena::protocol
