#include "apps/ctr/model.hpp"

#include <algorithm>

#include "apps/data/score_histogram.hpp"

namespace verbena::apps::ctr {

double Machine::score(const MiniBatch& batch, std::size_t example, const Numbers& parameters) {
  const std::uint32_t first = batch.begin[example];
  const std::uint32_t last = batch.begin[example + 1];
  float linear = parameters.weights[0];
  if (batch.values.empty()) {
    for (std::uint32_t f = first; f < last; ++f) linear += parameters.weights[batch.places[f]];
  } else {
    for (std::uint32_t f = first; f < last; ++f)
      linear += parameters.weights[batch.places[f]] * batch.values[f];
  }
  if (rank_ == 0) return linear;
  std::fill(sums_.begin(), sums_.end(), 0.0F);
  float squares = 0;
  for (std::uint32_t f = first; f < last; ++f) {
    const float value = batch.value(f);
    const float* const factors = parameters.factors.data() + batch.places[f] * rank_;
    for (std::size_t k = 0; k < rank_; ++k) {
      const float part = factors[k] * value;
      sums_[k] += part;
      squares += part * part;
    }
  }
  float pairs = -squares;
  for (std::size_t k = 0; k < rank_; ++k) pairs += sums_[k] * sums_[k];
  return linear + pairs / 2;
}

ProgressiveLoss Machine::gradients(const MiniBatch& batch, const Numbers& parameters, Numbers& gradients) {
  gradients.weights.assign(batch.keys.size(), 0);
  gradients.factors.assign(batch.keys.size() * rank_, 0);
  ProgressiveLoss loss;
  for (std::size_t e = 0; e < batch.examples(); ++e) {
    const double z = score(batch, e, parameters);
    const bool is_positive = batch.labels[e] != 0;
    const float weight = batch.weight(e);
    loss.log_loss += weight * logistic_loss(z, is_positive);
    loss.weight += weight;
    const float slope = weight * static_cast<float>(logistic(z) - (is_positive ? 1 : 0));
    gradients.weights[0] += slope;
    for (std::uint32_t f = batch.begin[e]; f < batch.begin[e + 1]; ++f) {
      const std::uint32_t place = batch.places[f];
      const float step = slope * batch.value(f);
      gradients.weights[place] += step;
      const float* const factors = parameters.factors.data() + place * rank_;
      float* const to = gradients.factors.data() + place * rank_;
      for (std::size_t k = 0; k < rank_; ++k)
        to[k] += step * (sums_[k] - factors[k] * batch.value(f)) + weight * regularization_ * factors[k];
    }
  }
  return loss;
}

void Machine::scores(const MiniBatch& batch, const Numbers& parameters,
                     absl::FunctionRef<void(std::size_t, double)> use) {
  for (std::size_t e = 0; e < batch.examples(); ++e) use(e, score(batch, e, parameters));
}

}  // namespace verbena::apps::ctr
