#include "apps/kge/kernel.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>
#include <random>
#include <vector>

#include "apps/kge/model.hpp"

namespace verbena::apps::kge {
namespace {

constexpr std::size_t kEntities = 12;
constexpr std::size_t kRelations = 3;

/// The instruction sets that this processor has. For some of them there may be no code; that does no harm.
std::vector<std::int64_t> supported_targets() {
  std::vector<std::int64_t> result;
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1)
    result.push_back(left & -left);
  return result;
}

/// Rows with random parameters and sums. The padding is 0.
struct Memory {
  explicit Memory(const Shape& its_shape)
      : shape(its_shape),
        entities(aligned_floats(kEntities * shape.entity_width())),
        relations(aligned_floats(kRelations * shape.relation_width())),
        entity_rows(row_pointers(entities.get(), kEntities, shape.entity_width())),
        relation_rows(row_pointers(relations.get(), kRelations, shape.relation_width())) {
    std::mt19937_64 random(1);
    for (std::size_t id = 0; id < kEntities; ++id) fill(entity(id), 1, shape.entity_size(), random);
    const std::size_t lines = shape.model == Model::kRescal ? shape.dimension : 1;
    const std::size_t numbers = shape.model == Model::kRotatE ? shape.dimension / 2 : shape.dimension;
    for (std::size_t id = 0; id < kRelations; ++id)
      fill(relation(id), lines, shape.relation_size(), random, numbers);
  }
  void fill(float* row, std::size_t lines, std::size_t size, std::mt19937_64& random,
            std::optional<std::size_t> numbers = {}) const {
    std::uniform_real_distribution<float> parameter(-1, 1);
    std::uniform_real_distribution<float> sum(0.5F, 1);
    for (std::size_t line = 0; line < lines; ++line) {
      for (std::size_t k = 0; k < numbers.value_or(shape.dimension); ++k) {
        row[line * shape.entity_size() + k] = parameter(random);
        row[size + line * shape.entity_size() + k] = sum(random);
      }
    }
  }
  [[nodiscard]] float* entity(std::size_t id) const { return entities.get() + id * shape.entity_width(); }
  [[nodiscard]] float* relation(std::size_t id) const {
    return relations.get() + id * shape.relation_width();
  }
  [[nodiscard]] Rows rows() const { return {entity_rows.data(), relation_rows.data()}; }
  [[nodiscard]] std::vector<float> all() const {
    std::vector<float> numbers(entities.get(), entities.get() + kEntities * shape.entity_width());
    numbers.insert(numbers.end(), relations.get(), relations.get() + kRelations * shape.relation_width());
    return numbers;
  }

  Shape shape;
  hwy::AlignedFreeUniquePtr<float[]> entities;
  hwy::AlignedFreeUniquePtr<float[]> relations;
  std::vector<float*> entity_rows;
  std::vector<float*> relation_rows;
};

/// A reference in double precision. It knows only the formulas of the scores and losses, and computes
/// gradients numerically.
class Reference {
 public:
  explicit Reference(const Memory& memory) : shape_(memory.shape), numbers_(widen(memory.all())) {}

  double train(const MiniBatch& batch, const Step& step) {
    double loss = 0;
    const std::uint32_t* wrong = batch.negatives.data();
    for (const Triple& triple : batch.triples) {
      for (const Side side : {Side::kTail, Side::kHead}) {
        loss += train(side, triple, {wrong, batch.negatives_a_side}, step);
        wrong += batch.negatives_a_side;
      }
    }
    return loss;
  }
  [[nodiscard]] double score(const Triple& triple) const {
    const double* h = entity(triple.head);
    const double* r = &numbers_[relation_offset(triple.relation)];
    const double* t = entity(triple.tail);
    double sum = 0;
    for (std::size_t i = 0; i < shape_.dimension; ++i) {
      if (shape_.model == Model::kTransE) sum -= std::fabs(h[i] + r[i] - t[i]);
      if (shape_.model == Model::kRotatE && i % 2 == 0) {
        using Complex = std::complex<double>;
        sum -= std::abs(Complex(h[i], h[i + 1]) * std::polar(1.0, r[i / 2]) - Complex(t[i], t[i + 1]));
      }
      if (shape_.model == Model::kDistMult) sum += h[i] * r[i] * t[i];
      if (shape_.model == Model::kComplEx && i % 2 == 0) {
        using Complex = std::complex<double>;
        sum +=
            (Complex(h[i], h[i + 1]) * Complex(r[i], r[i + 1]) * std::conj(Complex(t[i], t[i + 1]))).real();
      }
      for (std::size_t j = 0; shape_.model == Model::kRescal && j < shape_.dimension; ++j) {
        sum += h[i] * r[i * shape_.entity_size() + j] * t[j];
      }
    }
    return sum;
  }
  [[nodiscard]] const std::vector<double>& numbers() const { return numbers_; }

