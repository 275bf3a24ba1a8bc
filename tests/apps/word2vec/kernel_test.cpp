#include "apps/word2vec/kernel.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace verbena::apps::word2vec {
namespace {

constexpr std::size_t kWords = 30;
constexpr float kLearningRate = 0.05F;

/// The instruction sets that this processor has. For some of them there may be no code; that does no harm.
std::vector<std::int64_t> supported_targets() {
  std::vector<std::int64_t> result;
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1)
    result.push_back(left & -left);
  return result;
}

/// Random vectors; the padding is 0.
struct Memory {
  explicit Memory(std::size_t its_dimension)
      : dimension(its_dimension),
        size(padded(dimension)),
        inputs(aligned_floats(kWords * size)),
        outputs(aligned_floats(kWords * size)) {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<float> number(-1, 1);
    for (std::size_t id = 0; id < kWords; ++id) {
      for (std::size_t k = 0; k < dimension; ++k) {
        inputs[id * size + k] = number(random);
        outputs[id * size + k] = number(random);
      }
    }
  }
  double train(const MiniBatch& batch) const {
    Scratch scratch;
    return word2vec::train(
        batch,
        {row_pointers(inputs.get(), kWords, size).data(), row_pointers(outputs.get(), kWords, size).data()},
        size, kLearningRate, scratch);
  }
  /// Inputs, then outputs.
  [[nodiscard]] std::vector<float> all() const {
    std::vector<float> numbers(inputs.get(), inputs.get() + kWords * size);
    numbers.insert(numbers.end(), outputs.get(), outputs.get() + kWords * size);
    return numbers;
  }

  std::size_t dimension;
  std::size_t size;
  hwy::AlignedFreeUniquePtr<float[]> inputs;
  hwy::AlignedFreeUniquePtr<float[]> outputs;
};

/// A reference in double precision. It knows only the loss, and computes gradients numerically.
class Reference {
 public:
  explicit Reference(const Memory& memory) : size_(memory.size) {
    for (const float number : memory.all()) numbers_.push_back(double{number});
  }
  double train(const MiniBatch& batch) {
    double loss = 0;
    std::uint32_t first_negative = 0;
    for (const Window& window : batch.windows) {
      const auto negatives =
          std::span(batch.negatives).subspan(first_negative, window.negatives_end - first_negative);
      first_negative = window.negatives_end;
      loss += loss_of(batch, window, negatives);
      std::vector<double> gradient(numbers_.size());
      for (std::size_t i = 0; i < numbers_.size(); ++i) {
        constexpr double kDistance = 1e-5;
        const double x = numbers_[i];
        numbers_[i] = x + kDistance;
        const double above = loss_of(batch, window, negatives);
        numbers_[i] = x - kDistance;
        gradient[i] = (above - loss_of(batch, window, negatives)) / (2 * kDistance);
        numbers_[i] = x;
      }
      for (std::size_t i = 0; i < numbers_.size(); ++i) numbers_[i] -= double{kLearningRate} * gradient[i];
    }
    return loss;
  }
  [[nodiscard]] const std::vector<double>& numbers() const { return numbers_; }

 private:
  [[nodiscard]] double score_of(std::uint32_t input, std::uint32_t output) const {
    double sum = 0;
    for (std::size_t k = 0; k < size_; ++k) {
      sum += numbers_[input * size_ + k] * numbers_[(kWords + output) * size_ + k];
    }
    return sum;
  }
  [[nodiscard]] double loss_of(const MiniBatch& batch, const Window& window,
                               std::span<const std::uint32_t> negatives) const {
    double loss = 0;
    for (std::uint32_t place = window.first; place < window.last; ++place) {
      if (place == window.middle) continue;
      const std::uint32_t input = batch.inputs[place];
      loss += std::log1p(std::exp(-score_of(input, batch.outputs[window.middle])));
      for (const std::uint32_t wrong : negatives) loss += std::log1p(std::exp(score_of(input, wrong)));
    }
    return loss;
  }

  std::size_t size_;
  std::vector<double> numbers_;
};

/// A text in which words come again. Its windows differ in size and in the number of negatives, some of which
/// come twice.
MiniBatch some_windows() {
  return {.inputs = {3, 4, 5, 4, 6, 3, 3, 9},
          .outputs = {3, 4, 5, 4, 6, 3, 3, 9},
          .windows = {{0, 2, 0, 2}, {0, 8, 3, 2}, {1, 5, 4, 7}, {4, 8, 5, 21}},
          .negatives = {1, 2, 7, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 11, 22, 1}};
}

class Word2VecKernelTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  ~Word2VecKernelTest() override { hwy::SetSupportedTargetsForTest(0); }
  static void use(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
  }
};

TEST_P(Word2VecKernelTest, FollowsTheReferenceWithEveryInstructionSet) {
  Reference reference{Memory(GetParam())};
  const double loss = reference.train(some_windows());
  for (const std::int64_t target : supported_targets()) {
    use(target);
    const Memory memory(GetParam());
    EXPECT_NEAR(memory.train(some_windows()), loss, 1e-5 * loss);
    const std::vector<float> numbers = memory.all();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_NEAR(double{numbers[i]}, reference.numbers()[i], 1e-5) << i;
    }
  }
}

