#include "apps/word2vec/merging.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace verbena::apps::word2vec {
namespace {

/// The curvature of a pair's loss along a row's own direction, found on the King James Bible with two and
/// four workers. Of 0.01, 0.1 and 1, it is the value that gives the loss of the plain loop: with 0.01,
/// training with four workers still breaks down, with 1 they learn too slowly.
constexpr double kCurvature = 0.1;

/// Up to so many times as many words count as about the same.
constexpr double kAlike = 1.1;

}  // namespace

std::vector<LikeWorkers> like_workers(std::vector<std::int64_t> words) {
  std::erase(words, 0);
  std::sort(words.begin(), words.end());
  const auto all = static_cast<double>(std::accumulate(words.begin(), words.end(), std::int64_t{0}));
  std::vector<LikeWorkers> result;
  for (auto first = words.begin(); first != words.end();) {
    const auto last = std::upper_bound(first, words.end(), static_cast<double>(*first) * kAlike);
    const auto of_these = static_cast<double>(std::accumulate(first, last, std::int64_t{0}));
    const auto count = static_cast<double>(last - first);
    result.push_back({.share = of_these / count / all, .count = count});
    first = last;
  }
  return result;
}

double pushed_share(double a, std::span<const LikeWorkers> workers) {
  double ways = 0;  // the shares of the way that the workers go, added up
  for (const LikeWorkers& some : workers) ways -= some.count * std::expm1(-a * some.share);
  return ways > 0 ? -std::expm1(-a) / ways : 1;
}

PushedShares pushed_shares(std::span<const std::uint64_t> counts, const Subsampling& subsampling,
                           const NoiseDistribution& noise, const MergingOptions& options) {
  const std::vector<LikeWorkers> workers = like_workers(options.words);
  const double pairs_a_window =
      static_cast<double>(options.windows.window) + 1;  // the mean of 2 to 2 · window
  std::vector<double> pairs;
  double all_pairs = 0;
  for (std::uint32_t word = 0; word < counts.size(); ++word) {
    const double windows =
        static_cast<double>(counts[word]) * subsampling.share_kept(word) / options.clocks_per_iteration;
    pairs.push_back(windows * pairs_a_window);
    all_pairs += pairs.back();
  }
  PushedShares shares;
  const double rate = options.learning_rate * kCurvature;
  for (std::uint32_t word = 0; word < counts.size(); ++word) {
    const double wrong = all_pairs * static_cast<double>(options.windows.negatives) * noise.share(word);
    shares.inputs.push_back(static_cast<float>(pushed_share(rate * pairs[word], workers)));
    shares.outputs.push_back(static_cast<float>(pushed_share(rate * (pairs[word] + wrong), workers)));
  }
  return shares;
}

}  // namespace verbena::apps::word2vec
