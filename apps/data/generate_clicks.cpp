#include "apps/data/generate_clicks.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include "apps/data/feature_keys.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/random.hpp"
#include "apps/data/score_histogram.hpp"
#include "apps/options/numbers.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

constexpr auto kMaxFields = static_cast<std::int64_t>(kMostSlot);
constexpr std::int64_t kMaxRank = 1024;
constexpr double kMaxMagnitude = 1000;  // far from where a logit would no longer be a number
constexpr double kSmallestField = 4;
constexpr double kLargestField = 2e6;
constexpr std::array<double, 4> kSkews = {1.05, 1.15, 1.25, 1.35};

absl::Status check_clicks(const GenerateClicksOptions& options) {
  const auto invalid = [](std::string_view expected, auto found) {
    return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
  };
  if (options.examples < 1) return invalid("--examples: expected 1 or more", options.examples);
  if (options.fields < 1 || options.fields > kMaxFields) {
    return invalid(fmt::format("--fields: expected 1 to {}", kMaxFields), options.fields);
  }
  if (options.rank < 1 || options.rank > kMaxRank) {
    return invalid(fmt::format("--rank: expected 1 to {}", kMaxRank), options.rank);
  }
  const std::pair<std::string_view, double> deviations[] = {{"--weights", options.weights},
                                                            {"--factors", options.factors}};
  for (const auto& [name, value] : deviations) {
    if (!(value >= 0 && value <= kMaxMagnitude)) {
      return invalid(fmt::format("{}: expected 0 to {}", name, kMaxMagnitude), value);
    }
  }
  if (!(std::abs(options.bias) <= kMaxMagnitude)) {
    return invalid(fmt::format("--bias: expected -{0} to {0}", kMaxMagnitude), options.bias);
  }
  if (options.days < 1 || options.days > options.examples) {
    return invalid(fmt::format("--days: expected 1 to the number of examples, {}", options.examples),
                   options.days);
  }
  if (!(options.drift >= 0 && options.drift <= 1)) {
    return invalid("--drift: expected 0 to 1", options.drift);
  }
  if (options.drift > 0 && options.days == 1) {
    return invalid("--drift: expected 0, since there is one day (--days)", options.drift);
  }
  return absl::OkStatus();
}

/// Draws n from 0 … count − 1 with probability ∝ (n + 1)^−skew, by rejection (von Neumann, 1951) from a law
/// that is constant between powers of two. Rejection-inversion (Hörmann and Derflinger, 1996) rejects less,
/// but rounds a power to find n. Here every decision compares a uniform number with a computed one, whose
/// last bit, in which libraries differ, as good as never decides.
class FrequencyRanks {
 public:
  FrequencyRanks(std::uint64_t count, double skew)
      : count_(count), skew_(skew), least_accepted_(std::pow(2, -skew)) {
    double sum = 0;
    for (std::uint64_t first = 1; first <= count; first *= 2) {
      // So many numbers follow before the next power of two, each taken to be as frequent as the first one.
      sum += static_cast<double>(first) * std::pow(static_cast<double>(first), -skew);
      cumulative_.push_back(sum);
    }
  }
  std::uint64_t draw(Random& random) const {
    for (;;) {
      const double uniform = to_unit_interval(random()) * cumulative_.back();
      const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, uniform);
      const std::uint64_t first = std::uint64_t{1} << (found - cumulative_.begin());
      const std::uint64_t number = first + random_below(random, first);
      if (number > count_) continue;
      const double height = to_unit_interval(random());
      if (height < least_accepted_ ||
          height < std::pow(static_cast<double>(number) / static_cast<double>(first), -skew_)) {
        return number - 1;
      }
    }
  }

 private:
  std::uint64_t count_;
  double skew_;
  double least_accepted_;  ///< of any n, to do without the power for many
  std::vector<double> cumulative_;
};

/// Normal numbers, two of each two uniform ones (Box and Muller, 1958).
class NormalNumbers {
 public:
  explicit NormalNumbers(Random random) : random_(random) {}
  double next() {
    has_second_ = !has_second_;
    if (!has_second_) return second_;
    const double radius = std::sqrt(-2 * std::log(1 - to_unit_interval(random_())));
    const double angle = 2 * std::numbers::pi * to_unit_interval(random_());
    second_ = radius * std::sin(angle);
    return radius * std::cos(angle);
  }

 private:
  Random random_;
  bool has_second_ = false;
  double second_ = 0;
};

/// A field: which ids it has on a day, and how frequent they are.
class ClickField {
 public:
  ClickField(std::int64_t number, std::uint64_t size, double skew, std::uint64_t seed)
      : prefix_(fmt::format(" {}:", number)), size_(size), ranks_(size, skew), seed_(seed) {}

  /// What a line has before an id of the field.
  [[nodiscard]] const std::string& prefix() const { return prefix_; }

  /// `replaced`: how often an id has been replaced by now, on an average.
  std::uint64_t draw_id(Random& random, double replaced) const {
    const std::uint64_t rank = ranks_.draw(random);
    if (replaced == 0) return rank;
    // No id's own stream is that of ~rank.
    const double turn = to_unit_interval(Random(seed_, ~rank)());
    return static_cast<std::uint64_t>(replaced + turn) * size_ + rank;
  }
  [[nodiscard]] NormalNumbers numbers_of(std::uint64_t id) const { return NormalNumbers(Random(seed_, id)); }

