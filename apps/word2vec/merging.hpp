// How what several workers have learnt at the same time becomes one: why sums alone will not do.
//
// Within a clock each worker moves a row from where it was towards where the loss is least. A rare word's row
// moves by a small part of the way, and what workers have moved it adds up, as it would have one after the
// other. A frequent word's row gets there: each of N workers pushes the whole way, and the sum is N times too
// far; with four the training breaks down. In between, where worker p moves the row by the share 1 − e^−a_p
// of the way, all of them one after the other would move it by 1 − e^−a, a being the sum of all a_p, so that
// of each one's update
//
//   (1 − e^−a) / Σ_p (1 − e^−a_p)
//
// is pushed: all of it where a is small, the mean where all a_p are large. Here a_p is the number of pairs
// with which worker p trains the row in a clock, times the learning rate, times the loss's curvature: in
// proportion to the words of its text. One that has none pushes nothing, and of the others no less is pushed
// for it.
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
  double learning_rate = 0;  ///< at first: later ones are smaller, and the mean is the safe side
  WindowOptions windows;
};

/// What is pushed of a worker's updates, by word.
struct PushedShares {
  std::vector<float> inputs;
  std::vector<float> outputs;
};
PushedShares pushed_shares(std::span<const std::uint64_t> counts, const Subsampling& subsampling,
                           const NoiseDistribution& noise, const MergingOptions& options);

/// Workers who have about the same share of the text.
struct LikeWorkers {
  double share = 1;  ///< of each
  double count = 1;
};
/// Of those that have any.
std::vector<LikeWorkers> like_workers(std::vector<std::int64_t> words);

/// See above. 1 for one worker.
double pushed_share(double a, std::span<const LikeWorkers> workers);

}  // namespace verbena::apps::word2vec
