#include "apps/report/provenance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "apps/report/html_report.hpp"
#include "apps/report/metrics.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(ProvenanceTest, ACommandCanBePastedIntoAShell) {
  const std::vector<std::string> words = {"verbena", "run", "lda", "--data=my file", "it's", "", "a;b"};
  EXPECT_EQ(shell_command(words), R"(verbena run lda '--data=my file' 'it'\''s' '' 'a;b')");
}

TEST(ProvenanceTest, OfThisProcess) {
  const Provenance made = provenance();
  EXPECT_THAT(made.command, HasSubstr("test"));
  EXPECT_NE(made.host, "");
  EXPECT_THAT(made.date,
              MatchesRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z"));
}

TEST(ProvenanceTest, ARunsReportAndRecordHaveAllThatTellsItFromOthers) {
  RunSettings settings;
  settings.model = "mf";
  settings.options = {{"data", "ratings.csv"}, {"rank", "16"}};
  settings.made = {
      .command = "verbena run mf --data ratings.csv", .host = "node7", .date = "2026-11-25T14:00:00Z"};
  const RunRecord record(1, [](const auto&) { return std::map<std::string, double>(); });
  EXPECT_THAT(html_report(settings, record, 1, {}, {}),
              AllOf(HasSubstr("verbena run mf --data ratings.csv"), HasSubstr("node7"),
                    HasSubstr("2026-11-25T14:00:00Z"), HasSubstr("<th>--rank</th><td>16</td>"),
                    HasSubstr("<th>--data</th><td>ratings.csv</td>")));
  const nlohmann::json json = settings_json(settings);
  EXPECT_EQ(json.at("command"), settings.made.command);
  EXPECT_EQ(json.at("host"), "node7");
  EXPECT_EQ(json.at("date"), "2026-11-25T14:00:00Z");
}

}  // namespace
}  // namespace verbena::apps
