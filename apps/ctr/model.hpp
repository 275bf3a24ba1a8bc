// Logistic regression, and factorization machines (Rendle, ICDM'10), of one mini-batch: what an example's
// score is, and the gradients of the log loss.
//
//   score = w(bias) + Σ w(i) x(i) + ½ Σ over f of ((Σ v(i, f) x(i))² − Σ v(i, f)² x(i)²)
//
// The second sum is that of the products v(i) · v(j) x(i) x(j) over all pairs of features; a logistic
// regression is a machine with 0 factors. The probability is 1 / (1 + e^−score).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "apps/ctr/batches.hpp"

namespace verbena::apps::ctr {

/// Numbers for each of a mini-batch's keys: parameters, or their gradients.
struct Numbers {
  std::vector<float> weights;  ///< [keys]
  std::vector<float> factors;  ///< [keys, rank]

  void resize(std::size_t keys, std::size_t rank) {
    weights.resize(keys);
    factors.resize(keys * rank);
  }
};

/// What training has seen of examples before it learnt from them.
struct ProgressiveLoss {
  double log_loss = 0;  ///< in nats, weighted, summed over the examples
  double weight = 0;    ///< of the examples
};

/// Thread safety: none; it has scratch memory.
class Machine {
 public:
  /// `regularization`: of ½ |v|², which is added to the loss for each use of a feature.
  Machine(std::size_t rank, float regularization)
      : rank_(rank), regularization_(regularization), sums_(rank) {}
  [[nodiscard]] std::size_t rank() const { return rank_; }

  /// Sets `gradients` to those of the mini-batch's log loss, summed over its examples.
  ProgressiveLoss gradients(const MiniBatch& batch, const Numbers& parameters, Numbers& gradients);
  /// Calls use(example, score) for each example.
  void scores(const MiniBatch& batch, const Numbers& parameters,
              absl::FunctionRef<void(std::size_t, double)> use);

 private:
  /// Leaves in sums_ what the factors' gradients need.
  double score(const MiniBatch& batch, std::size_t example, const Numbers& parameters);

  const std::size_t rank_;
  const float regularization_;
  std::vector<float> sums_;  ///< Σ v(i, f) x(i), by f
};

}  // namespace verbena::apps::ctr