 private:
  static std::vector<double> widen(const std::vector<float>& numbers) {
    return {numbers.begin(), numbers.end()};
  }
  [[nodiscard]] const double* entity(std::size_t id) const { return &numbers_[id * shape_.entity_width()]; }
  [[nodiscard]] std::size_t relation_offset(std::size_t id) const {
    return kEntities * shape_.entity_width() + id * shape_.relation_width();
  }
  [[nodiscard]] double loss_of(Side side, const Triple& triple, std::span<const std::uint32_t> wrong,
                               const Step& step) const {
    const Loss loss = step.loss;
    const double margin = has_distance(shape_.model) ? double{step.margin} : 0;
    const double right = score(triple) + margin;
    double sum = loss == Loss::kLogistic ? std::log1p(std::exp(-right)) : std::exp(right);
    for (const std::uint32_t answer : wrong) {
      Triple other = triple;
      (side == Side::kTail ? other.tail : other.head) = answer;
      const double wrong_score = score(other) + margin;
      sum += loss == Loss::kLogistic ? std::log1p(std::exp(wrong_score)) : std::exp(wrong_score);
    }
    return loss == Loss::kLogistic ? sum : std::log(sum) - right;
  }
  double train(Side side, const Triple& triple, std::span<const std::uint32_t> wrong, const Step& step) {
    const double before = loss_of(side, triple, wrong, step);
    std::vector<double> gradient(numbers_.size());
    constexpr double kDistance = 1e-5;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const double x = numbers_[i];
      numbers_[i] = x + kDistance;
      const double above = loss_of(side, triple, wrong, step);
      numbers_[i] = x - kDistance;
      gradient[i] = (above - loss_of(side, triple, wrong, step)) / (2 * kDistance);
      numbers_[i] = x;
    }
    const auto apply = [&](std::size_t first, std::size_t size, double regularization) {
      for (std::size_t i = first; i < first + size; ++i) {
        double& x = numbers_[i];
        const double g = gradient[i] + regularization * std::fabs(x) * x;
        numbers_[i + size] += g * g;
        if (g != 0) x -= double{step.learning_rate} * g / std::sqrt(numbers_[i + size]);
      }
    };
    for (std::uint32_t id = 0; id < kEntities; ++id) {
      const bool own = id == triple.head || id == triple.tail;
      apply(id * shape_.entity_width(), shape_.entity_size(), own ? double{step.regularization} : 0);
    }
    apply(relation_offset(triple.relation), shape_.relation_size(), double{step.relation_regularization});
    return before;
  }

  Shape shape_;
  std::vector<double> numbers_;
};

struct Case {
  Model model;
  std::size_t dimension;
  Loss loss;
};

class KgeKernelTest : public ::testing::TestWithParam<Case> {
 protected:
  ~KgeKernelTest() override { hwy::SetSupportedTargetsForTest(0); }
  static void use(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
  }
  [[nodiscard]] static Shape shape() {
    return {.model = GetParam().model, .dimension = GetParam().dimension};
  }
  [[nodiscard]] static Step step() {
    return {.loss = GetParam().loss,
            .learning_rate = 0.05F,
            .regularization = 0.1F,
            .relation_regularization = 0.03F,
            .margin = 2.5F};
  }
  /// All entities of a question are different.
  [[nodiscard]] static MiniBatch batch() {
    return {.triples = {{0, 1, 2}, {3, 0, 0}, {4, 1, 5}},
            .negatives_a_side = 3,
            .negatives = {3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2, 4, 0, 1, 2, 3, 6, 7}};
  }
};

