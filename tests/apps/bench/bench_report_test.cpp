#include "apps/bench/bench_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

bench::Result result(const std::string& operation, std::size_t bytes) {
  bench::Result result{.operation = operation, .what = "a <write>", .bytes = bytes, .samples = {}};
  result.samples.add(1000);
  result.stream = bench::Stream{.operations_per_second = 1e6};
  result.yardsticks = {{.name = "ib_write_lat", .value = 900, .budget = 1.2}};
  return result;
}

TEST(BenchReportTest, CurvesWhereThereAreSizesAndOneFigureWhereNot) {
  const std::string page = bench_report({.transport = "verbs", .other_side = "node2"},
                                        {.command = "verbena bench", .host = "node1", .date = "today"},
                                        {result("write", 8), result("write", 4096), result("clock", 0)});
  EXPECT_THAT(page, HasSubstr("write: latency"));
  EXPECT_THAT(page, HasSubstr("write: bandwidth"));
  EXPECT_THAT(page, Not(HasSubstr("clock: latency")));
  EXPECT_THAT(page, HasSubstr("<th>clock</th>"));
  EXPECT_THAT(page, HasSubstr("≤ 1.2: kept"));
  EXPECT_THAT(page, HasSubstr("a &lt;write&gt;"));
  EXPECT_THAT(page, HasSubstr("<pre class=\"command\">verbena bench</pre>today, on node1"));
}

TEST(BenchReportTest, SaysOverWhatWasMeasured) {
  const std::string page =
      bench_report({.transport = "tcp", .encrypted = true, .other_side = "node2"}, {}, {});
  EXPECT_THAT(page, HasSubstr("tcp, encrypted; the other side: node2"));
}

TEST(BenchReportTest, CrossoversHaveATableOfTheirOwn) {
  const bench::GatherCrossover crossover{.row_floats = 1, .pulls = {{8, 500, 700}, {16, 900, 800}}};
  const auto page = [](const std::vector<bench::GatherCrossover>& crossovers) {
    return bench_report({.transport = "verbs", .other_side = "node2"}, {}, {}, crossovers);
  };
  EXPECT_THAT(page({crossover}),
              AllOf(HasSubstr("<th>1 float</th><td>16</td><td>read</td><td>500.0 ns</td>"),
                    HasSubstr("<td>gathered</td><td>700.0 ns</td>"), HasSubstr("<th>gather-crossover</th>"),
                    Not(HasSubstr("All figures"))));
  EXPECT_THAT(page({}), Not(HasSubstr("gather")));
}

TEST(LogChartTest, LeavesOutWhatHasNoLogarithm) {
  LogChart chart{.x_label = "bytes",
                 .y_label = "latency",
                 .x_text = [](double) { return "x"; },
                 .y_text = [](double) { return "y"; },
                 .series = {{.label = "p50", .points = {{0, 1}, {8, -1}}}}};
  EXPECT_THAT(to_svg(chart), HasSubstr("not measured"));
  chart.series[0].points = {{8, 100}, {16, 0}, {64, 200}};
  const std::string svg = to_svg(chart);
  EXPECT_THAT(svg, HasSubstr("<circle"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace verbena::apps
