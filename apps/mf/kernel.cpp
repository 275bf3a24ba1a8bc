#include "apps/mf/kernel.hpp"

// Compiled once per instruction set by foreach_target (cmake/Compile.cmake says for which).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "apps/mf/kernel.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "apps/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace verbena::apps::mf::HWY_NAMESPACE {
using namespace verbena::apps::HWY_NAMESPACE;

constexpr std::size_t kPrefetchDistance = 6;  // ratings

template <bool kBiases>
HWY_INLINE float predict(const Rating& rating, const float* HWY_RESTRICT p, const float* HWY_RESTRICT q,
                         ConstRows users, ConstRows items, std::size_t padded_rank) {
  const float product = dot(p, q, padded_rank);
  if constexpr (kBiases) return users.biases[rating.user] + items.biases[rating.item] + product;
  return product;
}

/// kPaddedRank is 0 if it is not known at compile time.
template <bool kBiases, std::size_t kPaddedRank>
HWY_INLINE void train_as(std::span<const Rating> ratings, Rows users, Rows items, const Shape& shape,
                         const Step& step) {
  const Tag d;
  const std::size_t padded_rank = kPaddedRank > 0 ? kPaddedRank : shape.padded_rank;
  const float shrink = 1 - step.learning_rate * step.regularization;
  const Vector shrinks = hn::Set(d, shrink);
  for (std::size_t n = 0; n < ratings.size(); ++n) {
    const Rating& rating = ratings[n];
    const Rating& later = ratings[n + kPrefetchDistance < ratings.size() ? n + kPrefetchDistance : n];
    hwy::Prefetch(users.factors + later.user * padded_rank);
    hwy::Prefetch(items.factors + later.item * padded_rank);
    float* HWY_RESTRICT p = users.factors + rating.user * padded_rank;
    float* HWY_RESTRICT q = items.factors + rating.item * padded_rank;
    const float error = rating.value - predict<kBiases>(rating, p, q, users, items, padded_rank);
    const float gain = step.learning_rate * error;
    const Vector gains = hn::Set(d, gain);
    for (std::size_t i = 0; i < padded_rank; i += kWidth) {
      const Vector old_p = hn::Load(d, p + i);
      const Vector old_q = hn::Load(d, q + i);
      hn::Store(hn::Add(hn::Mul(old_p, shrinks), hn::Mul(old_q, gains)), d, p + i);
      hn::Store(hn::Add(hn::Mul(old_q, shrinks), hn::Mul(old_p, gains)), d, q + i);
    }
    if constexpr (kBiases) {
      users.biases[rating.user] = users.biases[rating.user] * shrink + gain;
      items.biases[rating.item] = items.biases[rating.item] * shrink + gain;
    }
  }
}

void train_tile(std::span<const Rating> ratings, Rows users, Rows items, const Shape& shape,
                const Step& step) {
  if (shape.padded_rank == kLanes) {
    shape.biases ? train_as<true, kLanes>(ratings, users, items, shape, step)
                 : train_as<false, kLanes>(ratings, users, items, shape, step);
  } else {
    shape.biases ? train_as<true, 0>(ratings, users, items, shape, step)
                 : train_as<false, 0>(ratings, users, items, shape, step);
  }
}

template <bool kBiases>
HWY_INLINE double squared_error_as(std::span<const Rating> ratings, ConstRows users, ConstRows items,
                                   const Shape& shape) {
  double sum = 0;
  for (const Rating& rating : ratings) {
    const float* p = users.factors + rating.user * shape.padded_rank;
    const float* q = items.factors + rating.item * shape.padded_rank;
    const float error = rating.value - predict<kBiases>(rating, p, q, users, items, shape.padded_rank);
    sum += double{error} * double{error};
  }
  return sum;
}

double squared_error_tile(std::span<const Rating> ratings, ConstRows users, ConstRows items,
                          const Shape& shape) {
  return shape.biases ? squared_error_as<true>(ratings, users, items, shape)
                      : squared_error_as<false>(ratings, users, items, shape);
}

}  // namespace verbena::apps::mf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace verbena::apps::mf {

HWY_EXPORT(train_tile);
HWY_EXPORT(squared_error_tile);

void train(std::span<const Rating> ratings, Rows users, Rows items, const Shape& shape, const Step& step) {
  HWY_DYNAMIC_DISPATCH(train_tile)(ratings, users, items, shape, step);
}

double squared_error(std::span<const Rating> ratings, ConstRows users, ConstRows items, const Shape& shape) {
  return HWY_DYNAMIC_DISPATCH(squared_error_tile)(ratings, users, items, shape);
}

}  // namespace verbena::apps::mf
#endif
