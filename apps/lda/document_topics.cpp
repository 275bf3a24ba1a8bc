#include "apps/lda/document_topics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "apps/data/array_files.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/tokenizer.hpp"
#include "apps/lda/held_out.hpp"
#include "apps/lda/model.hpp"
#include "apps/lda/trainer.hpp"
#include "apps/lda/training_data.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::lda {
namespace {

constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kBytesPerTitle = 64;
constexpr std::uint64_t kBytesPerShare = 16;  // "1.17549435e-38" and a tab

/// The model's numbers of the corpus's words. A word that the model spells as in another file is also found
/// by the form that it has in a text.
std::vector<std::uint32_t> places_of(const std::vector<std::string>& vocabulary,
                                     const std::vector<std::string>& words, Tokens tokens) {
  absl::flat_hash_map<std::string, std::uint32_t> ids;
  for (std::uint32_t id = 0; id < words.size(); ++id) ids.emplace(words[id], id);
  Tokenizer tokenizer(tokens);
  for (std::uint32_t id = 0; id < words.size(); ++id)
    ids.try_emplace(tokenizer.vocabulary_form(words[id]), id);
  std::vector<std::uint32_t> places;
  for (const std::string& word : vocabulary) {
    const auto found = ids.find(word);
    places.push_back(found == ids.end() ? kUnknown : found->second);
  }
  return places;
}

std::string text_header(std::size_t topics) {
  std::string line = "document\ttitle";
  for (std::size_t topic = 0; topic < topics; ++topic) line += fmt::format("\ttopic{}", topic);
  return line + "\n";
}

std::string text_row(std::size_t document, std::string_view title, std::span<const float> shares) {
  fmt::memory_buffer line;
  const auto out = std::back_inserter(line);
  fmt::format_to(out, "{}\t{}", document, title);
  for (const float share : shares) fmt::format_to(out, "\t{}", share);
  line.push_back('\n');
  return fmt::to_string(line);
}

struct Loaded {
  SavedModel model;
  Documents documents;
  std::string format;
  std::uint64_t tokens = 0;  ///< of words that the model has
};

absl::StatusOr<Loaded> load(const InferenceOptions& options, const ReadProgress& progress = {}) {
  absl::StatusOr<SavedModel> model = load_model(options.load);
  if (!model.ok()) return model.status();
  absl::StatusOr<Corpus> corpus = read_corpus(options.corpus, progress);
  if (!corpus.ok()) return corpus.status();
  const std::uint64_t tokens = corpus->total_tokens;
  std::string format = corpus->format;
  Documents documents = documents_of(*std::move(corpus), model->words, options.corpus.tokens);
  if (documents.unknown_tokens == tokens) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected documents with words of the model {}, found {} documents without any",
                    options.corpus.path, options.load, documents.words.size()));
  }
  const std::uint64_t known_tokens = tokens - documents.unknown_tokens;
  return Loaded{.model = *std::move(model),
                .documents = std::move(documents),
                .format = std::move(format),
                .tokens = known_tokens};
}

/// Predicts half of the words of each document from the other half. CANCELLED when `stop` is set.
absl::StatusOr<HeldOutSums> predict_halves(const Documents& documents, std::uint64_t seed,
                                           const Priors& priors, std::size_t vocabulary, WordCounts& counts,
                                           Reporter& reporter, const std::atomic<bool>& stop) {
  HeldOutEvaluator evaluator(vocabulary, priors);
  HeldOutSums all;
  const std::size_t count = documents.words.size();
  for (std::size_t d = 0; d < count; ++d) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    reporter.progress("predicting words", static_cast<double>(d), static_cast<double>(count));
    const absl::StatusOr<HeldOutSums> sums = evaluator.evaluate({halve(documents.words[d], seed, d)}, counts);
    if (!sums.ok()) return sums.status();
    all.log_likelihood += sums->log_likelihood;
    all.tokens += sums->tokens;
  }
  return all;
}

}  // namespace