TEST_P(Word2VecKernelTest, GivesTheSameBitsWithEveryInstructionSet) {
  MiniBatch many;
  std::mt19937_64 random(3);
  for (std::uint32_t place = 0; place < 300; ++place) {
    many.inputs.push_back(static_cast<std::uint32_t>(random() % kWords));
    many.outputs.push_back(many.inputs.back());
    for (std::uint64_t n = random() % 15; n > 0; --n) {
      many.negatives.push_back(static_cast<std::uint32_t>(random() % kWords));
    }
    const auto reach = static_cast<std::uint32_t>(1 + random() % 20);
    many.windows.push_back({.first = place - std::min(reach, place),
                            .last = std::min(place + reach + 1, 300U),
                            .middle = place,
                            .negatives_end = static_cast<std::uint32_t>(many.negatives.size())});
  }
  std::vector<float> first;
  double loss = 0;
  for (const std::int64_t target : supported_targets()) {
    use(target);
    const Memory memory(GetParam());
    const double its_loss = memory.train(many);
    const std::vector<float> numbers = memory.all();
    if (first.empty()) {
      first = numbers;
      loss = its_loss;
    }
    EXPECT_EQ(numbers, first) << hwy::TargetName(target);
    EXPECT_EQ(its_loss, loss) << hwy::TargetName(target);
  }
}

TEST_P(Word2VecKernelTest, KeepsPaddingZero) {
  const Memory memory(GetParam());
  memory.train(some_windows());
  for (std::size_t id = 0; id < kWords; ++id) {
    for (std::size_t k = memory.dimension; k < memory.size; ++k) {
      ASSERT_EQ(memory.inputs[id * memory.size + k], 0.0F);
      ASSERT_EQ(memory.outputs[id * memory.size + k], 0.0F);
    }
  }
}

TEST_P(Word2VecKernelTest, LossIsExactHoweverSureTheScore) {
  for (const std::int64_t target : supported_targets()) {
    use(target);
    for (const float length : {1e-3F, 1.0F, 3.0F, 8.0F, 12.0F, 1e3F}) {
      const double score_of_both = double{length} * double{length};
      const double small = std::log1p(std::exp(-score_of_both));
      const Memory memory(GetParam());
      std::fill_n(memory.inputs.get(), memory.size, 0.0F);
      std::fill_n(memory.outputs.get(), 2 * memory.size, 0.0F);
      memory.inputs[0] = length;
      memory.outputs[0] = length;
      const Window window{.first = 0, .last = 2, .middle = 1};
      EXPECT_NEAR(memory.train({.inputs = {0, 0}, .outputs = {0, 0}, .windows = {window}, .negatives = {}}),
                  small, 1e-6 * small + 1e-7)
          << length;
      memory.inputs[0] = length;
      memory.outputs[0] = length;
      const Window with_wrong{.first = 0, .last = 2, .middle = 1, .negatives_end = 1};
      EXPECT_NEAR(
          memory.train({.inputs = {0, 0}, .outputs = {1, 1}, .windows = {with_wrong}, .negatives = {0}}),
          std::log(2) + score_of_both + small, 1e-6 * (1 + score_of_both))
          << length;
    }
  }
}

TEST_P(Word2VecKernelTest, LossTellsWhatIsNoNumber) {
  for (const std::int64_t target : supported_targets()) {
    use(target);
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      const Memory memory(GetParam());
      memory.inputs[4 * memory.size] = bad;
      EXPECT_FALSE(std::isfinite(memory.train(some_windows()))) << bad << hwy::TargetName(target);
    }
  }
}

TEST_P(Word2VecKernelTest, ScoresAreProducts) {
  for (const std::int64_t target : supported_targets()) {
    use(target);
    const Memory memory(GetParam());
    std::vector<float> scores(kWords);
    score({memory.inputs.get(), memory.size}, memory.outputs.get(), scores);
    for (std::size_t id = 0; id < kWords; ++id) {
      double sum = 0;
      for (std::size_t k = 0; k < memory.size; ++k) {
        sum += double{memory.inputs[k]} * double{memory.outputs[id * memory.size + k]};
      }
      EXPECT_NEAR(double{scores[id]}, sum, 1e-4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dimensions, Word2VecKernelTest, ::testing::Values(1, 16, 17, 50),
                         ::testing::PrintToStringParamName());

TEST(Word2VecKernelLimitsTest, NothingIsTrainedWithoutWindows) {
  const Memory memory(5);
  EXPECT_EQ(memory.train({.inputs = {1, 2}, .outputs = {1, 2}, .windows = {}, .negatives = {}}), 0);
  EXPECT_EQ(memory.all(), Memory(5).all());
}

}  // namespace
}  // namespace verbena::apps::word2vec
