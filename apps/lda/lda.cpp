#include "apps/lda/lda.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/data/bags_of_words.hpp"
#include "apps/data/corpus.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/tokens_option.hpp"
#include "apps/embedding/allocating_application.hpp"
#include "apps/embedding/moving_blocks.hpp"
#include "apps/embedding/schedule.hpp"
#include "apps/enough_memory.hpp"
#include "apps/lda/document_topics.hpp"
#include "apps/lda/model.hpp"
#include "apps/lda/trainer.hpp"
#include "apps/options/given_options.hpp"
#include "apps/options/numbers.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "apps/resuming/saved_state.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include <verbena/table.hpp>

namespace verbena::apps {
namespace {

using namespace lda;

constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();
/// The length of the model file's shortest line, without the word itself.
constexpr std::uint64_t kMinRowBytes = 5;

/// What one process needs of the input, ready for training.
struct Job {
  Corpus corpus;  ///< without the tokens, which are in `data`
  Part part;
  Random random;
  TrainingData data;
};

constexpr std::string_view kClocksPerIteration = "clocks-per-iteration";
constexpr const char* kClocksNote = "--clocks-per-iteration";  ///< of a checkpoint
constexpr const char* kRows = "words";                         ///< what blocks are of
constexpr std::string_view kLookahead = "lookahead";
constexpr std::string_view kBatch = "batch";
constexpr const char* kBlocks = "blocks";  ///< in the summary
constexpr std::int64_t kMostLookahead = 1;
constexpr std::int64_t kMostWords = 1 << 20;  ///< the maximum of --batch

class Lda final : public AllocatingApplication {
 public:
  Lda() : AllocatingApplication(Asp{}) {}
  [[nodiscard]] std::string_view name() const override { return "lda"; }
  [[nodiscard]] std::string_view description() const override {
    return "topics of documents by collapsed Gibbs sampling";
  }
  [[nodiscard]] std::string_view throughput_unit() const override { return "tokens"; }
  [[nodiscard]] std::string_view main_objective() const override {
    return trains() ? "log_likelihood_per_token" : "held_out_perplexity";
  }
  [[nodiscard]] std::int64_t iterations() const override { return trains() ? training_.iterations : 0; }
  [[nodiscard]] bool can_be_resumed() const override { return trains(); }
  /// What was saved says into how many blocks the words are divided; the rest changes nothing of it.
  [[nodiscard]] bool may_change_on_resume(std::string_view option) const override {
    return option == kLookahead || option == kBatch ||
           (option == kClocksPerIteration && (leaves_open(option) || saved_clocks_ == 0)) ||
           AllocatingApplication::may_change_on_resume(option);
  }

  void add_options(CLI::App& command) override;
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const override;
  [[nodiscard]] bool leaves_open(std::string_view option) const override;
  [[nodiscard]] std::vector<ChoiceOption> choices() const override {
    return {{"allocation"}, {kLookahead}, {kClocksPerIteration, kBlocks}, {kBatch}};
  }
  absl::Status goes_on_from(const std::map<std::string, std::string>& notes) override;
  [[nodiscard]] absl::Status check_consistency(const ConsistencyModel& consistency) const override;
  [[nodiscard]] Files files() const override;
  absl::Status check(std::uint32_t workers) override;
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override;
  absl::Status run_worker(WorkerContext& context) const override {
    return with_enough_memory(needs_less_memory(), [&] { return train_as_worker(context); });
  }
  absl::Status run_baseline(BaselineContext& context) const override {
    return with_enough_memory(needs_less_memory(), [&] { return train_alone(context); });
  }

