#include "apps/ctr/batches.hpp"

#include "base/return_if_error.hpp"

namespace verbena::apps::ctr {

namespace {

/// Of `all`, which is empty as long as its numbers are 1, and had `size` until now.
void append(std::vector<float>& all, std::size_t size, float number) {
  if (all.empty() && number == 1) return;
  if (all.empty()) all.resize(size, 1);
  all.push_back(number);
}

std::span<const float> part_of(const std::vector<float>& all, std::size_t first, std::size_t last) {
  return all.empty() ? std::span<const float>() : std::span(all).subspan(first, last - first);
}

}  // namespace

void MiniBatches::start() {
  extents_.push_back(end());
  place_of_.clear();
  keys_.push_back(kBias);
  begin_.push_back(0);
}

void MiniBatches::add(const Example& example) {
  if (extents_.empty() || labels_.size() - extents_.back().first_example == examples_each_) start();
  const Extent& extent = extents_.back();
  for (const Feature& feature : example.features) {
    const auto next = static_cast<std::uint32_t>(keys_.size() - extent.first_key);
    const auto [place, is_new] = place_of_.try_emplace(feature.key, next);
    if (is_new) keys_.push_back(feature.key);
    append(values_, places_.size(), feature.value);
    places_.push_back(place->second);
  }
  begin_.push_back(static_cast<std::uint32_t>(places_.size() - extent.first_feature));
  append(weights_, labels_.size(), example.weight);
  labels_.push_back(example.is_positive ? 1 : 0);
}

void MiniBatches::finish() {
  place_of_ = {};
  keys_.shrink_to_fit();
  begin_.shrink_to_fit();
  places_.shrink_to_fit();
  values_.shrink_to_fit();
  weights_.shrink_to_fit();
  labels_.shrink_to_fit();
}

void MiniBatches::clear() {
  extents_.clear();
  keys_.clear();
  begin_.clear();
  places_.clear();
  values_.clear();
  weights_.clear();
  labels_.clear();
}

MiniBatch MiniBatches::operator[](std::size_t index) const {
  const Extent from = extents_[index];
  const Extent to = index + 1 < extents_.size() ? extents_[index + 1] : end();
  return {.keys = std::span(keys_).subspan(from.first_key, to.first_key - from.first_key),
          .begin = std::span(begin_).subspan(from.first_begin, to.first_begin - from.first_begin),
          .places = std::span(places_).subspan(from.first_feature, to.first_feature - from.first_feature),
          .values = part_of(values_, from.first_feature, to.first_feature),
          .weights = part_of(weights_, from.first_example, to.first_example),
          .labels = std::span(labels_).subspan(from.first_example, to.first_example - from.first_example)};
}

absl::Status MiniBatches::for_each(absl::FunctionRef<absl::Status(const MiniBatch&)> use) const {
  for (std::size_t i = 0; i < size(); ++i) RETURN_IF_ERROR(use((*this)[i]));
  return absl::OkStatus();
}

}  // namespace verbena::apps::ctr
