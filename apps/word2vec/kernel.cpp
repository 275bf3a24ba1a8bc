#include "apps/word2vec/kernel.hpp"

// Compiled once per instruction set by foreach_target (cmake/Compile.cmake says for which).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "apps/word2vec/kernel.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "apps/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace verbena::apps::word2vec::HWY_NAMESPACE {
using namespace verbena::apps::HWY_NAMESPACE;

/// Outputs whose sums are kept in registers at a time: the middle's and the usual five wrong ones.
constexpr std::size_t kOutputsAtOnce = 6;

/// e^x for x ≤ 0, to 2 units in the last place; e^-87 below -87. (Cephes' polynomial.)
HWY_INLINE Vector exp_of_negative(Vector x) {
  const Tag d;
  const hn::RebindToSigned<Tag> whole;
  x = hn::Max(x, hn::Set(d, -87.0F));
  const auto power = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504F)));
  const Vector n = hn::ConvertTo(d, power);
  // ln 2 in two parts, so that n times the first is exact.
  x = hn::Sub(x, hn::Mul(n, hn::Set(d, 0.693359375F)));
  x = hn::Sub(x, hn::Mul(n, hn::Set(d, -2.12194440e-4F)));
  Vector sum = hn::Set(d, 1.9875691500e-4F);
  for (const float coefficient :
       {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F}) {
    sum = hn::Add(hn::Mul(sum, x), hn::Set(d, coefficient));
  }
  sum = hn::Add(hn::Add(hn::Mul(hn::Mul(sum, x), x), x), hn::Set(d, 1.0F));
  const auto scale = hn::ShiftLeft<23>(hn::Add(power, hn::Set(whole, 127)));
  return hn::Mul(sum, hn::BitCast(d, scale));
}

/// Σ ln(1 + e^x). The logarithm is taken of products of many.
class LossSum {
 public:
  HWY_INLINE LossSum() { clear(); }
  /// Adds ln(1 + e^x), given e^−|x|, for vector `v` of the virtual lanes.
  HWY_INLINE void add(std::size_t v, Vector x, Vector exp_of_distance) {
    const Tag d;
    products_[v] = hn::Mul(products_[v], hn::Add(hn::Set(d, 1.0F), exp_of_distance));
    // Half of |x| + x, not the larger of x and 0, so that NaN stays NaN.
    halves_[v] = hn::Add(halves_[v], hn::Add(hn::Abs(x), x));
  }
  /// Must be called after one vector of each of the virtual lanes was added.
  HWY_INLINE void added() {
    if (++factors_ == kMostFactors) flush();
  }
  HWY_INLINE double total() {
    flush();
    return total_;
  }

 private:
  static constexpr std::size_t kMostFactors = 64;  // their product is at most 2⁶⁴
  HWY_INLINE void clear() {
    for (std::size_t v = 0; v < kVectors; ++v) {
      products_[v] = hn::Set(Tag(), 1.0F);
      halves_[v] = hn::Zero(Tag());
    }
    factors_ = 0;
  }
  HWY_INLINE void flush() {
    HWY_ALIGN float lanes[kLanes];
    for (std::size_t v = 0; v < kVectors; ++v) hn::Store(products_[v], Tag(), lanes + v * kWidth);
    double low = 1;
    double high = 1;
    for (std::size_t i = 0; i < kLanes / 2; ++i) {
      low *= double{lanes[i]};
      high *= double{lanes[i + kLanes / 2]};
    }
    total_ += std::log(low) + std::log(high) + 0.5 * double{sum_virtual_lanes(halves_)};
    clear();
  }

  Vector products_[kVectors];
  Vector halves_[kVectors];
  std::size_t factors_ = 0;
  double total_ = 0;
};

/// The buffers of one window.
struct Buffers {
  float* const* inputs;
  std::size_t input_count;
  float* const* outputs;
  std::size_t output_count;
  float* scores;           ///< [output_count, stride], then what their gradients are multiplied with
  std::size_t stride;      ///< input_count, padded
  float* input_gradients;  ///< kWidth numbers each
  float* output_gradients;
};

/// Scores of one input with some outputs.
template <std::size_t kOutputs>
HWY_INLINE void score_some(const float* HWY_RESTRICT input, float* const* outputs, std::size_t size,
                           float* scores, std::size_t stride) {
  const Tag d;
  Vector sums[kOutputs][kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    const Vector x = hn::Load(d, input + v * kWidth);
    for (std::size_t j = 0; j < kOutputs; ++j) sums[j][v] = hn::Mul(x, hn::Load(d, outputs[j] + v * kWidth));
  }
  for (std::size_t k = kLanes; k < size; k += kLanes) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = k + v * kWidth;
      const Vector x = hn::Load(d, input + at);
      for (std::size_t j = 0; j < kOutputs; ++j) {
        sums[j][v] = hn::Add(sums[j][v], hn::Mul(x, hn::Load(d, outputs[j] + at)));
      }
    }
  }
  for (std::size_t j = 0; j < kOutputs; ++j) scores[j * stride] = sum_virtual_lanes(sums[j]);
}