 private:
  /// A saved model is not trained, but used.
  [[nodiscard]] bool trains() const { return load_.empty(); }
  [[nodiscard]] InferenceOptions inference() const;
  void add_own_options(CLI::App& command);
  [[nodiscard]] std::string_view needs_less_memory() const {
    return trains() ? "fewer --topics or fewer documents" : "a smaller model or fewer documents";
  }
  [[nodiscard]] std::string_view why_idle(std::string_view option) const;
  [[nodiscard]] std::size_t topics() const { return static_cast<std::size_t>(topics_); }
  [[nodiscard]] CorpusOptions corpus_options(const Part& part) const;
  [[nodiscard]] SplitOptions split_options(std::size_t blocks) const {
    return {.topics = topics(), .held_out = held_out_, .seed = training_.seed, .blocks = blocks};
  }
  absl::Status check_options() const;
  absl::Status check_data(std::uint32_t workers) const;
  /// In how many blocks the words are trained, as given, saved or chosen.
  [[nodiscard]] std::size_t blocks(const JobShape& shape) const {
    return blocks_of(clocks_per_iteration_ > 0 ? clocks_per_iteration_ : saved_clocks_.value_or(0),
                     allocation().moves(), shape);
  }
  /// Whether --lookahead does what it says.
  [[nodiscard]] absl::Status check_lookahead(std::uint32_t workers, std::size_t blocks) const;
  absl::StatusOr<std::size_t> blocks_in(WorkerContext& context) const;
  /// Whether the next block is fetched while one is trained. REQUIRES: rows move.
  [[nodiscard]] bool looks_ahead(std::uint32_t workers, std::size_t blocks) const;
  absl::Status check_split(const Corpus& corpus) const;
  absl::StatusOr<Job> load(const Part& part, std::size_t blocks, Reporter& reporter) const;
  absl::Status train_as_worker(WorkerContext& context) const;
  absl::Status train_alone(BaselineContext& context) const;
  absl::Status train(Job& job, WordCounts& counts, std::vector<DataCursor> cursors, Reporter& reporter,
                     const std::atomic<bool>& stop, Checkpoints& checkpoints) const;
  absl::StatusOr<std::vector<DataCursor>> cursors_of(const TrainingData& data, WorkerContext& context) const;
  absl::Status present(const Job& job, WordCounts& counts, Reporter& reporter,
                       const std::atomic<bool>& stop) const;

