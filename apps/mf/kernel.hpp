// The arithmetic of matrix factorization: r ≈ b_user + b_item + p_user · q_item, by stochastic gradient
// descent. Runs on the widest vectors the processor has and gives the same bits on all of them: sums are
// always formed over 16 virtual lanes in one fixed order, and nothing is fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/data/ratings.hpp"
#include "apps/embedding/row_source.hpp"

namespace verbena::apps::mf {

/// Row r has its factors at factors[r * padded_rank] and its bias at biases[r].
struct Rows {
  float* factors = nullptr;  ///< aligned to kRowAlignment
  float* biases = nullptr;
};
struct ConstRows {
  ConstRows(Rows rows) : factors(rows.factors), biases(rows.biases) {}  // NOLINT: a view of a view
  const float* factors;
  const float* biases;
};

struct Shape {
  std::size_t padded_rank = kLanes;  ///< padded(rank)
  bool biases = true;                ///< false: biases are neither read nor written
};

struct Step {
  float learning_rate = 0;
  float regularization = 0;
};

/// One step of gradient descent per rating, in their order, on
///   ½ (r − prediction)² + ½ regularization (|p|² + |q|² + b_user² + b_item²).
/// Rating::user and Rating::item are rows of `users` and `items`.
void train(std::span<const Rating> ratings, Rows users, Rows items, const Shape& shape, const Step& step);

/// Σ (r − prediction)², added up in the order of the ratings.
double squared_error(std::span<const Rating> ratings, ConstRows users, ConstRows items, const Shape& shape);

}  // namespace verbena::apps::mf
