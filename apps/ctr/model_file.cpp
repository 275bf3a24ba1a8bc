#include "apps/ctr/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "apps/data/feature_keys.hpp"
#include "apps/data/fields.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/numbers.hpp"
#include "apps/data/output_file.hpp"
#include "apps/divergence.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::ctr {

namespace {

constexpr std::string_view kHead = "# verbena ctr: rank ";
constexpr std::string_view kBiasName = "bias";
constexpr std::size_t kFlushBytes = std::size_t{1} << 16;

std::optional<Key> key_of(std::string_view name) {
  return name == kBiasName ? kBias : parse_feature_name(name);
}

}  // namespace

void TrainedModel::add(Key key, float weight, std::span<const float> factors) {
  place_of_[key] = numbers_.size();
  numbers_.push_back(weight);
  numbers_.insert(numbers_.end(), factors.begin(), factors.end());
}

const float* TrainedModel::find(Key key) const {
  const auto found = place_of_.find(key);
  return found == place_of_.end() ? nullptr : &numbers_[found->second];
}

absl::StatusOr<TrainedModel> TrainedModel::of(Parameters& parameters, std::size_t rank) {
  TrainedModel model(rank);
  const std::vector<float> no_factors(rank);
  RETURN_IF_ERROR(
      parameters.for_each([&](Key key, float weight, std::span<const float> factors) -> absl::Status {
        if (!std::isfinite(weight) || !all_finite(factors)) return diverged(kNoNumbers);
        model.add(key, weight, key == kBias ? std::span<const float>(no_factors) : factors);
        return absl::OkStatus();
      }));
  return model;
}

absl::StatusOr<TrainedModel> TrainedModel::load(const std::string& path) {
  absl::StatusOr<LineReader> lines = LineReader::open(path);
  if (!lines.ok()) return lines.status();
  std::string_view line;
  absl::StatusOr<bool> more = lines->next(line);
  if (!more.ok()) return more.status();
  std::string_view rank_text = line;
  std::optional<std::uint64_t> rank;
  if (*more && line.starts_with(kHead)) {
    rank_text.remove_prefix(kHead.size());
    rank = base::parse_decimal<std::uint64_t>(rank_text);
  }
  if (!rank || *rank > kMostRank)
    return lines->error(fmt::format("\"{}\" and a number of at most {}", kHead, kMostRank), line);
  TrainedModel model(*rank);
  std::vector<float> numbers;
  for (;;) {
    more = lines->next(line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    std::string_view rest = line;
    const std::optional<Key> key = key_of(next_field(rest));
    numbers.clear();
    bool are_numbers = true;
    for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest)) {
      const std::optional<float> number = parse_float(field);
      are_numbers &= number.has_value();
      numbers.push_back(number.value_or(0));
    }
    if (!key || !are_numbers || numbers.size() != *rank + 1 || model.find(*key) != nullptr) {
      return lines->error(fmt::format("another feature, \"slot:index\", its weight and {} factors", *rank),
                          line);
    }
    model.add(*key, numbers[0], std::span(numbers).subspan(1));
  }
  return model;
}

absl::Status TrainedModel::save(const std::string& path) const {
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "{}{}\n", kHead, rank_);
  for (const Key key : sorted_keys()) {
    const std::span<const float> numbers(find(key), rank_ + 1);
    if (std::all_of(numbers.begin(), numbers.end(), [](float number) { return number == 0; })) continue;
    fmt::format_to(std::back_inserter(text), "{}", key == kBias ? std::string(kBiasName) : feature_name(key));
    for (const float number : numbers) fmt::format_to(std::back_inserter(text), "\t{}", number);
    text.push_back('\n');
    if (text.size() < kFlushBytes) continue;
    file->write({text.data(), text.size()});
    text.clear();
  }
  file->write({text.data(), text.size()});
  return file->commit();
}

std::vector<Key> TrainedModel::sorted_keys() const {
  std::vector<Key> keys;
  keys.reserve(place_of_.size());
  for (const auto& [key, place] : place_of_) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

void TrainedModel::for_each(absl::FunctionRef<void(Key, float, std::span<const float>)> use) const {
  for (const Key key : sorted_keys()) {
    const float* const numbers = find(key);
    use(key, *numbers, std::span(numbers + 1, rank_));
  }
}

ModelSize TrainedModel::size() const {
  ModelSize size{.keys = place_of_.size()};
  for (const auto& [key, place] : place_of_) {
    if (numbers_[place] != 0) ++size.nonzero_weights;
  }
  return size;
}

double TrainedModel::score(const Example& example) {
  const float* const bias = find(kBias);
  double score = bias == nullptr ? 0 : *bias;
  double squares = 0;
  sums_.assign(rank_, 0);
  for (const Feature& feature : example.features) {
    const float* const numbers = find(feature.key);
    if (numbers == nullptr) continue;
    score += double{numbers[0]} * feature.value;
    for (std::size_t k = 0; k < rank_; ++k) {
      const float part = numbers[1 + k] * feature.value;
      sums_[k] += part;
      squares += double{part} * part;
    }
  }
  double pairs = -squares;
  for (const float sum : sums_) pairs += double{sum} * sum;
  return score + pairs / 2;
}

}  // namespace verbena::apps::ctr