  std::string data_;
  std::string vocabulary_;
  std::string stop_words_ = "none";
  std::string tokens_ = "words";  // as for parse_tokens()
  std::string output_;
  std::string load_;
  std::string document_topics_;
  GivenOptions given_;
  std::int64_t min_count_ = 1;
  std::int64_t topics_ = 50;
  std::int64_t top_words_ = 10;
  double held_out_ = 0;
  std::int64_t clocks_per_iteration_ = 0;
  /// Of the checkpoint that the run goes on from; 0: it does not say.
  std::optional<std::int64_t> saved_clocks_;
  std::optional<std::int64_t> lookahead_;
  TrainingOptions training_;
};

std::optional<std::string> Lda::chosen(std::string_view option) const {
  if (!why_idle(option).empty()) return "";
  if (option == kBatch && leaves_open(option) && topics_ > 0) return std::to_string(rows_at_once(topics()));
  if (!job_shape() || !leaves_open(option) || !allocation().parsed().ok())
    return AllocatingApplication::chosen(option);
  const std::size_t blocks = this->blocks(*job_shape());
  if (option == kClocksPerIteration)
    return saved_clocks_ == 0 ? std::nullopt : std::optional(std::to_string(blocks));
  if (option != kLookahead) return AllocatingApplication::chosen(option);
  if (!allocation().moves()) return "";
  return blocks >= job_shape()->workers && looks_ahead(job_shape()->workers, blocks) ? "1" : "0";
}

bool Lda::leaves_open(std::string_view option) const {
  if (option == kClocksPerIteration) return clocks_per_iteration_ == 0;
  if (option == kLookahead) return !lookahead_.has_value();
  if (option == kBatch) return training_.batch == 0;
  return AllocatingApplication::leaves_open(option);
}

Files Lda::files() const {
  Files files;
  files.reads("--data", data_);
  files.reads("--vocabulary", vocabulary_.empty() ? vocabulary_beside(data_) : vocabulary_);
  if (stop_words_ != "none" && stop_words_ != "english") files.reads("--stop-words", stop_words_);
  files.reads("--load", load_);
  files.writes("--output", output_);
  files.writes("--document-topics", document_topics_);
  return files;
}

void Lda::add_options(CLI::App& command) {
  given_.watch(command, [&] { add_own_options(command); });
}

/// Why an option does nothing beside the others; empty: it does something.
std::string_view Lda::why_idle(std::string_view option) const {
  constexpr std::array<std::string_view, 6> kOfUse = {"data", "vocabulary",      "tokens",
                                                      "load", "document-topics", "seed"};
  if (trains() || std::find(kOfUse.begin(), kOfUse.end(), option) != kOfUse.end()) return {};
  return "expected only without --load, which trains nothing";
}

void Lda::add_own_options(CLI::App& command) {
  command
      .add_option(
          "--data", data_,
          "documents: text, one a line, maybe title<TAB>text; or bags of words: UCI docword.*.txt, LDA-C, "
          "Matrix Market, LIBSVM or SVMlight, Vowpal Wabbit; gzip of any (docs/data.md)")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--vocabulary", vocabulary_,
                  "words of a bag-of-words file, one a line; by default vocab.*.txt beside docword.*.txt")
      ->type_name("FILE");
  add_tokens_option(command, tokens_);
  command.add_option("--stop-words", stop_words_, "words to leave out, or a file with one a line")
      ->capture_default_str()
      ->type_name("none|english|FILE");
  add_number(command, "--min-count", min_count_, "leave out words that are rarer in the whole corpus")
      ->capture_default_str();
  add_number(command, "--topics", topics_, "number of topics")->capture_default_str();
  add_number(command, "--alpha", training_.alpha, "prior of each topic in a document; smaller: fewer topics")
      ->capture_default_str();
  add_number(command, "--beta", training_.beta, "prior of each word in a topic; smaller: fewer words")
      ->capture_default_str();
  add_number(command, "--iterations", training_.iterations, "passes over the documents", {.least = 1})
      ->capture_default_str();
  allocation().add(command);
  add_number(
      command, "--lookahead", lookahead_,
      "where rows move, 1: the words of the next block are asked for while one is sampled; 0: when its turn "
      "comes. Default: 1 if no other worker samples them meanwhile")
      ->type_name("N");
  add_number(
      command, "--clocks-per-iteration", clocks_per_iteration_,
      "clocks in a pass over the documents: the words are cut into so many blocks, and in each clock a "
      "worker samples another one; 0: workers x (staleness + 1); where rows move, as many as there are "
      "workers with "
      "one server and workers x 3 with several; 1 for a single worker. With fewer than workers, some sample "
      "the same words at a time")
      ->capture_default_str();
  add_number(command, "--batch", training_.batch,
             "words whose rows are pulled and sampled at a time; 0: as many as a core's cache has room for")
      ->capture_default_str();
  add_number(command, "--held-out", held_out_,
             "share of the documents that is not trained, but predicted (perplexity)")
      ->capture_default_str();
  add_number(command, "--evaluate-every", training_.evaluate_every,
             "iterations from one evaluation to the next")
      ->capture_default_str();
  add_number(command, "--top-words", top_words_, "words of each topic to print at the end")
      ->capture_default_str();
  add_number(command, "--seed", training_.seed,
             "of the first topics, the sampling and the held-out documents")
      ->capture_default_str();
  command.add_option("--output", output_, "save how often each word has each topic, as text")
      ->type_name("FILE");
  command
      .add_option(
          "--document-topics", document_topics_,
          "write how much of each document has which topic: as text, or as an array if it ends in .npy")
      ->type_name("FILE");
  command
      .add_option(
          "--load", load_,
          "a model that --output has saved, with the same --tokens: nothing is trained; the topics of the "
          "documents, which may be new ones, are found with it")
      ->type_name("FILE");
}

absl::Status Lda::check_options() const {
  const auto invalid = [](std::string_view expected, auto found) {
    return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
  };
  RETURN_IF_ERROR(given_.refuse_idle([&](std::string_view option) { return why_idle(option); }));
  if (topics_ < 1 || topics_ > static_cast<std::int64_t>(kMaxTopics)) {
    return invalid(fmt::format("--topics: expected 1 to {}", kMaxTopics), topics_);
  }
  if (!is_prior(training_.alpha)) {
    return invalid(fmt::format("--alpha: expected {} to {}", kLeastPrior, kMostPrior), training_.alpha);
  }
  if (!is_prior(training_.beta)) {
    return invalid(fmt::format("--beta: expected {} to {}", kLeastPrior, kMostPrior), training_.beta);
  }
  if (!(held_out_ >= 0 && held_out_ < 1)) {
    return invalid("--held-out: expected 0 or more and less than 1", held_out_);
  }
  if (training_.evaluate_every < 1) {
    return invalid("--evaluate-every: expected 1 or more", training_.evaluate_every);
  }
  if (clocks_per_iteration_ < 0 || clocks_per_iteration_ > kMostClocksPerIteration) {
    return invalid(fmt::format("--clocks-per-iteration: expected 0 to {}", kMostClocksPerIteration),
                   clocks_per_iteration_);
  }
  if (lookahead_ && (*lookahead_ < 0 || *lookahead_ > kMostLookahead))
    return invalid(fmt::format("--lookahead: expected 0 to {}", kMostLookahead), *lookahead_);
  if (training_.batch < 0 || training_.batch > kMostWords)
    return invalid(fmt::format("--batch: expected 0 to {}", kMostWords), training_.batch);
  RETURN_IF_ERROR(parse_tokens(tokens_).status());
  RETURN_IF_ERROR(allocation().parsed().status());
  if (min_count_ < 1) return invalid("--min-count: expected 1 or more", min_count_);
  if (top_words_ < 0) return invalid("--top-words: expected 0 or more", top_words_);
  return absl::OkStatus();
}

CorpusOptions Lda::corpus_options(const Part& part) const {
  return {.path = data_,
          .tokens = *parse_tokens(tokens_),
          .vocabulary = vocabulary_,
          .stop_words = stop_words_,
          .min_count = static_cast<std::uint64_t>(min_count_),
          .part = part.rank,
          .parts = part.workers};
}

InferenceOptions Lda::inference() const {
  InferenceOptions options{.load = load_,
                           .corpus = corpus_options({}),
                           .document_topics = document_topics_,
                           .seed = training_.seed};
  // The model has the words that were left.
  options.corpus.stop_words = "none";
  options.corpus.min_count = 1;
  return options;
}

/// Checks that something is left to train and, if it is asked for, something to predict.
absl::Status Lda::check_split(const Corpus& corpus) const {
  bool trains = false;
  bool tests = false;
  for (std::size_t d = 0; d < corpus.documents.size(); ++d) {
    const std::uint64_t tokens = corpus.begin[d + 1] - corpus.begin[d];
    if (is_held_out(split_options(1), corpus.documents[d])) {
      tests = tests || tokens > 1;  // one half is given, the other predicted
    } else {
      trains = trains || tokens > 0;
    }
  }
  const auto lacks = [&](std::string_view expected) {
    return absl::InvalidArgumentError(fmt::format("{}: expected {}, found {} documents with {} words", data_,
                                                  expected, corpus.total_documents, corpus.total_tokens));
  };
  if (!trains) return lacks("documents with words besides those held out (a smaller --held-out)");
  if (!tests && held_out_ > 0) {
    return lacks(
        "documents of two words or more enough for some to be held out (a larger --held-out, or 0 for no "
        "test)");
  }
  return absl::OkStatus();
}

absl::Status Lda::check_data(std::uint32_t workers) const {
  const absl::StatusOr<Corpus> corpus = read_corpus(corpus_options({}));
  if (!corpus.ok()) return corpus.status();
  if (corpus->total_tokens == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected documents with words, found {} documents and no word that is not left out",
                    data_, corpus->total_documents));
  }
  if (corpus->total_tokens > std::uint64_t{kMaxTokens}) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected at most {} words, found {}", data_, kMaxTokens, corpus->total_tokens));
  }
  RETURN_IF_ERROR(check_split(*corpus));
  const auto tokens = static_cast<double>(corpus->total_tokens);
  const auto words = static_cast<double>(corpus->vocabulary.size());
  const auto topics = static_cast<double>(topics_);
  const auto documents = static_cast<double>(corpus->total_documents);
  // The tokens as read and as trained, and once more for the topics of all documents; the topics of the
  // documents; the table; and for each worker, rows that wait for clock().
  const double document_bytes = std::min(8 * tokens + 128 * documents, 8 * documents * (topics + kLanes));
  const double again = document_topics_.empty() ? 0 : 8 * tokens + 64 * documents;
  const double bytes = 10 * tokens + again + document_bytes + (1 + 2.0 * workers) * 4 * words * topics;
  const std::string what = fmt::format("--topics {}: {} words in {} documents then need", topics_,
                                       corpus->vocabulary.size(), corpus->total_documents);
  RETURN_IF_ERROR(check_memory(bytes, what, "fewer topics or a larger --min-count"));
  if (!document_topics_.empty()) {
    RETURN_IF_ERROR(
        OutputFile::check(document_topics_, document_topics_bytes(corpus->total_documents, this->topics())));
  }
  if (output_.empty()) return absl::OkStatus();
  const std::uint64_t file_bytes = std::accumulate(
      corpus->vocabulary.begin(), corpus->vocabulary.end(), std::uint64_t{0},
      [](std::uint64_t sum, const std::string& word) { return sum + word.size() + kMinRowBytes; });
  return OutputFile::check(output_, file_bytes);
}

