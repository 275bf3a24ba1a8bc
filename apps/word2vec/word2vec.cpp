#include "apps/word2vec/word2vec.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "apps/data/bundled.hpp"
#include "apps/data/corpus.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/tokens_option.hpp"
#include "apps/embedding/clocks_option.hpp"
#include "apps/embedding/embedding_application.hpp"
#include "apps/embedding/row_store.hpp"
#include "apps/embedding/schedule.hpp"
#include "apps/enough_memory.hpp"
#include "apps/options/given_options.hpp"
#include "apps/options/numbers.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "apps/word2vec/merging.hpp"
#include "apps/word2vec/trainer.hpp"
#include "apps/word2vec/uses.hpp"
#include "apps/word2vec/usual_options.hpp"
#include "apps/word2vec/vectors.hpp"
#include "base/cores.hpp"
#include "base/return_if_error.hpp"
#include <verbena/table.hpp>

namespace verbena::apps {
namespace {

using namespace word2vec;

constexpr std::int64_t kMaxWindow = 1'000;
constexpr std::int64_t kMaxNegatives = 1'000;
constexpr std::int64_t kMaxBatch = 1 << 20;
/// Found on the King James Bible (docs/word-vectors.md).
constexpr ClockSize kClockSize = {.most = 200'000, .most_unseen = 400'000, .least_of_worker = 4'096};
constexpr std::size_t kShownByDefault = 8;

/// What one process needs of the input, ready for training.
struct Job {
  explicit Job(Corpus& corpus, double subsample)
      : words(std::move(corpus.vocabulary)),
        counts(std::move(corpus.counts)),
        subsampling(counts, subsample),
        noise(counts) {}
  std::vector<std::string> words;
  std::vector<std::uint64_t> counts;
  Subsampling subsampling;
  NoiseDistribution noise;
  TrainingData data;
  std::optional<Vectors> loaded;

  [[nodiscard]] std::uint64_t all_words() const {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }
};

using WordIds = absl::flat_hash_map<std::string, std::uint32_t>;

WordIds ids_of(const std::vector<std::string>& words) {
  WordIds ids;
  for (std::uint32_t id = 0; id < words.size(); ++id) ids.emplace(words[id], id);
  return ids;
}

/// As ids_of(). A word that another tool spells differently is also found by the form that it has in a text
/// read here.
WordIds ids_in_text(const std::vector<std::string>& words, Tokens tokens) {
  WordIds ids = ids_of(words);
  Tokenizer tokenizer(tokens);
  for (std::uint32_t id = 0; id < words.size(); ++id)
    ids.try_emplace(tokenizer.vocabulary_form(words[id]), id);
  return ids;
}

/// How many of the words have vectors.
std::int64_t known_words(const std::vector<std::string>& words, const WordIds& vectors) {
  return std::count_if(words.begin(), words.end(),
                       [&](const std::string& word) { return vectors.contains(word); });
}

/// The ids of a list like "king,sea". If it is empty: a few words, some frequent, some rare, but none
/// extremely so.
absl::StatusOr<std::vector<std::uint32_t>> shown_words(const std::string& list,
                                                       const std::vector<std::string>& words, Tokens tokens) {
  std::vector<std::uint32_t> shown;
  if (list.empty()) {
    const auto most = static_cast<double>(words.size());
    for (std::size_t n = 0; n < std::min(kShownByDefault, words.size()); ++n) {
      const double place = static_cast<double>(n + 1) / static_cast<double>(kShownByDefault + 1);
      shown.push_back(static_cast<std::uint32_t>(std::pow(most, (1 + place) / 2) - 1));
    }
    shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
    return shown;
  }
  const WordIds ids = ids_of(words);
  Tokenizer tokenizer(tokens);
  std::string_view rest = list;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string word(rest.substr(0, comma));
    auto found = ids.find(word);
    if (found == ids.end()) found = ids.find(tokenizer.vocabulary_form(word));
    if (found == ids.end()) {
      return absl::InvalidArgumentError(fmt::format(
          "--neighbours: expected words of the vocabulary, separated by commas, found \"{}\"", word));
    }
    shown.push_back(found->second);
    if (comma == std::string_view::npos) return shown;
    rest.remove_prefix(comma + 1);
  }
}

/// Says how the file of --load was read.
void report_file(const VectorsFile& file, Reporter& reporter) {
  reporter.summary("load_format", to_string(file.format));
  if (file.ignored_words == 0) return;
  reporter.summary("ignored_words", file.ignored_words);
  reporter.print(
      fmt::format("{} words of --load had come before, or have blanks, and were left out: first {}",
                  file.ignored_words, file.first_ignored));
}

class Word2Vec final : public EmbeddingApplication {
 public:
  /// Workers that share a node all want the frequent words' rows, each for a whole mini-batch: they wait for
  /// one another more than copying rows takes.
  Word2Vec() : EmbeddingApplication(/*of_one=*/Sequential{}, /*of_several=*/Ssp{.staleness = 1}) {}
  [[nodiscard]] std::string_view name() const override { return "word2vec"; }
  [[nodiscard]] std::string_view description() const override {
    return "vectors of words: skip-gram with negative sampling";
  }
  [[nodiscard]] std::string_view throughput_unit() const override { return "words"; }
  [[nodiscard]] std::string_view main_objective() const override {
    return held_out_ > 0 ? "held_out_mrr" : "train_loss";
  }
  [[nodiscard]] std::int64_t iterations() const override { return training_.iterations; }
  [[nodiscard]] bool can_be_resumed() const override { return true; }
  /// Rows that move are changed in place, by a worker that dies, too.
  [[nodiscard]] bool can_replace_workers() const override { return !rows_move(); }
  /// Not --iterations: the learning rate falls until the last one.
  [[nodiscard]] bool may_change_on_resume(std::string_view option) const override {
    return option == "evaluate-every" || option == "barrier-every" || option == "neighbours" ||
           option == "top-words";
  }

