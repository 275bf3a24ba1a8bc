#include "apps/kge/model.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/temporary_folder.hpp"

namespace verbena::apps::kge {
namespace {

using ::testing::HasSubstr;
using verbena::testing::contents;
using verbena::testing::write_file;

class ModelFixture : public ::testing::Test {
 protected:
  static Embeddings random_embeddings(const Shape& shape, std::uint64_t seed) {
    Embeddings embeddings(shape, 3, 2);
    const RowSources sources = random_rows(shape, 3, 2, seed);
    std::vector<float> row(shape.entity_width());
    for (std::size_t id = 0; id < 3; ++id) {
      sources[kEntityTable].make(id, row);
      std::copy_n(row.begin(), shape.entity_size(), embeddings.entity(id));
    }
    row.resize(shape.relation_width());
    for (std::size_t id = 0; id < 2; ++id) {
      sources[kRelationTable].make(id, row);
      std::copy_n(row.begin(), shape.relation_size(), embeddings.relation(id));
    }
    return embeddings;
  }
  static void expect_equal(const Embeddings& a, const Embeddings& b) {
    const Shape& shape = a.shape();
    EXPECT_EQ(std::memcmp(a.entity(0), b.entity(0), 3 * shape.entity_size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(a.relation(0), b.relation(0), 2 * shape.relation_size() * sizeof(float)), 0);
  }

  std::vector<std::string> entities_ = {"00260881", "a name", "ünï"};
  std::vector<std::string> relations_ = {"_hypernym", "_also_see"};
  Names names_{entities_, relations_};
  verbena::testing::TemporaryFolder folder_;
  std::string prefix_ = folder_.path("model");
};

class ModelTest : public ModelFixture, public ::testing::WithParamInterface<Shape> {};

TEST_P(ModelTest, LoadsToTheBitWhatWasSaved) {
  Embeddings embeddings = random_embeddings(GetParam(), 1);
  embeddings.entity(1)[0] = 1e-40F;
  embeddings.entity(2)[0] = -3.4e38F;
  ASSERT_TRUE(save(prefix_, embeddings, names_).ok());
  const absl::StatusOr<Embeddings> loaded = load(prefix_, GetParam(), names_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  expect_equal(*loaded, embeddings);
  const absl::StatusOr<SavedModel> whole = load(prefix_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->entity_names, entities_);
  EXPECT_EQ(whole->relation_names, relations_);
  EXPECT_EQ(whole->embeddings.shape().model, GetParam().model);
  expect_equal(whole->embeddings, embeddings);
  const RowSources sources = rows_from(*loaded);
  std::vector<float> row(GetParam().entity_width(), 1.0F);
  sources[kEntityTable].make(2, row);
  EXPECT_EQ(row[0], -3.4e38F);
  EXPECT_EQ(std::vector<float>(row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2), row.end()),
            std::vector<float>(row.size() / 2));
  EXPECT_LE(contents(entities_path(prefix_)).size(), entities_file_bytes(GetParam(), 3));
  EXPECT_LE(contents(relations_path(prefix_)).size(), relations_file_bytes(GetParam(), 2));
}

class LargeModelTest : public ModelFixture {};

TEST_F(LargeModelTest, RowsOfMegabytesAreSavedWhole) {
  const Shape shape{Model::kRescal, 400};
  const Embeddings embeddings = random_embeddings(shape, 1);
  ASSERT_TRUE(save(prefix_, embeddings, names_).ok());
  EXPECT_GT(contents(relations_path(prefix_)).size(), 3'000'000U) << "more than is written at once";
  const absl::StatusOr<Embeddings> loaded = load(prefix_, shape, names_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  expect_equal(*loaded, embeddings);
}

TEST_P(ModelTest, FirstRowsAreSmallAndDifferent) {
  const Shape shape = GetParam();
  const Embeddings a = random_embeddings(shape, 1);
  expect_equal(a, random_embeddings(shape, 1));
  const Embeddings b = random_embeddings(shape, 2);
  EXPECT_NE(a.entity(0)[0], b.entity(0)[0]);
  EXPECT_NE(a.entity(0)[0], a.entity(1)[0]);
  EXPECT_NE(a.relation(0)[0], a.entity(0)[0]);
  for (std::size_t k = 0; k < shape.entity_size(); ++k) {
    EXPECT_LT(std::fabs(a.entity(0)[k]), 1);
    EXPECT_EQ(a.entity(0)[k] == 0, k >= shape.dimension) << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ModelTest,
                         ::testing::Values(Shape{Model::kComplEx, 6}, Shape{Model::kDistMult, 17},
                                           Shape{Model::kRescal, 3}, Shape{Model::kTransE, 17},
                                           Shape{Model::kRotatE, 18}),
                         [](const auto& test) {
                           return fmt::format("{}{}", to_string(test.param.model), test.param.dimension);
                         });

class ModelFilesTest : public ModelFixture {
 protected:
  ModelFilesTest() {
    entities_ = {"a", "b", "c"};
    write("# verbena kge 1\tmodel=distmult\tdimension=2\tentities=3\nb\t3\t4\na\t1\t2\nc\t5\t-6e-3\n");
    write_file(
        relations_path(prefix_),
        "# verbena kge 1\tmodel=distmult\tdimension=2\trelations=2\n_hypernym\t1\t2\n_also_see\t3\t4\n");
  }
  void write(std::string_view text) const { write_file(entities_path(prefix_), text); }
  [[nodiscard]] absl::StatusOr<Embeddings> loaded() const { return load(prefix_, shape_, names_); }
  [[nodiscard]] std::string error() const {
    const absl::StatusOr<Embeddings> embeddings = loaded();
    EXPECT_EQ(embeddings.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(embeddings.status().message());
  }
  Shape shape_{Model::kDistMult, 2};
};

TEST_F(ModelFilesTest, RowsMayComeInAnyOrder) {
  const absl::StatusOr<Embeddings> embeddings = loaded();
  ASSERT_TRUE(embeddings.ok()) << embeddings.status();
  EXPECT_EQ(embeddings->entity(0)[1], 2);
  EXPECT_EQ(embeddings->entity(1)[0], 3);
  EXPECT_EQ(embeddings->entity(2)[1], -6e-3F);
  EXPECT_EQ(embeddings->relation(1)[0], 3);
}

TEST_F(ModelFilesTest, WhatDoesNotFitIsRefused) {
  const std::string path = entities_path(prefix_);
  const std::string head = "# verbena kge 1\tmodel=distmult\tdimension=2\tentities=3\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ":1: expected \"# verbena kge 1"},
      {"# verbena kge 1\tmodel=distmult\tdimension=4\tentities=3\n",
       ":1: expected \"# verbena kge 1\tmodel=distmult\tdimension=2\tentities=3\", found \"# verbena kge 1"},
      {head + "a\t1\t2\nb\t3\t4\n", ":4: expected 1 more entities, found the end of the file"},
      {head + "a\t1\t2\nd\t3\t4\nc\t5\t6\n",
       ":3: expected the name of one of the data's entities, each once, found \"d\""},
      {head + "a\t1\t2\na\t3\t4\nc\t5\t6\n",
       ":3: expected the name of one of the data's entities, each once, found \"a\""},
      {head + "a\t1\t2\nb\t3\nc\t5\t6\n", ":3: expected 2 numbers after the name, found \"\""},
      {head + "a\t1\t2\nb\t3\t4\t5\nc\t5\t6\n", ":3: expected 2 numbers after the name, found \"more\""},
      {head + "a\t1\t2\nb\t3\tx\nc\t5\t6\n", ":3: expected 2 numbers after the name, found \"x\""},
      {head + "a\t1\t2\nb\t3\tinf\nc\t5\t6\n", ":3: expected 2 numbers after the name, found \"inf\""},
      {head + "a\t1\t2\nb\t3\t4\nc\t5\t6\nd\t7\t8\n", ":5: expected the end of the file after 3 entities"},
  };
  for (const auto& [text, expected] : cases) {
    write(text);
    const std::string message = error();
    EXPECT_TRUE(message.starts_with(path + ":")) << message;
    EXPECT_THAT(message, HasSubstr(expected));
  }
  std::filesystem::remove(path);
  EXPECT_EQ(loaded().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ModelFilesTest, WhatSaysOfItselfWhatCannotBeIsRefused) {
  const std::string path = entities_path(prefix_);
  const auto head = [](std::string_view model, std::string_view dimension, std::string_view entities) {
    return fmt::format("# verbena kge 1\tmodel={}\tdimension={}\tentities={}\n", model, dimension, entities);
  };
  const std::string rows = "a\t1\t2\nb\t3\t4\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"",
       ":1: expected \"# verbena kge 1\", model=, dimension= and entities=, separated by tabs, found \"the "
       "end"},
      {"a\t1\t2\n", ":1: expected \"# verbena kge 1\", model="},
      {head("other", "2", "2") + rows, ":1: expected \"# verbena kge 1\", model="},
      {head("complex", "3", "2") + rows, ":1: expected"},
      {head("rescal", "1025", "2") + rows, ":1: expected"},
      {head("distmult", "0", "2") + rows, ":1: expected"},
      {head("distmult", "2", "0"), ":1: expected"},
      {head("distmult", "2", "3") + rows, ":4: expected 1 more entities, found the end of the file"},
      {head("distmult", "2", "1") + rows, ":3: expected the end of the file after 1 entities"},
      {head("distmult", "3", "2") + rows,
       ":2: expected 3 numbers after the name, each after a tab, found \"2\""},
      {head("distmult", "1", "2") + rows,
       ":2: expected 1 numbers after the name, each after a tab, found \"2\""},
      {head("distmult", "2", "2") + "a\t1\t2\na\t3\t4\n", ":3: expected the name of one of the data's"},
  };
  for (const auto& [text, expected] : cases) {
    write(text);
    const absl::Status status = load(prefix_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + expected));
  }
  write(head("complex", "2", "2") + rows);
  EXPECT_THAT(std::string(load(prefix_).status().message()),
              HasSubstr(relations_path(prefix_) + ":1: expected"))
      << "the relations are of another model";
  std::filesystem::remove(path);
  EXPECT_EQ(load(prefix_).status().code(), absl::StatusCode::kNotFound);
}

TEST(ModelNamesTest, GoThereAndBack) {
  for (const Model model :
       {Model::kComplEx, Model::kDistMult, Model::kRescal, Model::kTransE, Model::kRotatE}) {
    EXPECT_EQ(parse_model(to_string(model)), model);
  }
  EXPECT_EQ(parse_model("transh"), std::nullopt);
}

}  // namespace
}  // namespace verbena::apps::kge