/// The words stay divided as they were, whatever the number of servers is now.
absl::Status Lda::goes_on_from(const std::map<std::string, std::string>& notes) {
  const auto note = notes.find(kClocksNote);
  const auto saved = note == notes.end() ? std::nullopt : base::parse_decimal<std::int64_t>(note->second);
  saved_clocks_ = saved && *saved > 0 && *saved <= kMostClocksPerIteration ? *saved : 0;
  return job_shape() && saved_clocks_ != 0 ? check_lookahead(job_shape()->workers, blocks(*job_shape()))
                                           : absl::OkStatus();
}

absl::Status Lda::check_consistency(const ConsistencyModel& consistency) const {
  RETURN_IF_ERROR(AllocatingApplication::check_consistency(consistency));
  return job_shape() ? check_lookahead(job_shape()->workers, blocks(*job_shape())) : absl::OkStatus();
}

absl::Status Lda::check_lookahead(std::uint32_t workers, std::size_t blocks) const {
  if (lookahead_ != kMostLookahead) return absl::OkStatus();
  if (allocation().moves()) return apps::check_lookahead(workers, blocks, kRows);
  return absl::InvalidArgumentError(fmt::format(
      "--lookahead: expected 0 with --allocation {}, where rows stay; found 1", allocation().name()));
}

