#include "apps/lda/held_out.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "apps/lane_sums.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::lda {
namespace {

constexpr int kEstimationSteps = 30;

}  // namespace

absl::Status HeldOutEvaluator::load_words(std::span<const std::uint32_t> given,
                                          std::span<const std::uint32_t> predicted, WordCounts& counts) {
  words_.clear();
  std::merge(given.begin(), given.end(), predicted.begin(), predicted.end(), std::back_inserter(words_));
  words_.erase(std::unique(words_.begin(), words_.end()), words_.end());
  const std::size_t topics = counts.topics();
  rows_.resize(words_.size() * topics);
  RETURN_IF_ERROR(counts.read(words_, rows_));
  word_given_topic_.assign(words_.size() * width_, 0.0F);
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::int32_t* const row = rows_.data() + i * topics;
    float* const out = word_given_topic_.data() + i * width_;
    for (std::size_t k = 0; k < topics; ++k) {
      out[k] = (static_cast<float>(std::max(row[k], 0)) + priors_.beta) * inverse_totals_[k];
    }
  }
  return absl::OkStatus();
}

const float* HeldOutEvaluator::word_given_topic(std::uint32_t word) const {
  const auto found = std::lower_bound(words_.begin(), words_.end(), Key{word});
  return word_given_topic_.data() + static_cast<std::size_t>(found - words_.begin()) * width_;
}

void HeldOutEvaluator::estimate_topics(std::span<const std::uint32_t> given) {
  std::vector<std::pair<const float*, float>> words;  // their rows, and how often each occurs
  for (std::size_t t = 0; t < given.size(); ++t) {
    if (t == 0 || given[t] != given[t - 1]) words.emplace_back(word_given_topic(given[t]), 0.0F);
    words.back().second += 1.0F;
  }
  const std::size_t topics = inverse_totals_.size();
  topics_.assign(width_, 0.0F);
  std::fill_n(topics_.begin(), topics, 1.0F / static_cast<float>(topics));
  std::vector<float> next(width_);
  for (int step = 0; step < kEstimationSteps; ++step) {
    std::fill_n(next.begin(), topics, priors_.alpha);
    float total = priors_.alpha * static_cast<float>(topics);
    for (const auto& [row, count] : words) {
      const float share = count / sum_of_products(topics_.data(), row, width_);
      for (std::size_t k = 0; k < width_; ++k) next[k] += share * topics_[k] * row[k];
      total += count;
    }
    for (std::size_t k = 0; k < width_; ++k) topics_[k] = next[k] / total;
  }
}

void HeldOutEvaluator::prepare(WordCounts& counts) {
  width_ = padded(counts.topics());
  inverse_totals_.clear();
  for (const std::int32_t total : counts.totals()) {
    inverse_totals_.push_back(
        1.0F / (static_cast<float>(std::max(total, 0)) + static_cast<float>(vocabulary_) * priors_.beta));
  }
}

absl::StatusOr<std::span<const float>> HeldOutEvaluator::topics_of(std::span<const std::uint32_t> words,
                                                                   WordCounts& counts) {
  if (width_ == 0) prepare(counts);
  RETURN_IF_ERROR(load_words(words, {}, counts));
  estimate_topics(words);
  return std::span<const float>(topics_).first(counts.topics());
}

absl::StatusOr<HeldOutSums> HeldOutEvaluator::evaluate(const std::vector<HeldOutDocument>& documents,
                                                       WordCounts& counts) {
  prepare(counts);
  HeldOutSums sums;
  for (const HeldOutDocument& document : documents) {
    RETURN_IF_ERROR(load_words(document.given, document.predicted, counts));
    estimate_topics(document.given);
    for (const std::uint32_t word : document.predicted) {
      sums.log_likelihood +=
          std::log(double{sum_of_products(topics_.data(), word_given_topic(word), width_)});
    }
    sums.tokens += document.predicted.size();
  }
  return sums;
}

}  // namespace verbena::apps::lda
