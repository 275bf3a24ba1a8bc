#include "apps/kge/kernel.hpp"

// Compiled once per instruction set by foreach_target (cmake/Compile.cmake says for which).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "apps/kge/kernel.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "apps/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace verbena::apps::kge::HWY_NAMESPACE {
using namespace verbena::apps::HWY_NAMESPACE;

constexpr std::size_t kPrefetchDistance = 2;  // answers
constexpr float kSmallest = 1e-10F;           // keeps a step without any gradient from being 0 / 0

struct Rates {
  Vector learning;
  Vector regularization;
};

/// One vector of parameters and its sums of squared gradients.
template <bool kRegularized>
HWY_INLINE void adagrad(Vector x, Vector gradient, float* HWY_RESTRICT parameters, float* HWY_RESTRICT sums,
                        const Rates& rates) {
  const Tag d;
  if constexpr (kRegularized) {
    gradient = hn::Add(gradient, hn::Mul(rates.regularization, hn::Mul(hn::Abs(x), x)));
  }
  const Vector sum = hn::Add(hn::Load(d, sums), hn::Mul(gradient, gradient));
  const Vector divisor = hn::Add(hn::Sqrt(sum), hn::Set(d, kSmallest));
  hn::Store(sum, d, sums);
  hn::Store(hn::Sub(x, hn::Div(hn::Mul(rates.learning, gradient), divisor)), d, parameters);
}

/// A row's gradient is factor * direction.
template <bool kRegularized>
HWY_INLINE void step_row(float* HWY_RESTRICT row, std::size_t size, float factor,
                         const float* HWY_RESTRICT direction, const Rates& rates) {
  const Tag d;
  const Vector factors = hn::Set(d, factor);
  for (std::size_t i = 0; i < size; i += kWidth) {
    const Vector gradient = hn::Mul(factors, hn::Load(d, direction + i));
    adagrad<kRegularized>(hn::Load(d, row + i), gradient, row + i, row + size + i, rates);
  }
}

/// Steps an answer, which has the gradient factor * q, and adds factor * answer to the gradient of q.
template <bool kRegularized>
HWY_INLINE void step_answer(float* HWY_RESTRICT row, std::size_t size, float factor,
                            const float* HWY_RESTRICT q, float* HWY_RESTRICT q_gradient, const Rates& rates) {
  const Tag d;
  const Vector factors = hn::Set(d, factor);
  for (std::size_t i = 0; i < size; i += kWidth) {
    const Vector x = hn::Load(d, row + i);
    hn::Store(hn::Add(hn::Load(d, q_gradient + i), hn::Mul(factors, x)), d, q_gradient + i);
    adagrad<kRegularized>(x, hn::Mul(factors, hn::Load(d, q + i)), row + i, row + size + i, rates);
  }
}

// --- what differs between the models

/// out = a · b, or ā · b, number by number.
template <bool kConjugate>
HWY_INLINE void multiply_complex(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                                 float* HWY_RESTRICT out, std::size_t size) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < size; i += 2) {
    const float imaginary = kConjugate ? -a[i + 1] : a[i + 1];
    out[i] = a[i] * b[i] - imaginary * b[i + 1];
    out[i + 1] = a[i] * b[i + 1] + imaginary * b[i];
  }
#else
  const Tag d;
  for (std::size_t i = 0; i < size; i += kWidth) {
    const Vector factor = hn::Load(d, a + i);
    const Vector other = hn::Load(d, b + i);
    const Vector imaginary = kConjugate ? hn::Neg(hn::DupOdd(factor)) : hn::DupOdd(factor);
    const Vector straight = hn::Mul(hn::DupEven(factor), other);
    const Vector crossed = hn::Mul(imaginary, hn::Reverse2(d, other));
    hn::Store(hn::OddEven(hn::Add(straight, crossed), hn::Sub(straight, crossed)), d, out + i);
  }
#endif
}

HWY_INLINE void multiply_real(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                              float* HWY_RESTRICT out, std::size_t size) {
  const Tag d;
  for (std::size_t i = 0; i < size; i += kWidth) {
    hn::Store(hn::Mul(hn::Load(d, a + i), hn::Load(d, b + i)), d, out + i);
  }
}

