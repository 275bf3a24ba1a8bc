#include "apps/kge/predictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "apps/data/line_reader.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/triple_layout.hpp"
#include "apps/data/triples.hpp"
#include "apps/embedding/best.hpp"
#include "apps/kge/evaluation.hpp"
#include "apps/kge/model.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::kge {
namespace {

constexpr std::string_view kAsked = "?";
constexpr std::uint64_t kLeastLineBytes = 8;

struct AskedTriple {
  Triple triple;             ///< 0 for what is asked for
  std::optional<Side> side;  ///< what is asked for; nullopt: the triple's score
};

using Ids = absl::flat_hash_map<std::string, std::uint32_t>;

Ids ids_of(const std::vector<std::string>& names) {
  Ids ids;
  for (std::uint32_t id = 0; id < names.size(); ++id) ids.emplace(names[id], id);
  return ids;
}

std::optional<std::uint32_t> find(const Ids& ids, std::string_view name) {
  const auto found = ids.find(std::string(name));
  if (found == ids.end()) return std::nullopt;
  return found->second;
}

/// Reads the file of --ask.
class QuestionReader {
 public:
  explicit QuestionReader(const SavedModel& model)
      : entities_(ids_of(model.entity_names)), relations_(ids_of(model.relation_names)) {}

  absl::StatusOr<std::vector<AskedTriple>> read(const std::string& path) {
    absl::StatusOr<LineReader> lines = LineReader::open(path);
    if (!lines.ok()) return lines.status();
    std::vector<AskedTriple> questions;
    bool ended = false;  // blank lines are allowed only at the end
    std::string_view line;
    for (;;) {
      const absl::StatusOr<bool> more = lines->next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (line.empty()) {
        ended = true;
        continue;
      }
      if (ended) return lines->error(kExpected, "an empty line before this");
      absl::StatusOr<AskedTriple> question = read_line(*lines, line);
      if (!question.ok()) return question.status();
      questions.push_back(*question);
    }
    if (questions.empty()) return lines->error(kExpected, "no such line");
    return questions;
  }

 private:
  absl::StatusOr<AskedTriple> read_line(const LineReader& lines, std::string_view line) {
    TripleFields fields;
    if (!TripleLayout().split(line, parts_, fields)) return lines.error(kExpected, line);
    const auto& [head, relation, tail] = fields;
    if (head == kAsked && tail == kAsked) return lines.error("\"?\" for the head or for the tail", line);
    AskedTriple question;
    if (tail == kAsked) question.side = Side::kTail;
    if (head == kAsked) question.side = Side::kHead;
    for (const auto& [name, id] : {std::pair<std::string_view, std::uint32_t&>(head, question.triple.head),
                                   {tail, question.triple.tail}}) {
      if (name == kAsked) continue;
      const std::optional<std::uint32_t> found = find(entities_, name);
      if (!found) return lines.error("the name of an entity of the embeddings, or \"?\"", name);
      id = *found;
    }
    const std::optional<std::uint32_t> found = find(relations_, relation);
    if (!found) return lines.error("the name of a relation of the embeddings", relation);
    question.triple.relation = *found;
    return question;
  }

  static constexpr std::string_view kExpected =
      "head<TAB>relation<TAB>tail, of which the head or the tail may be \"?\"";
  Ids entities_;
  Ids relations_;
  SplitLine parts_;
};

/// The triples of a folder, with the ids that the embeddings have.
struct KnownTriples {
  KnowledgeGraph graph;
  std::size_t ignored = 0;  ///< of entities or relations that the embeddings lack
};

KnownTriples known_triples(const KnowledgeGraph& graph, const SavedModel& model) {
  const Ids entity_ids = ids_of(model.entity_names);
  const Ids relation_ids = ids_of(model.relation_names);
  const auto places = [](const std::vector<std::string>& names, const Ids& ids) {
    std::vector<std::optional<std::uint32_t>> result;
    result.reserve(names.size());
    for (const std::string& name : names) result.push_back(find(ids, name));
    return result;
  };
  const auto entities = places(graph.entity_names, entity_ids);
  const auto relations = places(graph.relation_names, relation_ids);
  KnownTriples known;
  for (const auto* triples : {&graph.train, &graph.valid, &graph.test}) {
    for (const auto& [head, relation, tail] : *triples) {
      if (entities[head] && relations[relation] && entities[tail]) {
        known.graph.train.push_back({*entities[head], *relations[relation], *entities[tail]});
      } else {
        ++known.ignored;
      }
    }
  }
  return known;
}

/// Of --data; none without it.
absl::StatusOr<KnownTriples> read_known_triples(const PredictionOptions& options, const SavedModel& model) {
  if (options.data.empty()) return KnownTriples();
  const absl::StatusOr<KnowledgeGraph> graph = read_triples(options.data);
  if (!graph.ok()) return graph.status();
  KnownTriples known = known_triples(*graph, model);
  if (!known.graph.train.empty()) return known;
  return absl::InvalidArgumentError(
      fmt::format("{}: expected triples of entities and relations of the embeddings {}, found {} triples "
                  "without any",
                  options.data, options.load, known.ignored));
}

class Answerer {
 public:
  Answerer(const SavedModel& model, const KnownAnswers& known, std::size_t count)
      : model_(model),
        known_(known),
        count_(count),
        q_(aligned_floats(shape().entity_size())),
        scores_(model.embeddings.entities()) {}

