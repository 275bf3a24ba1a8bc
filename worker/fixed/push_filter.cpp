#include "worker/fixed/push_filter.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <new>

#include "protocol/random_bits.hpp"

namespace verbena::worker {

using Kind = protocol::FilterRule::Kind;

namespace {

/// The size of the largest value; if one is not a number, infinity, so that it travels.
double size_of(const RowLayout& layout, const std::byte* update) {
  return visit_value_type(layout.type, [&]<class Value>() {
    const auto* const values = reinterpret_cast<const Value*>(update);
    double size = 0;
    for (std::uint32_t i = 0; i < layout.width; ++i) {
      const double one = std::abs(static_cast<double>(values[i]));
      size = std::isnan(one) ? HUGE_VAL : std::max(size, one);
    }
    return size;
  });
}

}  // namespace

void PushFilter::mark(const UpdateBuffer& current, const RowLayout& layout, consistency::Clock clock) {
  const std::uint32_t records = current.records();
  travels_.assign(records, true);
  if (rule_.kind == Kind::kRandom) {
    const std::uint64_t when = protocol::random_bits(static_cast<std::uint64_t>(clock) << 13 ^ worker_);
    for (std::uint32_t i = 0; i < records; ++i) {
      const std::uint64_t bits = protocol::random_bits(when ^ protocol::random_bits(current.key(i)));
      travels_[i] = protocol::random_fraction(bits) < rule_.share;
    }
    return;
  }
  sizes_.resize(records);
  for (std::uint32_t i = 0; i < records; ++i) sizes_[i] = size_of(layout, current.find(current.row(i)));
  if (rule_.kind == Kind::kTop)
    return mark_largest(static_cast<std::size_t>(std::ceil(rule_.share * records)));
  const double least = rule_.least / std::pow(1 + static_cast<double>(clock), rule_.power);
  for (std::uint32_t i = 0; i < records; ++i) travels_[i] = sizes_[i] >= least;
}

/// Of equal ones at the limit, the first.
void PushFilter::mark_largest(std::size_t count) {
  if (count == sizes_.size()) return;
  travels_.assign(sizes_.size(), false);
  if (count == 0) return;
  sorted_ = sizes_;
  const auto last = sorted_.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<>());
  const double least = *last;
  std::size_t room = count - static_cast<std::size_t>(std::count_if(
                                 sizes_.begin(), sizes_.end(), [&](double size) { return size > least; }));
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const bool is_at_limit = sizes_[i] == least && room > 0;
    if (is_at_limit) --room;
    travels_[i] = sizes_[i] > least || is_at_limit;
  }
}

std::optional<std::uint32_t> PushFilter::select(UpdateBuffer& current, UpdateBuffer& kept,
                                                const RowLayout& layout, consistency::Clock clock) {
  try {
    return try_to_select(current, kept, layout, clock);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

std::optional<std::uint32_t> PushFilter::try_to_select(UpdateBuffer& current, UpdateBuffer& kept,
                                                       const RowLayout& layout, consistency::Clock clock) {
  for (std::uint32_t i = 0; !kept.empty() && i < current.records(); ++i) {
    const protocol::Row row = current.row(i);
    std::byte* const before = kept.find(row);
    if (before == nullptr) continue;
    std::byte* const update = current.find(row);
    layout.rule.combine(before, update);
    std::memcpy(update, before, layout.row_bytes);
    kept.remove(row);
  }
  mark(current, layout, clock);
  std::uint32_t count = 0;
  // From the last one on: a record that is moved leaves its place to the last one, which has been looked at.
  for (auto i = static_cast<std::uint32_t>(travels_.size()); i-- > 0;) {
    if (travels_[i]) continue;
    ++count;
    if (!current.move_to(current.row(i), kept)) return std::nullopt;
  }
  return count;
}

bool PushFilter::take_all(UpdateBuffer& current, UpdateBuffer& kept, const RowLayout& layout) {
  for (std::uint32_t i = 0; i < kept.records(); ++i) {
    const protocol::Row row = kept.row(i);
    std::byte* const before = kept.find(row);
    const UpdateBuffer::Found found = current.find_or_add(row, kept.key(i));
    if (found.values == nullptr) return false;
    if (!found.fresh) layout.rule.combine(before, found.values);
    std::memcpy(found.values, before, layout.row_bytes);
  }
  kept.clear();
  return true;
}

}  // namespace verbena::worker