HWY_INLINE void ask_matrix(const Shape& shape, Side side, const float* HWY_RESTRICT given,
                           const float* HWY_RESTRICT matrix, float* HWY_RESTRICT q) {
  const std::size_t size = shape.entity_size();
  std::fill(q, q + size, 0.0F);
  for (std::size_t i = 0; i < shape.dimension; ++i) {
    const float* const row = matrix + i * size;
    if (side == Side::kTail) {
      add_scaled(given[i], row, q, size);
    } else {
      q[i] = dot(row, given, size);
    }
  }
}

/// q = given + factor * relation
HWY_INLINE void translate(float factor, const float* HWY_RESTRICT given, const float* HWY_RESTRICT relation,
                          float* HWY_RESTRICT q, std::size_t size) {
  std::copy(given, given + size, q);
  add_scaled(factor, relation, q, size);
}

/// The complex numbers e^(i angle).
HWY_INLINE void turns_of(const float* HWY_RESTRICT angles, float* HWY_RESTRICT turns, const Shape& shape) {
  for (std::size_t i = 0; i < shape.dimension / 2; ++i) {
    turns[2 * i] = std::cos(angles[i]);
    turns[2 * i + 1] = std::sin(angles[i]);
  }
  std::fill(turns + shape.dimension, turns + shape.entity_size(), 0.0F);
}

/// The moduli of the complex numbers of a − b, each in both of its lanes. `at`: of the first lane.
HWY_INLINE Vector moduli(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::size_t at) {
  const Tag d;
  const Vector difference = hn::Sub(hn::Load(d, a + at), hn::Load(d, b + at));
  const Vector squares = hn::Mul(difference, difference);
#if HWY_TARGET == HWY_SCALAR
  const Vector other = hn::Sub(hn::Load(d, a + (at ^ 1U)), hn::Load(d, b + (at ^ 1U)));
  return hn::Sqrt(hn::Add(squares, hn::Mul(other, other)));
#else
  return hn::Sqrt(hn::Add(squares, hn::Reverse2(d, squares)));
#endif
}

template <bool kComplex>
HWY_INLINE Vector distances(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::size_t at) {
  const Tag d;
  if constexpr (kComplex) {
    return hn::Mul(hn::Set(d, 0.5F), moduli(a, b, at));
  } else {
    return hn::Abs(hn::Sub(hn::Load(d, a + at), hn::Load(d, b + at)));
  }
}

