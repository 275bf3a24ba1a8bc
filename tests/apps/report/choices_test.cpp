#include "apps/report/choices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "apps/report/html_report.hpp"
#include "apps/report/summary.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Choices kChoices = {{.name = "lanes", .value = "4", .by_hand = true},
                          {.name = kGatherChoice, .value = kMeasured},
                          {.name = "share-out", .value = kByTheData, .decided_by = "shared_out"}};

RunRecord record_of(std::uint64_t rows_pulled, std::uint64_t rows_gathered) {
  RunRecord record(1, [](const auto& sums) { return sums; });
  job::FinishedMessage finished;
  finished.statistics.rows_pulled = rows_pulled;
  finished.statistics.rows_gathered = rows_gathered;
  EXPECT_TRUE(record.add(finished).ok());
  return record;
}

TEST(ChoicesTest, EachHasAValueAndSaysWhoseItIs) {
  EXPECT_EQ(choices_text(kChoices),
            "lanes 4 (by hand), gather measured (chosen), share-out by the data (chosen)");
  const nlohmann::json json = choices_json(kChoices);
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[0], (nlohmann::json{{"name", "lanes"}, {"value", "4"}, {"by_hand", true}}));
  EXPECT_EQ(json[1], (nlohmann::json{{"name", "gather"}, {"value", "measured"}, {"by_hand", false}}));
}

TEST(ChoicesTest, WhatWasOpenIsSettledInTheEnd) {
  const nlohmann::json summary = {{"shared_out", "relations"}, {"blocks", 7}};
  const auto value = [&](Choice choice, std::uint64_t rows_gathered, const nlohmann::json& model_summary) {
    return settled({std::move(choice)}, record_of(200, rows_gathered), model_summary).front().value;
  };
  EXPECT_EQ(value(kChoices[1], 50, summary), "measured: 25.0 % of the rows pulled");
  EXPECT_EQ(value(kChoices[1], 0, summary), "measured")
      << "there was nothing to gather, or reads were faster";
  EXPECT_EQ(value(kChoices[2], 0, summary), "relations");
  EXPECT_EQ(value({.name = "blocks", .value = kByTheData, .decided_by = "blocks"}, 0, summary), "7");
  // What was said by hand stays.
  EXPECT_EQ(value({.name = kGatherChoice, .value = "never", .by_hand = true}, 50, summary), "never");
  EXPECT_EQ(value({.name = "blocks", .value = "5", .by_hand = true, .decided_by = "blocks"}, 0, summary),
            "5");
  // Another process has sent it.
  for (const nlohmann::json& foreign : {nlohmann::json(), nlohmann::json(3), nlohmann::json::array({1}),
                                        nlohmann::json{{"shared_out", nlohmann::json::object()}}}) {
    EXPECT_EQ(value(kChoices[2], 0, foreign), kByTheData) << foreign;
  }
}

TEST(ChoicesTest, MetricsAndPageHaveThem) {
  RunSettings settings;
  settings.model = "lda";
  settings.choices = kChoices;
  settings.choices.push_back({.name = "batch", .value = "<b>"});
  const RunRecord record = record_of(10, 0);
  EXPECT_EQ(summary_json(settings, record, 1, {}).at("choices"), choices_json(settings.choices));
  const std::string page = html_report(settings, record, 1, {}, {});
  EXPECT_THAT(page, AllOf(HasSubstr("<tr><th>lanes</th><td>4</td><td>by hand</td></tr>"),
                          HasSubstr("<tr><th>gather</th><td>measured</td><td>chosen</td></tr>"),
                          HasSubstr("<td>&lt;b&gt;</td>")));
  settings.choices.clear();  // the plain loop has none
  EXPECT_THAT(html_report(settings, record, 1, {}, {}), Not(HasSubstr("Choices")));
}

}  // namespace
}  // namespace verbena::apps
