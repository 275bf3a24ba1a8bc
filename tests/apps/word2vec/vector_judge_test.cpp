#include "apps/word2vec/vector_judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "apps/word2vec/word2vec.hpp"
#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::word2vec {
namespace {

using ::testing::HasSubstr;

/// Each document has words of one of two groups, "a0" to "a5" and "b0" to "b5".
class VectorJudgeTest : public JobTest {
 protected:
  VectorJudgeTest() {
    std::ofstream text(path("text"));
    std::mt19937_64 random(1);
    for (int document = 0; document < kDocuments; ++document) {
      for (int n = 0; n < 300; ++n)  // of so frequent words few are kept
        text << static_cast<char>('a' + document % 2) << random() % kWordsOfGroup << ' ';
      text << '\n';
    }
  }
  /// A file with a vector of two numbers for each word, by its group.
  std::string vectors(const char* name, const char* of_a, const char* of_b) {
    std::string lines = std::to_string(2 * kWordsOfGroup) + " 2\n";
    for (const auto& [group, numbers] : {std::pair("a", of_a), {"b", of_b}}) {
      for (unsigned n = 0; n < kWordsOfGroup; ++n) lines += group + std::to_string(n) + " " + numbers + "\n";
    }
    verbena::testing::write_file(path(name), lines);
    return path(name);
  }

  static constexpr int kDocuments = 120;
  static constexpr unsigned kWordsOfGroup = 6;
};

/// Vectors that know nothing rank by frequency: by the same one, and of the same words, as word2vec's own.
TEST_F(VectorJudgeTest, HasTheTestThatWord2vecHas) {
  const auto application =
      with_options(make_word2vec(), {"--data", path("text"), "--seed", "5", "--iterations", "1",
                                     "--learning-rate", "1e-12", "--top-words", "0"});
  const double untrained = train_alone(*application).at("held_out_mrr");
  const auto judge = VectorJudge::read(path("text"), 5);
  ASSERT_TRUE(judge.ok()) << judge.status();
  EXPECT_EQ(*judge->held_out_mrr(vectors("in", "0 0", "0 0"), vectors("out", "0 0", "0 0")), untrained);
  const auto other = VectorJudge::read(path("text"), 6);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(*other->held_out_mrr(path("in"), path("out")), untrained) << "others are held out";
  EXPECT_LT(judge->train().begin.size(), kDocuments + 1U);
  EXPECT_EQ(judge->words().size(), 2 * kWordsOfGroup);
}

TEST_F(VectorJudgeTest, BetterVectorsRankBetter) {
  const auto judge = VectorJudge::read(path("text"), 1);
  ASSERT_TRUE(judge.ok());
  const std::string own = vectors("own", "1 0", "0 1");
  const std::string opposite = vectors("opposite", "0 1", "1 0");
  const double right = *judge->held_out_mrr(own, own);
  EXPECT_GT(right, 0.3) << "of six words";
  EXPECT_LT(*judge->held_out_mrr(own, opposite), 0.2) << "all six others come first";
  // Words that a file lacks have 0.
  verbena::testing::write_file(path("few"), "1 2\na0 1 0\n");
  EXPECT_LT(*judge->held_out_mrr(own, path("few")), right);
}

TEST_F(VectorJudgeTest, SaysWhatItCannotJudge) {
  const auto judge = VectorJudge::read(path("text"), 1);
  ASSERT_TRUE(judge.ok());
  const std::string own = vectors("own", "1 0", "0 1");
  verbena::testing::write_file(path("long"), "1 3\na0 1 0 0\n");
  EXPECT_THAT(std::string(judge->held_out_mrr(own, path("long")).status().message()),
              HasSubstr("long:1: expected vectors of 2 numbers"));
  EXPECT_TRUE(absl::IsNotFound(judge->held_out_mrr(path("none"), own).status()));
  EXPECT_TRUE(absl::IsNotFound(judge->held_out_mrr(own, path("none")).status()));
  EXPECT_TRUE(absl::IsNotFound(VectorJudge::read(path("none"), 1).status()));
  verbena::testing::write_file(path("one"), "a a a a a a a a\n");
  EXPECT_THAT(std::string(VectorJudge::read(path("one"), 1).status().message()),
              HasSubstr("expected documents to train, and documents with gaps"));
}

}  // namespace
}  // namespace verbena::apps::word2vec
