// What documents are about: how much of each has which topic, as a trained model says; and what
// `verbena run lda --load` does, which is no more than that.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/data/corpus.hpp"
#include "apps/lda/kernel.hpp"
#include "apps/lda/word_counts.hpp"

namespace verbena::apps::lda {

/// The documents whose topics are wanted. Their words are numbered as the model does; those that it lacks are
/// left out.
struct Documents {
  std::vector<std::string> titles;                ///< empty where there is none
  std::vector<std::vector<std::uint32_t>> words;  ///< of each document, ascending
  std::uint64_t unknown_tokens = 0;               ///< of words that were left out
};
/// All of a corpus, which is taken apart. `words`: the model's.
Documents documents_of(Corpus corpus, const std::vector<std::string>& words, Tokens tokens);

/// Upper bound of the file's size, unless titles are unusually long.
std::uint64_t document_topics_bytes(std::uint64_t documents, std::size_t topics);

/// Estimates the topics of each document from all of its words, and writes them: as an array of documents ×
/// topics if the path ends in .npy, else as text: a line that names the columns, and one for each document:
/// its number from 0, its title, and a share for each topic. CANCELLED when `stop` is set, and then writes
/// nothing. REQUIRES: counts.totals() are up to date.
absl::Status save_document_topics(const std::string& path, const Documents& documents, const Priors& priors,
                                  std::size_t vocabulary, WordCounts& counts, Reporter& reporter,
                                  const std::atomic<bool>& stop);

struct InferenceOptions {
  std::string load;  ///< a model of --output
  CorpusOptions corpus;
  std::string document_topics;  ///< a file; empty: none
  std::uint64_t seed = 1;       ///< of the words that are predicted
};
/// Reads all that infer() will read. INVALID_ARGUMENT, in one line; errors of the files.
absl::Status check(const InferenceOptions& options);
/// Half of the words of each document are predicted from the other half, which is reported as iteration 0.
/// Then the topics of the documents are written. CANCELLED when `stop` is set, and then writes nothing.
absl::Status infer(const InferenceOptions& options, Reporter& reporter, const std::atomic<bool>& stop);

}  // namespace verbena::apps::lda
