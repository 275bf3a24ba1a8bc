// The arithmetic of skip-gram with negative sampling (Mikolov et al., NIPS 2013). Each word has two vectors,
// an input v and an output u. For each window of the text, each word around its middle is asked: which word
// is beside you, the middle's or one of some drawn at random? The loss of such a pair (word around, window)
// is
//
//   −ln σ(v · u_middle) − Σ ln σ(−v · u_wrong)
//
// All pairs of a window have the same wrong words, so that scores and gradients are products of small
// matrices, inputs × outputs (Ji, Satish, Li and Dubey, "Parallelizing Word2Vec in Shared and Distributed
// Memory", TPDS 2019). All scores of a window are computed from the vectors as they were before it, and the
// gradients of its pairs are added up.
//
// Runs on the widest vectors the processor has and gives the same bits on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/embedding/row_source.hpp"

namespace verbena::apps::word2vec {

/// Vector r is at inputs[r], or outputs[r]; its size is a multiple of kLanes.
struct Rows {
  RowPointers inputs = nullptr;
  RowPointers outputs = nullptr;
};

/// Places in the mini-batch's text.
struct Window {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  ///< not included
  std::uint32_t middle = 0;
  /// Its wrong words are negatives [negatives_end of the window before, negatives_end).
  std::uint32_t negatives_end = 0;
  [[nodiscard]] std::uint32_t pairs() const { return last - first - 1; }
};

/// Some text and its windows. Words are given as rows, or as ids if there is a row for each id.
struct MiniBatch {
  std::vector<std::uint32_t> inputs;   ///< of each word of the text
  std::vector<std::uint32_t> outputs;  ///< of the same words
  std::vector<Window> windows;
  std::vector<std::uint32_t> negatives;  ///< outputs
  void clear() {
    inputs.clear();
    outputs.clear();
    windows.clear();
    negatives.clear();
  }
};

/// Memory of train(), kept from one call to the next.
struct Scratch {
  std::vector<float*> vectors;
  std::vector<float> numbers;
};

/// For one window after the other, makes a step of gradient descent on the sum of the losses of its pairs. A
/// row that occurs twice in a window gets both gradients. Returns the sum of the losses.
double train(const MiniBatch& batch, Rows rows, std::size_t size, float learning_rate, Scratch& scratch);

/// scores[i] = q · row i. REQUIRES: rows of q.size() numbers, aligned as above.
void score(std::span<const float> q, const float* rows, std::span<float> scores);

}  // namespace verbena::apps::word2vec
