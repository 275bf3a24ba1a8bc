// Embeddings in other programs' layouts: what these programs would compute from the files is our score.
#include "apps/kge/exports.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "apps/divergence.hpp"
#include "apps/kge/kernel.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::kge {
namespace {

using namespace std::string_literals;
using verbena::testing::contents;
using Numbers = std::vector<float>;

class ExportsTest : public ::testing::TestWithParam<Shape> {
 protected:
  ExportsTest() : embeddings_(shape(), names_.size(), relation_names_.size()) {
    float number = -0.75F;
    const auto next = [&] { return number = std::fmod(number * 1.7F + 0.31F, 1.0F); };
    for (std::size_t id = 0; id < names_.size(); ++id) {
      for (std::size_t k = 0; k < shape().dimension; ++k) embeddings_.entity(id)[k] = next();
    }
    for (std::size_t id = 0; id < relation_names_.size(); ++id) {
      const bool is_matrix = shape().model == Model::kRescal;
      for (std::size_t line = 0; line < (is_matrix ? shape().dimension : 1); ++line) {
        for (std::size_t k = 0; k < numbers_of_line(); ++k)
          embeddings_.relation(id)[line * padded(shape().dimension) + k] = next();
      }
    }
  }
  [[nodiscard]] static Shape shape() { return GetParam(); }
  [[nodiscard]] static std::size_t numbers_of_line() {
    return shape().model == Model::kRotatE ? shape().dimension / 2 : shape().dimension;
  }
  [[nodiscard]] float score(const Triple& triple) const {
    const auto q = aligned_floats(shape().entity_size());
    ask(shape(), Side::kTail, embeddings_.entity(triple.head), embeddings_.relation(triple.relation),
        q.get());
    return kge::score(shape(), q.get(), embeddings_.entity(triple.tail));
  }
  void save(EmbeddingFormat format) const {
    const absl::Status status = save_as(format, prefix_, embeddings_, {names_, relation_names_});
    ASSERT_TRUE(status.ok()) << status;
  }
  /// The numbers of a .npy file, whose header must be that of this shape.
  static Numbers array(const std::string& path, const std::string& array_shape) {
    const std::string bytes = contents(path);
    std::string header =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': "s + array_shape + ", }";
    header.resize(127, ' ');
    EXPECT_EQ(bytes.substr(0, 128), header + "\n");
    return floats(bytes.substr(128));
  }
  static Numbers floats(const std::string& bytes) {
    Numbers numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
    return numbers;
  }
  /// A row of a matrix whose rows have so many numbers.
  static Numbers row(const Numbers& matrix, std::size_t place, std::size_t numbers) {
    const auto first = matrix.begin() + static_cast<std::ptrdiff_t>(place * numbers);
    return {first, first + static_cast<std::ptrdiff_t>(numbers)};
  }
  /// What the programs compute of their rows: of complex ones the first half is real. `half_turn`: in the
  /// unit of the angles.
  static double their_score(const Numbers& h, const Numbers& r, const Numbers& t, double half_turn) {
    const std::size_t size = h.size();
    const std::size_t half = size / 2;
    double sum = 0;
    switch (shape().model) {
      case Model::kComplEx:
        for (std::size_t i = 0; i < half; ++i) {
          sum += h[i] * t[i] * r[i] + h[half + i] * t[half + i] * r[i] + h[i] * t[half + i] * r[half + i] -
                 h[half + i] * t[i] * r[half + i];
        }
        return sum;
      case Model::kDistMult:
        for (std::size_t i = 0; i < size; ++i) sum += h[i] * r[i] * t[i];
        return sum;
      case Model::kRescal:
        for (std::size_t i = 0; i < size; ++i) {
          for (std::size_t j = 0; j < size; ++j) sum += h[i] * r[i * size + j] * t[j];
        }
        return sum;
      case Model::kTransE:
        for (std::size_t i = 0; i < size; ++i) sum -= std::fabs(h[i] + r[i] - t[i]);
        return sum;
      case Model::kRotatE:
        for (std::size_t i = 0; i < half; ++i) {
          const double angle = r[i] / (half_turn / std::numbers::pi);
          sum -= std::hypot(h[i] * std::cos(angle) - h[half + i] * std::sin(angle) - t[i],
                            h[i] * std::sin(angle) + h[half + i] * std::cos(angle) - t[half + i]);
        }
        return sum;
    }
    return sum;
  }
  [[nodiscard]] static std::size_t relation_numbers() {
    return shape().model == Model::kRescal ? shape().dimension * shape().dimension : numbers_of_line();
  }