template <std::size_t kMost>
HWY_INLINE void score_rest(std::size_t count, const float* input, float* const* outputs, std::size_t size,
                           float* scores, std::size_t stride) {
  if (count == kMost) {
    score_some<kMost>(input, outputs, size, scores, stride);
  } else if constexpr (kMost > 1) {
    score_rest<kMost - 1>(count, input, outputs, size, scores, stride);
  }
}

HWY_INLINE void score_window(const Buffers& b, std::size_t size) {
  for (std::size_t i = 0; i < b.input_count; ++i) {
    std::size_t j = 0;
    for (; j + kOutputsAtOnce <= b.output_count; j += kOutputsAtOnce) {
      score_some<kOutputsAtOnce>(b.inputs[i], b.outputs + j, size, b.scores + j * b.stride + i, b.stride);
    }
    score_rest<kOutputsAtOnce - 1>(b.output_count - j, b.inputs[i], b.outputs + j, size,
                                   b.scores + j * b.stride + i, b.stride);
  }
}

/// Replaces scores by learning_rate times the negative derivative of the loss; the middle's are the first.
HWY_INLINE void weigh(const Buffers& b, float learning_rate, LossSum& loss) {
  const Tag d;
  constexpr float kSureOf = 100;  // padding: its loss is 0
  const Vector one = hn::Set(d, 1.0F);
  for (std::size_t j = 0; j < b.output_count; ++j) {
    float* const scores = b.scores + j * b.stride;
    const float sign = j == 0 ? -1.0F : 1.0F;
    for (std::size_t i = b.input_count; i < b.stride; ++i) scores[i] = -sign * kSureOf;
    const Vector signs = hn::Set(d, sign);
    const Vector rate = hn::Set(d, -sign * learning_rate);
    for (std::size_t i = 0; i < b.stride; i += kLanes) {
      for (std::size_t v = 0; v < kVectors; ++v) {
        const std::size_t at = i + v * kWidth;
        const Vector wrongness = hn::Mul(signs, hn::Load(d, scores + at));
        const Vector exp = exp_of_negative(hn::Neg(hn::Abs(wrongness)));
        const Vector numerator = hn::IfThenElse(hn::Gt(wrongness, hn::Zero(d)), one, exp);
        loss.add(v, wrongness, exp);
        hn::Store(hn::Mul(rate, hn::Div(numerator, hn::Add(one, exp))), d, scores + at);
      }
      loss.added();
    }
  }
}

/// Computes gradients for numbers [at, at + kWidth), of all inputs with some outputs. `kFirst`: these are the
/// first outputs of the window.
template <std::size_t kOutputs, bool kFirst>
HWY_INLINE void gradients_of_some(const Buffers& b, std::size_t at, std::size_t first) {
  const Tag d;
  Vector outputs[kOutputs];
  Vector gradients[kOutputs];
  const float* HWY_RESTRICT weights = b.scores + first * b.stride;
  for (std::size_t j = 0; j < kOutputs; ++j) {
    outputs[j] = hn::Load(d, b.outputs[first + j] + at);
    gradients[j] = hn::Zero(d);
  }
  for (std::size_t i = 0; i < b.input_count; ++i) {
    const Vector input = hn::Load(d, b.inputs[i] + at);
    Vector gradient = kFirst ? hn::Zero(d) : hn::Load(d, b.input_gradients + i * kWidth);
    for (std::size_t j = 0; j < kOutputs; ++j) {
      const Vector weight = hn::Set(d, weights[j * b.stride + i]);
      gradients[j] = hn::Add(gradients[j], hn::Mul(weight, input));
      gradient = hn::Add(gradient, hn::Mul(weight, outputs[j]));
    }
    hn::Store(gradient, d, b.input_gradients + i * kWidth);
  }
  for (std::size_t j = 0; j < kOutputs; ++j) {
    hn::Store(gradients[j], d, b.output_gradients + (first + j) * kWidth);
  }
}

template <std::size_t kMost, bool kFirst>
HWY_INLINE void gradients_of_rest(std::size_t count, const Buffers& b, std::size_t at, std::size_t first) {
  if (count == kMost) {
    gradients_of_some<kMost, kFirst>(b, at, first);
  } else if constexpr (kMost > 1) {
    gradients_of_rest<kMost - 1, kFirst>(count, b, at, first);
  }
}

HWY_INLINE void add_gradient(const float* HWY_RESTRICT gradient, float* HWY_RESTRICT row) {
  const Tag d;
  hn::Store(hn::Add(hn::Load(d, row), hn::Load(d, gradient)), d, row);
}

