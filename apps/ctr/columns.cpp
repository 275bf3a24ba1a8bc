#include "apps/ctr/columns.hpp"

#include <algorithm>
#include <numeric>

#include "apps/ctr/batches.hpp"
#include "apps/data/feature_keys.hpp"
#include "apps/data/random.hpp"

namespace verbena::apps::ctr {

void BlockPlan::add(Key key) {
  has_slot_.resize(kMostSlot + 1);
  has_slot_[slot_of(key)] = true;
}

void BlockPlan::finish(std::uint32_t blocks) {
  slot_number_.resize(has_slot_.size());
  for (std::size_t slot = 0; slot < has_slot_.size(); ++slot) {
    slot_number_[slot] = slots_;
    if (has_slot_[slot]) ++slots_;
  }
  blocks_ = blocks > 0 ? blocks : slots_ > 1 ? std::min(slots_, kMostOfSlots) : kBlocksWithoutSlots;
}

std::uint32_t BlockPlan::block_of(Key key) const {
  if (key == kBias) return blocks_;
  const std::uint32_t slot = slot_number_[slot_of(key)];
  if (blocks_ <= slots_) return slot % blocks_;
  // The blocks of a slot are those with its number, plus multiples of the number of slots.
  const std::uint32_t of_slot = (blocks_ - slot + slots_ - 1) / slots_;
  return slot + slots_ * static_cast<std::uint32_t>(mix(key) % of_slot);
}

void Columns::add(const Example& example) {
  const auto add = [&](Key key, float value) {
    const auto [found, is_new] = number_of_.try_emplace(key, static_cast<std::uint32_t>(number_of_.size()));
    if (value != 1 && value_of_.empty()) value_of_.assign(column_of_.size(), 1);
    column_of_.push_back(found->second);
    if (value != 1 || !value_of_.empty()) value_of_.push_back(value);
  };
  add(kBias, 1);
  for (const Feature& feature : example.features) add(feature.key, feature.value);
  if (example.weight != 1 && weights_.empty()) weights_.assign(labels_.size(), 1);
  if (example.weight != 1 || !weights_.empty()) weights_.push_back(example.weight);
  labels_.push_back(example.is_positive ? 1.0F : -1.0F);
  end_of_example_.push_back(column_of_.size());
}

void Columns::finish(const BlockPlan& plan) {
  // Columns in the order of their blocks, and of their keys: the same however the examples are ordered.
  std::vector<std::pair<Key, std::uint32_t>> order(number_of_.begin(), number_of_.end());
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    const std::uint32_t block_a = plan.block_of(a.first);
    const std::uint32_t block_b = plan.block_of(b.first);
    return block_a != block_b ? block_a < block_b : a.first < b.first;
  });
  number_of_ = {};
  std::vector<std::uint32_t> column_of_number(order.size());
  first_column_.assign(plan.blocks() + 1, 0);
  for (std::size_t column = 0; column < order.size(); ++column) {
    keys_.push_back(order[column].first);
    column_of_number[order[column].second] = static_cast<std::uint32_t>(column);
    ++first_column_[plan.block_of(order[column].first) + 1];
  }
  std::partial_sum(first_column_.begin(), first_column_.end(), first_column_.begin());
  for (std::uint32_t& column : column_of_) column = column_of_number[column];

  begin_.assign(order.size() + 1, 0);
  for (const std::uint32_t column : column_of_) ++begin_[column + 1];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  count_crowds(plan);
  examples_.resize(column_of_.size());
  values_.resize(value_of_.size());
  const std::vector<std::uint16_t> crowd_of = std::move(crowds_);
  crowds_.assign(crowd_of.size(), 1);
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  for (std::size_t example = 0, i = 0; example < end_of_example_.size(); ++example) {
    for (; i < end_of_example_[example]; ++i) {
      const std::size_t to = next[column_of_[i]]++;
      examples_[to] = static_cast<std::uint32_t>(example);
      if (!values_.empty()) values_[to] = value_of_[i];
      if (!crowds_.empty()) crowds_[to] = crowd_of[i];
    }
  }
  column_of_ = {};
  value_of_ = {};
  end_of_example_ = {};
}

/// By feature, in the order in which they came.
void Columns::count_crowds(const BlockPlan& plan) {
  std::vector<std::uint32_t> block_of(keys_.size());
  for (std::size_t column = 0; column < keys_.size(); ++column)
    block_of[column] = plan.block_of(keys_[column]);
  std::vector<std::uint32_t> counts(plan.blocks());
  bool is_crowded = false;
  crowds_.resize(column_of_.size());
  for (std::size_t example = 0, begin = 0; example < end_of_example_.size(); ++example) {
    const std::size_t end = end_of_example_[example];
    for (std::size_t i = begin; i < end; ++i) ++counts[block_of[column_of_[i]]];
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t crowd = counts[block_of[column_of_[i]]];
      crowds_[i] = static_cast<std::uint16_t>(std::min<std::uint32_t>(crowd, UINT16_MAX));
      is_crowded |= crowd > 1;
    }
    for (std::size_t i = begin; i < end; ++i) counts[block_of[column_of_[i]]] = 0;
    begin = end;
  }
  if (!is_crowded) crowds_.clear();
}

}  // namespace verbena::apps::ctr
