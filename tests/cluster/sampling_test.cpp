// Samples of dynamic tables: how much the preference for near keys changes their distribution.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/cluster/cluster.hpp"
#include "tests/cluster/promises.hpp"

namespace verbena::testing {
namespace {

constexpr std::uint64_t kSampledRows = 100;
constexpr std::size_t kDraws = 200'000;
/// The tolerance for frequencies of so many draws.
constexpr double kNoise = 0.02;

TableOptions sampled() {
  return {.name = "sampled",
          .rows = kSampledRows,
          .width = 1,
          .consistency = Asp{},
          .allocation = Allocation::kDynamic};
}

/// Weights after Zipf, so that near and far keys weigh differently.
std::vector<double> weights() {
  std::vector<double> weights(kSampledRows);
  for (std::size_t i = 0; i < kSampledRows; ++i)
    weights[(i * 37) % kSampledRows] = 1 / static_cast<double>(i + 1);
  return weights;
}

/// Measured by worker 0 of two, whose node has the first half of the rows.
TEST(SamplingTest, TheBiasIsWhatItsHeaderSays) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2}, [](Session& session) -> absl::Status {
        auto opened = session.table<float>(sampled());
        RETURN_IF_ERROR(opened.status());
        RETURN_IF_ERROR(session.barrier());
        if (session.rank() != 0) return session.barrier();
        const std::vector<double> asked = weights();
        auto distribution = KeyDistribution::weighted(0, asked);
        RETURN_IF_ERROR(distribution.status());
        double sum = 0;
        double near = 0;
        for (std::size_t i = 0; i < kSampledRows; ++i) {
          sum += asked[i];
          if (i < kSampledRows / 2) near += asked[i];
        }
        const double m = near / sum;
        std::mt19937_64 random(1);
        for (const double preference : {0.0, 0.25, 0.5, 1.0}) {
          auto sample = opened->prepare_sample(*distribution, kDraws, random, {.preference = preference});
          RETURN_IF_ERROR(sample.status());
          std::vector<double> drawn(kSampledRows, 0);
          for (const Key key : sample->keys()) drawn[key] += 1.0 / kDraws;
          const double share = preference * (1 - std::pow(1 - m, kMostRedraws));
          double distance = 0;
          for (std::size_t i = 0; i < kSampledRows; ++i) {
            const double p = asked[i] / sum;
            const double expected = i < kSampledRows / 2 ? p * (1 + (1 - m) * share / m) : p * (1 - share);
            EXPECT_NEAR(drawn[i], expected, kNoise / 2) << "key " << i << ", preference " << preference;
            distance += std::abs(drawn[i] - p) / 2;
          }
          EXPECT_NEAR(distance, share * (1 - m), kNoise) << "preference " << preference;
          EXPECT_NEAR(static_cast<double>(sample->redrawn()) / kDraws, share * (1 - m), kNoise);
          RecordProperty(fmt::format("total_variation_at_preference_{:.0f}_percent", 100 * preference),
                         fmt::format("{:.4f}", distance));
        }
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// Measured by worker 0 of two, which draws from the other node's half.
TEST(SamplingTest, WhereNothingIsNearTheKeysStayAsDrawn) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 2}, [](Session& session) -> absl::Status {
        auto opened = session.table<float>(sampled());
        RETURN_IF_ERROR(opened.status());
        RETURN_IF_ERROR(session.barrier());
        if (session.rank() != 0) return session.barrier();
        std::mt19937_64 random(1);
        const KeyRange far{kSampledRows / 2, kSampledRows};
        auto sample =
            opened->prepare_sample(KeyDistribution::uniform(far), kDraws, random, {.preference = 1});
        RETURN_IF_ERROR(sample.status());
        EXPECT_EQ(sample->redrawn(), 0);
        std::vector<double> drawn(kSampledRows, 0);
        for (const Key key : sample->keys()) drawn[key] += 1.0 / kDraws;
        for (Key key = 0; key < kSampledRows; ++key)
          EXPECT_NEAR(drawn[key], key < far.first ? 0 : 1.0 / static_cast<double>(far.size()), kNoise / 10);
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SamplingTest, WhatIsSampledForLaterComesNear) {
  const ClusterResult result =
      run_cluster({.servers = 2, .workers = 1}, [](Session& session) -> absl::Status {
        auto opened = session.table<float>(sampled());
        RETURN_IF_ERROR(opened.status());
        Table<float>& table = *opened;
        std::vector<float> rows(kSampledRows);
        for (std::size_t i = 0; i < kSampledRows; ++i) rows[i] = static_cast<float>(i);
        RETURN_IF_ERROR(table.push(KeyRange{0, kSampledRows}, rows));
        std::mt19937_64 random(1);
        auto sample =
            table.prepare_sample(KeyDistribution::uniform({50, 100}), 20, random, {.from = 1, .to = 2});
        RETURN_IF_ERROR(sample.status());
        RETURN_IF_ERROR(session.clock());
        std::vector<float> values(20);
        // They may have come in clock() already.
        do {
          RETURN_IF_ERROR(table.pull_sample(*sample, values));
        } while (session.statistics().rows_moved_by_intent == 0);
        for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(values[i], static_cast<float>(sample->keys()[i]));
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(SamplingTest, WrongCallsAreRefused) {
  const ClusterResult result =
      run_cluster({.servers = 1, .workers = 1}, [](Session& session) -> absl::Status {
        auto opened = session.table<float>(sampled());
        RETURN_IF_ERROR(opened.status());
        std::mt19937_64 random(1);
        const auto code = [&](const KeyDistribution& distribution, Table<float>& table,
                              const SampleOptions& options) {
          return table.prepare_sample(distribution, 3, random, options).status().code();
        };
        const KeyDistribution all = KeyDistribution::uniform({0, kSampledRows});
        EXPECT_EQ(code(KeyDistribution::uniform({0, kSampledRows + 1}), *opened, {}),
                  absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(code(all, *opened, {.preference = 1.5}), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(code(all, *opened, {.from = 3, .to = 2}), absl::StatusCode::kInvalidArgument);
        auto fixed = session.table<float>({.name = "fixed", .rows = kSampledRows, .width = 1});
        RETURN_IF_ERROR(fixed.status());
        EXPECT_EQ(code(all, *fixed, {.preference = 0.5}), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(code(all, *fixed, {.from = 1, .to = 2}), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(code(all, *fixed, {}), absl::StatusCode::kOk);
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::testing
