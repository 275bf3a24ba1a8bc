// Vector arithmetic for kernels that are compiled once per instruction set: include it after
// hwy/foreach_target.h, and `using namespace verbena::apps::HWY_NAMESPACE`. Rows are aligned to kRowAlignment
// and their sizes are multiples of kLanes. All instruction sets give the same bits: sums are always formed
// over 16 virtual lanes in one fixed order, and nothing is fused.
#if defined(VERBENA_APPS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERBENA_APPS_LANES_INL_H_
#undef VERBENA_APPS_LANES_INL_H_
#else
#define VERBENA_APPS_LANES_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>

#include "apps/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace verbena::apps::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kLanes>;
using Vector = hn::Vec<Tag>;
constexpr std::size_t kWidth = hn::MaxLanes(Tag());
constexpr std::size_t kVectors = kLanes / kWidth;  // that make up the 16 virtual lanes

/// Adds lanes i and i + n/2, then i and i + n/4, …: the same tree for every width.
template <class D>
HWY_INLINE float sum_lanes(D d, hn::Vec<D> v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return sum_lanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else if constexpr (hn::MaxLanes(D()) == 4) {
    v = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
  }
#endif
  static_cast<void>(d);
  return hn::GetLane(v);
}

/// Of the 16 virtual lanes; leaves `sums` in disorder.
HWY_INLINE float sum_virtual_lanes(Vector (&sums)[kVectors]) {
  for (std::size_t n = kVectors / 2; n > 0; n /= 2) {
    for (std::size_t v = 0; v < n; ++v) sums[v] = hn::Add(sums[v], sums[v + n]);
  }
  return sum_lanes(Tag(), sums[0]);
}

HWY_INLINE float dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::size_t size) {
  const Tag d;
  Vector sums[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    sums[v] = hn::Mul(hn::Load(d, a + v * kWidth), hn::Load(d, b + v * kWidth));
  }
  for (std::size_t i = kLanes; i < size; i += kLanes) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = i + v * kWidth;
      sums[v] = hn::Add(sums[v], hn::Mul(hn::Load(d, a + at), hn::Load(d, b + at)));
    }
  }
  return sum_virtual_lanes(sums);
}

/// to += factor * from
HWY_INLINE void add_scaled(float factor, const float* HWY_RESTRICT from, float* HWY_RESTRICT to,
                           std::size_t size) {
  const Tag d;
  const Vector factors = hn::Set(d, factor);
  for (std::size_t i = 0; i < size; i += kWidth) {
    hn::Store(hn::Add(hn::Load(d, to + i), hn::Mul(factors, hn::Load(d, from + i))), d, to + i);
  }
}

HWY_INLINE void prefetch_row(const float* row, std::size_t width) {
  for (std::size_t at = 0; at < width; at += kRowAlignment / sizeof(float)) hwy::Prefetch(row + at);
}

}  // namespace verbena::apps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VERBENA_APPS_LANES_INL_H_
