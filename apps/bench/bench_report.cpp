#include "apps/bench/bench_report.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "apps/report/html_page.hpp"
#include "apps/report/provenance.hpp"
#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace {

using bench::GatherCrossover;
using bench::Result;
using bench::Yardstick;

constexpr std::array<std::pair<const char*, double>, 5> kPercentiles{
    {{"min", 0}, {"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}}};

using Operation = std::vector<const Result*>;  ///< the results of one operation, by size

std::vector<Operation> by_operation(const std::vector<Result>& results) {
  std::vector<Operation> operations;
  for (const Result& result : results) {
    if (operations.empty() || operations.back().front()->operation != result.operation) {
      operations.emplace_back();
    }
    operations.back().push_back(&result);
  }
  return operations;
}

std::string size_of(double bytes) {
  return bench::size_text(static_cast<std::size_t>(std::llround(bytes)));
}

std::string rate_of(double megabytes_per_second) {
  return fmt::format("{:g} MB/s", megabytes_per_second);
}

/// perftest's figures of one kind, by size; without points if there are none.
LogChart::Series yardstick_series(const Operation& operation, Yardstick::Figure figure, double unit) {
  LogChart::Series series{.label = "", .points = {}, .dashed = true};
  for (const Result* result : operation) {
    for (const Yardstick& yardstick : result->yardsticks) {
      if (yardstick.figure != figure || !yardstick.name.starts_with("ib_")) continue;
      series.label = yardstick.name;
      series.points.emplace_back(static_cast<double>(result->bytes), yardstick.value / unit);
    }
  }
  return series;
}

void add(LogChart& chart, LogChart::Series series) {
  if (!series.points.empty()) chart.series.push_back(std::move(series));
}

std::string latency_card(const Operation& operation) {
  LogChart chart{.x_label = "bytes of one operation",
                 .y_label = "latency",
                 .x_text = size_of,
                 .y_text = [](double nanoseconds) { return bench::time_text(nanoseconds); },
                 .series = {}};
  for (const auto& [name, fraction] : kPercentiles) {
    LogChart::Series series{.label = name, .points = {}};
    for (const Result* result : operation) {
      series.points.emplace_back(static_cast<double>(result->bytes), result->samples.percentile(fraction));
    }
    add(chart, std::move(series));
  }
  add(chart, yardstick_series(operation, Yardstick::Figure::kMedian, 1));
  return html_card(operation.front()->operation + ": latency", to_svg(chart), operation.front()->what);
}

std::string bandwidth_card(const Operation& operation) {
  LogChart chart{.x_label = "bytes of one operation",
                 .y_label = "bandwidth",
                 .x_text = size_of,
                 .y_text = rate_of,
                 .series = {}};
  LogChart::Series ours{.label = operation.front()->operation, .points = {}};
  for (const Result* result : operation) {
    ours.points.emplace_back(static_cast<double>(result->bytes), result->bytes_per_second() / 1e6);
  }
  add(chart, std::move(ours));
  add(chart, yardstick_series(operation, Yardstick::Figure::kBandwidth, 1e6));
  const bench::Stream& stream = *operation.front()->stream;
  return html_card(operation.front()->operation + ": bandwidth", to_svg(chart),
                   fmt::format("{} connections, {} requests under way on each, posted by {}.",
                               stream.connections, stream.depth, stream.batch));
}

std::string row(const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += fmt::format("<{0}>{1}</{0}>", i == 0 ? "th" : "td", escape_markup(cells[i]));
  }
  return out + "</tr>\n";
}

std::string figures_card(const std::vector<Result>& results) {
  std::vector<std::string> head{"operation", "size"};
  for (const auto& [name, fraction] : kPercentiles) head.emplace_back(name);
  head.insert(head.end(), {"messages/s", "MB/s"});
  std::string table = "<div class=\"scroll\"><table>\n" + row(head);
  for (const Result& result : results) {
    std::vector<std::string> cells{result.operation, bench::size_text(result.bytes)};
    for (const auto& [name, fraction] : kPercentiles) {
      cells.push_back(bench::time_text(result.samples.percentile(fraction)));
    }
    cells.push_back(fmt::format("{:.4g}", result.per_second()));
    cells.push_back(fmt::format("{:.4g}", result.bytes_per_second() / 1e6));
    table += row(cells);
  }
  return html_card("All figures", table + "</table></div>\n", "", true);
}

std::string yardsticks_card(const bench::Circumstances& circumstances, const std::vector<Result>& results) {
  std::string rows;
  for (const Result& result : results) {
    for (const Yardstick& yardstick : result.yardsticks) {
      rows +=
          row({result.operation, bench::size_text(result.bytes), yardstick.name,
               bench::figure_text(yardstick, result.figure(yardstick)),
               bench::figure_text(yardstick, yardstick.value), fmt::format("{:.3g}", result.ratio(yardstick)),
               bench::budget_text(circumstances, result, yardstick)});
    }
  }
  if (rows.empty()) return "";
  return html_card("Beside what was measured in the same run",
                   "<div class=\"scroll\"><table>\n" +
                       row({"operation", "size", "yardstick", "ours", "the yardstick's", "ratio", "budget"}) +
                       rows + "</table></div>\n",
                   "", true);
}

/// How long both ways take, by the rows' width and the number of keys.
std::string crossovers_card(const std::vector<GatherCrossover>& crossovers) {
  if (crossovers.empty()) return "";
  std::vector<std::string> head{"rows", "gathering pays from", "keys"};
  for (const GatherCrossover::Pull& pull : crossovers.front().pulls)
    head.push_back(std::to_string(pull.keys));
  std::string table = "<div class=\"scroll\"><table>\n" + row(head);
  for (const GatherCrossover& crossover : crossovers) {
    std::vector<std::string> read{crossover.row_text(), crossover.from_keys_text(), "read"};
    std::vector<std::string> gathered{"", "", "gathered"};
    for (const GatherCrossover::Pull& pull : crossover.pulls) {
      read.push_back(bench::time_text(pull.read_ns));
      gathered.push_back(bench::time_text(pull.gathered_ns));
    }
    table += row(read) + row(gathered);
  }
  return html_card("Rows read one by one, or gathered by the server", table + "</table></div>\n", "", true);
}

std::string what_card(const std::vector<Operation>& operations, bool has_crossovers,
                      const std::vector<std::string>& notes) {
  std::string table = "<table>\n";
  for (const Operation& operation : operations) {
    table += row({operation.front()->operation, operation.front()->what});
  }
  if (has_crossovers) table += row({bench::kGatherCrossover, bench::kGatherCrossoverWhat});
  std::string all_notes;
  for (const std::string& note : notes) all_notes += note + " ";
  return html_card("What is timed", table + "</table>\n", all_notes, true);
}

}  // namespace

std::string bench_report(const bench::Circumstances& circumstances, const Provenance& made,
                         const std::vector<Result>& results, const std::vector<GatherCrossover>& crossovers) {
  const std::vector<Operation> operations = by_operation(results);
  std::string cards = "<div class=\"cards\">\n";
  for (const Operation& operation : operations) {
    if (operation.size() < 2) continue;  // one figure is no curve: the table shows it
    cards += latency_card(operation);
    if (operation.front()->stream) cards += bandwidth_card(operation);
  }
  if (!results.empty()) cards += figures_card(results);
  cards += yardsticks_card(circumstances, results) + crossovers_card(crossovers) +
           what_card(operations, !crossovers.empty(), bench::all_notes(circumstances));
  return html_page("verbena bench", "bench", bench::place_text(circumstances), made, cards + "</div>\n");
}

}  // namespace verbena::apps
