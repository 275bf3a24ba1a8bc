#include "apps/data/generate_corpus.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "apps/data/output_file.hpp"
#include "apps/options/numbers.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

using Weights = std::discrete_distribution<std::size_t>;

constexpr std::int64_t kMaxTopics = 65'535;
constexpr std::int64_t kMaxNumber = 1'000'000'000;
constexpr double kMaxLength = 1e6;

absl::Status check_options(const GenerateCorpusOptions& options) {
  const auto invalid = [](std::string_view expected, auto found) {
    return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
  };
  if (options.documents < 1 || options.documents > kMaxNumber) {
    return invalid(fmt::format("--documents: expected 1 to {}", kMaxNumber), options.documents);
  }
  if (options.topics < 1 || options.topics > kMaxTopics) {
    return invalid(fmt::format("--topics: expected 1 to {}", kMaxTopics), options.topics);
  }
  if (options.words_per_topic < 1 || options.words_per_topic > kMaxNumber) {
    return invalid(fmt::format("--words-per-topic: expected 1 to {}", kMaxNumber), options.words_per_topic);
  }
  if (!(options.mean_length >= 1 && options.mean_length <= kMaxLength)) {
    return invalid(fmt::format("--mean-length: expected 1 to {}", kMaxLength), options.mean_length);
  }
  if (!(options.alpha > 0 && std::isfinite(options.alpha))) {
    return invalid("--alpha: expected a number above 0", options.alpha);
  }
  if (!(options.noise >= 0 && options.noise <= 1)) {
    return invalid("--noise: expected 0 to 1", options.noise);
  }
  return absl::OkStatus();
}

/// A Dirichlet draw, not normalized.
Weights draw_topics(const GenerateCorpusOptions& options, std::mt19937_64& random) {
  std::gamma_distribution<double> gamma(options.alpha);
  std::vector<double> weights(static_cast<std::size_t>(options.topics));
  for (double& weight : weights) weight = gamma(random);
  // A tiny alpha may leave nothing but zeros.
  if (*std::max_element(weights.begin(), weights.end()) <= 0) weights[random() % weights.size()] = 1;
  return {weights.begin(), weights.end()};
}

Weights zipf(std::int64_t words) {
  std::vector<double> weights(static_cast<std::size_t>(words));
  for (std::size_t n = 0; n < weights.size(); ++n) weights[n] = 1 / static_cast<double>(n + 1);
  return {weights.begin(), weights.end()};
}

}  // namespace

void GenerateCorpusOptions::add_options(CLI::App& command) {
  add_number(command, "--documents", documents, "number of documents")->capture_default_str();
  add_number(command, "--topics", topics, "number of topics")->capture_default_str();
  add_number(command, "--words-per-topic", words_per_topic, "words that belong to each topic")
      ->capture_default_str();
  add_number(command, "--mean-length", mean_length, "mean number of words of a document")
      ->capture_default_str();
  add_number(command, "--alpha", alpha, "concentration of a document's topics; smaller: fewer topics")
      ->capture_default_str();
  add_number(command, "--noise", noise, "share of the words that come from a random topic")
      ->capture_default_str();
  add_number(command, "--seed", seed, "of all random choices")->capture_default_str();
}

absl::Status generate_corpus(const GenerateCorpusOptions& options, const std::string& path) {
  RETURN_IF_ERROR(check_options(options));
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  std::mt19937_64 random(options.seed);
  std::poisson_distribution<std::int64_t> draw_length(options.mean_length);
  std::uniform_int_distribution<std::size_t> any_topic(0, static_cast<std::size_t>(options.topics) - 1);
  std::bernoulli_distribution is_noise(options.noise);
  Weights draw_word = zipf(options.words_per_topic);
  for (std::int64_t document = 0; document < options.documents && file->status().ok(); ++document) {
    Weights draw_topic = draw_topics(options, random);
    std::string line = fmt::format("document {}\t", document + 1);
    for (std::int64_t left = std::max<std::int64_t>(draw_length(random), 1); left > 0; --left) {
      const std::size_t topic = is_noise(random) ? any_topic(random) : draw_topic(random);
      line += fmt::format("t{}w{}", topic, draw_word(random));
      line += left > 1 ? ' ' : '\n';
    }
    file->write(line);
  }
  return file->commit();
}

}  // namespace verbena::apps
