#include "apps/ctr/parameters.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/prefetch.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::ctr {

namespace {

constexpr std::string_view kWeights = "ctr.weights";
constexpr std::string_view kFactors = "ctr.factors";
constexpr std::string_view kScores = "ctr.scores";
constexpr std::uint32_t kScoresWidth = 512;
constexpr std::uint64_t kScoresRows = 2 * ScoreHistogram::kBins / kScoresWidth;
constexpr std::size_t kKeysAtOnce = 4096;

/// The keys that have factors, and these. Factors that are all 0 would never change: each is a factor of the
/// gradient of another.
struct OfFactors {
  OfFactors(std::span<const Key> all, std::span<const float> factors, std::size_t rank) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto row = factors.subspan(i * rank, rank);
      if (std::all_of(row.begin(), row.end(), [](float factor) { return factor == 0; })) continue;
      keys.push_back(all[i]);
      numbers.insert(numbers.end(), row.begin(), row.end());
    }
  }
  std::vector<Key> keys;
  std::vector<float> numbers;
};

}  // namespace

void zero_untrained(const protocol::InitialValues& initial_factors, std::span<const Key> keys,
                    std::size_t rank, std::vector<float>& factors) {
  if (rank == 0) return;
  std::vector<float> initial(rank);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto row = std::span(factors).subspan(i * rank, rank);
    initial_factors.write(keys[i], ValueType::kFloat, static_cast<std::uint32_t>(rank),
                          reinterpret_cast<std::byte*>(initial.data()));
    if (std::equal(row.begin(), row.end(), initial.begin())) std::fill(row.begin(), row.end(), 0.0F);
  }
}

absl::StatusOr<TableParameters> TableParameters::open(Session& session, const ConsistencyModel& consistency,
                                                      const Rules& rules, TrainingWatch& watch) {
  TableParameters parameters(session, watch);
  auto weights = session.table<float>({.name = std::string(kWeights),
                                       .key_space = KeySpace::kSparse,
                                       .width = 1,
                                       .consistency = consistency,
                                       .rule = rules.weights,
                                       .seed = rules.seed,
                                       .admission = rules.weight_admission,
                                       .eviction = rules.eviction,
                                       .filter = rules.filter,
                                       .encoding = rules.encoding});
  if (!weights.ok()) return weights.status();
  parameters.weights_ = *weights;
  if (rules.rank > 0) {
    auto factors = session.table<float>({.name = std::string(kFactors),
                                         .key_space = KeySpace::kSparse,
                                         .width = rules.rank,
                                         .consistency = consistency,
                                         .rule = rules.factors,
                                         .initial = rules.initial_factors,
                                         .seed = rules.seed,
                                         .admission = rules.factor_admission,
                                         .eviction = rules.eviction,
                                         .filter = rules.filter,
                                         .encoding = rules.encoding});
    if (!factors.ok()) return factors.status();
    parameters.factors_ = *factors;
    const auto initial = protocol::InitialValues::find(rules.initial_factors, rules.seed, ValueType::kFloat);
    if (!initial.ok()) return initial.status();
    parameters.initial_factors_ = *initial;
  }
  RETURN_IF_ERROR(parameters.open_scores());
  return parameters;
}

absl::Status TableParameters::read(std::span<const Key> keys, Numbers& parameters) {
  RETURN_IF_ERROR(weights_.pull(keys, parameters.weights));
  return factors_ ? factors_->pull(keys, parameters.factors) : absl::OkStatus();
}

absl::Status TableParameters::step(std::span<const Key> keys, const Numbers& gradients) {
  RETURN_IF_ERROR(weights_.push(keys, gradients.weights));
  return factors_ ? factors_->push(keys, gradients.factors) : absl::OkStatus();
}

absl::Status TableParameters::start_from(std::span<const Key> keys, const Numbers& parameters) {
  if (session_.is_catching_up()) return session_.barrier();
  const std::vector<double> weights(parameters.weights.begin(), parameters.weights.end());
  std::vector<PendingResult> calls;
  calls.push_back(weights_.call_async("set", keys, weights));
  if (factors_) {
    const OfFactors those(keys, parameters.factors, factors_->width());
    calls.push_back(factors_->call_async("set", those.keys,
                                         std::vector<double>(those.numbers.begin(), those.numbers.end())));
  }
  RETURN_IF_ERROR(session_.barrier());
  for (PendingResult& call : calls) RETURN_IF_ERROR(call.wait());
  return absl::OkStatus();
}

