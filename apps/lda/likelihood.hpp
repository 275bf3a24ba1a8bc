// log p(w, z | α, β) of a topic model, the topics' and documents' distributions integrated out, in parts that
// add up:
//
//   Σ_k [ lnΓ(Vβ) − lnΓ(n_k + Vβ) ]  +  Σ_kw [ lnΓ(n_kw + β) − lnΓ(β) ]
// + Σ_d [ lnΓ(Kα) − lnΓ(n_d + Kα) ]  +  Σ_dk [ lnΓ(n_dk + α) − lnΓ(α) ]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/lda/kernel.hpp"

namespace verbena::apps::lda {

/// lnΓ(n + offset) − lnΓ(offset) for counts n ≥ 0; a table for small ones.
class LogGammaRatio {
 public:
  explicit LogGammaRatio(double offset);
  double operator()(std::int32_t count) const {
    const auto n = static_cast<std::size_t>(count);
    return n < table_.size() ? table_[n] : far(count);
  }

 private:
  [[nodiscard]] double far(std::int32_t count) const;
  double offset_;
  double log_gamma_offset_;
  std::vector<double> table_;
};

class Likelihood {
 public:
  Likelihood(std::size_t topics, std::size_t vocabulary, double alpha, double beta);
  /// The part of all topics' totals.
  [[nodiscard]] double of_totals(std::span<const std::int32_t> totals) const;
  /// The part of some words' rows, packed.
  [[nodiscard]] double of_words(std::span<const std::int32_t> rows) const;
  [[nodiscard]] double of_documents(const DocumentTopics& documents) const;

 private:
  LogGammaRatio topic_;
  LogGammaRatio word_;
  LogGammaRatio document_;
  LogGammaRatio topic_in_document_;
};

}  // namespace verbena::apps::lda