bool Lda::looks_ahead(std::uint32_t workers, std::size_t blocks) const {
  return lookahead_.value_or(kMostLookahead) > 0 && turns(workers, blocks).next_is_free;
}

absl::Status Lda::check(std::uint32_t workers) {
  RETURN_IF_ERROR(check_options());
  RETURN_IF_ERROR(check_blocks(clocks_per_iteration_, allocation().moves(), workers, kRows));
  return with_enough_memory(needs_less_memory(),
                            [&] { return trains() ? check_data(workers) : lda::check(inference()); });
}

std::map<std::string, double> Lda::objectives(const std::map<std::string, double>& sums) const {
  std::map<std::string, double> result;
  const auto mean = [&](const char* sum, const char* count) -> std::optional<double> {
    const auto tokens = sums.find(count);
    if (tokens == sums.end() || tokens->second == 0) return std::nullopt;
    return sums.at(sum) / tokens->second;
  };
  if (const auto per_token = mean(kLogLikelihood, kTokens)) result["log_likelihood_per_token"] = *per_token;
  if (const auto held_out = mean(kHeldOutLogLikelihood, kHeldOutTokens))
    result["held_out_perplexity"] = std::exp(-*held_out);
  return result;
}

absl::StatusOr<Job> Lda::load(const Part& part, std::size_t blocks, Reporter& reporter) const {
  absl::StatusOr<Corpus> corpus = read_corpus(corpus_options(part), [&](double done, double total) {
    reporter.progress("reading documents", done, total);
  });
  if (!corpus.ok()) return corpus.status();
  Random random = random_stream(training_.seed, part.rank);
  TrainingData data = lay_out(*corpus, split_options(blocks), random);
  return Job{.corpus = *std::move(corpus), .part = part, .random = random, .data = std::move(data)};
}

