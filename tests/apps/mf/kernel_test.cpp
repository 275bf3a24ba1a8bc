#include "apps/mf/kernel.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <random>
#include <vector>

#include "apps/mf/model.hpp"

namespace verbena::apps::mf {
namespace {

/// The instruction sets that this processor has. For some of them there may be no code; that does no harm.
std::vector<std::int64_t> supported_targets() {
  std::vector<std::int64_t> result;
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1)
    result.push_back(left & -left);
  return result;
}

struct Problem {
  RowFormat format;
  FactorRows users;
  FactorRows items;
  std::vector<Rating> ratings;
};

FactorRows random_rows(std::size_t count, const RowFormat& format, std::mt19937_64& random) {
  FactorRows rows(count, format);
  std::vector<float> packed(count * format.width());
  std::normal_distribution<float> normal(0, 0.5F);
  for (float& value : packed) value = normal(random);
  rows.unpack(packed);
  return rows;
}

Problem random_problem(const RowFormat& format, std::size_t ratings, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Problem problem{format, random_rows(7, format, random), random_rows(5, format, random), {}};
  std::normal_distribution<float> normal(0, 1);
  for (std::size_t n = 0; n < ratings; ++n) {
    problem.ratings.push_back(
        {static_cast<std::uint32_t>(random() % 7), static_cast<std::uint32_t>(random() % 5), normal(random)});
  }
  return problem;
}

std::vector<float> packed(const FactorRows& rows) {
  std::vector<float> result(rows.size() * rows.format().width());
  rows.pack(result);
  return result;
}

/// A reference in double precision, as plain as possible.
struct Reference {
  explicit Reference(const Problem& problem)
      : format(problem.format),
        width(format.width()),
        users(widen(problem.users)),
        items(widen(problem.items)) {}

  static std::vector<double> widen(const FactorRows& rows) {
    const std::vector<float> values = packed(rows);
    return {values.begin(), values.end()};
  }
  [[nodiscard]] double error(const Rating& rating) const {
    const double* p = &users[rating.user * width];
    const double* q = &items[rating.item * width];
    double prediction = format.biases ? p[format.rank] + q[format.rank] : 0;
    for (std::size_t k = 0; k < format.rank; ++k) prediction += p[k] * q[k];
    return double{rating.value} - prediction;
  }
  void train(const std::vector<Rating>& ratings, double rate, double regularization) {
    for (const Rating& rating : ratings) {
      const double e = error(rating);
      double* p = &users[rating.user * width];
      double* q = &items[rating.item * width];
      for (std::size_t k = 0; k < format.rank; ++k) {
        const double old_p = p[k];
        p[k] += rate * (e * q[k] - regularization * p[k]);
        q[k] += rate * (e * old_p - regularization * q[k]);
      }
      if (!format.biases) continue;
      p[format.rank] += rate * (e - regularization * p[format.rank]);
      q[format.rank] += rate * (e - regularization * q[format.rank]);
    }
  }