 private:
  std::string prefix_;
  std::uint64_t size_;
  FrequencyRanks ranks_;
  std::uint64_t seed_;
};

class ClickGenerator {
 public:
  explicit ClickGenerator(const GenerateClicksOptions& options)
      : options_(options), factor_sums_(static_cast<std::size_t>(options.rank)) {
    Random seeds(options.seed);
    examples_seed_ = seeds();
    for (std::int64_t field = 0; field < options.fields; ++field) {
      const double place =
          options.fields == 1 ? 0 : static_cast<double>(field) / static_cast<double>(options.fields - 1);
      const double size = kSmallestField * std::pow(kLargestField / kSmallestField, place);
      fields_.emplace_back(field, static_cast<std::uint64_t>(std::llround(size)),
                           kSkews[static_cast<std::size_t>(field) % kSkews.size()], seeds());
    }
  }

  absl::StatusOr<KnownTruth> write_day(std::int64_t day, const std::string& path) {
    absl::StatusOr<OutputFile> file = OutputFile::create(path);
    if (!file.ok()) return file.status();
    Random random(examples_seed_, static_cast<std::uint64_t>(day));
    const std::int64_t examples =
        options_.examples / options_.days + (day < options_.examples % options_.days ? 1 : 0);
    ScoreHistogram scores;
    std::string line;
    for (std::int64_t n = 0; n < examples && file->status().ok(); ++n) {
      line = "0";
      const double logit = draw_features(random, options_.drift * static_cast<double>(day), &line);
      const bool is_positive = to_unit_interval(random()) < logistic(logit);
      if (is_positive) line.front() = '1';
      line += '\n';
      file->write(line);
      scores.add(logit, is_positive);
    }
    RETURN_IF_ERROR(file->commit());
    return KnownTruth{
        .path = path,
        .examples = examples,
        .positive_share = static_cast<double>(scores.positives()) / static_cast<double>(examples),
        .auc = scores.auc(),
        .log_loss = scores.log_loss().value()};
  }

 private:
  /// Appends an example's features and returns its logit. The sum over the pairs of fields is half of what
  /// the square of the sum has more than the sum of the squares.
  double draw_features(Random& random, double replaced, std::string* line) {
    std::fill(factor_sums_.begin(), factor_sums_.end(), 0);
    double weights = 0;
    double squares = 0;
    for (std::size_t field = 0; field < fields_.size(); ++field) {
      const std::uint64_t id = fields_[field].draw_id(random, replaced);
      *line += fields_[field].prefix();
      const fmt::format_int digits(id);
      line->append(digits.data(), digits.size());
      *line += ":1";
      NormalNumbers numbers = fields_[field].numbers_of(id);
      weights += numbers.next();
      for (double& sum : factor_sums_) {
        const double factor = numbers.next();
        sum += factor;
        squares += factor * factor;
      }
    }
    double products = -squares / 2;
    for (const double sum : factor_sums_) products += sum * sum / 2;
    return options_.bias + options_.weights * weights + options_.factors * options_.factors * products;
  }

  GenerateClicksOptions options_;
  std::uint64_t examples_seed_ = 0;
  std::vector<ClickField> fields_;
  std::vector<double> factor_sums_;
};

}  // namespace

void GenerateClicksOptions::add_options(CLI::App& command) {
  add_number(command, "--examples", examples, "lines to write, over all days")->capture_default_str();
  add_number(command, "--fields", fields, "features of an example; the first has 4 ids, the last 2,000,000")
      ->capture_default_str();
  add_number(command, "--weights", weights, "standard deviation of an id's own weight")
      ->capture_default_str();
  add_number(command, "--factors", factors,
             "standard deviation of the factors, whose products pairs of ids add")
      ->capture_default_str();
  add_number(command, "--rank", rank, "factors of an id")->capture_default_str();
  add_number(command, "--bias", bias, "of the logit: the smaller, the fewer clicks")->capture_default_str();
  add_number(command, "--days", days, "if not 1, a file for each: FILE.1, FILE.2, …")->capture_default_str();
  add_number(command, "--drift", drift, "share of a field's ids that are new each day")
      ->capture_default_str();
  add_number(command, "--seed", seed, "of everything drawn")->capture_default_str();
}

absl::StatusOr<std::vector<KnownTruth>> generate_clicks(const GenerateClicksOptions& options,
                                                        const std::string& path) {
  RETURN_IF_ERROR(check_clicks(options));
  ClickGenerator generator(options);
  std::vector<KnownTruth> truths;
  for (std::int64_t day = 0; day < options.days; ++day) {
    const std::string file = options.days == 1 ? path : fmt::format("{}.{}", path, day + 1);
    absl::StatusOr<KnownTruth> truth = generator.write_day(day, file);
    if (!truth.ok()) return truth.status();
    truths.push_back(*std::move(truth));
  }
  return truths;
}

}  // namespace verbena::apps