TEST_P(KgeKernelTest, FollowsTheReferenceWithEveryInstructionSet) {
  Reference reference{Memory(shape())};
  const double loss = reference.train(batch(), step());
  for (const std::int64_t target : supported_targets()) {
    use(target);
    const Memory memory(shape());
    Scratch scratch;
    EXPECT_NEAR(train(batch(), memory.rows(), shape(), step(), scratch), loss, 1e-4);
    const std::vector<float> numbers = memory.all();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_NEAR(double{numbers[i]}, reference.numbers()[i], 2e-5 * (1 + std::fabs(reference.numbers()[i])))
          << i;
    }
  }
}

TEST_P(KgeKernelTest, GivesTheSameBitsWithEveryInstructionSet) {
  MiniBatch many{.triples = {}, .negatives_a_side = 4, .negatives = {}};
  std::mt19937_64 random(3);
  for (int n = 0; n < 200; ++n) {  // some triples have one entity twice, and some rows come twice
    many.triples.push_back({static_cast<std::uint32_t>(random() % kEntities),
                            static_cast<std::uint32_t>(random() % kRelations),
                            static_cast<std::uint32_t>(random() % kEntities)});
    for (int k = 0; k < 8; ++k) many.negatives.push_back(static_cast<std::uint32_t>(random() % kEntities));
  }
  std::vector<float> first;
  for (const std::int64_t target : supported_targets()) {
    use(target);
    const Memory memory(shape());
    Scratch scratch;
    train(many, memory.rows(), shape(), step(), scratch);
    const std::vector<float> numbers = memory.all();
    if (first.empty()) first = numbers;
    EXPECT_EQ(numbers, first) << hwy::TargetName(target);
  }
}

TEST_P(KgeKernelTest, ScoresAreThoseOfTheFormula) {
  const Memory memory(shape());
  const Reference reference(memory);
  const Triple triple{1, 2, 5};
  const auto q = aligned_floats(shape().entity_size());
  for (const std::int64_t target : supported_targets()) {
    use(target);
    ask(shape(), Side::kTail, memory.entity(triple.head), memory.relation(triple.relation), q.get());
    EXPECT_NEAR(double{score(shape(), q.get(), memory.entity(triple.tail))}, reference.score(triple), 1e-4);
    ask(shape(), Side::kHead, memory.entity(triple.tail), memory.relation(triple.relation), q.get());
    EXPECT_NEAR(double{score(shape(), q.get(), memory.entity(triple.head))}, reference.score(triple), 1e-4);
  }
}

TEST_P(KgeKernelTest, ScoresAllAsOne) {
  const Memory memory(shape());
  Embeddings answers(shape(), kEntities, 1);
  for (std::size_t id = 0; id < kEntities; ++id)
    std::copy_n(memory.entity(id), shape().entity_size(), answers.entity(id));
  const auto q = aligned_floats(shape().entity_size());
  ask(shape(), Side::kHead, memory.entity(0), memory.relation(0), q.get());
  std::vector<float> scores(kEntities);
  score_all(shape(), q.get(), answers.entity(0), kEntities, scores.data());
  for (std::size_t id = 0; id < kEntities; ++id)
    EXPECT_EQ(scores[id], score(shape(), q.get(), answers.entity(id)));
}

