#include "apps/ctr/block_trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "apps/divergence.hpp"
#include "apps/resuming/saved_state.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::ctr {

namespace {

// What is saved.
constexpr const char* kSavedWeights = "weights";
constexpr const char* kSavedTrusts = "trusts";
constexpr const char* kSavedActive = "active";
constexpr const char* kSavedScores = "scores";
constexpr const char* kSavedNumbers = "numbers";  // threshold_, objective_, fall_
constexpr const char* kSavedLooksAtAll = "looks_at_all";
constexpr const char* kSavedConverged = "has_converged";
constexpr const char* kSavedPushed = "pushed";
constexpr const char* kSavedPassed = "passed";

constexpr double kNoThreshold = 1e20;
constexpr double kMostCurvature = 0.25;  // of a logistic loss, by its score
// As the rule computes it.
constexpr float kMostTrust = 5;
constexpr float kLeastTrust = 0.1F;

/// Of the logistic loss of an example that has the probability `wrong` of the other label, while its score
/// moves by at most so much.
double most_curvature(double wrong, double most_move) {
  constexpr double kFar = 30;  // beyond it any score may become 0, and e to that power is no help
  if (most_move > kFar) return kMostCurvature;
  return std::min(wrong * (1 - wrong) * std::exp(most_move), kMostCurvature);
}

}  // namespace

BlockTrainer::BlockTrainer(const BlockOptions& options, const Columns& columns, std::uint32_t blocks,
                           BlockParameters& parameters, Evaluation& evaluation, bool is_first)
    : options_(options),
      data_(columns),
      blocks_(blocks),
      parameters_(parameters),
      evaluation_(evaluation),
      is_first_(is_first),
      columns_(columns.columns()),
      scores_(columns.examples()),
      threshold_(kNoThreshold),
      objective_(std::numeric_limits<double>::max()) {}

absl::Status BlockTrainer::run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints) {
  if (const nlohmann::json* const saved = checkpoints.resumed()) {
    RETURN_IF_ERROR(restore(*saved));
    checkpoints.forget_resumed();
  } else if (!options_.is_fresh) {
    RETURN_IF_ERROR(read_weights());
  }
  for (std::int64_t pass = checkpoints.first_iteration(); pass <= options_.most_passes && !has_converged_;
       ++pass) {
    const bool all_are_active = looks_at_all_ || pass == options_.most_passes;
    if (all_are_active) activate_all();
    IterationReport report{.iteration = pass};
    RETURN_IF_ERROR(run_pass(report, stop));
    // If it rises, because what was under way at the same time went together, that is no end.
    const bool hardly_falls = fall_ >= 0 && fall_ <= options_.tolerance;
    has_converged_ = hardly_falls && (all_are_active || options_.kkt_ratio == 0);
    looks_at_all_ = hardly_falls;
    const bool is_last = has_converged_ || pass == options_.most_passes;
    if (options_.has_test && (is_last || pass % options_.test_every == 0))
      RETURN_IF_ERROR(evaluation_.run(report.sums, stop));
    reporter.iteration(report);
    RETURN_IF_ERROR(checkpoints.after_iteration(pass, is_last, [this] { return state(); }));
  }
  return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
}

nlohmann::json BlockTrainer::state() const {
  std::vector<float> weights;
  std::vector<float> trusts;
  std::vector<std::uint8_t> active;
  for (const Column& column : columns_) {
    weights.push_back(column.weight);
    trusts.push_back(column.trust);
    active.push_back(column.is_active ? 1 : 0);
  }
  const std::vector<double> numbers = {threshold_, objective_, fall_};
  nlohmann::json state = nlohmann::json::object();
  state[kSavedWeights] = saved_array(std::span(weights));
  state[kSavedTrusts] = saved_array(std::span(trusts));
  state[kSavedActive] = saved_array(std::span(active));
  state[kSavedScores] = saved_array(std::span(scores_));
  state[kSavedNumbers] = saved_array(std::span(numbers));
  state[kSavedLooksAtAll] = looks_at_all_;
  state[kSavedConverged] = has_converged_;
  state[kSavedPushed] = pushed_;
  state[kSavedPassed] = passed_;
  return state;
}

