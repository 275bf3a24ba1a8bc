#include "apps/word2vec/vectors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/temporary_folder.hpp"

namespace verbena::apps::word2vec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using verbena::testing::contents;

class VectorsTest : public ::testing::Test {
 protected:
  void write(std::string_view text) const { verbena::testing::write_file(path_, text); }
  /// Words w0, w1, … with two numbers each.
  static Vectors plane(const std::vector<std::pair<float, float>>& points) {
    std::vector<std::string> words;
    for (std::size_t id = 0; id < points.size(); ++id) words.push_back("w" + std::to_string(id));
    Vectors vectors(words, 2);
    for (std::size_t id = 0; id < points.size(); ++id) {
      vectors.row(id)[0] = points[id].first;
      vectors.row(id)[1] = points[id].second;
    }
    return vectors;
  }
  static std::vector<std::uint32_t> nearest(const Vectors& vectors, std::uint32_t word, std::size_t count) {
    std::vector<std::uint32_t> ids;
    for (const Neighbour& one : neighbours(vectors, word, count)) ids.push_back(one.word);
    return ids;
  }

  verbena::testing::TemporaryFolder folder_;
  std::string path_ = folder_.path("vectors");
};

TEST_F(VectorsTest, LoadsToTheBitWhatWasSaved) {
  for (const std::size_t dimension : {1U, 16U, 17U}) {
    Vectors vectors({"the", "lord's", "ünï", "42"}, dimension);
    for (std::size_t id = 0; id < 4; ++id) {
      for (std::size_t k = 0; k < dimension; ++k) {
        vectors.row(id)[k] = static_cast<float>(random_number(1, id, k));
      }
    }
    vectors.row(1)[0] = 1e-40F;
    vectors.row(2)[0] = -3.4e38F;
    ASSERT_TRUE(save(path_, vectors).ok());
    EXPECT_LE(contents(path_).size(), file_bytes(4, dimension));
    const absl::StatusOr<Vectors> loaded = load(path_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->words(), vectors.words());
    EXPECT_EQ(loaded->dimension(), dimension);
    EXPECT_EQ(std::memcmp(loaded->row(0), vectors.row(0), 4 * vectors.row_size() * sizeof(float)), 0);
  }
}

TEST_F(VectorsTest, SavesAsOtherProgramsExpect) {
  Vectors vectors({"ark", "dove"}, 3);
  vectors.row(0)[1] = 0.5F;
  vectors.row(1)[2] = -2;
  ASSERT_TRUE(save(path_, vectors).ok());
  EXPECT_EQ(contents(path_), "2 3\nark 0 0.5 0\ndove 0 0 -2\n");
}

TEST_F(VectorsTest, LoadsWhatOtherProgramsWrite) {
  write("2 2\r\nark 0.250000 -1.5e-3 \r\ndove\t1\t0\r\n");  // word2vec writes a blank at the end
  const absl::StatusOr<Vectors> loaded = load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->words(), ElementsAre("ark", "dove"));
  EXPECT_EQ(loaded->row(0)[0], 0.25F);
  EXPECT_EQ(loaded->row(0)[1], -1.5e-3F);
  EXPECT_EQ(loaded->row(1)[0], 1);
}

TEST_F(VectorsTest, ReadsNumbersAsOthersDo) {
  write("3 2\na 1e-50 0.5\nb +0.5 1\nc .5 -1E-400\n");
  const absl::StatusOr<Vectors> loaded = load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->row(0)[0], 0);
  EXPECT_EQ(loaded->row(1)[0], 0.5F);
  EXPECT_EQ(loaded->row(2)[0], 0.5F);
  EXPECT_EQ(loaded->row(2)[1], 0);
}

TEST_F(VectorsTest, WhatDoesNotFitIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ":1: expected the number of words and of numbers each, found \"the end of the file\""},
      {"ark 1 2\n", ":1: expected the number of words and of numbers each, found \"ark 1 2\""},
      {"2\nark 1 2\n", ":1: expected the number of words and of numbers each, found \"2\""},
      {"1 2 3\nark 1 2\n", ":1: expected the number of words and of numbers each, found \"1 2 3\""},
      {"0 2\n", ":1: expected 1 word or more, and 1 to 65535 numbers each, found \"0 2\""},
      {"1 0\nark\n", ":1: expected 1 word or more"},
      {"1 65536\nark\n", ":1: expected 1 word or more"},
      {"-1 2\n", ":1: expected the number of words"},
      {"18446744073709551616 2\n", ":1: expected the number of words"},
      {"18446744073709551615 65535\nark 1\n", ":2: expected 65535 numbers after the word, found \"\""},
      {"3 2\nark 1 2\ndove 3 4\n", ":4: expected 1 more words, as line 1 says, found the end of the file"},
      {"2 2\nark 1 2\nark 3 4\n", ":3: expected a word that has not come before, found \"ark\""},
      {"2 2\nark 1 2\ndove 3\n", ":3: expected 2 numbers after the word, found \"\""},
      {"2 2\nark 1 2\ndove 3 4 5\n", ":3: expected 2 numbers after the word and no more, found \"5\""},
      {"2 2\nark 1 x\ndove 3 4\n", ":2: expected 2 numbers after the word, found \"x\""},
      {"2 2\nark 1 inf\ndove 3 4\n", ":2: expected 2 numbers after the word, found \"inf\""},
      {"2 2\nark 1 2\n\n", ":3: expected a word, found \"\""},
      {"1 2\nark 1 2\ndove 3 4\n", ":3: expected the end of the file after 1 words"},
  };
  for (const auto& [text, expected] : cases) {
    write(text);
    const absl::Status status = load(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    const std::string message(status.message());
    EXPECT_TRUE(message.starts_with(path_ + ":")) << message;
    EXPECT_THAT(message, HasSubstr(expected));
  }
  std::filesystem::remove(path_);
  EXPECT_EQ(load(path_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(VectorsTest, NeighboursHaveTheSmallestAngles) {
  const Vectors vectors = plane({{1, 0}, {-1, 0}, {0, 4}, {128, 1}, {1, 1}, {2, 2}});
  EXPECT_THAT(nearest(vectors, 0, 3), ElementsAre(3, 4, 5))
      << "lengths do not count; equal angles are ordered by id";
  EXPECT_THAT(nearest(vectors, 0, 99), ElementsAre(3, 4, 5, 2, 1));
  EXPECT_THAT(nearest(vectors, 0, 0), IsEmpty());
  const std::vector<Neighbour> one = neighbours(vectors, 4, 1);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].word, 5U);
  EXPECT_NEAR(one[0].cosine, 1, 1e-6);
  EXPECT_NEAR(neighbours(vectors, 0, 2)[1].cosine, std::sqrt(0.5), 1e-6);
}

TEST_F(VectorsTest, VectorsWithoutDirectionHaveNoNeighbours) {
  const Vectors vectors = plane({{1, 0}, {0, 0}, {0, 1}, {3e38F, 3e38F}});
  EXPECT_THAT(nearest(vectors, 0, 9), ElementsAre(2));
  EXPECT_THAT(nearest(vectors, 1, 9), IsEmpty());
}

}  // namespace
}  // namespace verbena::apps::word2vec
