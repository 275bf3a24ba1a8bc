// The arithmetic of knowledge-graph embeddings: scores of triples (head, relation, tail), and Adagrad on
// them. Each triple is learnt as two questions: which tail has this head and relation, and which head has
// this relation and tail. A question's vector q is made of what is given; an answer's score is q · answer, or
// minus the distance of q and the answer:
//
//   ComplEx   Re(Σ h r t̄)          numbers 2i and 2i + 1 of a row are the i-th complex number
//   DistMult  Σ h r t
//   RESCAL    hᵀ R t
//   TransE    −Σ |h + r − t|
//   RotatE    −Σ |h e^(i r) − t|   of complex numbers; a relation's row has angles, in radians
//
// (Trouillon et al., ICML 2016; Yang et al., ICLR 2015; Nickel et al., ICML 2011; Bordes et al., NIPS 2013,
// with the absolute norm; Sun et al., ICLR 2019.) Runs on the widest vectors
// the processor has and gives the same bits on all of them: sums are always formed over 16 virtual lanes in
// one fixed order, and nothing is fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/triples.hpp"
#include "apps/embedding/row_source.hpp"

namespace verbena::apps::kge {

enum class Model : std::uint8_t { kComplEx, kDistMult, kRescal, kTransE, kRotatE };
/// Two numbers of an entity are a complex one.
constexpr bool is_complex(Model model) {
  return model == Model::kComplEx || model == Model::kRotatE;
}
/// Scores are minus a distance.
constexpr bool has_distance(Model model) {
  return model == Model::kTransE || model == Model::kRotatE;
}
enum class Loss : std::uint8_t {
  kLogistic,  ///< each answer is right or wrong by itself
  kSoftmax,   ///< one of the answers is right
};

struct Shape {
  Model model = Model::kComplEx;
  std::size_t dimension = 1;  ///< numbers of an entity; even if they are complex
  /// Parameters of an entity or a relation, with padding. A relation of RESCAL is its matrix, row by row; one
  /// of RotatE has an angle for each complex number.
  [[nodiscard]] std::size_t entity_size() const { return padded(dimension); }
  [[nodiscard]] std::size_t relation_size() const {
    if (model == Model::kRescal) return dimension * padded(dimension);
    return padded(model == Model::kRotatE ? dimension / 2 : dimension);
  }
  /// A row is the parameters, then Adagrad's sum of squared gradients for each.
  [[nodiscard]] std::size_t entity_width() const { return 2 * entity_size(); }
  [[nodiscard]] std::size_t relation_width() const { return 2 * relation_size(); }
};

/// Row r is at entities[r], or relations[r].
struct Rows {
  RowPointers entities = nullptr;
  RowPointers relations = nullptr;
};

/// Some triples, and wrong answers to their questions: rows, or ids if there is a row for each id.
struct MiniBatch {
  std::vector<Triple> triples;
  std::size_t negatives_a_side = 0;
  /// For each triple: `negatives_a_side` wrong tails, then as many wrong heads.
  std::vector<std::uint32_t> negatives;
};

struct Step {
  Loss loss = Loss::kSoftmax;
  float learning_rate = 0;
  /// For the triple's own rows, not for the wrong answers.
  float regularization = 0;
  float relation_regularization = 0;
  /// The score of an answer without distance, if there are distances. It matters with kLogistic.
  float margin = 0;
};

/// Memory of train(), kept from one call to the next.
struct Scratch {
  std::vector<float> numbers;
};

/// For one question after the other, tail then head of each triple, makes a step of Adagrad on
///   loss + ⅓ regularization Σ |x|³ over the parameters of the given entity and the right answer
///        + ⅓ relation_regularization Σ |x|³ over those of the relation
/// where the loss is ln(1 + e^−s) of the right answer and ln(1 + e^s) of each wrong one (kLogistic), or
/// −ln(e^s / Σ e^s') (kSoftmax). First the answers are stepped, in their order, then the relation and the
/// given entity. A row that occurs twice is stepped twice. Returns the sum of the losses.
double train(const MiniBatch& batch, Rows rows, const Shape& shape, const Step& step, Scratch& scratch);

enum class Side : std::uint8_t { kTail, kHead };

/// Computes q of a question for the `side`; it has entity_size() numbers. `given` and `relation` are rows.
void ask(const Shape& shape, Side side, const float* given, const float* relation, float* q);

/// How answers [0, count) compare with the right one, whose score is `score`. `answers` are rows of
/// entity_size() numbers. Adds to `better` and `equal`; an answer counts as better if its score or the right
/// one's is not a number.
struct Comparison {
  std::uint64_t better = 0;
  std::uint64_t equal = 0;
};
void compare(const Shape& shape, const float* q, float score, const float* answers, std::size_t count,
             Comparison& result);
/// The score as compare() computes it, to the bit.
float score(const Shape& shape, const float* q, const float* answer);
/// The same for answers [0, count).
void score_all(const Shape& shape, const float* q, const float* answers, std::size_t count, float* scores);

}  // namespace verbena::apps::kge
