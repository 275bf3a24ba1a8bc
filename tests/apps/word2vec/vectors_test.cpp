#include "apps/word2vec/vectors.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/temporary_folder.hpp"

namespace verbena::apps::word2vec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using verbena::testing::contents;
using namespace std::string_literals;

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

  /// Loads what was written, and checks how it was read.
  [[nodiscard]] Vectors loaded(VectorFormat format, std::uint64_t ignored_words = 0,
                               const std::string& first_ignored = "") const {
    VectorsFile file;
    absl::StatusOr<Vectors> vectors = load(path_, &file);
    EXPECT_TRUE(vectors.ok()) << vectors.status();
    EXPECT_EQ(to_string(file.format), to_string(format));
    EXPECT_EQ(file.ignored_words, ignored_words);
    EXPECT_EQ(file.first_ignored, first_ignored);
    return *std::move(vectors);
  }
  static void expect_equal(const Vectors& a, const Vectors& b) {
    ASSERT_EQ(a.words(), b.words());
    ASSERT_EQ(a.dimension(), b.dimension());
    EXPECT_EQ(std::memcmp(a.row(0), b.row(0), a.words().size() * a.row_size() * sizeof(float)), 0);
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
    EXPECT_LE(contents(path_).size(), files_bytes(4, dimension, VectorFormat::kText));
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

TEST_F(VectorsTest, BinaryFilesAreThoseOfWord2vec) {
  Vectors vectors({"ark", "ünï"}, 2);
  vectors.row(0)[0] = 1;
  vectors.row(0)[1] = -2.5F;
  vectors.row(1)[1] = 1e-40F;
  ASSERT_TRUE(save(path_, vectors, VectorFormat::kBinary).ok());
  // As text, how many words and numbers; then a word, a blank, floats of four bytes, the lowest first, a
  // newline.
  const std::string expected = "2 2\nark \0\0\x80\x3f\0\0\x20\xc0\nünï \0\0\0\0\xc2\x16\x01\0\n"s;
  EXPECT_EQ(contents(path_), expected);
  expect_equal(loaded(VectorFormat::kBinary), vectors);
  // gensim writes no newline behind the numbers. A newline among the numbers' bytes is none.
  write("2 2\nark \0\0\x80\x3f\0\0\x20\xc0ünï \0\0\0\0\xc2\x16\x01\0"s);
  expect_equal(loaded(VectorFormat::kBinary), vectors);
  write("3 1\nark \n\n\n\x3f\ndove \n \n\x3f\nolive \0\0\0\0\n"s);
  const Vectors newlines = loaded(VectorFormat::kBinary);
  EXPECT_THAT(newlines.words(), ElementsAre("ark", "dove", "olive"));
  float number = 0;
  std::memcpy(&number, "\n \n\x3f", sizeof number);
  EXPECT_EQ(newlines.row(1)[0], number);
}

TEST_F(VectorsTest, LargeBinaryFilesAreReadToTheBit) {
  std::vector<std::string> words;
  words.reserve(3000);
  for (int id = 0; id < 3000; ++id) words.push_back(fmt::format("word{}", id));
  Vectors vectors(words, 100);
  for (std::size_t id = 0; id < words.size(); ++id) {
    for (std::size_t k = 0; k < 100; ++k) vectors.row(id)[k] = static_cast<float>(random_number(1, id, k));
  }
  for (const VectorFormat format : {VectorFormat::kBinary, VectorFormat::kText, VectorFormat::kGlove}) {
    ASSERT_TRUE(save(path_, vectors, format).ok());
    expect_equal(loaded(format), vectors);
  }
}

TEST_F(VectorsTest, GloveHasNoFirstLine) {
  Vectors vectors({"the", "ark"}, 3);
  vectors.row(0)[1] = 0.5F;
  vectors.row(1)[2] = -2;
  ASSERT_TRUE(save(path_, vectors, VectorFormat::kGlove).ok());
  EXPECT_EQ(contents(path_), "the 0 0.5 0\nark 0 0 -2\n");
  expect_equal(loaded(VectorFormat::kGlove), vectors);
  write("7 1 2\n8 3 4");  // words may be numbers
  EXPECT_THAT(loaded(VectorFormat::kGlove).words(), ElementsAre("7", "8"));
}

TEST_F(VectorsTest, WordsThatHaveComeBeforeOrHaveBlanksAreLeftOut) {
  write("ark 1 2\n. . . 3 4\ndove 5 6\nark 7 8\nat name 9 10\n");
  Vectors vectors = loaded(VectorFormat::kGlove, 3, "line 2");
  EXPECT_THAT(vectors.words(), ElementsAre("ark", "dove"));
  EXPECT_EQ(vectors.row(0)[1], 2) << "the first one counts";
  EXPECT_EQ(vectors.row(1)[0], 5);
  write("3 2\nark 1 2\nark 3 4\ndove 5 6\n");
  vectors = loaded(VectorFormat::kText, 1, "line 3");
  EXPECT_THAT(vectors.words(), ElementsAre("ark", "dove"));
  EXPECT_EQ(vectors.row(1)[1], 6);
  write("ark 1 2\nof 2 halves 3 4\n");
  EXPECT_THAT(loaded(VectorFormat::kGlove, 1, "line 2").words(), ElementsAre("ark"))
      << "a word with blanks may have a number in it";
  write("3 1\nark \0\0\x80\x3f\nark \0\0\0\0\na\tb \0\0\0\0\n"s);
  vectors = loaded(VectorFormat::kBinary, 2, "word 2");
  EXPECT_THAT(vectors.words(), ElementsAre("ark"));
  EXPECT_EQ(vectors.row(0)[0], 1);
}

TEST_F(VectorsTest, ArraysAreThoseOfNumPyAndSafetensors) {
  const Vectors vectors = plane({{1, -2.5F}, {0, 1e-40F}});
  const std::string numbers = "\0\0\x80\x3f\0\0\x20\xc0\0\0\0\0\xc2\x16\x01\0"s;
  ASSERT_TRUE(save(folder_.path("v.npy"), vectors, VectorFormat::kNpy).ok());
  std::string header =
      "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"s;
  header.resize(127, ' ');
  EXPECT_EQ(contents(folder_.path("v.npy")), header + "\n" + numbers);
  EXPECT_EQ(contents(folder_.path("v.words.txt")), "w0\nw1\n");
  ASSERT_TRUE(save(folder_.path("s.safetensors"), vectors, VectorFormat::kSafetensors).ok());
  std::string json = R"({"vectors":{"data_offsets":[0,16],"dtype":"F32","shape":[2,2]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(contents(folder_.path("s.safetensors")),
            std::string{static_cast<char>(json.size())} + "\0\0\0\0\0\0\0"s + json + numbers);
  EXPECT_EQ(contents(folder_.path("s.words.txt")), "w0\nw1\n");
}

