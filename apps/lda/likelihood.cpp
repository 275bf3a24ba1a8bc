#include "apps/lda/likelihood.hpp"

#include <algorithm>
#include <cmath>

namespace verbena::apps::lda {
namespace {

constexpr std::size_t kTableSize = 4096;

double log_gamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

}  // namespace

LogGammaRatio::LogGammaRatio(double offset)
    : offset_(offset), log_gamma_offset_(log_gamma(offset)), table_(kTableSize) {
  for (std::size_t n = 0; n < kTableSize; ++n) table_[n] = far(static_cast<std::int32_t>(n));
}

double LogGammaRatio::far(std::int32_t count) const {
  return log_gamma(count + offset_) - log_gamma_offset_;
}

Likelihood::Likelihood(std::size_t topics, std::size_t vocabulary, double alpha, double beta)
    : topic_(static_cast<double>(vocabulary) * beta),
      word_(beta),
      document_(static_cast<double>(topics) * alpha),
      topic_in_document_(alpha) {}

double Likelihood::of_totals(std::span<const std::int32_t> totals) const {
  double sum = 0;
  for (const std::int32_t count : totals) sum -= topic_(std::max(count, 0));
  return sum;
}

double Likelihood::of_words(std::span<const std::int32_t> rows) const {
  double sum = 0;
  for (const std::int32_t count : rows) {
    if (count > 0) sum += word_(count);
  }
  return sum;
}

double Likelihood::of_documents(const DocumentTopics& documents) const {
  double sum = 0;
  for (std::size_t document = 0; document < documents.documents(); ++document) {
    std::int32_t length = 0;
    documents.for_each(document, [&](std::size_t /*topic*/, std::int32_t count) {
      length += count;
      sum += topic_in_document_(count);
    });
    sum -= document_(length);
  }
  return sum;
}

}  // namespace verbena::apps::lda
