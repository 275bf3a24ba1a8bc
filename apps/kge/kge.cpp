#include "apps/kge/kge.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "apps/data/output_file.hpp"
#include "apps/data/triples.hpp"
#include "apps/embedding/clocks_option.hpp"
#include "apps/embedding/embedding_application.hpp"
#include "apps/embedding/row_store.hpp"
#include "apps/embedding/schedule.hpp"
#include "apps/enough_memory.hpp"
#include "apps/kge/exports.hpp"
#include "apps/kge/model.hpp"
#include "apps/kge/partition.hpp"
#include "apps/kge/predictions.hpp"
#include "apps/kge/trainer.hpp"
#include "apps/options/given_options.hpp"
#include "apps/options/numbers.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "base/cores.hpp"
#include "base/return_if_error.hpp"
#include <verbena/table.hpp>

namespace verbena::apps {
namespace {

using namespace kge;

/// What --regularization is by default. Distances are bounded by themselves.
constexpr double kProductRegularization = 0.2;
constexpr double kDistanceRegularization = 0;
/// The share of --regularization that matrices get by default. What a triple tells of one number of a matrix
/// is a product of two small numbers: the whole regularization would shrink the matrix to nothing.
constexpr double kMatrixRegularization = 0.02;
/// Beyond it single precision would round distances away.
constexpr double kMostMargin = 10'000;
constexpr std::int64_t kMaxNegatives = 65'535;
constexpr std::int64_t kMaxBatch = 65'535;
/// Found on WN18RR (docs/knowledge-graphs.md).
constexpr ClockSize kClockSize = {.most = 5'500, .most_unseen = 5'500, .least_of_worker = 32};

/// What --loss and --share-out read.
constexpr const char* kSoftmax = "softmax";
constexpr const char* kLogistic = "logistic";
constexpr const char* kAuto = "auto";
constexpr const char* kRelations = "relations";
constexpr const char* kEntities = "entities";
/// What the summary says of it.
constexpr const char* kSharedOut = "shared_out";

/// What one process needs of the input, ready for training.
struct Job {
  KnowledgeGraph graph;
  std::vector<std::uint32_t> workers;  ///< of each triple to be trained
  bool shares_entities = false;        ///< otherwise relations
  std::optional<Embeddings> loaded;
  TrainingData data;
};

/// The triples whose index is `rank` modulo `workers`.
std::vector<Triple> every(std::span<const Triple> triples, std::uint32_t rank, std::uint32_t workers) {
  std::vector<Triple> result;
  for (std::size_t n = rank; n < triples.size(); n += workers) result.push_back(triples[n]);
  return result;
}

/// Reports what is in no triple that is trained: entities whose rows only move away from right answers,
/// because they are drawn as wrong ones, and relations whose rows keep their initial values.
void report_untrained(const KnowledgeGraph& graph, Reporter& reporter) {
  std::vector<bool> trained_entities(graph.entity_names.size());
  std::vector<bool> trained_relations(graph.relation_names.size());
  for (const Triple& triple : graph.train) {
    trained_entities[triple.head] = trained_entities[triple.tail] = true;
    trained_relations[triple.relation] = true;
  }
  const auto entities = std::count(trained_entities.begin(), trained_entities.end(), false);
  const auto relations = std::count(trained_relations.begin(), trained_relations.end(), false);
  reporter.summary("untrained_entities", entities);
  reporter.summary("untrained_relations", relations);
  if (entities == 0 && relations == 0) return;
  reporter.print(fmt::format(
      "{} of {} entities and {} of {} relations are in no triple of train: nothing is learnt of them",
      entities, trained_entities.size(), relations, trained_relations.size()));
}

MiniBatches mini_batches(const TrainingOptions& options, const TrainingData& data) {
  const std::int64_t draws = (options.batch + options.share_negatives - 1) / options.share_negatives;
  return {.triples = static_cast<double>(options.batch),
          .negatives = static_cast<double>(draws * 2 * options.negatives),
          .entities = data.entities,
          .relations = data.relations};
}

class KnowledgeGraphEmbedding final : public EmbeddingApplication {
 public:
  KnowledgeGraphEmbedding() : EmbeddingApplication(Sequential{}) {}
  [[nodiscard]] std::string_view name() const override { return "kge"; }
  [[nodiscard]] std::string_view description() const override {
    return "embeddings of a knowledge graph: ComplEx, DistMult, RESCAL, TransE or RotatE";
  }
  [[nodiscard]] std::string_view throughput_unit() const override { return "triples"; }
  [[nodiscard]] std::string_view main_objective() const override { return "test_mrr"; }
  [[nodiscard]] std::int64_t iterations() const override { return answers() ? 0 : training_.iterations; }
  [[nodiscard]] bool can_be_resumed() const override { return !answers(); }
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const override {
    if (!why_idle(option).empty()) return "";
    if (option == "regularization") return fmt::format("{}", training().regularization);
    if (option == ClocksOption::kName) return clocks_.chosen();
    return EmbeddingApplication::chosen(option);
  }
  /// Rows that move are changed in place, by a worker that dies, too.
  [[nodiscard]] bool can_replace_workers() const override { return !rows_move() && !answers(); }
  [[nodiscard]] bool may_change_on_resume(std::string_view option) const override {
    return option == "barrier-every" || EmbeddingApplication::may_change_on_resume(option);
  }
  absl::Status goes_on_from(const std::map<std::string, std::string>& notes) override {
    clocks_.goes_on_from(notes);
    return absl::OkStatus();
  }