/// Σ |a − b|
template <bool kComplex>
HWY_INLINE float distance(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::size_t size) {
  Vector sums[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = distances<kComplex>(a, b, v * kWidth);
  for (std::size_t i = kLanes; i < size; i += kLanes) {
    for (std::size_t v = 0; v < kVectors; ++v)
      sums[v] = hn::Add(sums[v], distances<kComplex>(a, b, i + v * kWidth));
  }
  return sum_virtual_lanes(sums);
}

/// The derivative of the score −Σ |q − answer| with respect to the answer; with respect to q it is the
/// opposite.
template <bool kComplex>
HWY_INLINE void derive_distance(const float* HWY_RESTRICT q, const float* HWY_RESTRICT answer,
                                float* HWY_RESTRICT derivative, std::size_t size) {
  const Tag d;
  for (std::size_t i = 0; i < size; i += kWidth) {
    const Vector difference = hn::Sub(hn::Load(d, q + i), hn::Load(d, answer + i));
    if constexpr (kComplex) {
      const Vector divisor = hn::Max(moduli(q, answer, i), hn::Set(d, kSmallest));
      hn::Store(hn::Div(difference, divisor), d, derivative + i);
    } else {
      const Vector sign = hn::CopySign(hn::Set(d, 1.0F), difference);
      hn::Store(hn::IfThenElseZero(hn::Ne(difference, hn::Zero(d)), sign), d, derivative + i);
    }
  }
}

HWY_INLINE float score_with(const Shape& shape, const float* HWY_RESTRICT q,
                            const float* HWY_RESTRICT answer) {
  const std::size_t size = shape.entity_size();
  switch (shape.model) {
    case Model::kTransE:
      return -distance<false>(q, answer, size);
    case Model::kRotatE:
      return -distance<true>(q, answer, size);
    default:
      return dot(q, answer, size);
  }
}

/// `turns`: of entity_size() numbers, for RotatE.
HWY_INLINE void ask_with(const Shape& shape, Side side, const float* HWY_RESTRICT given,
                         const float* HWY_RESTRICT relation, float* HWY_RESTRICT turns,
                         float* HWY_RESTRICT q) {
  const std::size_t size = shape.entity_size();
  switch (shape.model) {
    case Model::kComplEx:
      side == Side::kTail ? multiply_complex<false>(relation, given, q, size)
                          : multiply_complex<true>(relation, given, q, size);
      break;
    case Model::kDistMult:
      multiply_real(relation, given, q, size);
      break;
    case Model::kRescal:
      ask_matrix(shape, side, given, relation, q);
      break;
    case Model::kTransE:
      translate(side == Side::kTail ? 1.0F : -1.0F, given, relation, q, size);
      break;
    case Model::kRotatE:
      turns_of(relation, turns, shape);
      side == Side::kTail ? multiply_complex<false>(turns, given, q, size)
                          : multiply_complex<true>(turns, given, q, size);
      break;
  }
}

/// Steps the matrix's rows while it computes the given entity's gradient.
HWY_INLINE void step_matrix(const Shape& shape, Side side, const float* HWY_RESTRICT given,
                            float* HWY_RESTRICT matrix, const float* HWY_RESTRICT q_gradient,
                            float* HWY_RESTRICT given_gradient, const Rates& rates) {
  const Tag d;
  const std::size_t size = shape.entity_size();
  const std::size_t sums = shape.relation_size();
  std::fill(given_gradient, given_gradient + size, 0.0F);
  for (std::size_t i = 0; i < shape.dimension; ++i) {
    float* const row = matrix + i * size;
    const bool tail = side == Side::kTail;
    if (tail) {
      given_gradient[i] = dot(row, q_gradient, size);
    } else {
      add_scaled(q_gradient[i], row, given_gradient, size);
    }
    const Vector factors = hn::Set(d, tail ? given[i] : q_gradient[i]);
    const float* const direction = tail ? q_gradient : given;
    for (std::size_t k = 0; k < size; k += kWidth) {
      const Vector gradient = hn::Mul(factors, hn::Load(d, direction + k));
      adagrad<true>(hn::Load(d, row + k), gradient, row + k, row + sums + k, rates);
    }
  }
}

/// q turns by an angle as i q changes, or −i q if a head is asked for.
HWY_INLINE void derive_angles(const Shape& shape, Side side, const float* HWY_RESTRICT q,
                              const float* HWY_RESTRICT q_gradient, float* HWY_RESTRICT angle_gradient) {
  const float sign = side == Side::kTail ? 1.0F : -1.0F;
  for (std::size_t i = 0; i < shape.dimension / 2; ++i) {
    angle_gradient[i] = sign * (q[2 * i] * q_gradient[2 * i + 1] - q[2 * i + 1] * q_gradient[2 * i]);
  }
  std::fill(angle_gradient + shape.dimension / 2, angle_gradient + shape.relation_size(), 0.0F);
}

struct Buffers {
  float* q;
  float* q_gradient;
  float* given_gradient;
  float* relation_gradient;  ///< not used by RESCAL
  float* turns;              ///< of RotatE's angles
  float* derivative;         ///< of a score that is minus a distance
  float* scores;             ///< then the derivatives of the loss with respect to them
};

HWY_INLINE void step_question(const Shape& shape, Side side, float* HWY_RESTRICT given,
                              float* HWY_RESTRICT relation, const Buffers& b, const Rates& rates,
                              const Rates& relation_rates) {
  const std::size_t size = shape.entity_size();
  switch (shape.model) {
    case Model::kComplEx:
      if (side == Side::kTail) {
        multiply_complex<true>(relation, b.q_gradient, b.given_gradient, size);
        multiply_complex<true>(given, b.q_gradient, b.relation_gradient, size);
      } else {
        multiply_complex<false>(relation, b.q_gradient, b.given_gradient, size);
        multiply_complex<true>(b.q_gradient, given, b.relation_gradient, size);
      }
      break;
    case Model::kDistMult:
      multiply_real(relation, b.q_gradient, b.given_gradient, size);
      multiply_real(given, b.q_gradient, b.relation_gradient, size);
      break;
    case Model::kRescal:
      step_matrix(shape, side, given, relation, b.q_gradient, b.given_gradient, relation_rates);
      break;
    case Model::kTransE:
      std::copy(b.q_gradient, b.q_gradient + size, b.given_gradient);
      std::fill(b.relation_gradient, b.relation_gradient + size, 0.0F);
      add_scaled(side == Side::kTail ? 1.0F : -1.0F, b.q_gradient, b.relation_gradient, size);
      break;
    case Model::kRotatE:
      side == Side::kTail ? multiply_complex<true>(b.turns, b.q_gradient, b.given_gradient, size)
                          : multiply_complex<false>(b.turns, b.q_gradient, b.given_gradient, size);
      derive_angles(shape, side, b.q, b.q_gradient, b.relation_gradient);
      break;
  }
  if (shape.model != Model::kRescal)
    step_row<true>(relation, shape.relation_size(), 1.0F, b.relation_gradient, relation_rates);
  step_row<true>(given, size, 1.0F, b.given_gradient, rates);
}

template <bool kRegularized>
HWY_INLINE void step_any_answer(const Shape& shape, float* HWY_RESTRICT row, float factor, const Buffers& b,
                                const Rates& rates) {
  const std::size_t size = shape.entity_size();
  if (!has_distance(shape.model))
    return step_answer<kRegularized>(row, size, factor, b.q, b.q_gradient, rates);
  is_complex(shape.model) ? derive_distance<true>(b.q, row, b.derivative, size)
                          : derive_distance<false>(b.q, row, b.derivative, size);
  add_scaled(-factor, b.derivative, b.q_gradient, size);
  step_row<kRegularized>(row, size, factor, b.derivative, rates);
}

// --- the same for all

/// ln(1 + e^x)
HWY_INLINE float softplus(float x) {
  return std::max(x, 0.0F) + std::log1p(std::exp(-std::fabs(x)));
}

/// Replaces scores by derivatives; the right answer's is the first. Returns the loss.
HWY_INLINE double logistic(float* scores, std::size_t count) {
  double loss = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float wrongness = i == 0 ? -scores[0] : scores[i];
    const float probability = 1.0F / (1.0F + std::exp(-wrongness));
    loss += double{softplus(wrongness)};
    scores[i] = i == 0 ? -probability : probability;
  }
  return loss;
}