  RowFormat format;
  std::size_t width;
  std::vector<double> users;
  std::vector<double> items;
};

class KernelTest : public ::testing::TestWithParam<RowFormat> {
 protected:
  ~KernelTest() override { hwy::SetSupportedTargetsForTest(0); }
  static void use(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
  }
};

TEST_P(KernelTest, FollowsTheReferenceWithEveryInstructionSet) {
  const Problem problem = random_problem(GetParam(), 200);
  Reference reference(problem);
  reference.train(problem.ratings, 0.02, 0.05);
  double squared_error_sum = 0;
  for (const Rating& rating : problem.ratings) squared_error_sum += std::pow(reference.error(rating), 2);

  for (const std::int64_t target : supported_targets()) {
    use(target);
    Problem trained = random_problem(GetParam(), 200);
    const Shape shape = GetParam().shape();
    train(trained.ratings, trained.users.rows(), trained.items.rows(), shape, {0.02F, 0.05F});
    const std::vector<float> users = packed(trained.users);
    const std::vector<float> items = packed(trained.items);
    for (std::size_t i = 0; i < users.size(); ++i) ASSERT_NEAR(double{users[i]}, reference.users[i], 2e-5);
    for (std::size_t i = 0; i < items.size(); ++i) ASSERT_NEAR(double{items[i]}, reference.items[i], 2e-5);
    EXPECT_NEAR(squared_error(trained.ratings, trained.users.rows(), trained.items.rows(), shape),
                squared_error_sum, 1e-4 * squared_error_sum)
        << hwy::TargetName(target);
  }
}

TEST_P(KernelTest, GivesTheSameBitsWithEveryInstructionSet) {
  std::vector<float> first_users;
  double first_error = 0;
  for (const std::int64_t target : supported_targets()) {
    use(target);
    Problem problem = random_problem(GetParam(), 500, 3);
    const Shape shape = GetParam().shape();
    train(problem.ratings, problem.users.rows(), problem.items.rows(), shape, {0.02F, 0.05F});
    const double error = squared_error(problem.ratings, problem.users.rows(), problem.items.rows(), shape);
    const std::vector<float> users = packed(problem.users);
    if (first_users.empty()) {
      first_users = users;
      first_error = error;
    }
    EXPECT_EQ(users, first_users) << hwy::TargetName(target);
    EXPECT_EQ(error, first_error) << hwy::TargetName(target);
  }
}

TEST_P(KernelTest, StepsAlongTheNegativeGradient) {
  const RowFormat format = GetParam();
  const double regularization = 0.3;
  Problem problem = random_problem(format, 1);
  const Rating rating = problem.ratings[0];
  Reference at(problem);
  const auto objective = [&] {
    double norm = 0;
    for (std::size_t k = 0; k < format.width(); ++k) {
      norm += std::pow(at.users[rating.user * format.width() + k], 2) +
              std::pow(at.items[rating.item * format.width() + k], 2);
    }
    return 0.5 * std::pow(at.error(rating), 2) + 0.5 * regularization * norm;
  };
  const std::vector<float> users_before = packed(problem.users);
  const std::vector<float> items_before = packed(problem.items);
  constexpr float kRate = 1e-2F;
  train(problem.ratings, problem.users.rows(), problem.items.rows(), format.shape(),
        {kRate, static_cast<float>(regularization)});
  const auto expect_gradient = [&](std::vector<double>& values, const std::vector<float>& before,
                                   const std::vector<float>& after) {
    constexpr double kStep = 1e-5;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      values[i] = value + kStep;
      const double above = objective();
      values[i] = value - kStep;
      const double below = objective();
      values[i] = value;
      const double gradient = (above - below) / (2 * kStep);
      EXPECT_NEAR((double{after[i]} - double{before[i]}) / double{kRate}, -gradient,
                  1e-3 + 1e-3 * std::abs(gradient));
    }
  };
  expect_gradient(at.users, users_before, packed(problem.users));
  expect_gradient(at.items, items_before, packed(problem.items));
}

TEST_P(KernelTest, LeavesThePaddingZero) {
  Problem problem = random_problem(GetParam(), 300);
  const Shape shape = GetParam().shape();
  train(problem.ratings, problem.users.rows(), problem.items.rows(), shape, {0.02F, 0.05F});
  for (std::size_t row = 0; row < problem.users.size(); ++row) {
    for (std::size_t k = GetParam().rank; k < shape.padded_rank; ++k) {
      EXPECT_EQ(problem.users.rows().factors[row * shape.padded_rank + k], 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, KernelTest,
                         ::testing::Values(RowFormat{1, true}, RowFormat{8, true}, RowFormat{16, true},
                                           RowFormat{16, false}, RowFormat{17, true}, RowFormat{48, false},
                                           RowFormat{100, true}),
                         [](const auto& parameter) {
                           return "Rank" + std::to_string(parameter.param.rank) +
                                  (parameter.param.biases ? "" : "NoBiases");
                         });

}  // namespace
}  // namespace verbena::apps::mf
