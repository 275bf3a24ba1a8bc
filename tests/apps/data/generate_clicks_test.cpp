#include "apps/data/generate_clicks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Click {
  bool is_positive = false;
  std::vector<std::uint64_t> ids;  ///< one of each field
};

/// Expects lines "label 0:id:1 1:id:1 …".
std::vector<Click> clicks_in(const std::string& path) {
  std::vector<Click> clicks;
  std::istringstream lines(verbena::testing::contents(path));
  for (std::string line; std::getline(lines, line);) {
    Click& click = clicks.emplace_back();
    click.is_positive = line.starts_with('1');
    bool is_right = click.is_positive || line.starts_with('0');
    const char* rest = line.c_str() + 1;
    while (is_right && *rest != '\0') {
      char* colon = nullptr;
      char* end = nullptr;
      is_right = *rest == ' ' && std::strtoull(rest + 1, &colon, 10) == click.ids.size() && *colon == ':';
      if (!is_right) break;
      click.ids.push_back(std::strtoull(colon + 1, &end, 10));
      is_right = end[0] == ':' && end[1] == '1';
      rest = end + 2;
    }
    EXPECT_TRUE(is_right) << line;
    if (!is_right) break;
  }
  return clicks;
}

class GenerateClicksTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path("clicks"); }
  [[nodiscard]] std::vector<KnownTruth> generate(const GenerateClicksOptions& options) const {
    const absl::StatusOr<std::vector<KnownTruth>> truths = generate_clicks(options, path());
    EXPECT_TRUE(truths.ok()) << truths.status();
    return truths.ok() ? *truths : std::vector<KnownTruth>(static_cast<std::size_t>(options.days));
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(GenerateClicksTest, DefaultsHaveTheKnownAnswer) {
  const KnownTruth truth = generate({.examples = 30'000}).at(0);
  EXPECT_EQ(truth.path, path());
  EXPECT_EQ(truth.examples, 30'000);
  // What 1,000,000 examples have.
  EXPECT_NEAR(truth.positive_share, 0.1721, 0.005);
  EXPECT_NEAR(truth.auc.value(), 0.8471, 0.005);
  EXPECT_NEAR(truth.log_loss, 0.3302, 0.005);
  const std::string text = verbena::testing::contents(path());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 30'000);
  std::int64_t positives = text.starts_with('1') ? 1 : 0;
  for (std::size_t at = text.find("\n1 "); at != std::string::npos; at = text.find("\n1 ", at + 1)) {
    ++positives;
  }
  EXPECT_DOUBLE_EQ(static_cast<double>(positives) / 30'000, truth.positive_share);
}

TEST_F(GenerateClicksTest, FirstLinesAreTheSameEverywhere) {
  const std::vector<KnownTruth> ignored = generate({.examples = 2, .fields = 8});
  EXPECT_EQ(verbena::testing::contents(path()),
            "0 0:0:1 1:4:1 2:31:1 3:30:1 4:4628:1 5:0:1 6:6:1 7:268:1\n"
            "1 0:0:1 1:0:1 2:9:1 3:0:1 4:2848:1 5:6568:1 6:832:1 7:1:1\n");
}

TEST_F(GenerateClicksTest, TheSeedDecidesEverything) {
  GenerateClicksOptions options{.examples = 1000};
  const auto text = [&] {
    const std::vector<KnownTruth> ignored = generate(options);
    return verbena::testing::contents(path());
  };
  const std::string first = text();
  EXPECT_EQ(first, text());
  options.seed = 2;
  EXPECT_NE(first, text());
  options.seed = 1;
  options.examples = 1100;
  EXPECT_TRUE(text().starts_with(first)) << "more examples begin with fewer";
}

TEST_F(GenerateClicksTest, IdsAreAsFrequentAsTheyShould) {
  constexpr std::int64_t kExamples = 50'000;
  const std::vector<KnownTruth> ignored = generate({.examples = kExamples, .fields = 3, .rank = 1});
  const std::vector<Click> clicks = clicks_in(path());
  ASSERT_EQ(clicks.size(), kExamples);
  const std::uint64_t sizes[] = {4, 2828, 2'000'000};
  const double skews[] = {1.05, 1.15, 1.25};
  for (std::size_t field = 0; field < 3; ++field) {
    // How many draws are below each power of two, of the ids and in theory.
    double all = 0;
    std::map<std::uint64_t, double> theory;
    for (std::uint64_t id = 0; id < sizes[field]; ++id) {
      if ((id & (id - 1)) == 0 && id > 0) theory[id] = all;
      all += std::pow(static_cast<double>(id + 1), -skews[field]);
    }
    for (const auto& entry : theory) {
      const std::uint64_t bound = entry.first;
      const double weight = entry.second;
      const auto below = std::count_if(clicks.begin(), clicks.end(),
                                       [&](const Click& click) { return click.ids.at(field) < bound; });
      // Five deviations of a share, at most.
      EXPECT_NEAR(static_cast<double>(below) / kExamples, weight / all, 5 * std::sqrt(0.25 / kExamples))
          << "field " << field << ", ids below " << bound;
    }
    EXPECT_TRUE(std::all_of(clicks.begin(), clicks.end(),
                            [&](const Click& click) { return click.ids.at(field) < sizes[field]; }));
  }
  EXPECT_TRUE(std::any_of(clicks.begin(), clicks.end(),
                          [](const Click& click) { return click.ids.at(2) > 1'500'000; }));
}

TEST_F(GenerateClicksTest, WithoutWeightsOnlyTheBiasIsKnown) {
  const KnownTruth truth =
      generate({.examples = 20'000, .fields = 2, .weights = 0, .factors = 0, .bias = -1}).at(0);
  const double probability = 1 / (1 + std::exp(1.0));
  EXPECT_EQ(truth.auc, 0.5);
  EXPECT_NEAR(truth.positive_share, probability, 0.015);
  EXPECT_NEAR(
      truth.log_loss,
      -truth.positive_share * std::log(probability) - (1 - truth.positive_share) * std::log(1 - probability),
      1e-9);
}

TEST_F(GenerateClicksTest, TheTruthIsThatOfTheExamples) {
  // One field of four ids: the shares of positives of each tell what a model can know.
  const KnownTruth truth =
      generate({.examples = 50'000, .fields = 1, .weights = 1.5, .bias = -0.5, .seed = 3}).at(0);
  std::map<std::uint64_t, std::pair<double, double>> counts;  // of negatives and positives
  for (const Click& click : clicks_in(path())) {
    auto& [negatives, positives] = counts[click.ids.at(0)];
    ++(click.is_positive ? positives : negatives);
  }
  ASSERT_EQ(counts.size(), 4U);
  double log_loss = 0;
  double right_pairs = 0;
  double all_negatives = 0;
  double all_positives = 0;
  for (const auto& [id, count] : counts) {
    const auto& [negatives, positives] = count;
    const double share = positives / (positives + negatives);
    log_loss -= positives * std::log(share) + negatives * std::log(1 - share);
    for (const auto& [other_id, other] : counts) {
      const double other_share = other.second / (other.first + other.second);
      right_pairs += positives * other.first * (share > other_share ? 1 : share < other_share ? 0 : 0.5);
    }
    all_negatives += negatives;
    all_positives += positives;
  }
  EXPECT_GT(truth.auc.value(), 0.6);
  EXPECT_NEAR(truth.auc.value(), right_pairs / (all_negatives * all_positives), 0.003);
  EXPECT_NEAR(truth.log_loss, log_loss / 50'000, 0.001);
}

/// What each of the two most frequent ids of the first field adds to the logit together with each of the
/// second one, by the shares of positives.
class PairsOfIdsTest : public GenerateClicksTest {
 protected:
  std::array<std::array<double, 2>, 2> logits_of(GenerateClicksOptions options) const {
    options.examples = 100'000;
    options.fields = 2;
    options.bias = 0;
    const std::vector<KnownTruth> ignored = generate(options);
    std::array<std::array<std::array<double, 2>, 2>, 2> counts = {};
    for (const Click& click : clicks_in(path())) {
      if (click.ids.at(0) < 2 && click.ids.at(1) < 2) ++counts[click.ids[0]][click.ids[1]][click.is_positive];
    }
    std::array<std::array<double, 2>, 2> logits = {};
    for (std::size_t first = 0; first < 2; ++first) {
      for (std::size_t second = 0; second < 2; ++second) {
        logits[first][second] = std::log(counts[first][second][1] / counts[first][second][0]);
      }
    }
    return logits;
  }
};

TEST_F(PairsOfIdsTest, WeightsAdd) {
  const auto logits = logits_of({.weights = 1.5, .factors = 0});
  EXPECT_GT(std::abs(logits[0][0] - logits[1][0]), 0.5);
  EXPECT_GT(std::abs(logits[0][0] - logits[0][1]), 0.5);
  EXPECT_NEAR(logits[0][0] - logits[1][0], logits[0][1] - logits[1][1], 0.15);
}

TEST_F(PairsOfIdsTest, FactorsMultiply) {
  const auto logits = logits_of({.weights = 0, .factors = 1, .rank = 1});
  EXPECT_GT(std::abs(logits[0][0] * logits[1][1]), 0.1);
  EXPECT_NEAR(logits[0][0] * logits[1][1], logits[0][1] * logits[1][0], 0.1);
  const auto others = logits_of({.weights = 0, .factors = 1, .rank = 2});
  EXPECT_GT(std::abs(others[0][0] * others[1][1] - others[0][1] * others[1][0]), 0.3);
}

TEST_F(GenerateClicksTest, EachDayHasItsFile) {
  const GenerateClicksOptions options{.examples = 10, .days = 3};
  const std::vector<KnownTruth> truths = generate(options);
  ASSERT_EQ(truths.size(), 3U);
  EXPECT_FALSE(std::filesystem::exists(path()));
  std::set<std::string> texts;
  for (std::size_t day = 0; day < 3; ++day) {
    const std::string file = path() + "." + std::to_string(day + 1);
    EXPECT_EQ(truths[day].path, file);
    EXPECT_EQ(truths[day].examples, day == 0 ? 4 : 3);
    EXPECT_EQ(clicks_in(file).size(), day == 0 ? 4U : 3U);
    texts.insert(verbena::testing::contents(file));
  }
  EXPECT_EQ(texts.size(), 3U) << "two days are the same";
}

TEST_F(GenerateClicksTest, DriftReplacesIds) {
  constexpr std::uint64_t kSize = 2828;  // of the second field
  const auto ids_of_days = [&](double drift) {
    const std::vector<KnownTruth> truths =
        generate({.examples = 50'000, .fields = 3, .rank = 1, .days = 5, .drift = drift});
    std::vector<std::map<std::uint64_t, int>> days;  // how often each id is drawn
    for (const KnownTruth& truth : truths) {
      std::map<std::uint64_t, int>& ids = days.emplace_back();
      for (const Click& click : clicks_in(truth.path)) ++ids[click.ids.at(1)];
    }
    return days;
  };
  for (const auto& ids : ids_of_days(0)) EXPECT_LT(ids.rbegin()->first, kSize);

  const auto days = ids_of_days(0.25);
  EXPECT_LT(days[0].rbegin()->first, kSize);
  for (std::size_t day = 1; day < days.size(); ++day) {
    // Of the ids drawn on this day and, or those in their place, on the day before.
    std::map<std::uint64_t, std::uint64_t> before;  // by place
    for (const auto& [id, count] : days[day - 1]) before[id % kSize] = id;
    double both = 0;
    double replaced = 0;
    for (const auto& [id, count] : days[day]) {
      const auto found = before.find(id % kSize);
      if (found == before.end()) continue;
      ++both;
      if (id != found->second) {
        ++replaced;
        EXPECT_EQ(id, found->second + kSize) << "an id that was there before";
      }
    }
    EXPECT_GT(both, 500);
    EXPECT_NEAR(replaced / both, 0.25, 0.05);
  }
  // After 1 / drift days all of the first day's ids are gone; those in their places are as frequent.
  EXPECT_GE(days[4].begin()->first, kSize);
  EXPECT_LT(days[4].rbegin()->first, 2 * kSize);
  EXPECT_NEAR(days[4].at(kSize), days[0].at(0), 200);
}

TEST_F(GenerateClicksTest, NewIdsHaveWeightsOfTheirOwn) {
  // Four ids, all of which are replaced each day: the share of positives moves.
  GenerateClicksOptions options{.examples = 20'000, .fields = 1, .weights = 2, .days = 4, .seed = 3};
  const std::vector<KnownTruth> still = generate(options);
  options.drift = 1;
  const std::vector<KnownTruth> moving = generate(options);
  const auto range = [](const std::vector<KnownTruth>& truths) {
    const auto [least, most] = std::minmax_element(
        truths.begin(), truths.end(),
        [](const KnownTruth& a, const KnownTruth& b) { return a.positive_share < b.positive_share; });
    return most->positive_share - least->positive_share;
  };
  EXPECT_LT(range(still), 0.05);
  EXPECT_GT(range(moving), 0.1);
  EXPECT_EQ(moving[0].positive_share, still[0].positive_share);
}

TEST_F(GenerateClicksTest, AnExtremeBiasLeavesOneLabel) {
  const KnownTruth truth = generate({.examples = 100, .bias = -1000}).at(0);
  EXPECT_EQ(truth.positive_share, 0);
  EXPECT_EQ(truth.auc, std::nullopt);
  EXPECT_EQ(truth.log_loss, 0);
}

TEST_F(GenerateClicksTest, SaysWhichFileCannotBeWritten) {
  std::filesystem::create_directory(path() + ".2");
  const auto truths = generate_clicks({.examples = 10, .days = 2}, path());
  EXPECT_EQ(truths.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(truths.status().message()), HasSubstr(path() + ".2: cannot open for writing"));
  EXPECT_EQ(clicks_in(path() + ".1").size(), 5U);
}

TEST_F(GenerateClicksTest, RefusesImpossibleOptions) {
  const auto expect_refused = [&](const GenerateClicksOptions& options, const std::string& message) {
    const absl::Status status = generate_clicks(options, path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
    EXPECT_FALSE(std::filesystem::exists(path()));
  };
  expect_refused({.examples = 0}, "--examples: expected 1 or more, found 0");
  expect_refused({.fields = 0}, "--fields: expected 1 to 4094, found 0");
  expect_refused({.fields = 4095}, "--fields: expected 1 to 4094, found 4095");
  expect_refused({.weights = -1}, "--weights: expected 0 to 1000, found -1");
  expect_refused({.factors = NAN}, "--factors: expected 0 to 1000, found nan");
  expect_refused({.rank = 0}, "--rank: expected 1 to 1024, found 0");
  expect_refused({.rank = 1025}, "--rank: expected 1 to 1024, found 1025");
  expect_refused({.bias = -1001}, "--bias: expected -1000 to 1000, found -1001");
  expect_refused({.days = 0}, "--days: expected 1 to the number of examples, 200000, found 0");
  expect_refused({.examples = 3, .days = 4}, "--days: expected 1 to the number of examples, 3, found 4");
  expect_refused({.days = 2, .drift = 1.5}, "--drift: expected 0 to 1, found 1.5");
  expect_refused({.days = 2, .drift = -0.1}, "--drift: expected 0 to 1, found -0.1");
  expect_refused({.drift = 0.1}, "--drift: expected 0, since there is one day (--days), found 0.1");
}

}  // namespace
}  // namespace verbena::apps