  std::vector<std::string> names_ = {"ark", "dove", "ünï"};
  std::vector<std::string> relation_names_ = {"is a", "has"};
  verbena::testing::TemporaryFolder folder_;
  std::string prefix_ = folder_.path("model");
  Embeddings embeddings_;
};

TEST_P(ExportsTest, ArraysHaveTheNumbersOfTheText) {
  save(EmbeddingFormat::kNpy);
  const std::size_t dimension = shape().dimension;
  const Numbers entities = array(prefix_ + ".entities.npy", fmt::format("(3, {})", dimension));
  const bool is_matrix = shape().model == Model::kRescal;
  const Numbers relations =
      array(prefix_ + ".relations.npy",
            is_matrix ? fmt::format("(2, {0}, {0})", dimension) : fmt::format("(2, {})", relation_numbers()));
  ASSERT_EQ(entities.size(), 3 * dimension);
  ASSERT_EQ(relations.size(), 2 * relation_numbers());
  for (std::size_t k = 0; k < dimension; ++k) EXPECT_EQ(entities[dimension + k], embeddings_.entity(1)[k]);
  EXPECT_EQ(relations[relation_numbers()], embeddings_.relation(1)[0]);
  EXPECT_EQ(contents(prefix_ + ".entities.txt"), "ark\ndove\nünï\n");
  EXPECT_EQ(contents(prefix_ + ".relations.txt"), "is a\nhas\n");

  save(EmbeddingFormat::kSafetensors);
  const std::string bytes = contents(prefix_ + ".safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  EXPECT_EQ(length % 8, 0U);
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
  const std::size_t entity_bytes = entities.size() * sizeof(float);
  const std::size_t relation_bytes = relations.size() * sizeof(float);
  EXPECT_EQ(header.size(), 2U);
  EXPECT_EQ(
      header["entities"],
      nlohmann::json({{"dtype", "F32"}, {"shape", {3, dimension}}, {"data_offsets", {0, entity_bytes}}}));
  EXPECT_EQ(header["relations"]["data_offsets"],
            nlohmann::json({entity_bytes, entity_bytes + relation_bytes}));
  EXPECT_EQ(header["relations"]["shape"].size(), is_matrix ? 3U : 2U);
  ASSERT_EQ(bytes.size(), 8 + length + entity_bytes + relation_bytes);
  EXPECT_EQ(floats(bytes.substr(8 + length, entity_bytes)), entities);
  EXPECT_EQ(floats(bytes.substr(8 + length + entity_bytes)), relations);
}

TEST_P(ExportsTest, DglKeComputesTheSameScores) {
  save(EmbeddingFormat::kDglKe);
  const std::array<std::string, 5> names = {"ComplEx", "DistMult", "RESCAL", "TransE_l1", "RotatE"};
  const std::string& name = names[static_cast<std::size_t>(shape().model)];
  const nlohmann::json configuration = nlohmann::json::parse(contents(folder_.path("config.json")));
  EXPECT_EQ(configuration["model"], name);
  EXPECT_EQ(configuration["dataset"], "model");
  const auto hidden = configuration["emb_size"].get<std::size_t>();
  EXPECT_EQ(hidden * (configuration["double_ent"].get<bool>() ? 2 : 1), shape().dimension);
  const Numbers entities =
      array(fmt::format("{}_{}_entity.npy", prefix_, name), fmt::format("(3, {})", shape().dimension));
  const Numbers relations =
      array(fmt::format("{}_{}_relation.npy", prefix_, name), fmt::format("(2, {})", relation_numbers()));
  const double half_turn = (configuration["gamma"].get<double>() + 2.0) / static_cast<double>(hidden);
  EXPECT_NEAR(their_score(row(entities, 2, shape().dimension), row(relations, 1, relation_numbers()),
                          row(entities, 1, shape().dimension), half_turn),
              score({2, 1, 1}), 1e-5);
  EXPECT_EQ(contents(folder_.path("entities.tsv")), "0\tark\n1\tdove\n2\tünï\n");
  EXPECT_EQ(contents(folder_.path("relations.tsv")), "0\tis a\n1\thas\n");
}

TEST_P(ExportsTest, OpenKeComputesTheSameScores) {
  save(EmbeddingFormat::kOpenKe);
  const nlohmann::json parameters = nlohmann::json::parse(contents(prefix_ + ".json"));
  const auto of = [&](const std::string& name, std::size_t place) {
    EXPECT_EQ(parameters.at(name).size(), name.starts_with("ent") ? 3U : 2U) << name;
    return parameters.at(name).at(place).get<Numbers>();
  };
  const auto both = [&](const std::string& what, std::size_t place) {
    Numbers numbers = of(what + "_re_embeddings.weight", place);
    const Numbers imaginary = of(what + "_im_embeddings.weight", place);
    numbers.insert(numbers.end(), imaginary.begin(), imaginary.end());
    return numbers;
  };
  const bool is_split = shape().model == Model::kComplEx;
  const auto entity = [&](std::size_t place) {
    return is_split ? both("ent", place) : of("ent_embeddings.weight", place);
  };
  const std::string relations =
      shape().model == Model::kRescal ? "rel_matrices.weight" : "rel_embeddings.weight";
  const Numbers relation = is_split ? both("rel", 1) : of(relations, 1);
  const double half_turn =
      parameters.contains("rel_embedding_range") ? parameters["rel_embedding_range"][0].get<double>() : 0;
  EXPECT_EQ(half_turn > 0, shape().model == Model::kRotatE);
  EXPECT_NEAR(their_score(entity(2), relation, entity(1), half_turn), score({2, 1, 1}), 1e-5);
  EXPECT_EQ(contents(folder_.path("entity2id.txt")), "3\nark\t0\ndove\t1\nünï\t2\n");
  EXPECT_EQ(contents(folder_.path("relation2id.txt")), "2\nis a\t0\nhas\t1\n");
}

TEST_P(ExportsTest, FilesAreNoLargerThanWasSaid) {
  for (const EmbeddingFormat format :
       {EmbeddingFormat::kText, EmbeddingFormat::kNpy, EmbeddingFormat::kSafetensors,
        EmbeddingFormat::kOpenKe, EmbeddingFormat::kDglKe}) {
    // Numbers whose text is as long as can be.
    for (std::size_t k = 0; k < shape().dimension; ++k) embeddings_.entity(1)[k] = -1.17549435e-38F;
    save(format);
    std::uint64_t bytes = 0;
    for (const std::string& path : files_of(prefix_, format, shape().model))
      bytes += std::filesystem::file_size(path);
    const std::uint64_t said = files_bytes(format, shape(), names_.size(), relation_names_.size());
    EXPECT_LE(bytes, said) << to_string(format);
    // Arrays are a fourth of the text.
    const std::uint64_t of_text = files_bytes(EmbeddingFormat::kText, shape(), 1'000'000, 2);
    const bool is_array = format != EmbeddingFormat::kText && format != EmbeddingFormat::kOpenKe;
    EXPECT_EQ(files_bytes(format, shape(), 1'000'000, 2) < of_text, is_array) << to_string(format);
  }
}

TEST_P(ExportsTest, DglKeReadsNamesWithQuotes) {
  names_ = {R"("ark")", R"(a 12" disc)", "ünï"};
  save(EmbeddingFormat::kDglKe);
  EXPECT_EQ(contents(folder_.path("entities.tsv")), "0\t\"\"\"ark\"\"\"\n1\t\"a 12\"\" disc\"\n2\tünï\n");
}

TEST_P(ExportsTest, WhatHasDivergedIsNotWritten) {
  embeddings_.relation(1)[0] = std::numeric_limits<float>::infinity();
  for (const EmbeddingFormat format :
       {EmbeddingFormat::kText, EmbeddingFormat::kNpy, EmbeddingFormat::kSafetensors,
        EmbeddingFormat::kOpenKe, EmbeddingFormat::kDglKe}) {
    EXPECT_TRUE(is_diverged(save_as(format, prefix_, embeddings_, {names_, relation_names_})));
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
    EXPECT_EQ(parse_embedding_format(to_string(format)), format);
  }
  EXPECT_EQ(parse_embedding_format("pickle"), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ExportsTest,
                         ::testing::Values(Shape{Model::kComplEx, 6}, Shape{Model::kDistMult, 17},
                                           Shape{Model::kRescal, 3}, Shape{Model::kTransE, 4},
                                           Shape{Model::kRotatE, 18}),
                         [](const auto& test) { return std::string(to_string(test.param.model)); });

}  // namespace
}  // namespace verbena::apps::kge