TEST_F(VectorsTest, TheShapeOfRowsTellsTextFromBytes) {
  // Bytes of numbers that could all be letters.
  write("2 2\nark abcdefgh\ndove ijklmnop\n");
  EXPECT_THAT(loaded(VectorFormat::kBinary).words(), ElementsAre("ark", "dove"));
  write("2 1\nark a bcdove efgh");
  EXPECT_THAT(loaded(VectorFormat::kBinary).words(), ElementsAre("ark", "dove"));
  // A byte that is in no text makes no binary file.
  write("2 2\nark 1 2\ndo\x01ve 3 4\n");
  EXPECT_THAT(loaded(VectorFormat::kText).words(), ElementsAre("ark", "do\x01ve"));
  write("2 2\nark 1 2\x01\ndove 3 4\n");
  EXPECT_THAT(std::string(load(path_).status().message()),
              HasSubstr(path_ + ":2: expected 2 numbers after the word, found"));
  // A row that is longer than what is looked at, of one field.
  std::string zeros = "1 65535\nark ";
  zeros.resize(zeros.size() + 65'535 * sizeof(float));
  write(zeros);
  EXPECT_EQ(loaded(VectorFormat::kBinary).dimension(), 65'535U);
  std::string text = "1 65535\nark";
  for (int k = 0; k < 65'535; ++k) text += " -0.12345678901234567";
  write(text);
  EXPECT_EQ(loaded(VectorFormat::kText).row(0)[65'534], -0.12345678901234567F);
  write("1 1\nark 1.25");  // as long as a row of bytes
  EXPECT_EQ(loaded(VectorFormat::kText).row(0)[0], 1.25F);
}

TEST_F(VectorsTest, SaysWhichWordOfDamagedGzipCannotBeRead) {
  std::vector<std::string> words;
  words.reserve(5000);
  for (int id = 0; id < 5000; ++id) words.push_back(fmt::format("word{}", id));
  Vectors vectors(words, 50);
  for (std::size_t id = 0; id < words.size(); ++id) {
    for (std::size_t k = 0; k < 50; ++k) vectors.row(id)[k] = static_cast<float>(random_number(1, id, k));
  }
  ASSERT_TRUE(save(path_, vectors, VectorFormat::kBinary).ok());
  const std::string bytes = contents(path_);
  gzFile file = gzopen(path_.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
  gzclose(file);
  expect_equal(loaded(VectorFormat::kBinary), vectors);
  const std::string zipped = contents(path_);
  write(zipped.substr(0, zipped.size() / 2));
  const std::string message(load(path_).status().message());
  ASSERT_TRUE(message.starts_with(path_ + ": word ")) << message;
  const int word = std::stoi(message.substr(path_.size() + 7));
  EXPECT_GT(word, 1) << "zlib tells of the end a little before it has given out all";
  EXPECT_LT(word, 3000);
  EXPECT_THAT(message, HasSubstr(": expected text or whole gzip data, found "));
}

TEST_F(VectorsTest, SizesAreThoseOfTheFormat) {
  Vectors vectors({"ark", "dove", "raven"}, 40);
  for (std::size_t id = 0; id < 3; ++id) std::fill_n(vectors.row(id), 40, -1.17549435e-38F);
  for (const VectorFormat format : {VectorFormat::kText, VectorFormat::kBinary, VectorFormat::kGlove,
                                    VectorFormat::kNpy, VectorFormat::kSafetensors}) {
    ASSERT_TRUE(save(path_, vectors, format).ok());
    std::uint64_t bytes = 0;
    for (const std::string& path : files_of(path_, format)) bytes += contents(path).size();
    EXPECT_LE(bytes, files_bytes(3, 40, format)) << to_string(format);
    const bool is_text = format == VectorFormat::kText || format == VectorFormat::kGlove;
    EXPECT_EQ(files_bytes(1'000'000, 100, format) > 1'000'000'000, is_text) << to_string(format);
  }
}

TEST_F(VectorsTest, FormatsHaveNamesAndEndings) {
  EXPECT_EQ(parse_format("auto", "a.bin"), VectorFormat::kBinary);
  EXPECT_EQ(parse_format("auto", "a.npy"), VectorFormat::kNpy);
  EXPECT_EQ(parse_format("auto", "a.safetensors"), VectorFormat::kSafetensors);
  EXPECT_EQ(parse_format("auto", "a.vec"), VectorFormat::kText);
  EXPECT_EQ(parse_format("glove", "a.bin"), VectorFormat::kGlove);
  EXPECT_EQ(parse_format("word", "a.bin"), std::nullopt);
  for (const VectorFormat format : {VectorFormat::kText, VectorFormat::kBinary, VectorFormat::kGlove,
                                    VectorFormat::kNpy, VectorFormat::kSafetensors}) {
    EXPECT_EQ(parse_format(to_string(format), ""), format);
  }
}

TEST_F(VectorsTest, DamagedBinaryFilesAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"2 2\nark \0\0\x80\x3f\0\0\x20\xc0\n"s,
       ": word 2: expected 1 more words, as line 1 says, found the end of the file"},
      {"1 2\nark \0\0\x80\x3f\0\0\x20"s, ": word 1: expected 8 bytes of numbers, found the end of the file"},
      {"2 1\nark \0\0\x80\x3f\ndove"s, ": word 2: expected a word, and a blank behind it, found dove"},
      {"2 1\nark \0\0\x80\x3f\n \0\0\x80\x3f\n"s, ": word 2: expected a word, found only a blank"},
      {"1 1\nark \0\0\x80\x7f\n"s, ": word 1: expected finite numbers, found others"},
      {"1 1\nark \0\0\x80\x3f\ndove \0\0\x80\x3f\n"s,
       ": word 2: expected the end of the file after 1 words, as line 1 says, found more"},
      {"1 65535\nark \0\0\x80\x3f\n"s, ": word 1: expected 262140 bytes of numbers"},
      {"2 1\na\tb \0\0\x80\x3f\nc\td \0\0\x80\x3f\n"s,
       ": word 1: expected a word without blanks, here or later, found none"},
  };
  for (const auto& [bytes, expected] : cases) {
    write(bytes);
    const absl::Status status = load(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << expected;
    EXPECT_EQ(std::string(status.message()).substr(0, path_.size() + expected.size()), path_ + expected);
  }
}

TEST_F(VectorsTest, WhatDoesNotFitIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"",
       ":1: expected the number of words and of numbers each, or a word and its numbers, found \"the end of "
       "the "
       "file\""},
      {"ark 1\n",
       ":1: expected the number of words and of numbers each, or a word and its numbers, found \"ark 1\""},
      {"ark 1 x\n", ":1: expected the number of words and of numbers each, or a word and its numbers"},
      {"ark 1 nan\n", ":1: expected the number of words and of numbers each, or a word and its numbers"},
      {"2\nark 1 2\n",
       ":1: expected the number of words and of numbers each, or a word and its numbers, found \"2\""},
      {"ark 1 2\ndove 1\n", ":2: expected 2 numbers after the word, found \"\""},
      {"ark 1 2\ndove 1 2 3\n", ":2: expected 2 numbers after the word and no more, found \"dove 1 2 3\""},
      {"ark 1 2\ndove 1 x\n", ":2: expected 2 numbers after the word, found \"x\""},
      {"ark 1 2\n\ndove 1 2\n", ":2: expected a word, found \"\""},
      {"0 2\n", ":1: expected 1 word or more, and 1 to 65535 numbers each, found \"0 2\""},
      {"1 0\nark\n", ":1: expected 1 word or more"},
      {"1 65536\nark\n", ":1: expected 1 word or more"},
      {"-1 2\n", ":1: expected the number of words"},
      {"18446744073709551616 2\n", ":1: expected the number of words"},
      {"18446744073709551615 65535\nark 1\n", ":2: expected 65535 numbers after the word, found \"\""},
      {"3 2\nark 1 2\ndove 3 4\n", ":4: expected 1 more words, as line 1 says, found the end of the file"},
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
