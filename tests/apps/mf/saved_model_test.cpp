#include "apps/mf/saved_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <vector>

#include "apps/mf/model.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::mf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using verbena::testing::write_file;

constexpr const char* kHead = "# rating = 3.5 + user bias + item bias + user factors * item factors\n";

class SavedModelTest : public ::testing::Test {
 protected:
  SavedModelTest() {
    write_users(std::string(kHead) +
                "user\tbias\tfactor1\tfactor2\nann\t0.5\t1\t2\nbob\\tsmith\t-1\t0\t-3e-1\n");
    write_items(std::string(kHead) +
                "item\tbias\tfactor1\tfactor2\nark\t0.25\t1\t0\ndove\t-0.5\t0\t1\nolive\t0\t0\t0\nraven\t1."
                "5\t1\t0\n");
  }
  void write_users(const std::string& text) const { write_file(users_path(prefix_), text); }
  void write_items(const std::string& text) const { write_file(items_path(prefix_), text); }
  [[nodiscard]] SavedModel loaded() const {
    absl::StatusOr<SavedModel> model = SavedModel::load(prefix_);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  [[nodiscard]] std::string error() const {
    const absl::Status status = SavedModel::load(prefix_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }
  [[nodiscard]] static std::vector<std::pair<std::string, float>> recommended(
      const SavedModel& model, std::string_view user, const std::vector<std::uint32_t>& left_out,
      std::size_t count) {
    std::vector<std::pair<std::string, float>> result;
    for (const Recommendation& one : model.recommend(*model.user(user), left_out, count))
      result.emplace_back(model.items()[one.item], one.rating);
    return result;
  }

  verbena::testing::TemporaryFolder folder_;
  std::string prefix_ = folder_.path("model");
};

TEST_F(SavedModelTest, RatingsAreThoseOfTheFormula) {
  const SavedModel model = loaded();
  EXPECT_EQ(model.rank(), 2U);
  EXPECT_FLOAT_EQ(model.rating(model.user("ann"), model.item("ark")), 3.5F + 0.5F + 0.25F + 1);
  EXPECT_FLOAT_EQ(model.rating(model.user("ann"), model.item("dove")), 3.5F + 0.5F - 0.5F + 2);
  // A name has its tab, wherever it comes from.
  EXPECT_FLOAT_EQ(model.rating(model.user("bob\tsmith"), model.item("dove")), 3.5F - 1 - 0.5F - 0.3F);
  EXPECT_FLOAT_EQ(model.rating(model.user("stranger"), model.item("dove")), 3.5F - 0.5F);
  EXPECT_FLOAT_EQ(model.rating(model.user("ann"), model.item("unicorn")), 3.5F + 0.5F);
  EXPECT_FLOAT_EQ(model.rating(std::nullopt, std::nullopt), 3.5F);
}

TEST_F(SavedModelTest, RecommendsTheBestThatIsNotKnown) {
  const SavedModel model = loaded();
  // The olive was never trained.
  EXPECT_THAT(recommended(model, "ann", {}, 9),
              ElementsAre(std::pair("raven", 6.5F), std::pair("dove", 5.5F), std::pair("ark", 5.25F)));
  EXPECT_THAT(recommended(model, "ann", {}, 1), ElementsAre(std::pair("raven", 6.5F)));
  EXPECT_THAT(recommended(model, "ann", {3, 0}, 9), ElementsAre(std::pair("dove", 5.5F)));
  EXPECT_THAT(recommended(model, "ann", {0, 1, 3}, 9), IsEmpty());
}

TEST_F(SavedModelTest, ReadsWhatHasNoBiases) {
  write_users("# rating = 3.5 + user factors * item factors\nuser\tfactor1\nann\t2\n");
  write_items("# rating = 3.5 + user factors * item factors\nitem\tfactor1\nark\t-1\nolive\t0\n");
  const SavedModel model = loaded();
  EXPECT_EQ(model.rank(), 1U);
  EXPECT_FLOAT_EQ(model.rating(model.user("ann"), model.item("ark")), 1.5F);
  EXPECT_THAT(recommended(model, "ann", {}, 9), ElementsAre(std::pair("ark", 1.5F)));
}

TEST_F(SavedModelTest, ReadsWhatWasSaved) {
  const RowFormat format{.rank = 3, .biases = true};
  const std::vector<std::string> users = {"a\tb", "c"};
  const std::vector<std::string> items = {"x", "y"};
  const std::vector<float> rows = {0.1F, 0.2F, 0.3F, 0.4F, -1, 1e-20F, 3, 0.5F};
  const auto read = [&](std::size_t first, std::size_t last, std::span<float> packed) {
    std::copy(rows.begin() + static_cast<std::ptrdiff_t>(4 * first),
              rows.begin() + static_cast<std::ptrdiff_t>(4 * last), packed.begin());
    return absl::OkStatus();
  };
  ASSERT_TRUE(
      save_model(prefix_, format, {.mean = 0.1 + 0.2, .deviation = 4}, {users, items}, read, read).ok());
  const SavedModel model = loaded();
  EXPECT_THAT(model.users(), ElementsAre("a\\tb", "c"));
  // Biases are in units of the deviation, factors of its root.
  EXPECT_FLOAT_EQ(model.rating(model.user("a\tb"), model.item("y")),
                  0.3F + 4 * (0.4F + 0.5F - 0.1F + 0.2F * 1e-20F + 0.9F));
}

TEST_F(SavedModelTest, WhatDoesNotFitIsRefused) {
  struct Case {
    std::string users;
    std::string expected;
  };
  const std::string columns = "user\tbias\tfactor1\tfactor2\n";
  for (const auto& [users, expected] : std::to_array<Case>({
           {"", ".users.tsv:1: expected \"# rating = MEAN"},
           {"# verbena kge 1\n", ".users.tsv:1: expected \"# rating = MEAN"},
           {"# rating = many + user factors * item factors\n", ".users.tsv:1: expected \"# rating = MEAN"},
           {kHead, ".users.tsv:2: expected the names of the columns, found the end of the file"},
           {std::string(kHead) + "user\tbias\n", ".users.tsv:2: expected user, bias, factor1"},
           {std::string(kHead) + "item\tbias\tfactor1\tfactor2\n", ".users.tsv:2: expected user, bias"},
           {std::string(kHead) + columns, ".users.tsv:3: expected users, found the end of the file"},
           {std::string(kHead) + columns + "ann\t1\t2\n",
            ".users.tsv:3: expected 3 numbers after the name of the user, separated by tabs, found"},
           {std::string(kHead) + columns + "ann\t1\t2\t3\t4\n", ".users.tsv:3: expected 3 numbers"},
           {std::string(kHead) + columns + "ann\t1\tx\t3\n", ".users.tsv:3: expected 3 numbers"},
           {std::string(kHead) + columns + "ann\t1\tnan\t3\n", ".users.tsv:3: expected 3 numbers"},
           {std::string(kHead) + columns + "ann\t1\t2\t3\nann\t1\t2\t3\n",
            ".users.tsv:4: expected the name of another user, found \"ann\""},
           {"# rating = 4 + user factors * item factors\nuser\tfactor1\nann\t2\n",
            ".items.tsv:1: expected \"# rating = 4 + user factors * item factors\", as the file of the users "
            "has "
            "it"},
           {std::string(kHead) + "user\tbias\tfactor1\nann\t1\t2\n",
            ".items.tsv:2: expected \"item\tbias\tfactor1\", found"},
       })) {
    write_users(users);
    EXPECT_THAT(error(), HasSubstr(expected));
  }
  std::filesystem::remove(items_path(prefix_));
  write_users(std::string(kHead) + columns + "ann\t1\t2\t3\n");
  EXPECT_EQ(SavedModel::load(prefix_).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace verbena::apps::mf
