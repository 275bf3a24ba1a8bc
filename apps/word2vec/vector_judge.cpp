#include "apps/word2vec/vector_judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "apps/data/corpus.hpp"
#include "apps/word2vec/evaluation.hpp"
#include "apps/word2vec/sampling.hpp"
#include "apps/word2vec/usual_options.hpp"
#include "apps/word2vec/vectors.hpp"
#include "base/cores.hpp"

namespace verbena::apps::word2vec {
namespace {

/// Writes the vectors of these words, in their order.
void copy(const Vectors& from, const std::vector<std::string>& words, std::span<float> to) {
  absl::flat_hash_map<std::string, std::size_t> places;
  for (std::size_t place = 0; place < from.words().size(); ++place)
    places.emplace(from.words()[place], place);
  for (std::size_t id = 0; id < words.size(); ++id) {
    const auto found = places.find(words[id]);
    if (found != places.end())
      std::copy_n(from.row(found->second), from.row_size(), &to[id * from.row_size()]);
  }
}

}  // namespace

absl::StatusOr<VectorJudge> VectorJudge::read(const std::string& data, std::uint64_t seed) {
  absl::StatusOr<Corpus> corpus =
      read_corpus({.path = data, .vocabulary = {}, .min_count = usual::kMinCount, .needs_order = true});
  if (!corpus.ok()) return corpus.status();
  SplitText text = split(*corpus, usual::kHeldOut, seed);
  const Subsampling subsampling(corpus->counts, usual::kSubsample);
  VectorJudge judge;
  if (!text.train.words.empty() && !text.held_out.empty()) {
    const NoiseDistribution noise(corpus->counts);
    judge.gaps_ = gaps_of(text.held_out, subsampling, noise, usual::kWindow, seed);
  }
  if (judge.gaps_.windows.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: expected documents to train, and documents with gaps to hold out, found {} documents "
        "with {} words that come at least {} times",
        data, corpus->total_documents, corpus->vocabulary.size(), usual::kMinCount));
  }
  judge.words_ = std::move(corpus->vocabulary);
  judge.train_ = std::move(text.train);
  judge.chances_ = chances(corpus->counts, subsampling);
  return judge;
}

absl::StatusOr<double> VectorJudge::held_out_mrr(const std::string& inputs,
                                                 const std::string& outputs) const {
  const absl::StatusOr<Vectors> given = load(inputs);
  if (!given.ok()) return given.status();
  const absl::StatusOr<Vectors> sought = load(outputs);
  if (!sought.ok()) return sought.status();
  if (given->dimension() != sought->dimension()) {
    return absl::InvalidArgumentError(fmt::format("{}:1: expected vectors of {} numbers, as in {}, found {}",
                                                  outputs, given->dimension(), inputs, sought->dimension()));
  }
  Parameters parameters(words_.size(), given->row_size());
  const std::size_t numbers = parameters.words * parameters.size;
  copy(*given, words_, {parameters.inputs.get(), numbers});
  copy(*sought, words_, {parameters.outputs.get(), numbers});
  const std::atomic<bool> stop = false;
  const absl::StatusOr<RankSums> ranks =
      evaluate(parameters, chances_, gaps_, {.threads = base::cores_at_hand(), .stop = stop});
  if (!ranks.ok()) return ranks.status();
  return ranks->reciprocal_ranks / ranks->questions;
}

}  // namespace verbena::apps::word2vec