HWY_INLINE void step(const Buffers& b, std::size_t size) {
  for (std::size_t at = 0; at < size; at += kWidth) {
    // All gradients are computed from the rows as they were: no row is changed before the last gradient is
    // computed.
    if (b.output_count < kOutputsAtOnce) {
      gradients_of_rest<kOutputsAtOnce - 1, true>(b.output_count, b, at, 0);
    } else {
      gradients_of_some<kOutputsAtOnce, true>(b, at, 0);
      std::size_t j = kOutputsAtOnce;
      for (; j + kOutputsAtOnce <= b.output_count; j += kOutputsAtOnce) {
        gradients_of_some<kOutputsAtOnce, false>(b, at, j);
      }
      gradients_of_rest<kOutputsAtOnce - 1, false>(b.output_count - j, b, at, j);
    }
    for (std::size_t i = 0; i < b.input_count; ++i) {
      add_gradient(b.input_gradients + i * kWidth, b.inputs[i] + at);
    }
    for (std::size_t j = 0; j < b.output_count; ++j) {
      add_gradient(b.output_gradients + j * kWidth, b.outputs[j] + at);
    }
  }
}

/// `vectors` and `numbers` are the memory of Buffers.
double train_batch(const MiniBatch& batch, Rows rows, std::size_t size, float learning_rate, float** vectors,
                   float* numbers) {
  LossSum loss;
  std::size_t negative = 0;
  for (std::size_t w = 0; w < batch.windows.size(); ++w) {
    const Window& window = batch.windows[w];
    if (w + 1 < batch.windows.size()) {
      // What the next window needs and this one does not: wrong words, and one more word.
      const Window& next = batch.windows[w + 1];
      for (std::size_t n = window.negatives_end; n < next.negatives_end; ++n) {
        prefetch_row(rows.outputs[batch.negatives[n]], size);
      }
      prefetch_row(rows.outputs[batch.outputs[next.middle]], size);
      prefetch_row(rows.inputs[batch.inputs[next.last - 1]], size);
    }
    std::size_t count = 0;
    for (std::uint32_t place = window.first; place < window.last; ++place) {
      if (place != window.middle) vectors[count++] = rows.inputs[batch.inputs[place]];
    }
    const std::size_t inputs = count;
    vectors[count++] = rows.outputs[batch.outputs[window.middle]];
    for (; negative < window.negatives_end; ++negative) {
      vectors[count++] = rows.outputs[batch.negatives[negative]];
    }
    const std::size_t outputs = count - inputs;
    const std::size_t stride = padded(inputs);
    const Buffers buffers{.inputs = vectors,
                          .input_count = inputs,
                          .outputs = vectors + inputs,
                          .output_count = outputs,
                          .scores = numbers,
                          .stride = stride,
                          .input_gradients = numbers + outputs * stride,
                          .output_gradients = numbers + outputs * stride + inputs * kWidth};
    score_window(buffers, size);
    weigh(buffers, learning_rate, loss);
    step(buffers, size);
  }
  return loss.total();
}

void score_all(std::span<const float> q, const float* rows, std::span<float> scores) {
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = dot(q.data(), rows + i * q.size(), q.size());
}

}  // namespace verbena::apps::word2vec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace verbena::apps::word2vec {

HWY_EXPORT(train_batch);
HWY_EXPORT(score_all);

double train(const MiniBatch& batch, Rows rows, std::size_t size, float learning_rate, Scratch& scratch) {
  std::size_t most_inputs = 0;
  std::size_t most_outputs = 1;
  std::uint32_t negatives_begin = 0;
  for (const Window& window : batch.windows) {
    most_inputs = std::max<std::size_t>(most_inputs, window.pairs());
    most_outputs = std::max<std::size_t>(most_outputs, window.negatives_end - negatives_begin + 1);
    negatives_begin = window.negatives_end;
  }
  scratch.vectors.resize(most_inputs + most_outputs);
  // Scores, then a vector for each row's gradient, and room to align them.
  scratch.numbers.resize(most_outputs * padded(most_inputs) + (most_inputs + most_outputs) * kLanes + kLanes);
  const auto address = reinterpret_cast<std::uintptr_t>(scratch.numbers.data());
  const std::size_t to_alignment = (kRowAlignment - address % kRowAlignment) % kRowAlignment;
  return HWY_DYNAMIC_DISPATCH(train_batch)(batch, rows, size, learning_rate, scratch.vectors.data(),
                                           scratch.numbers.data() + to_alignment / sizeof(float));
}

void score(std::span<const float> q, const float* rows, std::span<float> scores) {
  HWY_DYNAMIC_DISPATCH(score_all)(q, rows, scores);
}

}  // namespace verbena::apps::word2vec
#endif