  void add_options(CLI::App& command) override;
  [[nodiscard]] bool leaves_open(std::string_view option) const override {
    if (option == ClocksOption::kName) return clocks_.leaves_open();
    return option == "share-out" ? sharing_ == kAuto : EmbeddingApplication::leaves_open(option);
  }
  [[nodiscard]] std::vector<ChoiceOption> choices() const override {
    std::vector<ChoiceOption> all = EmbeddingApplication::choices();
    all.push_back({"share-out", kSharedOut});
    return all;
  }
  [[nodiscard]] Files files() const override;
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override {
    return objectives_of(sums);
  }

 private:
  /// Saved embeddings are not trained or evaluated, but asked.
  [[nodiscard]] bool answers() const { return !questions_.ask.empty(); }
  [[nodiscard]] PredictionOptions questions() const {
    PredictionOptions options = questions_;
    options.load = load_;
    options.data = data_;
    return options;
  }
  void add_own_options(CLI::App& command);
  [[nodiscard]] std::string_view why_idle(std::string_view option) const;
  /// As checked by check_options().
  [[nodiscard]] Shape shape() const {
    return {.model = model(), .dimension = static_cast<std::size_t>(dimension_)};
  }
  /// These are the usual ones if the options are wrong.
  [[nodiscard]] EmbeddingFormat format() const {
    return parse_embedding_format(output_format_).value_or(EmbeddingFormat::kText);
  }
  [[nodiscard]] Model model() const { return parse_model(model_).value_or(Model::kComplEx); }
  [[nodiscard]] TrainingOptions training() const {
    TrainingOptions options = training_;
    options.loss = loss_ == kSoftmax ? Loss::kSoftmax : Loss::kLogistic;
    options.regularization =
        regularization_.value_or(has_distance(model()) ? kDistanceRegularization : kProductRegularization);
    const double share = model() == Model::kRescal ? kMatrixRegularization : 1;
    options.relation_regularization = relation_regularization_.value_or(share * options.regularization);
    return options;
  }
  [[nodiscard]] std::string_view needs_less_memory() const override {
    return "a smaller --dimension or fewer triples";
  }
  absl::Status check_options() const override;
  absl::Status check_output_folder() const;
  absl::Status check_data(std::uint32_t workers) const override;
  absl::StatusOr<Job> load_job(std::uint32_t rank, std::uint32_t workers, Reporter& reporter) const;
  void share_out(Job& job, std::uint32_t workers) const;
  [[nodiscard]] RowSources first_rows(const Job& job) const;
  absl::Status train_as_worker(WorkerContext& context) const override;
  absl::StatusOr<std::unique_ptr<ReadAhead>> read_data(std::uint32_t worker, std::uint32_t workers,
                                                       Reporter& reporter) const override;
  absl::Status train_alone(BaselineContext& context) const override;
  absl::Status save_rows(const Job& job, RowStore& rows) const;

