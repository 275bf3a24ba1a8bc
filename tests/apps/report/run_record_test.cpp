#include "apps/report/run_record.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "apps/divergence.hpp"
#include "apps/report/format.hpp"
#include "apps/report/summary.hpp"
#include "apps/report/svg_chart.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {
namespace {

job::IterationMessage report(std::uint32_t worker, std::int64_t iteration, double seconds, double sum) {
  job::IterationMessage message;
  message.worker = worker;
  message.report.iteration = iteration;
  message.report.items = 100;
  message.report.seconds = seconds;
  message.report.sums["error"] = sum;
  return message;
}

RunRecord two_workers() {
  return RunRecord(2, [](const auto& sums) {
    return std::map<std::string, double>{{"rmse", std::sqrt(sums.at("error"))}};
  });
}

TEST(RunRecordTest, WhatWasOnlyEvaluatedIsNoIterationTrained) {
  RunRecord record = two_workers();
  EXPECT_TRUE(record.add(report(0, 0, 0, 4), 1).ok());
  EXPECT_TRUE(record.add(report(1, 0, 0, 5), 1).ok());
  EXPECT_EQ(record.iterations().size(), 1U);
  EXPECT_EQ(record.iterations_trained(), 0);
  EXPECT_EQ(record.objectives().at("rmse"), 3.0);
  EXPECT_FALSE(record.add(report(0, 0, 0, 4), 2).ok()) << "a worker reports an iteration only once";
}

TEST(RunRecordTest, IterationIsCompleteWhenAllWorkersHaveReported) {
  RunRecord record = two_workers();
  EXPECT_FALSE(record.add(report(0, 1, 1.0, 4), 1)->has_value());
  EXPECT_FALSE(record.add(report(0, 2, 1.0, 0), 2)->has_value());
  const auto complete = record.add(report(1, 1, 3.0, 5), 3);
  ASSERT_TRUE(complete.ok() && complete->has_value());
  EXPECT_EQ((*complete)->iteration, 1);
  EXPECT_EQ((*complete)->items, 200);
  EXPECT_EQ((*complete)->objectives.at("rmse"), 3.0);
  EXPECT_EQ(record.training_seconds(), 3.0);
  EXPECT_EQ(record.throughput(), 100);
}

TEST(RunRecordTest, WhatASessionHasCountedIsThatOfTheProcessThatIsTheWorkerNow) {
  RunRecord record = two_workers();
  EXPECT_EQ(record.workers()[1].newest_statistics().statistics.rows_pulled, 0U);
  job::StatisticsMessage counted{.worker = 1, .seconds = 2, .statistics = {}};
  const auto pulled_after = [&](std::uint64_t rows) {
    counted.statistics.rows_pulled = rows;
    EXPECT_TRUE(record.add(counted).ok());
    return record.workers()[1].newest_statistics().statistics.rows_pulled;
  };
  EXPECT_EQ(pulled_after(5), 5U);
  EXPECT_EQ(pulled_after(7), 7U);
  record.replace(1);
  EXPECT_EQ(record.workers()[1].newest_statistics().seconds, 0);
  EXPECT_EQ(pulled_after(2), 2U);
  record.go_back(0);
  EXPECT_EQ(record.workers()[1].newest_statistics().seconds, 0);
  EXPECT_EQ(pulled_after(3), 3U);
  job::FinishedMessage finished{.worker = 1, .seconds = 9, .statistics = {}};
  finished.statistics.rows_pulled = 11;
  EXPECT_TRUE(record.add(finished).ok());
  EXPECT_EQ(record.workers()[1].newest_statistics().statistics.rows_pulled, 11U);
  counted.worker = 2;
  EXPECT_FALSE(record.add(counted).ok()) << "there are two";
}

TEST(RunRecordTest, WhatIsNoNumberIsNoResult) {
  for (const double sum : {std::nan(""), -1.0, HUGE_VAL}) {  // -1 has no root
    RunRecord record = two_workers();
    ASSERT_TRUE(record.add(report(0, 1, 1, 0), 0).ok());
    const auto complete = record.add(report(1, 1, 1, sum), 0);
    EXPECT_TRUE(is_diverged(complete.status())) << sum;
    EXPECT_TRUE(record.objectives().empty()) << sum;
  }
}

TEST(RunRecordTest, RefusesWhatNoWorkerCanSay) {
  RunRecord record = two_workers();
  ASSERT_TRUE(record.add(report(0, 1, 1, 1), 0).ok());
  EXPECT_FALSE(record.add(report(0, 1, 1, 1), 0).ok());
  EXPECT_FALSE(record.add(report(2, 1, 1, 1), 0).ok());
}

TEST(RunRecordTest, AProcessInAWorkersPlaceMayReportAgain) {
  RunRecord record = two_workers();
  for (std::int64_t iteration = 1; iteration <= 2; ++iteration)
    ASSERT_TRUE(record.add(report(0, iteration, 1, 4), 0).ok());
  record.replace(0);
  for (std::int64_t iteration = 1; iteration <= 2; ++iteration) {
    const auto again = record.add(report(0, iteration, 1, 0), 0);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_FALSE(again->has_value());
  }
  EXPECT_EQ(record.training_seconds(), 2) << "what was reported before counts";
  const auto complete = record.add(report(1, 1, 1, 4), 0);
  ASSERT_TRUE(complete.ok() && complete->has_value());
  EXPECT_FALSE(record.add(report(1, 1, 1, 4), 0).ok()) << "the other one is not replaced";
}

TEST(RunRecordTest, WhereAProgramBeginsAgainItSays) {
  RunRecord record = two_workers();
  const auto train = [&](std::int64_t iteration, double sum) {
    EXPECT_TRUE(record.add(report(0, iteration, 1, sum), 0).ok());
    EXPECT_TRUE(record.add(report(1, iteration, 1, sum), 0).ok());
  };
  for (std::int64_t iteration = 1; iteration <= 3; ++iteration) train(iteration, 2);
  record.go_back(std::nullopt);
  EXPECT_EQ(record.iterations_trained(), 3) << "as far as one knows";
  train(3, 32);
  EXPECT_EQ(record.iterations_trained(), 3);
  EXPECT_EQ(record.iterations().size(), 3U);
  EXPECT_EQ(record.objectives().at("rmse"), 8.0);
  train(4, 2);
  EXPECT_EQ(record.iterations().size(), 4U);
}

TEST(RunRecordTest, AfterGoingBackIterationsComeAgain) {
  RunRecord record = two_workers();
  for (std::int64_t iteration = 1; iteration <= 3; ++iteration) {
    ASSERT_TRUE(record.add(report(0, iteration, 1, 4 * static_cast<double>(iteration)), 0).ok());
    ASSERT_TRUE(record.add(report(1, iteration, 1, 5 * static_cast<double>(iteration)), 0).ok());
  }
  ASSERT_TRUE(record.add(report(0, 4, 1, 7), 0).ok());
  ASSERT_TRUE(record.add(job::FinishedMessage{}).ok());
  record.go_back(1);
  EXPECT_EQ(record.restarts(), 1U);
  EXPECT_EQ(record.iterations_trained(), 1);
  EXPECT_EQ(record.objectives().at("rmse"), 3.0);
  EXPECT_FALSE(record.workers()[0].finished.has_value());
  EXPECT_FALSE(record.add(report(0, 1, 1, 0), 0).ok()) << "this one has not been lost";
  EXPECT_FALSE(record.add(report(0, 2, 1, 8), 0)->has_value());
  const auto again = record.add(report(1, 2, 1, 8), 0);
  ASSERT_TRUE(again.ok() && again->has_value());
  EXPECT_EQ((*again)->objectives.at("rmse"), 4.0);
  EXPECT_EQ(record.iterations_trained(), 2);
  EXPECT_EQ(record.training_seconds(), 5) << "what was lost has taken its time";
  EXPECT_EQ(record.items(), 900);
  record.go_back(0);
  EXPECT_EQ(record.restarts(), 2U);
  EXPECT_TRUE(record.iterations().empty());
  EXPECT_TRUE(record.objectives().empty());
  EXPECT_TRUE(record.add(report(0, 0, 0, 1), 0).ok());
}

TEST(RunRecordTest, ShareWaitedIsTheMeanAndStalenessTheSum) {
  RunRecord record = two_workers();
  EXPECT_FALSE(record.mean_clock_differential().has_value());
  job::FinishedMessage finished;
  finished.seconds = 10;
  finished.statistics.waited_seconds = 5;
  finished.statistics.staleness.reads_by_lag = {1, 1};
  ASSERT_TRUE(record.add(finished).ok());
  finished.worker = 1;
  finished.statistics.waited_seconds = 1;
  ASSERT_TRUE(record.add(finished).ok());
  EXPECT_DOUBLE_EQ(record.share_waited(), 0.3);
  EXPECT_DOUBLE_EQ(*record.mean_clock_differential(), -1.5);
}

TEST(RunRecordTest, ShareLocalIsOfTheRowsOfAllWorkers) {
  RunRecord record = two_workers();
  job::FinishedMessage finished;
  ASSERT_TRUE(record.add(finished).ok());
  EXPECT_FALSE(record.share_local().has_value()) << "there is no dynamic table yet";
  finished.statistics.rows_pulled_locally = 20;
  finished.statistics.rows_pulled_remotely = 2;
  ASSERT_TRUE(record.add(finished).ok());
  finished.worker = 1;
  finished.statistics.rows_pushed_locally = 40;
  finished.statistics.rows_pushed_remotely = 16;
  ASSERT_TRUE(record.add(finished).ok());
  EXPECT_EQ(record.total(&SessionStatistics::rows_pulled_locally), 40U);
  EXPECT_DOUBLE_EQ(*record.share_local(), 80.0 / (80 + 4 + 16));
  finished.statistics.rows_pulled_from_replicas = 70;
  finished.statistics.rows_pushed_to_replicas = 30;
  ASSERT_TRUE(record.add(finished).ok());
  EXPECT_DOUBLE_EQ(*record.share_local(), 180.0 / (180 + 4 + 16));
}

TEST(RunRecordTest, BytesOfUpdatesAreSaidOfEachAndOfAll) {
  RunRecord record = two_workers();
  const RunSettings settings{.workers = 2, .options = {}, .slow = {}, .made = {}};
  EXPECT_FALSE(summary_json(settings, record, 1, {}).at("printed").contains("bytes of updates"));
  job::FinishedMessage finished;
  finished.statistics.rows_shipped = 600;
  finished.statistics.rows_kept_back = 400;
  finished.statistics.update_bytes = 2'000;
  ASSERT_TRUE(record.add(finished).ok());
  finished.worker = 1;
  finished.statistics.update_bytes = 1'000'000;
  ASSERT_TRUE(record.add(finished).ok());
  const nlohmann::json printed = summary_json(settings, record, 1, {}).at("printed");
  EXPECT_EQ(printed.at("bytes an update"), "501.00");
  EXPECT_EQ(printed.at("bytes of updates"), "1.00 M");
}

TEST(RunRecordTest, SaysWhatIsAskedOfTheNetworkForEachPushedRow) {
  RunSettings settings;
  RunRecord record = two_workers();
  job::FinishedMessage finished;
  finished.statistics.rows_pushed = 600;
  ASSERT_TRUE(record.add(finished).ok());
  EXPECT_FALSE(summary_json(settings, record, 1, {}).at("printed").contains("posted per pushed row"))
      << "all is mapped";
  finished.worker = 1;
  finished.statistics.rows_pushed = 400;
  finished.statistics.bytes_posted = 408'000;
  finished.statistics.requests_posted = 3'000;
  finished.statistics.doorbells_rung = 500;
  ASSERT_TRUE(record.add(finished).ok());
  EXPECT_EQ(summary_json(settings, record, 1, {}).at("printed").at("posted per pushed row"),
            "408 B, 3 requests, 0.5 doorbells");
}

TEST(RunRecordTest, MovesAreThoseOfAllWorkers) {
  RunRecord record = two_workers();
  job::FinishedMessage finished;
  finished.statistics.move_times.add(1e-6);
  finished.statistics.rows_localized = 7;
  ASSERT_TRUE(record.add(finished).ok());
  finished.worker = 1;
  finished.statistics.rows_localized = 0;
  finished.statistics.rows_moved_by_intent = 5;
  finished.statistics.move_times.add(1e-3);
  ASSERT_TRUE(record.add(finished).ok());
  EXPECT_NEAR(*record.move_times().quantile_seconds(0.5), 1e-6, 0.3e-6);
  EXPECT_NEAR(*record.move_times().quantile_seconds(0.99), 1.1e-3, 0.15e-3);
  EXPECT_EQ(record.rows_moved(), 7U + 5);
}

TEST(ChildMessageTest, ComesBackAsItWas) {
  job::IterationMessage sent = report(3, 7, 0.1, 1.0 / 3);
  sent.report.sums["bad"] = std::nan("");
  const auto message = job::decode(encode(sent));
  ASSERT_TRUE(message.ok()) << message.status();
  const auto& back = std::get<job::IterationMessage>(*message);
  EXPECT_EQ(back.worker, 3U);
  EXPECT_EQ(back.report.sums.at("error"), 1.0 / 3);
  EXPECT_TRUE(std::isnan(back.report.sums.at("bad")));
  EXPECT_TRUE(job::decode(encode(job::PrintMessage{"not \xff UTF-8"})).ok());
}

TEST(ChildMessageTest, CountsComeBackAsTheyWere) {
  std::vector<job::SessionCount> counts(job::kSessionCounts.begin(), job::kSessionCounts.end());
  counts.insert(counts.end(), job::kDynamicRowCounts.begin(), job::kDynamicRowCounts.end());
  job::FinishedMessage sent;
  std::uint64_t number = UINT64_MAX;
  for (const job::SessionCount& count : counts) sent.statistics.*count.value = number--;
  sent.statistics.waited_seconds = 0.5;
  sent.statistics.value_bound_waited_seconds = 0.25;
  sent.statistics.filter_seconds = 0.125;
  sent.statistics.staleness.reads_by_lag = {3, 0, 4};
  sent.statistics.move_times.add(1e-6);
  const auto message = job::decode(encode(sent));
  ASSERT_TRUE(message.ok()) << message.status();
  const SessionStatistics& back = std::get<job::FinishedMessage>(*message).statistics;
  for (const job::SessionCount& count : counts)
    EXPECT_EQ(back.*count.value, sent.statistics.*count.value) << count.name;
  EXPECT_EQ(back.waited_seconds, 0.5);
  EXPECT_EQ(back.value_bound_waited_seconds, 0.25);
  EXPECT_EQ(back.filter_seconds, 0.125);
  EXPECT_EQ(back.staleness.reads_by_lag, sent.statistics.staleness.reads_by_lag);
  EXPECT_EQ(back.move_times.counts, sent.statistics.move_times.counts);
}

TEST(ChildMessageTest, RefusesWhatIsNoMessage) {
  for (const char* line : {"", "{", "[]", "{\"kind\":\"x\"}", "{\"kind\":\"iteration\"}", "{\"kind\":1}"}) {
    EXPECT_FALSE(job::decode(line).ok()) << line;
  }
}

TEST(FormatTest, ReadsWell) {
  EXPECT_EQ(format_rate(2'314'000, "tokens"), "2.31 M tokens/s");
  EXPECT_EQ(format_count(42), "42");
  EXPECT_EQ(format_short_time(0.000'524), "524 µs");
  EXPECT_EQ(format_short_time(0.001'31), "1.31 ms");
  EXPECT_EQ(format_short_time(2.784), "2.78 s");
  EXPECT_EQ(format_clock(3723), "1:02:03");
  EXPECT_EQ(format_share(0.1234), "12.3 %");
}

TEST(SvgChartTest, TicksAreRoundAndSpan) {
  EXPECT_EQ(axis_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_GE(axis_ticks(5, 5, 2).size(), 2U);
  const std::string empty = to_svg(LineChart{"x", "y", {{1, std::nan("")}}});
  EXPECT_NE(empty.find("not evaluated"), std::string::npos);
}

/// Every text of a chart must lie within it, if each letter is 7.5 wide.
void expect_texts_to_fit(const std::string& svg) {
  static const std::regex kText("<text(?: class=\"([^\"]*)\")? x=\"([0-9.-]+)\"[^>]*>([^<]*)</text>");
  std::size_t texts = 0;
  for (std::sregex_iterator each(svg.begin(), svg.end(), kText), end; each != end; ++each, ++texts) {
    const std::string kind = (*each)[1];
    const double width = 7.5 * static_cast<double>(columns_of((*each)[3].str()));
    const double left = std::stod((*each)[2]) - (kind.ends_with("end")      ? width
                                                 : kind.ends_with("middle") ? width / 2
                                                                            : 0);
    EXPECT_GE(left, 0) << each->str();
    EXPECT_LE(left + width, 640) << each->str();
  }
  EXPECT_GT(texts, 3U);
}

TEST(SvgChartTest, LabelsAreNotCutOff) {
  const std::vector<std::pair<double, double>> points = {{0, -1234567.8}, {123456.75, 7.25e-5}};
  expect_texts_to_fit(to_svg(LineChart{"iteration", "log_likelihood_per_token", points}));
  expect_texts_to_fit(
      to_svg(CurveChart{"seconds", "objective", {{"a rather long name of a curve", points}}}));
  LogChart log{.x_label = "bytes",
               .y_label = "bandwidth",
               .x_text = [](double bytes) { return std::to_string(static_cast<int>(bytes)) + " MiB"; },
               .y_text = [](double rate) { return std::to_string(static_cast<int>(rate)) + " MB/s"; },
               .series = {{.label = "read", .points = {{8, 3}, {9, 40}, {1'000'000, 12'345}}}}};
  expect_texts_to_fit(to_svg(log));
  expect_texts_to_fit(to_svg(BarChart{
      .title = "reads",
      .bars = {{"worker 4095 of very many", 1, "100.0 % (123 M of 124 M)"}, {"worker 1", 0.25, "25.0 %"}}}));
}

TEST(SvgChartTest, PartsOfAWholeAreDrawnOnItsScale) {
  BarChart chart{.title = "waits", .bars = {{"worker 0", 0.02, "2 %"}, {"worker 1", 0.01, "1 %"}}};
  const auto bars = [](const std::string& svg) {
    static const std::regex kBar("class=\"bar\"[^>]* width=\"([0-9.]+)\"");
    std::vector<double> widths;
    for (std::sregex_iterator each(svg.begin(), svg.end(), kBar), end; each != end; ++each) {
      widths.push_back(std::stod((*each)[1]));
    }
    return widths;
  };
  EXPECT_GT(bars(to_svg(chart))[0], 300) << "the longest bar has the whole width";
  chart.whole = 1;
  chart.whole_text = "100 %";
  const std::string svg = to_svg(chart);
  EXPECT_LT(bars(svg)[0], 20) << "the bar has 2 % of the whole width";
  EXPECT_NE(svg.find(">100 %</text>"), std::string::npos);
  expect_texts_to_fit(svg);
}

}  // namespace
}  // namespace verbena::apps