Documents documents_of(Corpus corpus, const std::vector<std::string>& words, Tokens tokens) {
  const std::vector<std::uint32_t> places = places_of(corpus.vocabulary, words, tokens);
  Documents result{.titles = std::move(corpus.titles), .words = {}};
  for (std::size_t d = 0; d < corpus.documents.size(); ++d) {
    std::vector<std::uint32_t>& own = result.words.emplace_back();
    for (std::uint64_t t = corpus.begin[d]; t < corpus.begin[d + 1]; ++t) {
      const std::uint32_t place = places[corpus.tokens[t]];
      if (place == kUnknown) {
        ++result.unknown_tokens;
      } else {
        own.push_back(place);
      }
    }
    std::sort(own.begin(), own.end());
  }
  return result;
}

std::uint64_t document_topics_bytes(std::uint64_t documents, std::size_t topics) {
  return (documents + 1) * (kBytesPerTitle + topics * kBytesPerShare);
}

absl::Status save_document_topics(const std::string& path, const Documents& documents, const Priors& priors,
                                  std::size_t vocabulary, WordCounts& counts, Reporter& reporter,
                                  const std::atomic<bool>& stop) {
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  const bool is_array = path.ends_with(kNpyEnding);
  const std::size_t count = documents.words.size();
  file->write(is_array ? npy_header({.name = {}, .type = kFloatElement, .shape = {count, counts.topics()}})
                       : text_header(counts.topics()));
  HeldOutEvaluator estimator(vocabulary, priors);
  for (std::size_t d = 0; d < count; ++d) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    reporter.progress("finding topics of documents", static_cast<double>(d), static_cast<double>(count));
    const absl::StatusOr<std::span<const float>> shares = estimator.topics_of(documents.words[d], counts);
    if (!shares.ok()) return shares.status();
    file->write(is_array ? std::string(as_text(*shares)) : text_row(d, documents.titles[d], *shares));
    RETURN_IF_ERROR(file->status());
  }
  return file->commit();
}

absl::Status check(const InferenceOptions& options) {
  const absl::StatusOr<Loaded> loaded = load(options);
  if (!loaded.ok()) return loaded.status();
  if (options.document_topics.empty()) return absl::OkStatus();
  return OutputFile::check(options.document_topics, document_topics_bytes(loaded->documents.words.size(),
                                                                          loaded->model.header.topics));
}

absl::Status infer(const InferenceOptions& options, Reporter& reporter, const std::atomic<bool>& stop) {
  absl::StatusOr<Loaded> loaded =
      load(options, [&](double done, double total) { reporter.progress("reading documents", done, total); });
  if (!loaded.ok()) return loaded.status();
  SavedModel& model = loaded->model;
  const Documents& documents = loaded->documents;
  const Priors priors{.alpha = static_cast<float>(model.header.alpha),
                      .beta = static_cast<float>(model.header.beta)};
  const absl::StatusOr<HeldOutSums> predicted =
      predict_halves(documents, options.seed, priors, model.words.size(), model.counts, reporter, stop);
  if (!predicted.ok()) return predicted.status();
  if (!options.document_topics.empty()) {
    RETURN_IF_ERROR(save_document_topics(options.document_topics, documents, priors, model.words.size(),
                                         model.counts, reporter, stop));
  }
  if (documents.unknown_tokens > 0) {
    reporter.print(fmt::format("{} of {} words of the documents are not in the model, and left out",
                               documents.unknown_tokens, documents.unknown_tokens + loaded->tokens));
  }
  reporter.summary("topics", model.header.topics);
  reporter.summary("vocabulary", model.words.size());
  reporter.summary("format", loaded->format);
  reporter.summary("documents", documents.words.size());
  reporter.summary("tokens", loaded->tokens);
  reporter.summary("unknown_tokens", documents.unknown_tokens);
  IterationReport report{.iteration = 0};
  report.sums[kHeldOutLogLikelihood] = predicted->log_likelihood;
  report.sums[kHeldOutTokens] = static_cast<double>(predicted->tokens);
  reporter.iteration(report);
  return absl::OkStatus();
}

}  // namespace verbena::apps::lda