/// In each clock a worker trains one block, so each block has a cursor: the words of a block that a worker
/// has not sampled come first when it is the block's turn again.
absl::StatusOr<std::vector<DataCursor>> Lda::cursors_of(const TrainingData& data,
                                                        WorkerContext& context) const {
  const std::size_t blocks = data.blocks.size() - 1;
  std::vector<std::uint64_t> places(blocks, 0);
  if (const nlohmann::json* const saved = context.checkpoints.resumed()) {
    absl::StatusOr<std::vector<std::uint64_t>> found = Trainer::places(*saved, blocks);
    if (!found.ok()) return found.status();
    places = *std::move(found);
  }
  std::vector<DataCursor> cursors;
  for (std::size_t block = 0; block < blocks; ++block) {
    cursors.emplace_back(context.session,
                         DataCursor::Options{.examples = data.blocks[block + 1] - data.blocks[block],
                                             .mini_batch = training_.words_at_once(topics()),
                                             .first = places[block]});
  }
  return cursors;
}

absl::Status Lda::train(Job& job, WordCounts& counts, std::vector<DataCursor> cursors, Reporter& reporter,
                        const std::atomic<bool>& stop, Checkpoints& checkpoints) const {
  Trainer trainer(training_, job.corpus.vocabulary.size(), job.part, job.random, job.data, counts,
                  std::move(cursors));
  if (const nlohmann::json* const saved = checkpoints.resumed()) {
    RETURN_IF_ERROR(trainer.resume(*saved));
    checkpoints.forget_resumed();
  } else {
    RETURN_IF_ERROR(trainer.count_topics());
  }
  RETURN_IF_ERROR(trainer.run(reporter, stop, checkpoints));
  return job.part.rank == 0 ? present(job, counts, reporter, stop) : absl::OkStatus();
}

/// What was saved decides, also where its notes do not say it.
absl::StatusOr<std::size_t> Lda::blocks_in(WorkerContext& context) const {
  const Session& session = context.session;
  const nlohmann::json* const saved = context.checkpoints.resumed();
  if (saved == nullptr) return blocks({context.consistency, session.workers(), session.servers()});
  const absl::StatusOr<std::size_t> found = Trainer::blocks(*saved);
  if (!found.ok()) return found.status();
  const std::size_t least = allocation().moves() ? session.workers() : 1;
  if (*found < least || *found > static_cast<std::size_t>(kMostClocksPerIteration))
    return wrong_state(fmt::format("there are {} blocks", *found));
  if (clocks_per_iteration_ > 0 && static_cast<std::size_t>(clocks_per_iteration_) != *found) {
    return absl::InvalidArgumentError(
        fmt::format("--clocks-per-iteration was {} when the checkpoint was written, now {}; a run goes on "
                    "with the same",
                    *found, clocks_per_iteration_));
  }
  RETURN_IF_ERROR(check_lookahead(session.workers(), *found));
  return *found;
}

absl::Status Lda::train_as_worker(WorkerContext& context) const {
  Session& session = context.session;
  if (!trains()) {
    if (session.rank() == 0) return infer(inference(), context.reporter, context.stop);
    context.reporter.iteration({.iteration = 0});
    return absl::OkStatus();
  }
  const absl::StatusOr<std::size_t> found_blocks = blocks_in(context);
  if (!found_blocks.ok()) return found_blocks.status();
  const std::size_t blocks = *found_blocks;
  context.checkpoints.note(kClocksNote, std::to_string(blocks));
  absl::StatusOr<Job> job = load({session.rank(), session.workers()}, blocks, context.reporter);
  if (!job.ok()) return job.status();
  const auto open = [&](const char* name, std::uint64_t rows) {
    return session.table<std::int32_t>({.name = name,
                                        .rows = rows,
                                        .width = static_cast<std::uint32_t>(topics_),
                                        .consistency = context.consistency,
                                        .allocation = table_allocation(allocation().value())});
  };
  absl::StatusOr<Table<std::int32_t>> rows = open(TableCounts::kRowsName, job->corpus.vocabulary.size());
  if (!rows.ok()) return rows.status();
  absl::StatusOr<Table<std::int32_t>> totals = open(TableCounts::kTotalsName, 1);
  if (!totals.ok()) return totals.status();
  absl::StatusOr<std::vector<DataCursor>> cursors = cursors_of(job->data, context);
  if (!cursors.ok()) return cursors.status();
  if (allocation().moves()) {
    const Turns turns = apps::turns(session.workers(), blocks);
    RETURN_IF_ERROR(session.limit_lead(turns.clocks_ahead));
    MovingCounts counts(session, *rows, *totals, context.watch, allocation().value(),
                        looks_ahead(session.workers(), blocks));
    return train(*job, counts, *std::move(cursors), context.reporter, context.stop, context.checkpoints);
  }
  TableCounts counts(session, *rows, *totals, context.watch);
  return train(*job, counts, *std::move(cursors), context.reporter, context.stop, context.checkpoints);
}

