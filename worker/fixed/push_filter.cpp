#include "worker/fixed/push_filter.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <new>
#include <type_traits>

#include "base/prefetch.hpp"
#include "protocol/random_bits.hpp"

namespace verbena::worker {

using FilterKind = protocol::FilterRule::Kind;
using Rounding = protocol::FilterRule::Rounding;

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

/// The nearest value with 8 leading bits, of two the even one; what is too large for that stays.
template <class Value>
Value to_bfloat(Value value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const auto rounded = std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
  return std::isfinite(rounded) ? static_cast<Value>(rounded) : value;
}

/// Rounds `values`; what they lose is in `residual`. False: nothing.
template <class Value>
bool round_values(Value* values, Value* residual, std::uint32_t width, float scale) {
  bool loses = false;
  for (std::uint32_t i = 0; i < width; ++i) {
    const Value before = values[i];
    if constexpr (std::is_floating_point_v<Value>) {
      // As packed_updates.cpp multiplies; and −0 becomes 0, which is as short.
      const Value multiple =
          scale > 0
              ? std::nearbyint(before / static_cast<Value>(scale)) * static_cast<Value>(scale) + Value{0}
              : to_bfloat(before);
      values[i] = std::isfinite(multiple) ? multiple : before;
    }
    // What is infinite, or no number, has lost nothing.
    const Value lost = before - values[i];
    residual[i] = std::isfinite(static_cast<double>(lost)) ? lost : 0;
    loses |= residual[i] != 0;
  }
  return loses;
}

}  // namespace

/// Chooses the scale, of which no value is more than 127 times as large; what would become 0 does not travel.
void PushFilter::mark_small(const UpdateBuffer& current, const RowLayout& layout) {
  const std::uint32_t records = current.records();
  sizes_.resize(records);
  double largest = 0;
  for (std::uint32_t i = 0; i < records; ++i) {
    if (!travels_[i]) continue;
    sizes_[i] = size_of(layout, current.values(i));
    largest = std::max(largest, sizes_[i]);
  }
  // Rounded up, so that the largest is not more.
  scale_ = std::nextafter(static_cast<float>(largest / 127), HUGE_VALF);
  if (!std::isfinite(scale_) || !std::isnormal(scale_)) {
    scale_ = 0;
    return;
  }
  for (std::uint32_t i = 0; i < records; ++i)
    travels_[i] = travels_[i] && std::nearbyint(sizes_[i] / static_cast<double>(scale_)) > 0;
}

bool PushFilter::round(UpdateBuffer& current, UpdateBuffer& kept, const RowLayout& layout) {
  if (rule_.rounding == Rounding::kInt8 && scale_ == 0) return true;
  residual_.resize(layout.stride_bytes);
  return visit_value_type(layout.type, [&]<class Value>() {
    auto* const residual = reinterpret_cast<Value*>(residual_.data());
    for (std::uint32_t i = 0; i < current.records(); ++i) {
      const protocol::Row row = current.row(i);
      if (i + base::kKeysAhead < current.records()) kept.prefetch(current.row(i + base::kKeysAhead));
      if (!round_values(reinterpret_cast<Value*>(current.values(i)), residual, layout.width, scale_))
        continue;
      const UpdateBuffer::Found found = kept.find_or_add(row, current.key(i));
      if (found.values == nullptr) return false;  // which ends the session
      std::memcpy(found.values, residual, layout.row_bytes);
    }
    current.set_scale(scale_);
    return true;
  });
}

void PushFilter::mark(const UpdateBuffer& current, const RowLayout& layout, consistency::Clock clock) {
  const std::uint32_t records = current.records();
  travels_.assign(records, true);
  if (rule_.kind == FilterKind::kNone) return;
  if (rule_.kind == FilterKind::kRandom) {
    const std::uint64_t when = protocol::random_bits(static_cast<std::uint64_t>(clock) << 13 ^ worker_);
    for (std::uint32_t i = 0; i < records; ++i) {
      const std::uint64_t bits = protocol::random_bits(when ^ protocol::random_bits(current.key(i)));
      travels_[i] = protocol::random_fraction(bits) < rule_.share;
    }
    return;
  }
  sizes_.resize(records);
  for (std::uint32_t i = 0; i < records; ++i) sizes_[i] = size_of(layout, current.values(i));
  if (rule_.kind == FilterKind::kTop)
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
    if (i + base::kKeysAhead < current.records()) kept.prefetch(current.row(i + base::kKeysAhead));
    std::byte* const before = kept.find(row);
    if (before == nullptr) continue;
    std::byte* const update = current.values(i);
    layout.rule.combine(before, update);
    std::memcpy(update, before, layout.row_bytes);
    kept.remove(row);
  }
  mark(current, layout, clock);
  scale_ = 0;
  if (rule_.rounding == Rounding::kInt8) mark_small(current, layout);
  std::uint32_t count = 0;
  // From the last one on: a record that is moved leaves its place to the last one, which has been looked at.
  for (auto i = static_cast<std::uint32_t>(travels_.size()); i-- > 0;) {
    if (travels_[i]) continue;
    ++count;
    if (!current.move_to(current.row(i), kept)) return std::nullopt;
  }
  if (rounds() && !round(current, kept, layout)) return std::nullopt;
  return count;
}

bool PushFilter::take_all(UpdateBuffer& current, UpdateBuffer& kept, const RowLayout& layout) {
  for (std::uint32_t i = 0; i < kept.records(); ++i) {
    const protocol::Row row = kept.row(i);
    std::byte* const before = kept.values(i);
    const UpdateBuffer::Found found = current.find_or_add(row, kept.key(i));
    if (found.values == nullptr) return false;
    if (!found.fresh) layout.rule.combine(before, found.values);
    std::memcpy(found.values, before, layout.row_bytes);
  }
  kept.clear();
  return true;
}

}  // namespace verbena::worker