TEST_P(KgeKernelTest, ComparesAsItScores) {
  const Memory memory(shape());
  Embeddings answers(shape(), kEntities, 1);
  for (std::size_t id = 0; id < kEntities; ++id) {
    std::copy_n(memory.entity(id == 7 ? 3 : id), shape().entity_size(), answers.entity(id));
  }
  const auto q = aligned_floats(shape().entity_size());
  ask(shape(), Side::kTail, memory.entity(0), memory.relation(0), q.get());
  std::vector<float> scores;
  for (std::size_t id = 0; id < kEntities; ++id)
    scores.push_back(score(shape(), q.get(), answers.entity(id)));
  Comparison result;
  compare(shape(), q.get(), scores[3], answers.entity(0), kEntities, result);
  EXPECT_EQ(result.better, static_cast<std::uint64_t>(std::count_if(
                               scores.begin(), scores.end(), [&](float one) { return one > scores[3]; })));
  EXPECT_EQ(result.equal, 2U);
  // What is not a number does not rank first.
  Comparison nothing;
  compare(shape(), q.get(), std::nanf(""), answers.entity(0), kEntities, nothing);
  EXPECT_EQ(nothing.better, kEntities);
}

TEST_P(KgeKernelTest, KeepsPaddingZero) {
  const Memory memory(shape());
  Scratch scratch;
  train(batch(), memory.rows(), shape(), step(), scratch);
  for (std::size_t id = 0; id < kEntities; ++id) {
    for (std::size_t k = shape().dimension; k < shape().entity_size(); ++k) {
      ASSERT_EQ(memory.entity(id)[k], 0.0F);
      ASSERT_EQ(memory.entity(id)[shape().entity_size() + k], 0.0F);
    }
  }
  for (std::size_t id = 0; shape().model == Model::kRotatE && id < kRelations; ++id) {
    for (std::size_t k = shape().dimension / 2; k < shape().relation_size(); ++k)
      ASSERT_EQ(memory.relation(id)[k], 0.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, KgeKernelTest,
    ::testing::Values(Case{Model::kComplEx, 2, Loss::kSoftmax}, Case{Model::kComplEx, 16, Loss::kLogistic},
                      Case{Model::kComplEx, 18, Loss::kSoftmax}, Case{Model::kComplEx, 50, Loss::kLogistic},
                      Case{Model::kDistMult, 1, Loss::kLogistic}, Case{Model::kDistMult, 17, Loss::kSoftmax},
                      Case{Model::kDistMult, 32, Loss::kLogistic}, Case{Model::kRescal, 1, Loss::kSoftmax},
                      Case{Model::kRescal, 5, Loss::kLogistic}, Case{Model::kRescal, 18, Loss::kSoftmax},
                      Case{Model::kTransE, 1, Loss::kLogistic}, Case{Model::kTransE, 17, Loss::kSoftmax},
                      Case{Model::kTransE, 32, Loss::kLogistic}, Case{Model::kRotatE, 2, Loss::kSoftmax},
                      Case{Model::kRotatE, 18, Loss::kLogistic}, Case{Model::kRotatE, 50, Loss::kSoftmax}),
    [](const auto& test) {
      return fmt::format("{}{}{}", to_string(test.param.model), test.param.dimension,
                         test.param.loss == Loss::kSoftmax ? "softmax" : "logistic");
    });

TEST(KgeKernelRepeatsTest, ARowThatComesTwiceIsSteppedTwice) {
  const Shape shape{.model = Model::kDistMult, .dimension = 3};
  const Step step{.loss = Loss::kLogistic, .learning_rate = 0.01F, .regularization = 0};
  const auto sums_after = [&](std::vector<std::uint32_t> negatives) {
    const Memory memory(shape);
    float* const sums = memory.entity(5) + shape.entity_size();
    std::fill(sums, sums + shape.entity_size(), 0.0F);
    const MiniBatch batch{
        .triples = {{0, 0, 1}}, .negatives_a_side = negatives.size() / 2, .negatives = std::move(negatives)};
    Scratch scratch;
    train(batch, memory.rows(), shape, step, scratch);
    return std::vector<float>(sums, sums + shape.dimension);
  };
  const std::vector<float> once = sums_after({5, 6, 7, 8});
  const std::vector<float> twice = sums_after({5, 5, 7, 8});
  for (std::size_t k = 0; k < shape.dimension; ++k) EXPECT_FLOAT_EQ(twice[k], 2 * once[k]);
}

}  // namespace
}  // namespace verbena::apps::kge
