// sketch in the plain loop and with the workers of a real job, beside exact counts.
#include "apps/sketch/sketch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "apps/data/examples.hpp"
#include "apps/data/generate_clicks.hpp"
#include "apps/sketch/sketch_lines.hpp"
#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using verbena::testing::contents;

class SketchTest : public JobTest {
 protected:
  SketchTest() {
    GenerateClicksOptions options;
    options.examples = 5'000;
    options.fields = 10;
    EXPECT_TRUE(generate_clicks(options, data()).ok());
    const auto read = read_examples({.paths = {data()}}, [&](const Example& example) {
      for (const Feature& feature : example.features) ++exact_[feature_name(feature.key)];
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read.status();
  }
  [[nodiscard]] std::string data() const { return path("clicks"); }
  const Parsed parsed_ = [this](std::vector<std::string> arguments) {
    return with_options(make_sketch(), std::move(arguments), {{"--data", data()}, {"--batch", "100"}});
  };
  /// What --output has: features and their counts, in its order.
  static std::vector<std::pair<std::string, std::int64_t>> saved(const std::string& file) {
    std::vector<std::pair<std::string, std::int64_t>> lines;
    std::istringstream in(contents(file));
    std::string name;
    std::int64_t count = 0;
    while (in >> name >> count) lines.emplace_back(name, count);
    return lines;
  }

  std::map<std::string, std::int64_t> exact_;
};

TEST_F(SketchTest, CountsWithRoomAreExact) {
  const std::unique_ptr<Application> application = parsed_({"--top", "50", "--output", path("top")});
  const auto found = train_alone(*application);
  EXPECT_EQ(found.at("features"), 50'000);
  EXPECT_LT(found.at("mean_excess"), 0.01);
  const auto lines = saved(path("top"));
  ASSERT_EQ(lines.size(), 50U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(exact_.at(lines[i].first), lines[i].second);
    if (i > 0) {
      EXPECT_LE(lines[i].second, lines[i - 1].second);
    }
  }
  std::set<std::string> top;
  for (const auto& [name, count] : lines) top.insert(name);
  for (const auto& [name, count] : exact_)
    EXPECT_TRUE(top.contains(name) || count <= lines.back().second) << name;
}

TEST_F(SketchTest, WithoutRoomNoCountIsTooSmall) {
  const std::unique_ptr<Application> application =
      parsed_({"--megabytes", "0.02", "--top", "2000", "--output", path("top")});
  const auto found = train_alone(*application);
  EXPECT_GT(found.at("mean_excess"), 1);
  const auto lines = saved(path("top"));
  for (const auto& [name, count] : lines) EXPECT_GE(count, exact_.at(name));
  // The most frequent one is found all the same.
  const auto most = std::max_element(exact_.begin(), exact_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_GE(exact_.at(lines[0].first) * 2, most->second);
}

TEST_F(SketchTest, WorkersCountTogether) {
  std::ignore = train_alone(*parsed_({"--output", path("alone")}));
  for (const ConsistencyModel& model :
       {ConsistencyModel(Asp{}), ConsistencyModel(Bsp{}), ConsistencyModel(Ssp{2})}) {
    for (const std::uint32_t workers : {1U, 3U}) {
      const std::unique_ptr<Application> application = parsed_({"--output", path("together")});
      ASSERT_TRUE(application->check(workers).ok());
      const auto found = train(*application, {.consistency = model, .workers = workers, .lanes = 2});
      EXPECT_EQ(found.at("features"), 50'000);
      EXPECT_EQ(contents(path("together")), contents(path("alone"))) << to_string(model);
    }
  }
}

/// After a part of the examples the counts lack what is yet to come, and at last only the sketch's error is
/// left.
TEST_F(SketchTest, TheErrorFallsWhileItCounts) {
  const std::unique_ptr<Application> alone = parsed_({"--evaluate-every", "1"});
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*alone, recorder).ok());
  ASSERT_EQ(recorder.reports.size(), 10U);
  for (const IterationReport& report : recorder.reports)
    EXPECT_NEAR(report.sums.at("relative_error"), 1 - 0.1 * static_cast<double>(report.iteration), 0.03);
  for (const ConsistencyModel& model : {ConsistencyModel(Asp{}), ConsistencyModel(Bsp{}),
                                        ConsistencyModel(Ssp{2}), ConsistencyModel(Essp{1})}) {
    const std::unique_ptr<Application> together = parsed_({"--evaluate-every", "3"});
    const auto found = train(*together, {.consistency = model, .workers = 2, .lanes = 2});
    EXPECT_EQ(found.at("relative_error"), recorder.reports.back().sums.at("relative_error"));
    for (const IterationReport& report : recorders_[0].reports) {
      const bool is_due = report.iteration % 3 == 0 || report.iteration == 10;
      ASSERT_EQ(report.sums.contains("relative_error"), is_due) << report.iteration;
      if (is_due) {
        EXPECT_NEAR(report.sums.at("relative_error"), 1 - 0.1 * static_cast<double>(report.iteration), 0.05)
            << to_string(model);
      }
    }
  }
}

TEST_F(SketchTest, WithoutRoomTheErrorStaysLarge) {
  const auto found = train_alone(*parsed_({"--megabytes", "0.02"}));
  EXPECT_GT(found.at("relative_error"), 0.1);
  EXPECT_LT(train_alone(*parsed_({})).at("relative_error"), 0.01);
}

TEST_F(SketchTest, NeedsSumsOfNobody) {
  const std::unique_ptr<Application> application = parsed_({});
  EXPECT_TRUE(application->check_consistency(Bsp{}).ok());
  EXPECT_FALSE(application->check_consistency(Vap{.value_bound = 1}).ok());
}

/// More workers than mini-batches.
TEST_F(SketchTest, SomeWorkersHaveNothingToCount) {
  const auto application = with_options(make_sketch(), {"--data", data(), "--batch", "3000"});
  EXPECT_EQ(train(*application, {.workers = 4}).at("features"), 50'000);
}

TEST_F(SketchTest, TheDataDecidesTheMiniBatchesUnlessTheyAreSaid) {
  const auto batch = [&](std::uint32_t workers, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--data", data()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto application = with_options(make_sketch(), arguments);
    EXPECT_EQ(application->leaves_open("batch"), more.empty());
    EXPECT_EQ(train(*application, {.workers = workers}).at("features"), 50'000);
    if (more.empty()) {
      for (const Recorder& worker : recorders_) EXPECT_GT(worker.reports.back().sums.at("features"), 0);
    }
    return recorders_[0].summaries.at("batch").get<int>();
  };
  EXPECT_EQ(batch(1, {}), 10'000) << "there is nobody to share them with";
  EXPECT_EQ(batch(3, {}), 416);
  EXPECT_EQ(batch(8, {}), 156);
  EXPECT_EQ(batch(3, {"--batch", "7000"}), 7000);
}

TEST_F(SketchTest, RefusesWhatItCannotDo) {
  expect_refusals(parsed_, {{{"--top", "0"}, "--top: expected 1 to"},
                            {{"--batch", "-1"}, "--batch: expected 0 to"},
                            {{"--evaluate-every", "-1"}, "--evaluate-every: expected 0 or more"},
                            {{"--megabytes", "0"}, "--megabytes: expected more than 0"},
                            {{"--megabytes", "1e7"}, "--megabytes: expected more than 0"},
                            {{"--format", "csv"}, "libffm"},
                            {{"--data", path("none")}, "none"}});
}

TEST_F(SketchTest, StopsWithoutFiles) {
  expect_to_stop_without_files(parsed_);
}

TEST(SketchLinesTest, CountsAreTakenOnce) {
  sketch::Counts counts(4);
  const std::vector<Key> keys = {1, 2, 1, 1000, 1};
  counts.add(keys);
  std::int64_t all = 0;
  const auto lines = counts.take();
  EXPECT_TRUE(std::is_sorted(lines.numbers.begin(), lines.numbers.end()));
  EXPECT_EQ(lines.counters.size(), lines.numbers.size() * sketch::kCounters);
  for (const sketch::Counter counter : lines.counters) all += counter;
  EXPECT_EQ(all, static_cast<std::int64_t>(keys.size() * sketch::kOfOne));
  EXPECT_TRUE(counts.take().numbers.empty());
  counts.add(std::vector<Key>{2});
  EXPECT_EQ(counts.take().numbers.size(), 1U);
}

}  // namespace
}  // namespace verbena::apps
