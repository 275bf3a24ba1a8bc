#include "apps/word2vec/text.hpp"

#include <algorithm>
#include <span>

namespace verbena::apps::word2vec {

bool is_held_out(std::uint64_t document, double share, std::uint64_t seed) {
  return to_unit_interval(mix(seed ^ mix(document))) < share;
}

SplitText split(Corpus& corpus, double share, std::uint64_t seed) {
  SplitText result;
  for (std::size_t d = 0; d < corpus.documents.size(); ++d) {
    const auto words =
        std::span(corpus.tokens).subspan(corpus.begin[d], corpus.begin[d + 1] - corpus.begin[d]);
    if (is_held_out(corpus.documents[d], share, seed)) {
      result.held_out.push_back({corpus.documents[d], {words.begin(), words.end()}});
    } else {
      result.train.words.insert(result.train.words.end(), words.begin(), words.end());
      result.train.begin.push_back(result.train.words.size());
    }
  }
  corpus.tokens = {};
  return result;
}

void WindowMaker::add(const Text& text, std::uint64_t first, std::uint64_t last, Random& random,
                      MiniBatch& batch) const {
  auto end = std::upper_bound(text.begin.begin(), text.begin.end(), first);
  for (std::uint64_t begin = first; begin < last; ++end) {
    const std::uint64_t document_end = std::min(*end, last);
    add_document(std::span(text.words).subspan(begin, document_end - begin), random, batch);
    begin = document_end;
  }
}

void WindowMaker::add_document(std::span<const std::uint32_t> words, Random& random, MiniBatch& batch) const {
  const std::size_t begin = batch.inputs.size();
  for (const std::uint32_t word : words) {
    if (subsampling_.keeps(word, random)) batch.inputs.push_back(word);
  }
  const std::size_t end = batch.inputs.size();
  batch.outputs.insert(batch.outputs.end(), batch.inputs.begin() + static_cast<std::ptrdiff_t>(begin),
                       batch.inputs.end());
  if (end - begin < 2) return;
  for (std::size_t middle = begin; middle < end; ++middle) {
    const std::size_t reach = options_.shrinks ? 1 + random_below(random, options_.window) : options_.window;
    for (std::size_t n = 0; n < options_.negatives; ++n) {
      const std::uint32_t wrong = noise_.draw(random);
      if (wrong != batch.inputs[middle]) batch.negatives.push_back(wrong);
    }
    batch.windows.push_back({.first = static_cast<std::uint32_t>(middle - std::min(reach, middle - begin)),
                             .last = static_cast<std::uint32_t>(std::min(middle + reach + 1, end)),
                             .middle = static_cast<std::uint32_t>(middle),
                             .negatives_end = static_cast<std::uint32_t>(batch.negatives.size())});
  }
}

}  // namespace verbena::apps::word2vec
