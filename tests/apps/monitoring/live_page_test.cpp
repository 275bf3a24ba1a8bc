#include "apps/monitoring/live_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "tests/apps/monitoring/sample_run.hpp"

namespace verbena::apps {
namespace {

using nlohmann::json;

json sample_json() {
  const RunRecord record = sample_record();
  return live_json(sample_settings(), record, sample_status(record));
}

TEST(LivePageTest, ShowsWhoIsBehindAndWhatHasHappened) {
  const json live = sample_json();
  EXPECT_EQ(live["iterations"].size(), 1U);
  EXPECT_EQ(live["iterations"][0]["throughput"], 400);
  EXPECT_EQ(live["objectives"]["train_rmse"], 0.5);
  EXPECT_EQ(live["workers"][0]["behind"], 0);
  EXPECT_EQ(live["workers"][1]["behind"], 1);
  EXPECT_EQ(live["workers"][1]["share_waited"], 0.25);
  EXPECT_TRUE(live["workers"][0]["mean_clock_differential"].is_null());
  EXPECT_EQ(live["share_waited"], 0.125) << "the mean over the workers";
  EXPECT_EQ(live["reads_by_lag"], json({600, 60, 0, 0, 30, 10}));
  EXPECT_EQ(live["events"][0]["what"], "server 0 has died");
  EXPECT_EQ(live["servers"][0]["copies"][0]["role"], "serves");
  EXPECT_EQ(live["servers"][0]["copies"][0]["host"], "node \"2\"");
  EXPECT_EQ(live["moves"].size(), 1U);
  EXPECT_TRUE(live["servers"][1]["copies"].empty());
}

TEST(LivePageTest, OfALongRunItShowsTheFirstTheLastAndSomeBetween) {
  RunRecord record(1, [](const auto& sums) { return sums; });
  for (std::int64_t iteration = 1; iteration <= 1000; ++iteration)
    ASSERT_TRUE(record.add(job::IterationMessage{0, {.iteration = iteration, .seconds = 1}}, 1).ok());
  const json live = live_json(sample_settings(), record, status_of(record, 1));
  ASSERT_EQ(live["iterations"].size(), 300U);
  EXPECT_EQ(live["iterations"][0]["iteration"], 1);
  EXPECT_EQ(live["iterations"][150]["iteration"], 503);
  EXPECT_EQ(live["iterations"][299]["iteration"], 1000);
}

/// The script cannot be compiled here: what it reads must at least be there.
TEST(LivePageTest, ReadsWhatThereIs) {
  const std::string page = live_page(sample_settings());
  const json live = sample_json();
  static const std::regex kRead(R"(\brun\.([a-z_]+))");
  std::set<std::string> read;
  for (auto each = std::sregex_iterator(page.begin(), page.end(), kRead); each != std::sregex_iterator();
       ++each)
    read.insert((*each)[1]);
  EXPECT_GE(read.size(), 10U);
  for (const std::string& field : read) EXPECT_TRUE(live.contains(field)) << field;
}

TEST(LivePageTest, OfManyEventsItShowsTheNewest) {
  RunRecord record = sample_record();
  for (int i = 0; i < 500; ++i) record.note({.kind = RunEvent::Kind::kJoin, .what = std::to_string(i)});
  const json live = live_json(sample_settings(), record, status_of(record, 1));
  ASSERT_EQ(live["events"].size(), 20U);
  EXPECT_EQ(live["events"][0]["what"], "480");
  EXPECT_EQ(live["events"][19]["what"], "499");
}

/// Names of files and hosts, and what is on the command line, can be chosen by others.
TEST(LivePageTest, NamesAreTextNotMarkup) {
  const std::string hostile = "</title><script>alert(1)</script>\" onload='x";
  RunSettings settings = sample_settings();
  settings.model = settings.consistency = settings.transport = settings.process = hostile;
  settings.made.command = "verbena " + hostile;
  settings.made.host = hostile;
  const std::string page = live_page(settings);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert"), std::string::npos) << "it is shown";
  // What comes later is set by the page's own script, as text.
  for (const char* const markup : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
    EXPECT_EQ(page.find(markup), std::string::npos) << markup;
}

TEST(LivePageTest, IsOneFile) {
  const std::string page = live_page(sample_settings());
  EXPECT_THAT(page, ::testing::Not(::testing::ContainsRegex("(src|href|import)[ =(]")));
}

}  // namespace
}  // namespace verbena::apps
