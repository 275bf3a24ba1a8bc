// How the updates that several workers have learnt at the same time are merged, and why sums alone are not
// enough.
//
// Within a clock each worker moves a row from where it was towards where the loss is least. The row of a rare
// word moves by a small part of the way, and the moves of all workers add up, as they would if made one after
// the other. The row of a frequent word gets there: each of N workers pushes the whole way, and the sum goes
// N times too far; with four workers the training breaks down. In between, if worker p moves the row by the
// share 1 − e^−a_p of the way, all workers one after the other would move it by 1 − e^−a, where a is the sum
// of all a_p. Therefore, of each worker's update, the share
//
//   (1 − e^−a) / Σ_p (1 − e^−a_p)
//
// is pushed: all of it if a is small, the mean if all a_p are large. Here a_p is the number of pairs with
// which worker p trains the row in a clock, times the learning rate, times the curvature of the loss. It is
// in proportion to the words of the worker's text. A worker without words pushes nothing, and the others do
// not push less because of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/word2vec/sampling.hpp"
#include "apps/word2vec/text.hpp"

namespace verbena::apps::word2vec {

struct MergingOptions {
  std::vector<std::int64_t> words;  ///< of each worker's text
  double clocks_per_iteration = 1;
  double learning_rate = 0;  ///< at first; it falls later, so shares err towards the mean, which is safe
  WindowOptions windows;
};

/// The share of a worker's updates that is pushed, by word.
struct PushedShares {
  std::vector<float> inputs;
  std::vector<float> outputs;
};
PushedShares pushed_shares(std::span<const std::uint64_t> counts, const Subsampling& subsampling,
                           const NoiseDistribution& noise, const MergingOptions& options);

/// Workers that have about the same share of the text.
struct LikeWorkers {
  double share = 1;  ///< of each
  double count = 1;
};
/// Groups the workers that have any words.
std::vector<LikeWorkers> like_workers(std::vector<std::int64_t> words);

/// See above. 1 for one worker.
double pushed_share(double a, std::span<const LikeWorkers> workers);

}  // namespace verbena::apps::word2vec
