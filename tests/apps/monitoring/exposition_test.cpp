// The text against the grammar of its format, the documents and the board against the names in it.
#include "apps/monitoring/exposition.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/apps/monitoring/sample_run.hpp"

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr double kBegan = 1764322200.25;

std::string sample_text() {
  const RunRecord record = sample_record();
  return exposition(sample_settings(), record, sample_status(record), kBegan);
}

struct Family {
  std::string type;
  std::map<std::string, double> samples;  ///< by name and labels, as they are written
  std::set<std::string> labels;           ///< their names
};

/// Reads the text as its grammar says. Anything else is a failure.
std::map<std::string, Family> read_exposition(const std::string& text) {
  static const std::regex kHelp(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) [^\\]+)");
  static const std::regex kType(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram))");
  static const std::regex kLabel(R"re(([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)",?)re");
  static const std::regex kSample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (\S+))re");
  std::map<std::string, Family> families;
  std::string name;
  std::string helped;
  EXPECT_TRUE(text.ends_with('\n'));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) {
      helped = match[1];
    } else if (std::regex_match(line, match, kType)) {
      name = match[1];
      EXPECT_EQ(name, helped) << "its help comes first";
      EXPECT_TRUE(families.try_emplace(name, Family{.type = match[2], .samples = {}, .labels = {}}).second)
          << name << " comes twice";
    } else if (std::regex_match(line, match, kSample)) {
      Family& family = families[name];
      const std::string sampled = match[1];
      const std::string labels = match[3];
      const std::string suffix = sampled.substr(std::min(name.size(), sampled.size()));
      EXPECT_TRUE(sampled.starts_with(name)) << line << ": in " << name;
      EXPECT_TRUE(suffix.empty() ? family.type != "histogram"
                                 : family.type == "histogram" &&
                                       (suffix == "_bucket" || suffix == "_sum" || suffix == "_count"))
          << line;
      EXPECT_TRUE(
          family.samples.emplace(fmt::format("{}{{{}}}", sampled, labels), std::stod(match[4])).second)
          << line << ": twice";
      for (auto each = std::sregex_iterator(labels.begin(), labels.end(), kLabel);
           each != std::sregex_iterator(); ++each) {
        family.labels.insert((*each)[1]);
      }
    } else {
      ADD_FAILURE() << "not of the format: " << line;
    }
  }
  return families;
}

TEST(ExpositionTest, IsOfTheFormat) {
  for (const auto& [name, family] : read_exposition(sample_text())) {
    EXPECT_EQ(family.type == "counter", name.ends_with("_total")) << name;
    EXPECT_TRUE(name.starts_with("verbena_")) << name;
    EXPECT_FALSE(family.samples.empty()) << name;
  }
}