  void add_options(CLI::App& command) override;
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const override {
    return option == ClocksOption::kName ? clocks_.chosen() : EmbeddingApplication::chosen(option);
  }
  [[nodiscard]] bool leaves_open(std::string_view option) const override {
    return option == ClocksOption::kName ? clocks_.leaves_open() : EmbeddingApplication::leaves_open(option);
  }
  absl::Status goes_on_from(const std::map<std::string, std::string>& notes) override {
    clocks_.goes_on_from(notes);
    return absl::OkStatus();
  }
  [[nodiscard]] Files files() const override;
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override {
    return objectives_of(sums);
  }

 private:
  void add_own_options(CLI::App& command);
  [[nodiscard]] std::size_t dimension() const { return static_cast<std::size_t>(dimension_); }
  [[nodiscard]] WindowOptions windows() const {
    return {.window = static_cast<std::size_t>(window_), .negatives = static_cast<std::size_t>(negatives_)};
  }
  /// As checked by check_options().
  [[nodiscard]] Tokens tokens() const { return *parse_tokens(tokens_); }
  /// The usual one if the option is wrong.
  [[nodiscard]] VectorFormat format() const {
    return parse_format(output_format_, output_).value_or(VectorFormat::kText);
  }
  /// Nothing is trained; vectors are only shown, and maybe saved in another format.
  [[nodiscard]] bool only_shows() const { return training_.iterations == 0; }
  [[nodiscard]] std::string_view needs_less_memory() const override {
    return "a smaller --dimension or a larger --min-count";
  }
  absl::Status check_options() const override;
  absl::Status check_data(std::uint32_t workers) const override;
  absl::Status check_text(const Corpus& corpus) const;
  absl::Status check_vectors(const std::vector<std::string>& words) const;
  absl::Status check_output(std::size_t words, std::size_t numbers) const;
  [[nodiscard]] absl::StatusOr<Corpus> read(std::uint32_t rank, std::uint32_t workers,
                                            const ReadProgress& progress = {}) const;
  absl::StatusOr<Job> load_job(std::uint32_t rank, std::uint32_t workers, Reporter& reporter) const;
  [[nodiscard]] std::array<RowSource, 2> first_rows(const Job& job) const;
  double unseen_parts(const Job& job, const ConsistencyModel& consistency, const FetchOptions& fetch,
                      double workers, std::int64_t clocks) const;
  absl::Status train_as_worker(WorkerContext& context) const override;
  absl::StatusOr<std::unique_ptr<ReadAhead>> read_data(std::uint32_t worker, std::uint32_t workers,
                                                       Reporter& reporter) const override;
  absl::Status train_alone(BaselineContext& context) const override;
  void report_untrained(const Job& job, const Vectors& vectors, Reporter& reporter) const;
  absl::Status present(const Job& job, RowStore& rows, Reporter& reporter) const;
  absl::Status show(const Vectors& vectors, Reporter& reporter) const;
  absl::Status show_loaded(Reporter& reporter) const;

