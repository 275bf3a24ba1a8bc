// The text as training takes it: documents, and the windows of a piece of it.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/data/corpus.hpp"
#include "apps/data/random.hpp"
#include "apps/word2vec/kernel.hpp"
#include "apps/word2vec/sampling.hpp"

namespace verbena::apps::word2vec {

/// Documents, one after the other; no window reaches from one into another.
struct Text {
  std::vector<std::uint32_t> words;
  std::vector<std::uint64_t> begin = {0};  ///< document d is words [begin[d], begin[d + 1])
};

/// A document that is not trained.
struct HeldOutDocument {
  std::uint64_t index = 0;  ///< in the whole corpus
  std::vector<std::uint32_t> words;
};

struct SplitText {
  Text train;
  std::vector<HeldOutDocument> held_out;
};

/// Whether a document, by its index in the whole corpus, is one of the `share` that are not trained: decided
/// by hashing the index and `seed`, so that it does not depend on the parts.
bool is_held_out(std::uint64_t document, double share, std::uint64_t seed);

/// Takes the words out of the corpus and leaves the rest of it.
SplitText split(Corpus& corpus, double share, std::uint64_t seed);

struct WindowOptions {
  std::size_t window = 5;     ///< words on each side, at most
  std::size_t negatives = 5;  ///< wrong words of a window
  bool shrinks = true;  ///< each window is of 1 to `window` words a side, so that nearer ones count for more
};

/// Makes mini-batches of words. They have ids, which later become the places of rows.
class WindowMaker {
 public:
  /// Both must outlive it.
  WindowMaker(const Subsampling& subsampling, const NoiseDistribution& noise, const WindowOptions& options)
      : subsampling_(subsampling), noise_(noise), options_(options) {}

  /// Adds words [first, last) of the text, without those that subsampling leaves out, and a window for each
  /// word that has another one beside it. No window crosses the end of a document, `first` or `last`. A wrong
  /// word that is the window's own middle is left out, so that a window may have fewer wrong words.
  void add(const Text& text, std::uint64_t first, std::uint64_t last, Random& random, MiniBatch& batch) const;

 private:
  void add_document(std::span<const std::uint32_t> words, Random& random, MiniBatch& batch) const;

  const Subsampling& subsampling_;
  const NoiseDistribution& noise_;
  WindowOptions options_;
};

}  // namespace verbena::apps::word2vec