  /// Calls use(triple, score) for each answer, or for the question itself if it is a whole triple.
  template <class Use>
  void answer(const AskedTriple& question, const Use& use) {
    const Embeddings& embeddings = model_.embeddings;
    Triple triple = question.triple;
    const Side side = question.side.value_or(Side::kTail);
    ask(shape(), side, embeddings.entity(side == Side::kTail ? triple.head : triple.tail),
        embeddings.relation(triple.relation), q_.get());
    if (!question.side) return use(triple, score(shape(), q_.get(), embeddings.entity(triple.tail)));
    score_all(shape(), q_.get(), embeddings.entity(0), scores_.size(), scores_.data());
    for (const std::uint32_t answer : known_.of(side, triple)) scores_[answer] = kNoAnswer;
    for (const std::uint32_t answer : best(scores_, count_)) {
      (side == Side::kTail ? triple.tail : triple.head) = answer;
      use(triple, scores_[answer]);
    }
  }

 private:
  [[nodiscard]] const Shape& shape() const { return model_.embeddings.shape(); }

  const SavedModel& model_;
  const KnownAnswers& known_;
  std::size_t count_;
  hwy::AlignedFreeUniquePtr<float[]> q_;
  std::vector<float> scores_;
};

}  // namespace

absl::Status check(const PredictionOptions& options) {
  if (options.top_answers < 1) {
    return absl::InvalidArgumentError(
        fmt::format("--top-answers: expected 1 or more, found {}", options.top_answers));
  }
  const absl::StatusOr<SavedModel> model = load(options.load);
  if (!model.ok()) return model.status();
  const absl::StatusOr<std::vector<AskedTriple>> questions = QuestionReader(*model).read(options.ask);
  if (!questions.ok()) return questions.status();
  RETURN_IF_ERROR(read_known_triples(options, *model).status());
  if (options.predict.empty()) return absl::OkStatus();
  return OutputFile::check(options.predict, questions->size() * kLeastLineBytes);
}

absl::Status predict(const PredictionOptions& options, Reporter& reporter, const std::atomic<bool>& stop) {
  const absl::StatusOr<SavedModel> model = load(options.load);
  if (!model.ok()) return model.status();
  const absl::StatusOr<std::vector<AskedTriple>> questions = QuestionReader(*model).read(options.ask);
  if (!questions.ok()) return questions.status();
  const absl::StatusOr<KnownTriples> known = read_known_triples(options, *model);
  if (!known.ok()) return known.status();
  absl::StatusOr<OutputFile> file = absl::UnknownError("not asked for");
  if (!options.predict.empty()) {
    file = OutputFile::create(options.predict);
    if (!file.ok()) return file.status();
  }
  const KnownAnswers known_answers(known->graph);
  Answerer answerer(*model, known_answers, static_cast<std::size_t>(options.top_answers));
  double done = 0;
  for (const AskedTriple& question : *questions) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    reporter.progress("answering", done++, static_cast<double>(questions->size()));
    answerer.answer(question, [&](const Triple& triple, float score) {
      const std::string& head = model->entity_names[triple.head];
      const std::string& relation = model->relation_names[triple.relation];
      const std::string& tail = model->entity_names[triple.tail];
      if (file.ok()) {
        file->write(fmt::format("{}\t{}\t{}\t{}\n", head, relation, tail, score));
      } else {
        reporter.print(fmt::format("{} {} {} {:.4f}", head, relation, tail, score));
      }
    });
    if (file.ok()) RETURN_IF_ERROR(file->status());
  }
  if (known->ignored > 0) {
    reporter.print(
        fmt::format("{} of {} triples of --data have names that are not in the embeddings, and are "
                    "ignored",
                    known->ignored, known->ignored + known->graph.train.size()));
  }
  reporter.summary("model", to_string(model->embeddings.shape().model));
  reporter.summary("dimension", model->embeddings.shape().dimension);
  reporter.summary("entities", model->entity_names.size());
  reporter.summary("relations", model->relation_names.size());
  reporter.summary("questions", questions->size());
  if (!options.data.empty()) reporter.summary("ignored_triples", known->ignored);
  reporter.iteration({.iteration = 0});
  return file.ok() ? file->commit() : absl::OkStatus();
}

}  // namespace verbena::apps::kge