absl::Status Lda::train_alone(BaselineContext& context) const {
  if (!trains()) return infer(inference(), context.reporter, context.stop);
  absl::StatusOr<Job> job = load({}, 1, context.reporter);
  if (!job.ok()) return job.status();
  LocalCounts counts(job->corpus.vocabulary.size(), topics());
  Checkpoints none;
  return train(*job, counts, {}, context.reporter, context.stop, none);
}

/// Top words, the model file, and the topics of all documents; all workers have finished training.
absl::Status Lda::present(const Job& job, WordCounts& counts, Reporter& reporter,
                          const std::atomic<bool>& stop) const {
  const std::vector<std::string>& vocabulary = job.corpus.vocabulary;
  RETURN_IF_ERROR(counts.read_totals());
  const std::int64_t tokens =
      std::accumulate(counts.totals().begin(), counts.totals().end(), std::int64_t{0});
  absl::StatusOr<OutputFile> file = absl::UnknownError("not asked for");
  if (!output_.empty()) {
    file = OutputFile::create(output_);
    if (!file.ok()) return file.status();
    const ModelHeader header{topics(), training_.alpha, training_.beta, static_cast<std::uint64_t>(tokens)};
    file->write(format_header(header, vocabulary.size()));
  }
  TopWords top(topics(), static_cast<std::size_t>(top_words_));
  std::size_t untrained_words = 0;
  absl::Status status =
      for_each_row(vocabulary.size(), counts, [&](Key word, std::span<const std::int32_t> row) {
        if (std::all_of(row.begin(), row.end(), [](std::int32_t count) { return count == 0; }))
          ++untrained_words;
        top.add(word, row);
        if (file.ok()) file->write(format_row(vocabulary[word], row));
      });
  if (!status.ok()) return status;
  if (!document_topics_.empty()) {
    absl::StatusOr<Corpus> all = read_corpus(corpus_options({}));
    if (!all.ok()) return all.status();
    const Documents documents = documents_of(*std::move(all), vocabulary, *parse_tokens(tokens_));
    RETURN_IF_ERROR(save_document_topics(document_topics_, documents, training_.priors(), vocabulary.size(),
                                         counts, reporter, stop));
  }
  if (file.ok()) {
    if (status = file->commit(); !status.ok()) return status;
  }
  if (untrained_words > 0) {
    reporter.print(fmt::format("{} of {} words are in held-out documents only: no topic has them",
                               untrained_words, vocabulary.size()));
  }
  nlohmann::json all_words = nlohmann::json::array();
  for (std::size_t k = 0; k < topics() && top_words_ > 0; ++k) {
    nlohmann::json& words = all_words.emplace_back(nlohmann::json::array());
    std::string line =
        fmt::format("topic {:>3} {:5.1f} % ", k,
                    100.0 * counts.totals()[k] / static_cast<double>(std::max<std::int64_t>(tokens, 1)));
    for (const Key word : top.of(k)) {
      words.push_back(vocabulary[word]);
      line += " " + vocabulary[word];
    }
    reporter.print(line);
  }
  reporter.summary("topics", topics_);
  reporter.summary(kBlocks, job.data.blocks.size() - 1);
  reporter.summary("format", job.corpus.format);
  reporter.summary("documents", job.corpus.total_documents);
  reporter.summary("vocabulary", vocabulary.size());
  reporter.summary("untrained_words", untrained_words);
  reporter.summary("tokens", tokens);
  reporter.summary("top_words", std::move(all_words));
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Application> make_lda() {
  return std::make_unique<Lda>();
}

}  // namespace verbena::apps
