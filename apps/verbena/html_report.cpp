#include "apps/verbena/html_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "apps/verbena/format.hpp"
#include "apps/verbena/svg_chart.hpp"

namespace verbena::apps {
namespace {

constexpr std::size_t kMostBars = 12;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --page: #f7f6fa; --card: #ffffff; --ink: #26222f; --soft: #6d667c; --rule: #e4e0ec;
        --accent: #7b3fa6; --shadow: 0 1px 3px rgb(40 20 60 / .12); }
@media (prefers-color-scheme: dark) {
  :root { --page: #17151c; --card: #211e28; --ink: #ece8f3; --soft: #a59db5; --rule: #383342; --accent: #c08be8;
          --shadow: none; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 16px; margin: 0 0 12px; }
.how { color: var(--soft); margin: 4px 0 24px; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; margin-bottom: 16px; }
.figure, section { background: var(--card); border-radius: 10px; box-shadow: var(--shadow); }
.figure { padding: 12px 18px; flex: 1 1 150px; } .figure b { display: block; font-size: 21px; white-space: nowrap; }
.figure span { color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.cards { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
section { padding: 18px 20px; min-width: 0; } section.wide { grid-column: 1 / -1; }
.note { color: var(--soft); font-size: 13px; margin: 8px 0 0; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 13px; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.grid line { stroke: var(--rule); } .curve { fill: none; stroke: var(--accent); stroke-width: 2; stroke-linejoin: round; }
.dots circle { fill: var(--accent); } .bar { fill: var(--accent); }
table { border-collapse: collapse; width: 100%; } td, th { padding: 5px 0; border-top: 1px solid var(--rule); }
tr:first-child > * { border-top: 0; } th { text-align: left; font-weight: normal; color: var(--soft); }
td { text-align: right; font-variant-numeric: tabular-nums; }
pre { margin: 0; overflow-x: auto; font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
footer { color: var(--soft); font-size: 13px; margin-top: 24px; }
)";

std::string card(std::string_view title, std::string_view body, std::string_view note = "",
                 bool wide = false) {
  std::string out =
      fmt::format("<section{}>\n<h2>{}</h2>\n{}", wide ? " class=\"wide\"" : "", escape_markup(title), body);
  if (!note.empty()) out += fmt::format("<p class=\"note\">{}</p>\n", escape_markup(note));
  return out + "</section>\n";
}

std::string figure(std::string_view value, std::string_view label) {
  return fmt::format("<div class=\"figure\"><b>{}</b><span>{}</span></div>\n", escape_markup(value),
                     escape_markup(label));
}

std::vector<std::string> objective_names(const RunSettings& settings, const RunRecord& record) {
  std::vector<std::string> names;
  for (const auto& [name, value] : record.objectives()) names.push_back(name);
  std::stable_partition(names.begin(), names.end(),
                        [&](const std::string& name) { return name == settings.main_objective; });
  return names;
}

std::string curves(const RunSettings& settings, const RunRecord& record) {
  std::string out;
  for (const std::string& name : objective_names(settings, record)) {
    LineChart by_iteration{"iteration", name, {}};
    LineChart by_second{"seconds of training", name, {}};
    for (const IterationRecord& iteration : record.iterations()) {
      const auto value = iteration.objectives.find(name);
      if (value == iteration.objectives.end()) continue;
      by_iteration.points.emplace_back(static_cast<double>(iteration.iteration), value->second);
      by_second.points.emplace_back(iteration.training_seconds, value->second);
    }
    if (by_iteration.points.size() < 2) continue;  // a figure, no curve: the summary has it
    out += card(name + " per iteration", to_svg(by_iteration));
    out += card(name + " per second", to_svg(by_second));
  }
  return out;
}

std::string staleness(const RunRecord& record) {
  const std::vector<std::uint64_t> reads = record.staleness().reads_by_lag;
  const double all = static_cast<double>(std::accumulate(reads.begin(), reads.end(), std::uint64_t{0}));
  if (all == 0) return "";
  BarChart chart{"share of rows read by clock differential", {}};
  std::size_t used = reads.size();
  while (used > 0 && reads[used - 1] == 0) --used;
  for (std::size_t lag = 0; lag < std::min(used, kMostBars); ++lag) {
    const bool rest = lag + 1 == kMostBars && used > kMostBars;
    const auto end = rest ? reads.end() : reads.begin() + static_cast<std::ptrdiff_t>(lag) + 1;
    const auto count = static_cast<double>(
        std::accumulate(reads.begin() + static_cast<std::ptrdiff_t>(lag), end, std::uint64_t{0}));
    chart.bars.push_back({fmt::format("−{}{}", lag + 1, rest ? " …" : ""), count,
                          fmt::format("{} ({})", format_share(count / all), format_count(count))});
  }
  return card("Staleness of reads", to_svg(chart),
              "Rows read, by clock differential: the newest clock surely included minus the reader's clock.");
}

std::string waits(const RunSettings& settings, const RunRecord& record) {
  BarChart chart{"share of time each worker waited", {}};
  std::string table = "<table><tr><th>worker</th><td>throughput</td><td>waited</td></tr>\n";
  for (const WorkerRow& row : worker_rows(settings, record)) {
    const WorkerRecord& worker = record.workers()[chart.bars.size()];
    chart.bars.push_back({"worker " + row.worker, worker.share_waited(), row.waited});
    table +=
        fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td></tr>\n", row.worker, row.throughput, row.waited);
  }
  return card("Time that workers waited", to_svg(chart),
              "Blocked in pull, push, clock or barrier, of the time in the model's training function.") +
         card("Workers", table + "</table>\n");
}

std::string summary(const SummaryRows& rows) {
  std::string table = "<table>\n";
  for (const auto& [label, text] : rows) {
    table += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape_markup(label), escape_markup(text));
  }
  return card("Summary", table + "</table>\n");
}

std::string words(const std::vector<std::string>& printed) {
  if (printed.empty()) return "";
  std::string text = "<pre>";
  for (const std::string& line : printed) text += escape_markup(line) + "\n";
  return card("What the model says", text + "</pre>\n", "", true);
}

std::string figures(const RunSettings& settings, const RunRecord& record) {
  std::string out = "<div class=\"figures\">\n";
  const auto main = record.objectives().find(settings.main_objective);
  if (main != record.objectives().end()) out += figure(format_objective(main->second), main->first);
  out += figure(format_seconds(record.training_seconds()),
                fmt::format("training, {} iterations", record.iterations().size()));
  out += figure(format_rate(record.throughput(), settings.throughput_unit), "throughput");
  if (!settings.baseline) out += figure(format_share(record.share_waited()), "of the workers' time waited");
  return out + "</div>\n";
}

}  // namespace

std::string html_report(const RunSettings& settings, const RunRecord& record, double elapsed_seconds,
                        const std::vector<std::string>& printed) {
  const std::string title = escape_markup(headline(settings));
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n<p class=\"how\">{}{}</p>\n",
      title, kStyle, escape_markup(settings.model), title,
      settings.seed ? fmt::format(", seed {}", *settings.seed) : std::string());
  page += figures(settings, record);
  page += "<div class=\"cards\">\n" + curves(settings, record) + staleness(record);
  if (!settings.baseline) page += waits(settings, record);
  page += summary(summary_rows(settings, record, elapsed_seconds)) + words(printed);
  return page +
         fmt::format("</div>\n<footer>Verbena {}</footer>\n</main>\n</body>\n</html>\n", VERBENA_VERSION);
}

}  // namespace verbena::apps