absl::StatusOr<ScoreTable> ScoreTable::open(Session& session) {
  // Most counts are 0, and the others small.
  auto table = session.table<std::int64_t>({.name = std::string(kScores),
                                            .rows = kScoresRows,
                                            .width = kScoresWidth,
                                            .consistency = Asp{},
                                            .encoding = "packed"});
  if (!table.ok()) return table.status();
  ScoreTable scores;
  scores.table_ = *table;
  return scores;
}

absl::Status ScoreTable::merge(Session& session, ScoreHistogram& scores) {
  const KeyRange all{0, kScoresRows};
  RETURN_IF_ERROR(table_.push(all, scores.counts()));
  RETURN_IF_ERROR(session.barrier());
  if (session.rank() == 0 && !session.is_catching_up()) {
    std::vector<std::int64_t> counts(2 * ScoreHistogram::kBins);
    RETURN_IF_ERROR(table_.pull(all, counts));
    std::vector<std::int64_t> others(counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) others[i] = counts[i] - scores.counts()[i];
    scores.merge(others, 0);
    for (std::int64_t& count : counts) count = -count;
    RETURN_IF_ERROR(table_.push(all, counts));
  }
  // Nobody adds to the next counts before these are read.
  return session.barrier();
}

absl::StatusOr<Parameters::MemoryOfTables> TableParameters::memory() {
  MemoryOfTables all;
  for (const Table<float>* const table : {&weights_, factors_ ? &*factors_ : nullptr}) {
    if (table == nullptr) continue;
    const absl::StatusOr<TableMemory> memory = table->memory();
    if (!memory.ok()) return memory.status();
    all.emplace_back(table == &weights_ ? kWeights : kFactors, *memory);
  }
  return all;
}

absl::Status TableParameters::for_each(
    absl::FunctionRef<absl::Status(Key, float, std::span<const float>)> use) {
  const std::size_t rank = factors_ ? factors_->width() : 0;
  std::vector<Key> keys;
  Numbers numbers;
  const auto use_all = [&]() -> absl::Status {
    numbers.factors.resize(keys.size() * rank);
    if (factors_) {
      RETURN_IF_ERROR(factors_->pull(keys, numbers.factors));
      zero_untrained(initial_factors_, keys, rank, numbers.factors);
    }
    for (std::size_t i = 0; i < keys.size(); ++i)
      RETURN_IF_ERROR(use(keys[i], numbers.weights[i], std::span(numbers.factors).subspan(i * rank, rank)));
    keys.clear();
    numbers.weights.clear();
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(weights_.scan([&](Key key, std::span<const float> weight) {
    keys.push_back(key);
    numbers.weights.push_back(weight[0]);
    return keys.size() < kKeysAtOnce ? absl::OkStatus() : use_all();
  }));
  return use_all();
}

// ---- in this process

LocalTable::LocalTable(const std::string& rule, const std::string& initial, std::uint64_t seed,
                       std::uint32_t width, const std::string& admission)
    : rule_(protocol::UpdateRule::find(rule, ValueType::kFloat, width).value()),
      initial_(protocol::InitialValues::find(initial, seed, ValueType::kFloat).value()),
      width_(width),
      state_words_((rule_.state_bytes() + sizeof(double) - 1) / sizeof(double)),
      admission_(protocol::AdmissionRule::find(admission, seed).value(), /*expected=*/1) {}

void LocalTable::read(std::span<const Key> keys, std::span<float> values) {
  found_.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + base::kKeysAhead < keys.size()) row_of_.prefetch(keys[i + base::kKeysAhead]);
    const auto found = row_of_.find(keys[i]);
    found_[i] = found == row_of_.end() ? kNone : found->second;
    if (found_[i] != kNone) base::prefetch_to_read(values_of(found_[i]));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    float* const to = &values[i * width_];
    if (found_[i] == kNone) {
      initial_.write(keys[i], ValueType::kFloat, width_, reinterpret_cast<std::byte*>(to));
    } else {
      std::memcpy(to, values_of(found_[i]), width_ * sizeof(float));
    }
  }
}

