#include "apps/data/generate_ratings.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/data/output_file.hpp"
#include "apps/data/random.hpp"
#include "apps/options/numbers.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

constexpr std::int64_t kMaxIds = std::int64_t{1} << 31;
constexpr std::int64_t kMaxFactors = std::int64_t{1} << 31;  // 8 GiB a side
constexpr std::size_t kFlushBytes = std::size_t{1} << 16;

absl::Status check(const GenerateRatingsOptions& options) {
  const auto invalid = [](std::string_view expected, auto found) {
    return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
  };
  const auto positive = [&](std::string_view name, std::int64_t value) {
    return value >= 1 && value <= kMaxIds
               ? absl::OkStatus()
               : invalid(fmt::format("{}: expected 1 to {}", name, kMaxIds), value);
  };
  const std::pair<std::string_view, std::int64_t> counts[] = {
      {"--users", options.users}, {"--items", options.items}, {"--rank", options.rank}};
  for (const auto& [name, value] : counts) {
    RETURN_IF_ERROR(positive(name, value));
  }
  if (options.ratings < 1) return invalid("--ratings: expected 1 or more", options.ratings);
  if (options.rank > kMaxFactors / std::max(options.users, options.items)) {
    return invalid("--rank: expected factors that fit into memory", options.rank);
  }
  const std::pair<std::string_view, double> deviations[] = {
      {"--signal", options.signal}, {"--noise", options.noise}, {"--skew", options.skew}};
  for (const auto& [name, value] : deviations) {
    if (!(value >= 0) || !std::isfinite(value)) {
      return invalid(fmt::format("{}: expected a number of 0 or more", name), value);
    }
  }
  if (!std::isfinite(options.mean)) return invalid("--mean: expected a number", options.mean);
  return absl::OkStatus();
}

/// Row n of `rank` normal factors; the deviation of a product of two such rows is `signal`.
std::vector<float> planted_factors(std::int64_t rows, const GenerateRatingsOptions& options,
                                   std::mt19937_64& random) {
  const double deviation = std::sqrt(options.signal) / std::pow(static_cast<double>(options.rank), 0.25);
  std::normal_distribution<double> normal(0, 1);
  std::vector<float> factors(static_cast<std::size_t>(rows * options.rank));
  for (float& factor : factors) factor = static_cast<float>(deviation * normal(random));
  return factors;
}

/// Draws n from 0 … count − 1 with probability ∝ (n + 1)^−skew.
class Popularity {
 public:
  Popularity(std::int64_t count, double skew) {
    double sum = 0;
    cumulative_.reserve(static_cast<std::size_t>(count));
    for (std::int64_t n = 1; n <= count; ++n) {
      sum += std::pow(static_cast<double>(n), -skew);
      cumulative_.push_back(sum);
    }
  }
  std::size_t draw(std::mt19937_64& random) {
    const double uniform = to_unit_interval(random()) * cumulative_.back();
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), uniform);
    return std::min(static_cast<std::size_t>(found - cumulative_.begin()), cumulative_.size() - 1);
  }

 private:
  std::vector<double> cumulative_;
};

}  // namespace

void GenerateRatingsOptions::add_options(CLI::App& command) {
  add_number(command, "--users", users, "users that rate")->capture_default_str();
  add_number(command, "--items", items, "items that are rated")->capture_default_str();
  add_number(command, "--ratings", ratings, "lines to write")->capture_default_str();
  add_number(command, "--rank", rank, "factors that a rating is made of")->capture_default_str();
  add_number(command, "--mean", mean, "mean of the ratings")->capture_default_str();
  add_number(command, "--signal", signal, "standard deviation of what the factors explain")
      ->capture_default_str();
  add_number(command, "--noise", noise, "standard deviation of what nothing explains")->capture_default_str();
  add_number(command, "--skew", skew, "how much the popular are preferred; 0: not at all")
      ->capture_default_str();
  add_number(command, "--seed", seed, "of everything drawn")->capture_default_str();
}

absl::Status generate_ratings(const GenerateRatingsOptions& options, const std::string& path) {
  RETURN_IF_ERROR(check(options));
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  std::mt19937_64 random(options.seed);
  const std::vector<float> user_factors = planted_factors(options.users, options, random);
  const std::vector<float> item_factors = planted_factors(options.items, options, random);
  Popularity users(options.users, options.skew / 2);
  Popularity items(options.items, options.skew);
  std::normal_distribution<double> normal(0, 1);
  const auto rank = static_cast<std::size_t>(options.rank);
  fmt::memory_buffer text;
  for (std::int64_t n = 0; n < options.ratings; ++n) {
    const std::size_t user = users.draw(random);
    const std::size_t item = items.draw(random);
    double value = options.mean + options.noise * normal(random);
    for (std::size_t k = 0; k < rank; ++k) {
      value += double{user_factors[user * rank + k]} * double{item_factors[item * rank + k]};
    }
    fmt::format_to(std::back_inserter(text), "{}\t{}\t{:.4f}\n", user + 1, item + 1, value);
    if (text.size() < kFlushBytes && n + 1 < options.ratings) continue;
    file->write({text.data(), text.size()});
    if (!file->status().ok()) return file->status();
    text.clear();
  }
  return file->commit();
}

}  // namespace verbena::apps
