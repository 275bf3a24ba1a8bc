#include "apps/report/summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/report/format.hpp"
#include "apps/report/metrics.hpp"

namespace verbena::apps {
namespace {

std::string counted(std::uint32_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::string headline(const RunSettings& settings) {
  if (settings.baseline) return fmt::format("{}, plain loop in one process", settings.model);
  std::string text = fmt::format("{}{}, {}, {} × {}", settings.process.empty() ? "" : settings.process + ": ",
                                 settings.model, settings.consistency, counted(settings.servers, "server"),
                                 counted(settings.workers, "worker"));
  if (settings.threads > 1) text += fmt::format(" of {} threads", settings.threads);
  if (settings.allocation != kStaticAllocation) text += fmt::format(", {}", settings.allocation);
  text += fmt::format(", {}", settings.transport);
  if (settings.budget_mb_per_s > 0) text += fmt::format(", budget: {} MB/s", settings.budget_mb_per_s);
  if (!settings.network.empty()) text += fmt::format(", network: {}", settings.network);
  for (const std::string& slow : settings.slow) text += fmt::format(", slow: {}", slow);
  return text;
}

SummaryRows summary_rows(const RunSettings& settings, const RunRecord& record, double elapsed_seconds) {
  SummaryRows rows;
  // The main objective first.
  for (const bool main : {true, false}) {
    for (const auto& [name, value] : record.objectives()) {
      if ((name == settings.main_objective) == main) rows.emplace_back(name, format_objective(value));
    }
  }
  rows.emplace_back("iterations", std::to_string(record.iterations_trained()));
  if (record.failovers() > 0) rows.emplace_back("failovers", std::to_string(record.failovers()));
  if (record.replacements() > 0) rows.emplace_back("workers replaced", std::to_string(record.replacements()));
  if (record.restarts() > 0) rows.emplace_back("restarts", std::to_string(record.restarts()));
  rows.emplace_back("training time", format_seconds(record.training_seconds()));
  rows.emplace_back("total time", format_seconds(elapsed_seconds));
  rows.emplace_back("throughput", format_rate(record.throughput(), settings.throughput_unit));
  if (settings.baseline) return rows;
  rows.emplace_back("throughput per worker",
                    format_rate(record.throughput_per_worker(), settings.throughput_unit));
  const std::optional<double> differential = record.mean_clock_differential();
  rows.emplace_back("mean clock differential",
                    differential ? fmt::format("{:.3f}", *differential) : std::string("no reads"));
  rows.emplace_back("share of time waited", format_share(record.share_waited()));
  if (const std::optional<double> share = record.share_shipped())
    rows.emplace_back("share of updates sent", format_share(*share));
  if (const std::optional<double> bytes = record.bytes_an_update()) {
    rows.emplace_back("bytes an update", fmt::format("{:.2f}", *bytes));
    const auto all = static_cast<double>(record.total(&SessionStatistics::update_bytes));
    rows.emplace_back("bytes of updates", format_count(all));
  }
  if (const auto posted = record.posted_per_pushed_row()) {
    rows.emplace_back("posted per pushed row",
                      fmt::format("{:.4g} B, {:.3g} requests, {:.3g} doorbells", posted->bytes,
                                  posted->requests, posted->doorbells));
  }
  if (const std::optional<double> share = record.share_filtering())
    rows.emplace_back("share of time in filters", format_share(*share));
  if (const std::optional<double> share = record.share_gathered())
    rows.emplace_back("share of rows gathered", format_share(*share));
  if (const std::optional<double> share = record.share_local())
    rows.emplace_back("share of rows local", format_share(*share));
  const DurationHistogram moves = record.move_times();
  const std::optional<double> median = moves.quantile_seconds(0.5);
  const std::optional<double> p99 = moves.quantile_seconds(0.99);
  if (median && p99) {
    const auto moved = static_cast<double>(record.rows_moved());
    const double seconds = record.training_seconds();
    rows.emplace_back("rows moved", format_rate(seconds > 0 ? moved / seconds : 0, "rows"));
    rows.emplace_back("time of a move", fmt::format("{} (99th percentile {})", format_short_time(*median),
                                                    format_short_time(*p99)));
  }
  return rows;
}

std::vector<WorkerRow> worker_rows(const RunSettings& settings, const RunRecord& record) {
  std::vector<WorkerRow> rows;
  for (const WorkerRecord& worker : record.workers()) {
    rows.push_back({std::to_string(settings.first_worker + rows.size()),
                    format_rate(worker.throughput(), settings.throughput_unit),
                    format_share(worker.share_waited())});
  }
  return rows;
}

std::string summary_table(const RunSettings& settings, const RunRecord& record, double elapsed_seconds) {
  const SummaryRows rows = summary_rows(settings, record, elapsed_seconds);
  std::size_t label_width = 0;
  for (const auto& [label, text] : rows) label_width = std::max(label_width, label.size());
  std::string table = fmt::format("\n{}\n\n", headline(settings));
  for (const auto& [label, text] : rows) table += fmt::format("  {:<{}}  {}\n", label, label_width, text);
  if (settings.baseline) return table;

  const std::vector<WorkerRow> workers = worker_rows(settings, record);
  std::size_t width = std::string_view("throughput").size();
  for (const WorkerRow& row : workers) width = std::max(width, row.throughput.size());
  table += fmt::format("\n  {:<6}  {:>{}}  {:>8}\n", "worker", "throughput", width, "waited");
  for (const WorkerRow& row : workers) {
    table += fmt::format("  {:<6}  {:>{}}  {:>8}\n", row.worker, row.throughput, width, row.waited);
  }
  return table;
}

nlohmann::json summary_json(const RunSettings& settings, const RunRecord& record, double elapsed_seconds,
                            const nlohmann::json& extra) {
  nlohmann::json summary = settings_json(settings);
  summary["kind"] = "summary";
  summary["seconds"] = record.training_seconds();
  summary["elapsed_seconds"] = elapsed_seconds;
  summary["iterations"] = record.iterations_trained();
  if (record.failovers() > 0) summary["failovers"] = record.failovers();
  if (record.replacements() > 0) summary["replacements"] = record.replacements();
  if (record.restarts() > 0) summary["restarts"] = record.restarts();
  summary["objectives"] = record.objectives();
  summary["items"] = record.items();
  summary["throughput"] = record.throughput();
  summary["throughput_per_worker"] = record.throughput_per_worker();
  const std::optional<double> differential = record.mean_clock_differential();
  summary["mean_clock_differential"] = differential ? nlohmann::json(*differential) : nlohmann::json();
  summary["share_waited"] = record.share_waited();
  nlohmann::json& shares = summary["share_waited_by_worker"] = nlohmann::json::array();
  for (const WorkerRecord& worker : record.workers()) shares.push_back(worker.share_waited());
  summary["reads_by_lag"] = record.staleness().reads_by_lag;
  for (const job::SessionCount& count : job::kDynamicRowCounts)
    summary[count.name] = record.total(count.value);
  const std::optional<double> share_local = record.share_local();
  summary["share_local"] = share_local ? nlohmann::json(*share_local) : nlohmann::json();
  const DurationHistogram moves = record.move_times();
  for (const auto& [name, quantile] : {std::pair("move_p50_seconds", 0.5), {"move_p99_seconds", 0.99}}) {
    const std::optional<double> seconds = moves.quantile_seconds(quantile);
    summary[name] = seconds ? nlohmann::json(*seconds) : nlohmann::json();
  }
  nlohmann::json& printed = summary["printed"] = nlohmann::json::object();
  for (const auto& [label, text] : summary_rows(settings, record, elapsed_seconds)) printed[label] = text;
  summary["model_summary"] = extra;
  return summary;
}

}  // namespace verbena::apps