std::uint32_t LocalTable::add(Key key) {
  const auto row = static_cast<std::uint32_t>(row_of_.size());
  row_of_.try_emplace(key, row);
  values_.resize(values_.size() + width_);
  states_.resize(states_.size() + state_words_);
  initial_.write(key, ValueType::kFloat, width_, reinterpret_cast<std::byte*>(values_of(row)));
  return row;
}

void LocalTable::step(std::span<const Key> keys, std::span<const float> gradients) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + base::kKeysAhead < keys.size() && found_[i + base::kKeysAhead] != kNone) {
      const std::uint32_t ahead = found_[i + base::kKeysAhead];
      base::prefetch_to_write(values_of(ahead));
      base::prefetch_to_write(states_.data() + ahead * state_words_);
    }
    if (found_[i] == kNone && !admission_.admits(keys[i], {.worker = 0, .clock = clock_})) continue;
    const std::uint32_t row = found_[i] == kNone ? add(keys[i]) : found_[i];
    rule_.apply(reinterpret_cast<std::byte*>(values_of(row)),
                reinterpret_cast<std::byte*>(states_.data() + row * state_words_),
                reinterpret_cast<const std::byte*>(&gradients[i * width_]));
  }
}

bool LocalTable::is_initial(Key key) const {
  const std::span<const float> values = row(key);
  std::vector<float> initial(width_);
  initial_.write(key, ValueType::kFloat, width_, reinterpret_cast<std::byte*>(initial.data()));
  return std::equal(values.begin(), values.end(), initial.begin(), initial.end());
}

void LocalTable::set(Key key, std::span<const float> values) {
  const auto found = row_of_.find(key);
  const std::uint32_t row = found == row_of_.end() ? add(key) : found->second;
  std::copy(values.begin(), values.end(), values_of(row));
  rule_.adopt(reinterpret_cast<const std::byte*>(values_of(row)),
              reinterpret_cast<std::byte*>(states_.data() + row * state_words_));
}

std::span<const float> LocalTable::row(Key key) const {
  const auto found = row_of_.find(key);
  if (found == row_of_.end()) return {};
  return std::span(values_).subspan(std::size_t{found->second} * width_, width_);
}

LocalParameters::LocalParameters(const Rules& rules)
    : weights_(rules.weights, std::string(protocol::kZeros), rules.seed, 1, rules.weight_admission) {
  if (rules.rank > 0) {
    factors_.emplace(rules.factors, rules.initial_factors, rules.seed, rules.rank, rules.factor_admission);
    no_factors_.resize(rules.rank);
  }
}

absl::Status LocalParameters::start_from(std::span<const Key> keys, const Numbers& parameters) {
  for (std::size_t i = 0; i < keys.size(); ++i)
    weights_.set(keys[i], std::span(parameters.weights).subspan(i, 1));
  if (!factors_) return barrier();
  const std::size_t rank = no_factors_.size();
  const OfFactors those(keys, parameters.factors, rank);
  for (std::size_t i = 0; i < those.keys.size(); ++i)
    factors_->set(those.keys[i], std::span(those.numbers).subspan(i * rank, rank));
  return barrier();
}

absl::Status LocalParameters::read(std::span<const Key> keys, Numbers& parameters) {
  weights_.read(keys, parameters.weights);
  if (factors_) factors_->read(keys, parameters.factors);
  return absl::OkStatus();
}

absl::Status LocalParameters::step(std::span<const Key> keys, const Numbers& gradients) {
  weights_.step(keys, gradients.weights);
  if (factors_) factors_->step(keys, gradients.factors);
  return absl::OkStatus();
}

absl::Status LocalParameters::clock() {
  ++clock_;
  weights_.set_clock(clock_);
  if (factors_) factors_->set_clock(clock_);
  return absl::OkStatus();
}

absl::Status LocalParameters::for_each(
    absl::FunctionRef<absl::Status(Key, float, std::span<const float>)> use) {
  for (const auto& [key, row] : weights_.rows()) {
    std::span<const float> factors = factors_ ? factors_->row(key) : std::span<const float>();
    if (factors.empty() || factors_->is_initial(key)) factors = no_factors_;
    RETURN_IF_ERROR(use(key, weights_.row(key)[0], factors));
  }
  return absl::OkStatus();
}

}  // namespace verbena::apps::ctr