absl::Status BlockTrainer::restore(const nlohmann::json& saved) {
  const SavedState state(saved);
  const auto weights = state.array<float>(kSavedWeights, columns_.size());
  if (!weights.ok()) return weights.status();
  const auto trusts = state.array<float>(kSavedTrusts, columns_.size());
  if (!trusts.ok()) return trusts.status();
  const auto active = state.array<std::uint8_t>(kSavedActive, columns_.size());
  if (!active.ok()) return active.status();
  absl::StatusOr<std::vector<double>> scores = state.array<double>(kSavedScores, scores_.size());
  if (!scores.ok()) return scores.status();
  const auto numbers = state.array<double>(kSavedNumbers, 3);
  if (!numbers.ok()) return numbers.status();
  const absl::StatusOr<bool> looks_at_all = state.flag(kSavedLooksAtAll);
  if (!looks_at_all.ok()) return looks_at_all.status();
  const absl::StatusOr<bool> has_converged = state.flag(kSavedConverged);
  if (!has_converged.ok()) return has_converged.status();
  const absl::StatusOr<std::uint64_t> pushed = state.whole_number(kSavedPushed);
  if (!pushed.ok()) return pushed.status();
  const absl::StatusOr<std::uint64_t> passed = state.whole_number(kSavedPassed);
  if (!passed.ok()) return passed.status();
  for (std::size_t i = 0; i < columns_.size(); ++i)
    columns_[i] = {.weight = (*weights)[i], .trust = (*trusts)[i], .is_active = (*active)[i] != 0};
  scores_ = *std::move(scores);
  threshold_ = (*numbers)[0];
  objective_ = (*numbers)[1];
  fall_ = (*numbers)[2];
  looks_at_all_ = *looks_at_all;
  has_converged_ = *has_converged;
  pushed_ = *pushed;
  passed_ = *passed;
  return absl::OkStatus();
}

/// Those that training starts from.
absl::Status BlockTrainer::read_weights() {
  RETURN_IF_ERROR(parameters_.barrier());
  pairs_.resize(data_.columns() * kPair);
  RETURN_IF_ERROR(parameters_.read_pairs(data_.keys(), pairs_));
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    columns_[column].weight = pairs_[column * kPair];
    if (columns_[column].weight != 0) add_to_scores(column, static_cast<double>(columns_[column].weight));
  }
  return absl::OkStatus();
}

void BlockTrainer::activate_all() {
  threshold_ = kNoThreshold;
  for (Column& column : columns_) column.is_active = true;
}

absl::Status BlockTrainer::run_pass(IterationReport& report, const std::atomic<bool>& stop) {
  const auto start = std::chrono::steady_clock::now();
  violation_ = 0;
  for (std::uint32_t block = 0; block < blocks_; ++block) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    if (static_cast<std::int64_t>(flights_.size()) > options_.delay) RETURN_IF_ERROR(take_oldest());
    parameters_.computing_begins();
    RETURN_IF_ERROR(push_block(block));
    parameters_.computing_ends(block + 1 == blocks_ ? data_.examples() : 0);
    RETURN_IF_ERROR(parameters_.clock());
  }
  RETURN_IF_ERROR(parameters_.barrier());
  while (!flights_.empty()) RETURN_IF_ERROR(take_oldest());
  report.items = static_cast<double>(data_.examples());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return end_pass(report);
}