HWY_INLINE double softmax(float* scores, std::size_t count) {
  const float largest = *std::max_element(scores, scores + count);
  const float right = scores[0];
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    scores[i] = std::exp(scores[i] - largest);
    sum += scores[i];
  }
  for (std::size_t i = 0; i < count; ++i) scores[i] /= sum;
  scores[0] -= 1.0F;
  return std::log(double{sum}) + double{largest} - double{right};
}

HWY_INLINE double train_question(Side side, const Triple& triple, std::span<const std::uint32_t> wrong,
                                 Rows rows, const Shape& shape, const Step& step, const Rates& rates,
                                 const Rates& relation_rates, const Buffers& b) {
  const std::size_t size = shape.entity_size();
  float* const given = rows.entities[side == Side::kTail ? triple.head : triple.tail];
  float* const right = rows.entities[side == Side::kTail ? triple.tail : triple.head];
  float* const relation = rows.relations[triple.relation];
  const float margin = has_distance(shape.model) ? step.margin : 0.0F;
  ask_with(shape, side, given, relation, b.turns, b.q);
  b.scores[0] = score_with(shape, b.q, right) + margin;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    if (i + kPrefetchDistance < wrong.size()) {
      prefetch_row(rows.entities[wrong[i + kPrefetchDistance]], shape.entity_width());
    }
    b.scores[i + 1] = score_with(shape, b.q, rows.entities[wrong[i]]) + margin;
  }
  const double loss = step.loss == Loss::kLogistic ? logistic(b.scores, wrong.size() + 1)
                                                   : softmax(b.scores, wrong.size() + 1);
  std::fill(b.q_gradient, b.q_gradient + size, 0.0F);
  step_any_answer<true>(shape, right, b.scores[0], b, rates);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    step_any_answer<false>(shape, rows.entities[wrong[i]], b.scores[i + 1], b, rates);
  }
  step_question(shape, side, given, relation, b, rates, relation_rates);
  return loss;
}

