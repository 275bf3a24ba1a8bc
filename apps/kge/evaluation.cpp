#include "apps/kge/evaluation.hpp"

#include <algorithm>
#include <cassert>

namespace verbena::apps::kge {
namespace {

constexpr std::size_t kTriplesAtOnce = 16;
constexpr std::size_t kEntityBytesAtOnce = std::size_t{128}
                                           << 10;  // of entities, which stay in a core's second-level cache

struct Question {
  Side side;
  std::uint32_t given;
  std::uint32_t right;
  std::uint32_t relation;
  std::span<const std::uint32_t> known;
};

std::uint64_t pair_of(std::uint32_t given, std::uint32_t relation) {
  return std::uint64_t{given} << 32 | relation;
}

}  // namespace

KnownAnswers::KnownAnswers(const KnowledgeGraph& graph) {
  for (const std::vector<Triple>* triples : {&graph.train, &graph.valid, &graph.test}) {
    for (const Triple& triple : *triples) {
      tails_[pair_of(triple.head, triple.relation)].push_back(triple.tail);
      heads_[pair_of(triple.tail, triple.relation)].push_back(triple.head);
    }
  }
  for (Answers* answers : {&tails_, &heads_}) {
    for (auto& [key, all] : *answers) {
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
    }
  }
}

std::span<const std::uint32_t> KnownAnswers::of(Side side, const Triple& triple) const {
  const Answers& answers = side == Side::kTail ? tails_ : heads_;
  const auto found = answers.find(pair_of(side == Side::kTail ? triple.head : triple.tail, triple.relation));
  if (found == answers.end()) return {};
  return found->second;
}

void rank(const Embeddings& embeddings, std::span<const Triple> triples, const KnownAnswers& known,
          std::span<double> ranks) {
  assert(ranks.size() == 2 * triples.size());
  const Shape& shape = embeddings.shape();
  std::vector<Question> questions;
  for (const Triple& triple : triples) {
    questions.push_back(
        {Side::kTail, triple.head, triple.tail, triple.relation, known.of(Side::kTail, triple)});
    questions.push_back(
        {Side::kHead, triple.tail, triple.head, triple.relation, known.of(Side::kHead, triple)});
  }
  const auto vectors = aligned_floats(questions.size() * shape.entity_size());
  const auto vector_of = [&](std::size_t i) { return vectors.get() + i * shape.entity_size(); };
  std::vector<float> scores;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& one = questions[i];
    ask(shape, one.side, embeddings.entity(one.given), embeddings.relation(one.relation), vector_of(i));
    scores.push_back(score(shape, vector_of(i), embeddings.entity(one.right)));
  }
  std::vector<Comparison> all(questions.size());
  const std::size_t at_once =
      std::max<std::size_t>(kEntityBytesAtOnce / (shape.entity_size() * sizeof(float)), 1);
  for (std::size_t first = 0; first < embeddings.entities(); first += at_once) {
    const std::size_t count = std::min(at_once, embeddings.entities() - first);
    for (std::size_t i = 0; i < questions.size(); ++i) {
      compare(shape, vector_of(i), scores[i], embeddings.entity(first), count, all[i]);
    }
  }
  for (std::size_t i = 0; i < questions.size(); ++i) {
    Comparison left_out;
    const auto leave_out = [&](std::uint32_t answer) {
      compare(shape, vector_of(i), scores[i], embeddings.entity(answer), 1, left_out);
    };
    leave_out(questions[i].right);
    for (const std::uint32_t answer : questions[i].known) {
      if (answer != questions[i].right) leave_out(answer);
    }
    ranks[i] = 1 + static_cast<double>(all[i].better - left_out.better) +
               static_cast<double>(all[i].equal - left_out.equal) / 2;
  }
}

absl::StatusOr<RankSums> evaluate(const Embeddings& embeddings, std::span<const Triple> triples,
                                  const KnownAnswers& known, const RankingOptions& options) {
  constexpr std::size_t kSides = 2;
  return rank_all(
      kSides * triples.size(), kSides * kTriplesAtOnce,
      [&](std::size_t first, std::size_t count, std::span<double> ranks) {
        rank(embeddings, triples.subspan(first / kSides, count / kSides), known, ranks);
      },
      options);
}

}  // namespace verbena::apps::kge