/// Computes and pushes the gradients of the block's active keys.
absl::Status BlockTrainer::push_block(std::uint32_t block) {
  Flight flight;
  pairs_.clear();
  const auto at_once = static_cast<double>(std::min<std::int64_t>(options_.delay, blocks_ - 1) + 1);
  const Columns::Range range = data_.columns_of(block);
  for (std::size_t column = range.first; column < range.last; ++column) {
    const Column& of_key = columns_[column];
    if (!of_key.is_active) continue;
    double gradient = 0;
    double curvature = 0;
    const Columns::Range entries = data_.entries_of(column);
    for (std::size_t i = entries.first; i < entries.last; ++i) {
      const Columns::Entry entry = data_.entry(i);
      const auto label = static_cast<double>(data_.label(entry.example));
      const auto value = static_cast<double>(entry.value);
      const auto weight = static_cast<double>(data_.weight(entry.example));
      const double wrong = logistic(-label * scores_[entry.example]);
      gradient -= weight * label * wrong * value;
      // Features of an example that change together move its score by as many times as much, and add up to
      // at most so many times the sum of their squares.
      const double together = static_cast<double>(entry.crowd) * at_once;
      const double most_move = static_cast<double>(of_key.trust) * std::abs(value) * together;
      curvature += weight * most_curvature(wrong, most_move) * value * value * together;
    }
    flight.columns.push_back(static_cast<std::uint32_t>(column));
    flight.keys.push_back(data_.keys()[column]);
    pairs_.push_back(static_cast<float>(gradient));
    pairs_.push_back(static_cast<float>(curvature));
  }
  pushed_ += flight.keys.size();
  passed_ += range.size();
  RETURN_IF_ERROR(parameters_.push_pairs(flight.keys, pairs_));
  flights_.push_back(std::move(flight));
  return absl::OkStatus();
}

/// Pulls the block's weights after its step.
absl::Status BlockTrainer::take_oldest() {
  const Flight flight = std::move(flights_.front());
  flights_.pop_front();
  pairs_.resize(flight.keys.size() * kPair);
  RETURN_IF_ERROR(parameters_.read_pairs(flight.keys, pairs_));
  for (std::size_t i = 0; i < flight.columns.size(); ++i)
    take(flight.columns[i], pairs_[i * kPair], pairs_[i * kPair + 1]);
  return absl::OkStatus();
}

void BlockTrainer::take(std::uint32_t column, float weight, float gradient) {
  Column& own = columns_[column];
  if (own.weight == 0) {
    const auto g = static_cast<double>(gradient);
    const double violation = std::abs(g) - options_.l1;
    violation_ = std::max(violation_, violation);
    if (options_.kkt_ratio > 0 && violation < -threshold_) own.is_active = false;
  }
  const float step = weight - own.weight;
  own.trust = std::min(kMostTrust, 2 * std::abs(step) + kLeastTrust);
  own.weight = weight;
  if (step != 0) add_to_scores(column, static_cast<double>(step));
}

void BlockTrainer::add_to_scores(std::size_t column, double step) {
  const Columns::Range entries = data_.entries_of(column);
  for (std::size_t i = entries.first; i < entries.last; ++i) {
    const Columns::Entry entry = data_.entry(i);
    scores_[entry.example] += step * static_cast<double>(entry.value);
  }
}

absl::Status BlockTrainer::end_pass(IterationReport& report) {
  PassNumbers numbers{.violation = violation_};
  for (std::size_t example = 0; example < scores_.size(); ++example) {
    numbers.log_loss += static_cast<double>(data_.weight(example)) *
                        logistic_loss(scores_[example], data_.label(example) > 0);
  }
  if (is_first_) {
    RETURN_IF_ERROR(parameters_.for_each([&](Key, float weight, std::span<const float>) {
      numbers.penalty += options_.l1 * std::abs(static_cast<double>(weight));
      return absl::OkStatus();
    }));
  }
  report.sums[kObjective] = numbers.log_loss + numbers.penalty;
  report.sums[kAllKeys] = static_cast<double>(columns_.size());
  report.sums[kActiveKeys] = static_cast<double>(
      std::count_if(columns_.begin(), columns_.end(), [](const Column& column) { return column.is_active; }));
  report.sums[kPushedKeys] = static_cast<double>(pushed_);
  report.sums[kPassedKeys] = static_cast<double>(passed_);
  RETURN_IF_ERROR(parameters_.gather(numbers));
  const double objective = numbers.log_loss + numbers.penalty;
  if (!std::isfinite(objective))
    return diverged(fmt::format("training has diverged in pass {}: values of features may be too large",
                                report.iteration));
  fall_ = (objective_ - objective) / objective;
  objective_ = objective;
  threshold_ = numbers.violation / static_cast<double>(options_.examples) * options_.kkt_ratio;
  return absl::OkStatus();
}

}  // namespace verbena::apps::ctr