  std::string data_;
  std::string load_;
  std::string output_;
  std::string output_format_{to_string(EmbeddingFormat::kText)};
  std::string model_ = "complex";
  std::string loss_ = kSoftmax;
  std::string sharing_ = kAuto;
  std::int64_t dimension_ = 128;
  double near_negatives_ = 0;
  TrainingOptions training_;  ///< without the clocks
  ClocksOption clocks_{"triples", kClockSize};
  std::optional<double> regularization_;
  std::optional<double> relation_regularization_;
  PredictionOptions questions_;  ///< without the embeddings and the data
  GivenOptions given_;
};

Files KnowledgeGraphEmbedding::files() const {
  Files files;
  if (!data_.empty()) {
    for (const std::string& path : triple_files(data_)) files.reads("--data", path);
  }
  files.reads("--ask", questions_.ask);
  files.writes("--predict", questions_.predict);
  if (!load_.empty()) {
    for (const std::string& path : {entities_path(load_), relations_path(load_)}) files.reads("--load", path);
  }
  if (!output_.empty()) {
    for (const std::string& path : files_of(output_, format(), model())) files.writes("--output", path);
  }
  return files;
}

void KnowledgeGraphEmbedding::add_options(CLI::App& command) {
  given_.watch(command, [&] { add_own_options(command); });
}

/// Why an option does nothing beside the others; empty: it does something.
std::string_view KnowledgeGraphEmbedding::why_idle(std::string_view option) const {
  const bool is_of_answers = option == "predict" || option == "top-answers";
  if (!answers()) {
    if (is_of_answers) return "expected only with --ask";
    if (option == "output-format" && output_.empty()) return "expected only with --output";
    if (option != "margin" || (has_distance(model()) && loss_ == kLogistic)) return {};
    return "expected only with --model transe or rotate and --loss logistic";
  }
  if (is_of_answers || option == "ask" || option == "load" || option == "data") return {};
  return "expected only without --ask, which trains nothing";
}

void KnowledgeGraphEmbedding::add_own_options(CLI::App& command) {
  command
      .add_option("--data", data_,
                  "folder with train, valid and test, .txt, .tsv or .csv, maybe .gz: lines "
                  "head<TAB>relation<TAB>tail; or "
                  "with the files of OpenKE or DGL-KE")
      ->type_name("FOLDER");
  command.add_option("--model", model_, "how a triple is scored")
      ->capture_default_str()
      ->type_name("complex|distmult|rescal|transe|rotate");
  add_number(command, "--dimension", dimension_,
             "numbers of an entity; complex and rotate: two of them are one complex number; rescal: a "
             "relation has the square of it")
      ->capture_default_str();
  command
      .add_option(
          "--loss", loss_,
          "softmax: the right answer against all wrong ones together; logistic: each answer by itself")
      ->capture_default_str()
      ->type_name("softmax|logistic");
  add_number(command, "--negatives", training_.negatives,
             "wrong tails of each triple, drawn from all entities, and as many wrong heads; more: better "
             "and slower")
      ->capture_default_str();
  add_number(
      command, "--share-negatives", training_.share_negatives,
      "so many triples of a mini-batch share their wrong answers: there are fewer rows to pull and push")
      ->capture_default_str();
  add_number(command, "--iterations", training_.iterations,
             "passes over the triples; 0, with --load: nothing is trained, only evaluated, and --output has "
             "the same embeddings, maybe in another format")
      ->capture_default_str();
  add_number(command, "--learning-rate", training_.learning_rate, "of Adagrad")->capture_default_str();
  add_number(command, "--margin", training_.margin,
             "of transe and rotate with --loss logistic: the score of an answer at a distance of 0")
      ->capture_default_str();
  add_number(command, "--regularization", regularization_,
             fmt::format("weight of the cubed absolute numbers of a triple's entities [default: {:g}, of "
                         "transe and rotate {:g}]",
                         kProductRegularization, kDistanceRegularization));
  add_number(command, "--relation-regularization", relation_regularization_,
             fmt::format("the same for the relation's row; by default as --regularization, of rescal {:g} "
                         "of it",
                         kMatrixRegularization));
  add_number(command, "--batch", training_.batch, "triples whose rows are pulled and trained at a time")
      ->capture_default_str();
  command
      .add_option(
          "--share-out", sharing_,
          "what each worker gets triples of. relations: of a few relations all triples, or even shares; "
          "entities: of neighbouring entities, so that fewer entities are used by several workers, and "
          "more relations; auto: where rows move, what leaves less to move, else relations")
      ->capture_default_str()
      ->type_name("auto|relations|entities");
  add_fetch_options(command);
  add_number(command, "--near-negatives", near_negatives_,
             "where rows move, the share of wrong answers drawn from other nodes' rows that are drawn "
             "anew, from "
             "those that are near; 0: evenly from all entities; more: fewer rows to move")
      ->capture_default_str();
  clocks_.add(command);
  add_number(command, "--evaluate-every", training_.evaluate_every,
             "iterations from one evaluation on the valid triples to the next; 0: none, only the test at "
             "the end")
      ->capture_default_str();
  add_barrier_option(command);
  add_number(command, "--seed", training_.seed, "of the first rows, the order and the wrong answers")
      ->capture_default_str();
  command
      .add_option(
          "--load", load_,
          "begin with the embeddings of an --output, of the same data, model and dimension; what Adagrad "
          "had summed up begins anew")
      ->type_name("PREFIX");
  command
      .add_option("--ask", questions_.ask,
                  "with --load: nothing is trained, but questions are answered: lines "
                  "head<TAB>relation<TAB>tail with ? for the head or the tail, or without it for a score; "
                  "triples of --data are no answers")
      ->type_name("FILE");
  command
      .add_option("--predict", questions_.predict,
                  "with --ask: write the answers as lines head<TAB>relation<TAB>tail<TAB>score, instead of "
                  "printing them")
      ->type_name("FILE");
  add_number(command, "--top-answers", questions_.top_answers, "with --ask: answers to a question")
      ->capture_default_str();
  command
      .add_option("--output", output_,
                  "save the embeddings, as --output-format says: by default as text, in "
                  "PREFIX.entities.tsv and PREFIX.relations.tsv")
      ->type_name("PREFIX");
  command
      .add_option(
          "--output-format", output_format_,
          "of --output: text, which --load reads; npy; safetensors; openke and dgl-ke: as these programs "
          "load them, with files in PREFIX's folder that have the same names for each model")
      ->capture_default_str()
      ->type_name("text|npy|safetensors|openke|dgl-ke");
}

absl::Status KnowledgeGraphEmbedding::check_options() const {
  const auto invalid = [](std::string_view expected, const auto& found) {
    return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
  };
  if (!parse_model(model_).has_value())
    return invalid("--model: expected complex, distmult, rescal, transe or rotate", model_);
  RETURN_IF_ERROR(given_.refuse_idle([&](std::string_view option) { return why_idle(option); }));
  if (answers()) {
    if (load_.empty()) return invalid("--ask: expected --load, the embeddings that are asked", "none");
    return absl::OkStatus();  // check_data() looks at the rest
  }
  if (!parse_embedding_format(output_format_).has_value()) {
    return invalid("--output-format: expected text, npy, safetensors, openke or dgl-ke", output_format_);
  }
  if (data_.empty()) return invalid("--data: expected a folder of triples", "none");
  if (loss_ != kSoftmax && loss_ != kLogistic) return invalid("--loss: expected softmax or logistic", loss_);
  if (sharing_ != kAuto && sharing_ != kRelations && sharing_ != kEntities)
    return invalid("--share-out: expected auto, relations or entities", sharing_);
  const auto most = static_cast<std::int64_t>(most_dimension(model()));
  if (dimension_ < 1 || dimension_ > most) {
    return invalid(fmt::format("--dimension: expected 1 to {}", most), dimension_);
  }
  if (is_complex(model()) && dimension_ % 2 != 0) {
    return invalid(fmt::format("--dimension: expected an even number for {}", model_), dimension_);
  }
  if (training_.negatives < 1 || training_.negatives > kMaxNegatives) {
    return invalid(fmt::format("--negatives: expected 1 to {}", kMaxNegatives), training_.negatives);
  }
  if (!(near_negatives_ >= 0 && near_negatives_ <= 1)) {
    return invalid("--near-negatives: expected 0 to 1", near_negatives_);
  }
  if (near_negatives_ > 0 && !rows_move()) {
    return absl::InvalidArgumentError(
        "--near-negatives needs rows that move: --allocation localize or intent");
  }
  if (training_.share_negatives < 1) {
    return invalid("--share-negatives: expected 1 or more", training_.share_negatives);
  }
  if (!(training_.margin >= 0 && training_.margin <= kMostMargin)) {
    return invalid(fmt::format("--margin: expected 0 to {}", kMostMargin), training_.margin);
  }
  const double of_entities = regularization_.value_or(0);
  if (!(of_entities >= 0) || !std::isfinite(of_entities)) {
    return invalid("--regularization: expected 0 or more", of_entities);
  }
  const double of_relations = relation_regularization_.value_or(0);
  if (!(of_relations >= 0) || !std::isfinite(of_relations)) {
    return invalid("--relation-regularization: expected 0 or more", of_relations);
  }
  RETURN_IF_ERROR(check_schedule(training_, kMaxBatch));
  RETURN_IF_ERROR(clocks_.check());
  return check_iterations(training_.iterations, load_);
}

/// The files of names that OpenKE and DGL-KE want are named as those of a data set.
absl::Status KnowledgeGraphEmbedding::check_output_folder() const {
  if (output_.empty() || !has_fixed_names(format())) return absl::OkStatus();
  const std::filesystem::path folder = std::filesystem::path(output_).parent_path();
  std::error_code error;
  if (!std::filesystem::equivalent(folder.empty() ? "." : folder, data_, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--output: expected another folder than that of --data, whose files of names "
                  "--output-format {} might overwrite, found {}",
                  output_format_, output_));
}

absl::Status KnowledgeGraphEmbedding::check_data(std::uint32_t workers) const {
  if (answers()) return kge::check(questions());
  RETURN_IF_ERROR(check_output_folder());
  const absl::StatusOr<KnowledgeGraph> graph = read_triples(data_);
  if (!graph.ok()) return graph.status();
  const Shape shape = this->shape();
  const auto entities = static_cast<double>(graph->entity_names.size());
  const auto relations = static_cast<double>(graph->relation_names.size());
  const double table_bytes = sizeof(float) * (entities * static_cast<double>(shape.entity_width()) +
                                              relations * static_cast<double>(shape.relation_width()));
  const auto triples = static_cast<double>(graph->train.size() + graph->valid.size() + graph->test.size());
  // A worker may cache and buffer every row, and has all parameters for an evaluation; triples are kept as
  // read, as trained, and as known answers, and have to be shared out.
  const double bytes = table_bytes * (1 + 2.5 * workers) + triples * workers * 10 * sizeof(Triple);
  absl::Status enough = check_memory(bytes, "this model and data need", "a smaller --dimension");
  if (!enough.ok()) return enough;
  if (!load_.empty()) {
    const absl::StatusOr<Embeddings> loaded =
        load(load_, shape, {graph->entity_names, graph->relation_names});
    if (!loaded.ok()) return loaded.status();
  }
  if (output_.empty()) return absl::OkStatus();
  // All lie in one folder.
  const std::uint64_t bytes_of_files =
      files_bytes(format(), shape, graph->entity_names.size(), graph->relation_names.size());
  for (const std::string& path : files_of(output_, format(), model()))
    RETURN_IF_ERROR(OutputFile::check(path, bytes_of_files));
  return absl::OkStatus();
}

absl::StatusOr<Job> KnowledgeGraphEmbedding::load_job(std::uint32_t rank, std::uint32_t workers,
                                                      Reporter& reporter) const {
  absl::StatusOr<KnowledgeGraph> graph = read_triples(
      data_, [&](double done, double total) { reporter.progress("reading triples", done, total); });
  if (!graph.ok()) return graph.status();
  Job job{.graph = *std::move(graph), .workers = {}, .loaded = std::nullopt, .data = {}};
  const std::size_t relations = job.graph.relation_names.size();
  share_out(job, workers);
  job.data = {.train = part_of(job.graph.train, job.workers, rank, training_.seed),
              .valid = every(job.graph.valid, rank, workers),
              .test = every(job.graph.test, rank, workers),
              .entities = job.graph.entity_names.size(),
              .relations = relations,
              .rank = rank};
  if (job.shares_entities && rows_move()) {
    const MiniBatches batches{.entities = job.data.entities, .relations = relations};
    const UsesByOthers uses = uses_by_others(job.graph.train, job.workers, rank, batches);
    job.data.train = bring_together(job.data.train, uses.entities, training_.seed);
  }
  if (!load_.empty()) {
    absl::StatusOr<Embeddings> loaded =
        load(load_, shape(), {job.graph.entity_names, job.graph.relation_names});
    if (!loaded.ok()) return loaded.status();
    job.loaded = *std::move(loaded);
  }
  if (rank == 0) {
    reporter.summary("model", model_);
    reporter.summary("dimension", dimension_);
    reporter.summary("format", job.graph.format);
    reporter.summary("entities", job.data.entities);
    reporter.summary("relations", relations);
    reporter.summary(kSharedOut, job.shares_entities ? kEntities : kRelations);
    reporter.summary("train_triples", job.graph.train.size());
    reporter.summary("valid_triples", job.graph.valid.size());
    reporter.summary("test_triples", job.graph.test.size());
    report_untrained(job.graph, reporter);
    for (const std::string& file : job.graph.unused_files) {
      reporter.print(fmt::format(
          "{}: not used, because not each of the three files of triples begins with a line with their number",
          file));
    }
  }
  return job;
}

void KnowledgeGraphEmbedding::share_out(Job& job, std::uint32_t workers) const {
  const std::vector<Triple>& triples = job.graph.train;
  const std::size_t entities = job.graph.entity_names.size();
  const std::size_t relations = job.graph.relation_names.size();
  if (sharing_ != kEntities) job.workers = share_out_relations(triples, relations, workers);
  const bool chooses = sharing_ == kAuto && rows_move() && workers > 1;
  if (sharing_ != kEntities && !chooses) return;
  std::vector<std::uint32_t> by_entity = share_out_entities(triples, entities, workers);
  const auto from_elsewhere = [&](std::span<const std::uint32_t> shares) {
    return numbers_from_elsewhere(triples, shares, {.triples = static_cast<double>(training_.batch)},
                                  {.entity = shape().entity_width(), .relation = shape().relation_width()});
  };
  job.shares_entities = !chooses || from_elsewhere(by_entity) < from_elsewhere(job.workers);
  if (job.shares_entities) job.workers = std::move(by_entity);
}

RowSources KnowledgeGraphEmbedding::first_rows(const Job& job) const {
  if (job.loaded.has_value()) return rows_from(*job.loaded);
  return random_rows(shape(), job.data.entities, job.data.relations, training_.seed);
}

absl::StatusOr<std::unique_ptr<ReadAhead>> KnowledgeGraphEmbedding::read_data(std::uint32_t worker,
                                                                              std::uint32_t workers,
                                                                              Reporter& reporter) const {
  if (answers()) return nullptr;
  absl::StatusOr<Job> job = load_job(worker, workers, reporter);
  if (!job.ok()) return job.status();
  return std::make_unique<ReadAheadOf<Job>>(*std::move(job));
}

absl::Status KnowledgeGraphEmbedding::train_as_worker(WorkerContext& context) const {
  Session& session = context.session;
  if (answers()) {
    if (session.rank() == 0) return predict(questions(), context.reporter, context.stop);
    context.reporter.iteration({.iteration = 0});
    return absl::OkStatus();
  }
  const absl::StatusOr<Job> job =
      context.take_data([&] { return load_job(session.rank(), session.workers(), context.reporter); });
  if (!job.ok()) return job.status();
  FetchOptions fetch = fetch_options();
  fetch.near_draws = near_negatives_;
  const auto open = [&](const char* table, std::size_t rows, std::size_t width) {
    return session.table<float>({.name = table,
                                 .rows = rows,
                                 .width = static_cast<std::uint32_t>(width),
                                 .consistency = context.consistency,
                                 .allocation = table_allocation(fetch.allocation)});
  };
  absl::StatusOr<Table<float>> entities = open("kge.entities", job->data.entities, shape().entity_width());
  if (!entities.ok()) return entities.status();
  absl::StatusOr<Table<float>> relations =
      open("kge.relations", job->data.relations, shape().relation_width());
  if (!relations.ok()) return relations.status();
  TableRows rows(session, std::array{*entities, *relations}, context.watch, fetch);
  const nlohmann::json* const saved = context.checkpoints.resumed();
  if (saved == nullptr) RETURN_IF_ERROR(rows.initialize(first_rows(*job)));

  TrainingOptions options = training();
  const absl::StatusOr<std::int64_t> clocks =
      clocks_.agreed(context, job->graph.train.size(), fetch.allocation);
  if (!clocks.ok()) return clocks.status();
  options.clocks_per_iteration = *clocks;
  options.barrier_every = barrier_every(context.consistency);
  if (fetch.allocation == RowAllocation::kLocalize) {
    const UsesByOthers uses =
        uses_by_others(job->graph.train, job->workers, session.rank(), mini_batches(options, job->data));
    rows.leave_where_they_are(kEntityTable, wanted_by_others(uses.entities, fetch.lookahead));
    rows.leave_where_they_are(kRelationTable, wanted_by_others(uses.relations, fetch.lookahead));
  }
  std::vector<DataCursor> cursors;
  if (fetch.allocation == RowAllocation::kIntent) {
    // Each mini-batch is a clock of the session, and no iteration ends early.
    absl::Status status = rows.agree_on_clocks(most_mini_batches(options, job->data.train.size()));
    if (!status.ok()) return status;
  } else {
    absl::StatusOr<std::vector<DataCursor>> made = cursors_of_clocks(
        session, job->data.train.size(), static_cast<std::size_t>(options.clocks_per_iteration),
        static_cast<std::uint64_t>(options.batch), saved);
    if (!made.ok()) return made.status();
    cursors = *std::move(made);
  }
  const KnownAnswers known(job->graph);
  absl::Status status = Trainer(options, shape(), job->data, known, rows, 1, std::move(cursors))
                            .run(context.reporter, context.stop, context.checkpoints);
  // Its last evaluation has waited until all workers have trained.
  if (!status.ok() || output_.empty() || session.rank() != 0) return status;
  return save_rows(*job, rows);
}

absl::Status KnowledgeGraphEmbedding::train_alone(BaselineContext& context) const {
  if (answers()) return predict(questions(), context.reporter, context.stop);
  const absl::StatusOr<Job> job = load_job(0, 1, context.reporter);
  if (!job.ok()) return job.status();
  LocalRows rows(first_rows(*job));
  TrainingOptions options = training();
  options.clocks_per_iteration = clocks_.clocks({.examples = job->graph.train.size()});
  const KnownAnswers known(job->graph);
  const unsigned threads = base::cores_at_hand();
  absl::Status status =
      Trainer(options, shape(), job->data, known, rows, threads).run(context.reporter, context.stop);
  if (!status.ok() || output_.empty()) return status;
  return save_rows(*job, rows);
}

absl::Status KnowledgeGraphEmbedding::save_rows(const Job& job, RowStore& rows) const {
  Embeddings embeddings(shape(), job.data.entities, job.data.relations);
  RETURN_IF_ERROR(read_embeddings(rows, embeddings));
  return save_as(format(), output_, embeddings, {job.graph.entity_names, job.graph.relation_names});
}

}  // namespace

std::unique_ptr<Application> make_kge() {
  return std::make_unique<KnowledgeGraphEmbedding>();
}

}  // namespace verbena::apps