double train_batch(const MiniBatch& batch, Rows rows, const Shape& shape, const Step& step, float* memory) {
  const Tag d;
  const std::size_t size = shape.entity_size();
  const Buffers buffers{.q = memory,
                        .q_gradient = memory + size,
                        .given_gradient = memory + 2 * size,
                        .relation_gradient = memory + 3 * size,
                        .turns = memory + 4 * size,
                        .derivative = memory + 5 * size,
                        .scores = memory + 6 * size};
  const Rates rates{hn::Set(d, step.learning_rate), hn::Set(d, step.regularization)};
  const Rates relation_rates{rates.learning, hn::Set(d, step.relation_regularization)};
  const std::size_t count = batch.negatives_a_side;
  const std::span<const std::uint32_t> negatives(batch.negatives);
  double loss = 0;
  for (std::size_t i = 0; i < batch.triples.size(); ++i) {
    loss += train_question(Side::kTail, batch.triples[i], negatives.subspan(2 * i * count, count), rows,
                           shape, step, rates, relation_rates, buffers);
    loss += train_question(Side::kHead, batch.triples[i], negatives.subspan((2 * i + 1) * count, count), rows,
                           shape, step, rates, relation_rates, buffers);
  }
  return loss;
}

void ask_one(const Shape& shape, Side side, const float* given, const float* relation, float* turns,
             float* q) {
  ask_with(shape, side, given, relation, turns, q);
}

void compare_all(const Shape& shape, const float* q, float right, const float* answers, std::size_t count,
                 Comparison& result) {
  const std::size_t size = shape.entity_size();
  for (std::size_t i = 0; i < count; ++i) {
    const float score = score_with(shape, q, answers + i * size);
    result.better += score <= right ? 0 : 1;
    result.equal += score == right ? 1 : 0;
  }
}

void score_some(const Shape& shape, const float* q, const float* answers, std::size_t count, float* scores) {
  const std::size_t size = shape.entity_size();
  for (std::size_t i = 0; i < count; ++i) scores[i] = score_with(shape, q, answers + i * size);
}

}  // namespace verbena::apps::kge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace verbena::apps::kge {

HWY_EXPORT(train_batch);
HWY_EXPORT(ask_one);
HWY_EXPORT(compare_all);
HWY_EXPORT(score_some);

double train(const MiniBatch& batch, Rows rows, const Shape& shape, const Step& step, Scratch& scratch) {
  // Beside the buffers of Buffers, room to align them.
  scratch.numbers.resize(6 * shape.entity_size() + batch.negatives_a_side + 1 + kLanes);
  const auto address = reinterpret_cast<std::uintptr_t>(scratch.numbers.data());
  const std::size_t to_alignment = (kRowAlignment - address % kRowAlignment) % kRowAlignment;
  return HWY_DYNAMIC_DISPATCH(train_batch)(batch, rows, shape, step,
                                           scratch.numbers.data() + to_alignment / sizeof(float));
}

void ask(const Shape& shape, Side side, const float* given, const float* relation, float* q) {
  const auto turns = shape.model == Model::kRotatE ? aligned_floats(shape.entity_size())
                                                   : hwy::AlignedFreeUniquePtr<float[]>();
  HWY_DYNAMIC_DISPATCH(ask_one)(shape, side, given, relation, turns.get(), q);
}

void compare(const Shape& shape, const float* q, float score, const float* answers, std::size_t count,
             Comparison& result) {
  HWY_DYNAMIC_DISPATCH(compare_all)(shape, q, score, answers, count, result);
}

float score(const Shape& shape, const float* q, const float* answer) {
  float score = 0;
  score_all(shape, q, answer, 1, &score);
  return score;
}

void score_all(const Shape& shape, const float* q, const float* answers, std::size_t count, float* scores) {
  HWY_DYNAMIC_DISPATCH(score_some)(shape, q, answers, count, scores);
}

}  // namespace verbena::apps::kge
#endif
