#include "apps/report/html_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "apps/report/format.hpp"
#include "apps/report/html_page.hpp"
#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace {

constexpr std::size_t kMostBars = 12;

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
    if (by_iteration.points.size() < 2) continue;  // one value is not a curve: the summary shows it
    out += html_card(name + " per iteration", to_svg(by_iteration));
    out += html_card(name + " per second", to_svg(by_second));
  }
  return out;
}

std::string charts_of_model(const std::vector<ModelChart>& charts) {
  std::string out;
  for (const ModelChart& chart : charts) out += html_card(chart.title, to_svg(chart.curves), chart.note);
  return out;
}

std::string staleness(const RunRecord& record) {
  const std::vector<std::uint64_t> reads = record.staleness().reads_by_lag;
  const double all = static_cast<double>(std::accumulate(reads.begin(), reads.end(), std::uint64_t{0}));
  if (all == 0) return "";
  BarChart chart{.title = "share of rows read by clock differential", .bars = {}};
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
  return html_card(
      "Staleness of reads", to_svg(chart),
      "Rows read, by clock differential: the newest clock surely included minus the reader's clock.");
}

std::string waits(const RunSettings& settings, const RunRecord& record) {
  BarChart chart{
      .title = "share of time each worker waited", .bars = {}, .whole = 1, .whole_text = format_share(1)};
  std::string table = "<table><tr><th>worker</th><td>throughput</td><td>waited</td></tr>\n";
  for (const WorkerRow& row : worker_rows(settings, record)) {
    const WorkerRecord& worker = record.workers()[chart.bars.size()];
    chart.bars.push_back({"worker " + row.worker, worker.share_waited(), row.waited});
    table +=
        fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td></tr>\n", row.worker, row.throughput, row.waited);
  }
  return html_card("Time that workers waited", to_svg(chart),
                   "Blocked in pull, push, clock or barrier, of the time in the model's training function.") +
         html_card("Workers", table + "</table>\n");
}

std::string summary(const SummaryRows& rows) {
  std::string table = "<table>\n";
  for (const auto& [label, text] : rows) {
    table += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape_markup(label), escape_markup(text));
  }
  return html_card("Summary", table + "</table>\n");
}

/// The options, including the data and the default values.
std::string options(const RunSettings& settings) {
  std::string table = "<table>\n";
  for (const auto& [name, value] : settings.options) {
    table += fmt::format("<tr><th>--{}</th><td>{}</td></tr>\n", escape_markup(name), escape_markup(value));
  }
  return html_card("Options of " + settings.model, table + "</table>\n");
}

/// Where rows lay, how they were read, and so on: what the program decided, and what it was told.
std::string choices(const RunSettings& settings) {
  if (settings.choices.empty()) return "";
  std::string table = "<table>\n";
  for (const Choice& choice : settings.choices) {
    table += fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td></tr>\n", escape_markup(choice.name),
                         escape_markup(choice.value), origin_of(choice));
  }
  return html_card("Choices", table + "</table>\n",
                   "What the program chose by itself, or was told by hand, by the option of that name.");
}

/// What has happened to the processes, if anything has.
std::string deaths(const RunRecord& record) {
  if (record.events().empty()) return "";
  std::string table = "<div class=\"scroll\"><table><tr><th>what</th><td>at</td><td>event</td></tr>\n";
  for (const RunEvent& event : record.events()) {
    table += fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td></tr>\n", escape_markup(event.what),
                         format_seconds(event.elapsed_seconds), name_of(event.kind));
  }
  return html_card(
      "Deaths and failovers", table + "</table></div>\n",
      "Seconds since the start of the run. failover: a copy of a server has died, and others go "
      "on; join: another copy has all that the others have; replacement: another process takes a "
      "worker's place.",
      /*wide=*/true);
}

std::string words(const std::vector<std::string>& printed) {
  if (printed.empty()) return "";
  std::string text = "<pre>";
  for (const std::string& line : printed) text += escape_markup(line) + "\n";
  return html_card("What the model says", text + "</pre>\n", "", true);
}

std::string figures(const RunSettings& settings, const RunRecord& record) {
  std::string out = "<div class=\"figures\">\n";
  const auto main = settings.main_objective.empty() ? record.objectives().begin()
                                                    : record.objectives().find(settings.main_objective);
  if (main != record.objectives().end()) out += html_figure(format_objective(main->second), main->first);
  out += html_figure(format_seconds(record.training_seconds()),
                     fmt::format("training, {} iterations", record.iterations_trained()));
  out += html_figure(format_rate(record.throughput(), settings.throughput_unit), "throughput");
  if (!settings.baseline)
    out += html_figure(format_share(record.share_waited()), "of the workers' time waited");
  return out + "</div>\n";
}

}  // namespace

std::string html_report(const RunSettings& settings, const RunRecord& record, double elapsed_seconds,
                        const std::vector<ModelChart>& charts, const std::vector<std::string>& printed) {
  const std::string title = headline(settings);
  std::string page = figures(settings, record);
  page += "<div class=\"cards\">\n" + curves(settings, record) + charts_of_model(charts) + staleness(record);
  if (!settings.baseline) page += waits(settings, record);
  page += summary(summary_rows(settings, record, elapsed_seconds)) + options(settings) + choices(settings) +
          deaths(record) + words(printed);
  return html_page(title, settings.model,
                   title + (settings.seed ? fmt::format(", seed {}", *settings.seed) : std::string()),
                   settings.made, page + "</div>\n");
}

}  // namespace verbena::apps