TEST(ExpositionTest, SaysWhatIsKnown) {
  const std::string text = sample_text();
  for (const char* const line : {"verbena_run_start_time_seconds 1764322200.25\n",
                                 "verbena_iteration 1\n",
                                 "verbena_workers 2\n",
                                 "verbena_iteration_duration_seconds 0.5\n",
                                 "verbena_objective{objective=\"train_rmse\"} 0.5\n",
                                 "verbena_worker_iteration{worker=\"0\"} 2\n",
                                 "verbena_worker_iterations_behind{worker=\"0\"} 0\n",
                                 "verbena_worker_iterations_behind{worker=\"1\"} 1\n",
                                 "verbena_worker_last_report_time_seconds{worker=\"0\"} 1764322202.25\n",
                                 "verbena_items_total{worker=\"0\"} 200\n",
                                 "verbena_waited_seconds_total{worker=\"0\"} 0\n",
                                 "verbena_waited_seconds_total{worker=\"1\"} 1\n",
                                 "verbena_session_seconds_total{worker=\"1\"} 4\n",
                                 "verbena_rows_pulled_total{worker=\"1\"} 700\n",
                                 "verbena_events_total{kind=\"failover\"} 1\n",
                                 "verbena_events_total{kind=\"restart\"} 0\n",
                                 "verbena_configuration 2\n",
                                 "verbena_server_processes{server=\"0\",role=\"serves\"} 1\n",
                                 "verbena_server_processes{server=\"1\",role=\"serves\"} 0\n",
                                 R"(verbena_host_server_processes{host="node \"2\""} 1)",
                                 "verbena_moves 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(ExpositionTest, EscapesLabels) {
  EXPECT_THAT(sample_text(), HasSubstr(R"(transport="a \"quick\" \\ one")"));
}

TEST(ExpositionTest, BucketsHoldAllThatIsBelow) {
  const Family reads = read_exposition(sample_text()).at("verbena_read_staleness_clocks");
  const auto at = [&](const std::string& bound) {
    return reads.samples.at("verbena_read_staleness_clocks_bucket{worker=\"1\",le=\"" + bound + "\"}");
  };
  EXPECT_EQ(at("1"), 600);
  EXPECT_EQ(at("2"), 660);
  EXPECT_EQ(at("4"), 660);
  EXPECT_EQ(at("6"), 700) << "30 of five clocks, 10 of six";
  EXPECT_EQ(at("32"), 700);
  EXPECT_EQ(at("+Inf"), 700);
  EXPECT_EQ(reads.samples.at("verbena_read_staleness_clocks_count{worker=\"1\"}"), 700);
  EXPECT_EQ(reads.samples.at("verbena_read_staleness_clocks_sum{worker=\"1\"}"),
            600 + 2 * 60 + 5 * 30 + 6 * 10);
}

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(VERBENA_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The metrics' names that a text contains.
std::set<std::string> names_in(const std::string& text) {
  static const std::regex kName(R"(\bverbena_[a-z_]+[a-z]\b)");
  std::set<std::string> names;
  for (auto each = std::sregex_iterator(text.begin(), text.end(), kName); each != std::sregex_iterator();
       ++each)
    names.insert(each->str());
  return names;
}

TEST(MonitoringDocumentTest, ListsAllMetricsAndNoOthers) {
  std::set<std::string> exported;
  for (const auto& [name, family] : read_exposition(sample_text())) exported.insert(name);
  std::set<std::string> listed = names_in(file_text("docs/monitoring.md"));
  std::erase_if(listed, [](const std::string& name) { return name.ends_with("_bucket"); });  // in an example
  EXPECT_EQ(listed, exported);
}

/// Each query of the board, with the title of its panel.
std::vector<std::pair<std::string, std::string>> board_queries() {
  const nlohmann::json board = nlohmann::json::parse(file_text("docs/monitoring/grafana-board.json"));
  std::vector<std::pair<std::string, std::string>> queries;
  for (const nlohmann::json& panel : board.at("panels")) {
    for (const nlohmann::json& target : panel.value("targets", nlohmann::json::array()))
      queries.emplace_back(panel.at("title"), target.at("expr"));
  }
  for (const nlohmann::json& variable : board.at("templating").at("list")) {
    if (variable.at("type") == "query") queries.emplace_back("a variable", variable.at("query"));
  }
  return queries;
}

TEST(GrafanaBoardTest, AsksForMetricsAndLabelsThatThereAre) {
  const std::map<std::string, Family> families = read_exposition(sample_text());
  const auto family_of = [&](const std::string& name) {
    for (const char* const suffix : {"_bucket", "_sum", "_count"}) {
      const std::size_t end = name.size() - std::min(name.size(), std::string(suffix).size());
      const auto found = families.find(name.substr(0, end));
      if (name.ends_with(suffix) && found != families.end() && found->second.type == "histogram")
        return found;
    }
    const auto found = families.find(name);
    return found != families.end() && found->second.type == "histogram" ? families.end() : found;
  };
  const std::vector<std::pair<std::string, std::string>> queries = board_queries();
  EXPECT_GE(queries.size(), 10U);
  // What Prometheus itself adds.
  const std::set<std::string> of_scrape = {"instance", "job", "le"};
  static const std::regex kSelector(R"(\{([^}]*)\})");
  static const std::regex kMatcher(R"re(([a-zA-Z_]+)\s*(?:=~|!~|!=|=)\s*")re");
  static const std::regex kBy(R"(\bby\s*\(([^)]*)\))");
  static const std::regex kWord(R"([a-zA-Z_]+)");
  for (const auto& [panel, query] : queries) {
    const std::set<std::string> names = names_in(query);
    EXPECT_THAT(names, Not(IsEmpty())) << panel << ": " << query;
    std::set<std::string> labels = of_scrape;
    for (const std::string& name : names) {
      const auto family = family_of(name);
      ASSERT_NE(family, families.end()) << panel << ": there is no " << name;
      labels.insert(family->second.labels.begin(), family->second.labels.end());
    }
    std::set<std::string> asked;
    for (const auto& [outer, inner] : {std::pair(kSelector, kMatcher), std::pair(kBy, kWord)}) {
      for (auto each = std::sregex_iterator(query.begin(), query.end(), outer);
           each != std::sregex_iterator(); ++each) {
        const std::string inside = (*each)[1];
        for (auto one = std::sregex_iterator(inside.begin(), inside.end(), inner);
             one != std::sregex_iterator(); ++one) {
          asked.insert(one->size() > 1 ? (*one)[1].str() : one->str());
        }
      }
    }
    EXPECT_THAT(labels, IsSupersetOf(asked)) << panel << ": " << query;
  }
}

/// Several runs are beside each other; a range is as long as several scrapes, however often there are some.
TEST(GrafanaBoardTest, KeepsRunsApartAndItsRangesFitTheScrapes) {
  static const std::regex kRange(R"(\[([^\]]*)\])");
  static const std::regex kBy(R"(\bby\s*\(([^)]*)\))");
  std::size_t ranges = 0;
  for (const auto& [panel, query] : board_queries()) {
    for (auto each = std::sregex_iterator(query.begin(), query.end(), kRange); each != std::sregex_iterator();
         ++each, ++ranges)
      EXPECT_EQ((*each)[1], "$__rate_interval") << panel << ": " << query;
    for (auto each = std::sregex_iterator(query.begin(), query.end(), kBy); each != std::sregex_iterator();
         ++each)
      EXPECT_THAT((*each)[1].str(), HasSubstr("instance")) << panel << ": " << query;
  }
  EXPECT_GE(ranges, 10U);
  const nlohmann::json board = nlohmann::json::parse(file_text("docs/monitoring/grafana-board.json"));
  for (const nlohmann::json& panel : board.at("panels")) {
    for (const nlohmann::json& target : panel.value("targets", nlohmann::json::array()))
      EXPECT_THAT(target.at("legendFormat").get<std::string>(), HasSubstr("{{instance}}")) << panel["title"];
  }
}

}  // namespace
}  // namespace verbena::apps
