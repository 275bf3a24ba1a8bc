#include "apps/ctr/model_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "apps/divergence.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::ctr {
namespace {

using verbena::testing::contents;

class ModelFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path("model"); }
  [[nodiscard]] absl::StatusOr<TrainedModel> load(const std::string& text) const {
    std::ofstream(path()) << text;
    return TrainedModel::load(path());
  }
  verbena::testing::TemporaryFolder folder_;
};

TEST_F(ModelFileTest, SavesWhatItHasLoaded) {
  const std::string text =
      "# verbena ctr: rank 2\n0:5\t-0.25\t0.5\t1\n3:17\t0\t0.1\t-0.2\nbias\t-1.25\t0\t0\n";
  const auto model = load(text);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->rank(), 2U);
  EXPECT_EQ(model->size().keys, 3U);
  EXPECT_EQ(model->size().nonzero_weights, 2U);
  const std::string again = folder_.path("again");
  ASSERT_TRUE(model->save(again).ok());
  EXPECT_EQ(contents(again), text);
}

TEST_F(ModelFileTest, ScoresAsTheMachineDoes) {
  auto model =
      load("# verbena ctr: rank 2\nbias\t-1\t0\t0\n0:5\t0.5\t1\t2\n0:6\t0.25\t3\t-1\n0:7\t9\t9\t9\n");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<Feature> features = {{5, 2}, {6, 1}, {99, 4}};
  EXPECT_DOUBLE_EQ(model->score({.features = features}), -1 + 0.5 * 2 + 0.25 + 2 * (1 * 3 + 2 * -1));
  EXPECT_DOUBLE_EQ(model->score({}), -1);
}

TEST_F(ModelFileTest, NamesThePlaceOfAnError) {
  const std::pair<std::string, std::string> wrong[] = {
      {"", "model:1: expected \"# verbena ctr: rank \" and a number of at most 1024"},
      {"# verbena ctr: rank 2000000\n", "model:1: expected"},
      {"# verbena ctr: rank 1\n0:5\t1\n", "model:2: expected another feature"},
      {"# verbena ctr: rank 0\n0:5\t1\t2\n", "model:2: expected another feature"},
      {"# verbena ctr: rank 0\n0:5\tone\n", "model:2: expected another feature"},
      {"# verbena ctr: rank 0\nfive\t1\n", "model:2: expected another feature"},
      {"# verbena ctr: rank 0\n0:5\t1\n0:5\t1\n", "model:3: expected another feature"}};
  for (const auto& [text, message] : wrong) {
    const auto model = load(text);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(model.status().message()), ::testing::HasSubstr(message)) << text;
  }
}

TEST_F(ModelFileTest, RefusesNumbersThatAreNone) {
  const Rules rules{.weights = "add", .factors = "add", .initial_factors = "zero"};
  LocalParameters parameters(rules);
  const std::vector<Key> keys = {kBias, 7};
  Numbers numbers;
  numbers.resize(keys.size(), 0);
  ASSERT_TRUE(parameters.read(keys, numbers).ok());
  numbers.weights = {1, std::numeric_limits<float>::infinity()};
  ASSERT_TRUE(parameters.step(keys, numbers).ok());
  EXPECT_TRUE(is_diverged(TrainedModel::of(parameters, 0).status()));
}

}  // namespace
}  // namespace verbena::apps::ctr
