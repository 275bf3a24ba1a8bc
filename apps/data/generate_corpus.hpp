// Documents with known topics: `verbena generate lda`.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

/// Every topic has its own words; "t3w17" is the 17th of topic 3. The n-th is drawn ∝ 1/n. A document mixes
/// topics by a Dirichlet draw. If a model has found the right topics, the top words of each are of one topic
/// only.
struct GenerateCorpusOptions {
  std::int64_t documents = 2'000;
  std::int64_t topics = 20;
  std::int64_t words_per_topic = 100;
  double mean_length = 200;  ///< words of a document; lengths are Poisson, at least 1
  double alpha = 0.1;        ///< of the Dirichlet distribution of a document's topics
  double noise = 0.1;        ///< share of the words that come from a random topic, not from the document's
  std::uint64_t seed = 1;

  void add_options(CLI::App& command);
};

/// Writes "title<TAB>text" lines; the file is there whole or not at all. INVALID_ARGUMENT for options out of
/// range and for what cannot be written.
absl::Status generate_corpus(const GenerateCorpusOptions& options, const std::string& path);

}  // namespace verbena::apps