  std::string data_ = kBundledChapters;
  std::string load_;
  std::string output_;
  std::string output_format_ = "auto";
  std::string neighbours_;
  std::string tokens_ = "words";  // as for parse_tokens()
  std::int64_t top_words_ = 8;
  std::int64_t min_count_ = usual::kMinCount;
  std::int64_t dimension_ = usual::kDimension;
  std::int64_t window_ = usual::kWindow;
  std::int64_t negatives_ = usual::kNegatives;
  double subsample_ = usual::kSubsample;
  double held_out_ = usual::kHeldOut;
  TrainingOptions training_;  ///< without the clocks
  ClocksOption clocks_{"words", kClockSize};
  GivenOptions given_;
};

Files Word2Vec::files() const {
  Files files;
  files.reads("--data", data_);
  files.reads("--load", load_);
  if (output_.empty()) return files;
  for (const std::string& path : files_of(output_, format())) files.writes("--output", path);
  return files;
}

void Word2Vec::add_options(CLI::App& command) {
  given_.watch(command, [&] { add_own_options(command); });
}

void Word2Vec::add_own_options(CLI::App& command) {
  command.add_option("--data", data_, "running text, one document a line, maybe .gz (docs/data.md)")
      ->capture_default_str()
      ->type_name("FILE");
  add_tokens_option(command, tokens_);
  add_number(command, "--min-count", min_count_, "leave out words that are rarer in the whole text")
      ->capture_default_str();
  add_number(command, "--dimension", dimension_, "numbers of a word's vector")->capture_default_str();
  add_number(command, "--window", window_,
             "words on each side that a word is trained with: 1 to so many, by chance")
      ->capture_default_str();
  add_number(command, "--negatives", negatives_,
             "wrong words of each window, drawn by their frequency to the power of 3/4")
      ->capture_default_str();
  add_number(command, "--subsample", subsample_,
             "of words more frequent than this share of the text, some are left out; 0: none")
      ->capture_default_str();
  add_number(command, "--iterations", training_.iterations,
             "passes over the text; 0, with --load: nothing is trained, neighbours are printed, and --output "
             "has the same vectors")
      ->capture_default_str();
  add_number(command, "--learning-rate", training_.learning_rate, "at first; falls evenly to nearly 0")
      ->capture_default_str();
  add_number(command, "--batch", training_.batch, "words whose rows are pulled and trained at a time")
      ->capture_default_str();
  add_fetch_options(command);
  clocks_.add(command);
  add_number(command, "--held-out", held_out_,
             "share of the documents that is not trained, but whose gaps are filled (held_out_mrr)")
      ->capture_default_str();
  add_number(command, "--evaluate-every", training_.evaluate_every,
             "iterations from one evaluation to the next; 0: only at the end")
      ->capture_default_str();
  add_barrier_option(command);
  command
      .add_option("--neighbours", neighbours_,
                  "words whose nearest ones are printed at the end; default: some of middling frequency")
      ->type_name("WORD,WORD,…");
  add_number(command, "--top-words", top_words_, "neighbours of each to print")->capture_default_str();
  add_number(command, "--seed", training_.seed,
             "of the first vectors, the sampling and the held-out documents")
      ->capture_default_str();
  command
      .add_option("--load", load_,
                  "begin with the vectors of a file of word2vec, text or binary, or of GloVe, of the same "
                  "dimension; words that it lacks begin as without it, and so do all words' second vectors, "
                  "as of neighbours")
      ->type_name("FILE");
  command.add_option("--output", output_, "save the vectors")->type_name("FILE");
  command
      .add_option("--output-format", output_format_,
                  "of --output: text and binary are word2vec's; glove has no first line; npy and safetensors "
                  "have an array, and the words in a file beside it; auto: as the name ends, .bin, .npy, "
                  ".safetensors, else text")
      ->capture_default_str()
      ->type_name("auto|text|binary|glove|npy|safetensors");
}

absl::Status Word2Vec::check_options() const {
  const auto invalid = [](std::string_view expected, const auto& found) {
    return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
  };
  RETURN_IF_ERROR(given_.refuse_idle([&](std::string_view option) -> std::string_view {
    return option == "output-format" && output_.empty() ? "expected only with --output" : "";
  }));
  RETURN_IF_ERROR(parse_tokens(tokens_).status());
  if (min_count_ < 1) return invalid("--min-count: expected 1 or more", min_count_);
  if (dimension_ < 1 || dimension_ > static_cast<std::int64_t>(kMaxDimension)) {
    return invalid(fmt::format("--dimension: expected 1 to {}", kMaxDimension), dimension_);
  }
  if (window_ < 1 || window_ > kMaxWindow) {
    return invalid(fmt::format("--window: expected 1 to {}", kMaxWindow), window_);
  }
  if (negatives_ < 1 || negatives_ > kMaxNegatives) {
    return invalid(fmt::format("--negatives: expected 1 to {}", kMaxNegatives), negatives_);
  }
  if (!(subsample_ >= 0 && subsample_ <= 1)) return invalid("--subsample: expected 0 to 1", subsample_);
  if (!(held_out_ >= 0 && held_out_ < 1)) {
    return invalid("--held-out: expected 0 or more and less than 1", held_out_);
  }
  if (top_words_ < 0) return invalid("--top-words: expected 0 or more", top_words_);
  if (!parse_format(output_format_, output_)) {
    return invalid("--output-format: expected auto, text, binary, glove, npy or safetensors", output_format_);
  }
  RETURN_IF_ERROR(check_schedule(training_, kMaxBatch));
  RETURN_IF_ERROR(clocks_.check());
  return check_iterations(training_.iterations, load_);
}

absl::StatusOr<Corpus> Word2Vec::read(std::uint32_t rank, std::uint32_t workers,
                                      const ReadProgress& progress) const {
  return read_corpus({.path = data_,
                      .tokens = tokens(),
                      .vocabulary = {},
                      .min_count = static_cast<std::uint64_t>(min_count_),
                      .needs_order = true,
                      .part = rank,
                      .parts = workers},
                     progress);
}

absl::Status Word2Vec::check_vectors(const std::vector<std::string>& words) const {
  const absl::StatusOr<Vectors> loaded = load(load_);
  if (!loaded.ok()) return loaded.status();
  if (only_shows()) {
    RETURN_IF_ERROR(shown_words(neighbours_, loaded->words(), tokens()).status());
    return check_output(loaded->words().size(), loaded->dimension());
  }
  if (loaded->dimension() != dimension()) {
    return absl::InvalidArgumentError(
        fmt::format("{}:1: expected vectors of {} numbers, as --dimension says, found {}", load_, dimension_,
                    loaded->dimension()));
  }
  if (known_words(words, ids_in_text(loaded->words(), tokens())) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: expected vectors of words that are in {}, found none", load_, data_));
}

/// Checks that something is left to train and, if it is asked for, something to evaluate.
absl::Status Word2Vec::check_text(const Corpus& corpus) const {
  const auto lacks = [&](std::string_view expected) {
    return absl::InvalidArgumentError(fmt::format("{}: expected {}, found {} documents with {} such words",
                                                  data_, expected, corpus.total_documents,
                                                  corpus.vocabulary.size()));
  };
  bool trains = false;
  bool tests = false;
  for (std::size_t d = 0; d < corpus.documents.size(); ++d) {
    if (corpus.begin[d + 1] - corpus.begin[d] < 2) continue;
    (is_held_out(corpus.documents[d], held_out_, training_.seed) ? tests : trains) = true;
  }
  if ((!trains && !tests) || corpus.vocabulary.size() < 2) {
    return lacks(
        fmt::format("text of two words or more that come at least {} times (--min-count)", min_count_));
  }
  if (!trains) return lacks("documents of two words or more besides those held out (a smaller --held-out)");
  if (!tests && held_out_ > 0) {
    return lacks("documents enough for some to be held out (a larger --held-out, or 0 for no test)");
  }
  const Subsampling subsampling(corpus.counts, subsample_);
  double kept = 0;
  for (std::uint32_t word = 0; word < corpus.counts.size(); ++word) {
    kept += static_cast<double>(corpus.counts[word]) * subsampling.share_kept(word);
  }
  if (kept >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--subsample: expected a share that leaves some of the {} words, found {}",
                  corpus.total_tokens, subsample_));
}

absl::Status Word2Vec::check_data(std::uint32_t workers) const {
  if (only_shows()) return check_vectors({});
  const absl::StatusOr<Corpus> corpus = read(0, 1);
  if (!corpus.ok()) return corpus.status();
  RETURN_IF_ERROR(check_text(*corpus));
  const auto words = static_cast<double>(corpus->vocabulary.size());
  const double table_bytes = 2.0 * sizeof(float) * words * static_cast<double>(padded(dimension()));
  // A worker may cache, pull and buffer every row, and has all rows for an evaluation; the text is kept as
  // read and as trained.
  const double bytes = table_bytes * (1 + 5.0 * workers) + 8 * static_cast<double>(corpus->total_tokens);
  absl::Status enough = check_memory(
      bytes, fmt::format("vectors of {} words then need", corpus->vocabulary.size()), needs_less_memory());
  if (!enough.ok()) return enough;
  RETURN_IF_ERROR(shown_words(neighbours_, corpus->vocabulary, tokens()).status());
  if (!load_.empty()) {
    RETURN_IF_ERROR(check_vectors(corpus->vocabulary));
  }
  return check_output(corpus->vocabulary.size(), dimension());
}

absl::Status Word2Vec::check_output(std::size_t words, std::size_t numbers) const {
  if (output_.empty()) return absl::OkStatus();
  // Where there are two, both lie in one folder.
  const std::uint64_t bytes = files_bytes(words, numbers, format());
  for (const std::string& path : files_of(output_, format())) RETURN_IF_ERROR(OutputFile::check(path, bytes));
  return absl::OkStatus();
}

absl::StatusOr<Job> Word2Vec::load_job(std::uint32_t rank, std::uint32_t workers, Reporter& reporter) const {
  absl::StatusOr<Corpus> corpus =
      read(rank, workers, [&](double done, double total) { reporter.progress("reading text", done, total); });
  if (!corpus.ok()) return corpus.status();
  const std::uint64_t documents = corpus->total_documents;
  const std::uint64_t words_of_text = corpus->total_tokens;
  SplitText text = split(*corpus, held_out_, training_.seed);
  Job job(*corpus, subsample_);
  job.data = {.text = std::move(text.train),
              .gaps = gaps_of(text.held_out, job.subsampling, job.noise, windows().window, training_.seed),
              .chances = chances(job.counts, job.subsampling),
              .dimension = dimension(),
              .rank = rank};
  VectorsFile file;
  if (!load_.empty()) {
    absl::StatusOr<Vectors> loaded = load(load_, &file);
    if (!loaded.ok()) return loaded.status();
    job.loaded = *std::move(loaded);
  }
  if (rank == 0) {
    if (job.loaded.has_value()) report_file(file, reporter);
    reporter.summary("dimension", dimension_);
    reporter.summary("format", corpus->format);
    reporter.summary("documents", documents);
    reporter.summary("vocabulary", job.words.size());
    reporter.summary("words", words_of_text);
    if (job.loaded.has_value()) {
      reporter.summary("loaded_words", known_words(job.words, ids_in_text(job.loaded->words(), tokens())));
    }
    if (documents < workers) {
      reporter.print(fmt::format("{} has {} documents for {} workers: the others train nothing", data_,
                                 documents, workers));
    }
  }
  return job;
}

std::array<RowSource, 2> Word2Vec::first_rows(const Job& job) const {
  const std::size_t width = padded(dimension());
  WordIds known;
  if (job.loaded.has_value()) known = ids_in_text(job.loaded->words(), tokens());
  const auto input = [&job, known = std::move(known), seed = training_.seed, dimension = dimension()](
                         std::size_t id, std::span<float> row) {
    std::fill(row.begin(), row.end(), 0.0F);
    const auto found = known.find(job.words[id]);
    if (found != known.end()) {
      std::copy_n(job.loaded->row(found->second), dimension, row.begin());
      return;
    }
    for (std::size_t k = 0; k < dimension; ++k) {
      row[k] = static_cast<float>(random_number(seed, id, k) / (2 * static_cast<double>(dimension)));
    }
  };
  const auto output = [](std::size_t /*id*/, std::span<float> row) {
    std::fill(row.begin(), row.end(), 0.0F);
  };
  return {RowSource{.rows = job.words.size(), .width = width, .make = input},
          RowSource{.rows = job.words.size(), .width = width, .make = output}};
}

/// The number of parts of an iteration within which workers do not see what the others learn. `workers`: how
/// many train.
double Word2Vec::unseen_parts(const Job& job, const ConsistencyModel& consistency, const FetchOptions& fetch,
                              double workers, std::int64_t clocks_per_iteration) const {
  const auto clocks = static_cast<double>(clocks_per_iteration);
  if (!sees_mini_batches(consistency, fetch.allocation)) return clocks;
  const auto words = static_cast<double>(job.all_words());
  // Rows may have been pulled while the mini-batch before was trained.
  const double mini_batches_unseen = fetch.lookahead == 0 ? 1 : 2;
  return std::max(words / workers / static_cast<double>(training_.batch) / mini_batches_unseen, clocks);
}

absl::StatusOr<std::unique_ptr<ReadAhead>> Word2Vec::read_data(std::uint32_t worker, std::uint32_t workers,
                                                               Reporter& reporter) const {
  if (only_shows()) return nullptr;
  absl::StatusOr<Job> job = load_job(worker, workers, reporter);
  if (!job.ok()) return job.status();
  return std::make_unique<ReadAheadOf<Job>>(*std::move(job));
}

absl::Status Word2Vec::train_as_worker(WorkerContext& context) const {
  Session& session = context.session;
  if (only_shows()) return session.rank() == 0 ? show_loaded(context.reporter) : absl::OkStatus();
  absl::StatusOr<Job> job =
      context.take_data([&] { return load_job(session.rank(), session.workers(), context.reporter); });
  if (!job.ok()) return job.status();
  const FetchOptions fetch = fetch_options();
  const auto open = [&](const char* table) {
    return session.table<float>({.name = table,
                                 .rows = job->words.size(),
                                 .width = static_cast<std::uint32_t>(padded(dimension())),
                                 .consistency = context.consistency,
                                 .allocation = table_allocation(fetch.allocation)});
  };
  absl::StatusOr<Table<float>> inputs = open("word2vec.inputs");
  if (!inputs.ok()) return inputs.status();
  absl::StatusOr<Table<float>> outputs = open("word2vec.outputs");
  if (!outputs.ok()) return outputs.status();
  TableRows rows(session, std::array{*inputs, *outputs}, context.watch, fetch);
  const nlohmann::json* const saved = context.checkpoints.resumed();
  if (saved == nullptr) RETURN_IF_ERROR(rows.initialize(first_rows(*job)));
  const absl::StatusOr<std::vector<std::int64_t>> words = numbers_of_all_workers(
      session, "word2vec.words", static_cast<std::int64_t>(job->data.text.words.size()),
      table_allocation(fetch.allocation));
  if (!words.ok()) return words.status();
  const absl::StatusOr<std::int64_t> clocks = clocks_.agreed(context, job->all_words(), fetch.allocation);
  if (!clocks.ok()) return clocks.status();
  TrainingOptions options = training_;
  options.clocks_per_iteration = *clocks;
  options.barrier_every = barrier_every(context.consistency);
  const auto idle = std::count(words->begin(), words->end(), 0);
  const double busy = std::max<double>(static_cast<double>(session.workers() - idle), 1);
  if (fetch.allocation != RowAllocation::kStatic) {
    const Uses uses = expected_uses(job->counts, job->subsampling, job->noise, windows(),
                                    static_cast<double>(training_.batch) * (busy - 1));
    rows.leave_where_they_are(kInputTable, wanted_by_others(uses.inputs, fetch.lookahead));
    rows.leave_where_they_are(kOutputTable, wanted_by_others(uses.outputs, fetch.lookahead));
  }
  if (session.workers() > 1) {
    PushedShares shares =
        pushed_shares(job->counts, job->subsampling, job->noise,
                      {.words = *words,
                       .clocks_per_iteration = unseen_parts(*job, context.consistency, fetch, busy, *clocks),
                       .learning_rate = training_.learning_rate,
                       .windows = windows()});
    rows.push_shares(kInputTable, std::move(shares.inputs));
    rows.push_shares(kOutputTable, std::move(shares.outputs));
  }

  std::vector<DataCursor> cursors;
  if (fetch.allocation == RowAllocation::kIntent) {
    // Each mini-batch is a clock of the session, and no iteration ends early.
    absl::Status status = rows.agree_on_clocks(most_mini_batches(options, job->data.text.words.size()));
    if (status.ok()) status = rows.intend_for_ever();
    if (!status.ok()) return status;
  } else {
    absl::StatusOr<std::vector<DataCursor>> made =
        cursors_of_clocks(session, job->data.text.words.size(), static_cast<std::size_t>(*clocks),
                          static_cast<std::uint64_t>(training_.batch), saved);
    if (!made.ok()) return made.status();
    cursors = *std::move(made);
  }
  const WindowMaker maker(job->subsampling, job->noise, windows());
  absl::Status status = Trainer(options, job->data, maker, rows, 1, std::move(cursors))
                            .run(context.reporter, context.stop, context.checkpoints);
  // Its last evaluation has waited until all workers have trained.
  if (!status.ok() || session.rank() != 0) return status;
  return present(*job, rows, context.reporter);
}

absl::Status Word2Vec::train_alone(BaselineContext& context) const {
  if (only_shows()) return show_loaded(context.reporter);
  absl::StatusOr<Job> job = load_job(0, 1, context.reporter);
  if (!job.ok()) return job.status();
  LocalRows rows(first_rows(*job));
  const WindowMaker maker(job->subsampling, job->noise, windows());
  TrainingOptions options = training_;
  options.clocks_per_iteration = clocks_.clocks({.examples = job->all_words()});
  const unsigned threads = base::cores_at_hand();
  absl::Status status = Trainer(options, job->data, maker, rows, threads).run(context.reporter, context.stop);
  return status.ok() ? present(*job, rows, context.reporter) : status;
}

/// Reports words whose vectors still have their initial values, for example because all of their text is held
/// out.
void Word2Vec::report_untrained(const Job& job, const Vectors& vectors, Reporter& reporter) const {
  const RowSource first = first_rows(job)[kInputTable];
  std::vector<float> row(first.width);
  std::size_t untrained = 0;
  for (std::size_t id = 0; id < first.rows; ++id) {
    first.make(id, row);
    if (std::equal(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(dimension()), vectors.row(id)))
      ++untrained;
  }
  reporter.summary("untrained_words", untrained);
  if (untrained == 0) return;
  reporter.print(fmt::format(
      "{} of {} words are not trained: none stands beside another one in text that is not held out",
      untrained, first.rows));
}

/// The vectors file and some neighbours; all workers have finished training.
absl::Status Word2Vec::present(const Job& job, RowStore& rows, Reporter& reporter) const {
  Vectors vectors(job.words, dimension());
  RETURN_IF_ERROR(rows.read(kInputTable, vectors.row_size(), vectors.row(0)));
  report_untrained(job, vectors, reporter);
  if (!output_.empty()) RETURN_IF_ERROR(save(output_, vectors, format()));
  return show(vectors, reporter);
}

absl::Status Word2Vec::show(const Vectors& vectors, Reporter& reporter) const {
  const std::vector<std::string>& words = vectors.words();
  const absl::StatusOr<std::vector<std::uint32_t>> shown = shown_words(neighbours_, words, tokens());
  if (!shown.ok()) return shown.status();
  if (top_words_ == 0) return absl::OkStatus();
  nlohmann::json all = nlohmann::json::object();
  for (const std::uint32_t word : *shown) {
    nlohmann::json& nearest = all[words[word]] = nlohmann::json::array();
    std::string line = fmt::format("{:<12}", words[word]);
    for (const Neighbour& one : neighbours(vectors, word, static_cast<std::size_t>(top_words_))) {
      nearest.push_back(words[one.word]);
      line += fmt::format(" {} {:.2f}", words[one.word], one.cosine);
    }
    reporter.print(line);
  }
  reporter.summary("neighbours", std::move(all));
  return absl::OkStatus();
}

absl::Status Word2Vec::show_loaded(Reporter& reporter) const {
  VectorsFile file;
  const absl::StatusOr<Vectors> vectors = load(load_, &file);
  if (!vectors.ok()) return vectors.status();
  if (!output_.empty()) RETURN_IF_ERROR(save(output_, *vectors, format()));
  report_file(file, reporter);
  reporter.summary("dimension", vectors->dimension());
  reporter.summary("vocabulary", vectors->words().size());
  return show(*vectors, reporter);
}

}  // namespace

std::unique_ptr<Application> make_word2vec() {
  return std::make_unique<Word2Vec>();
}

}  // namespace verbena::apps
