#include "apps/experiment/experiment_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_join.h"
#include "apps/report/format.hpp"
#include "apps/report/html_page.hpp"
#include "apps/report/metrics.hpp"
#include "apps/report/provenance.hpp"
#include "apps/report/svg_chart.hpp"
#include "base/printable.hpp"

namespace verbena::apps {
namespace {

std::string table_text(const ReportTable& table) {
  std::vector<std::size_t> widths(table.head.size(), 0);
  const auto widen = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], columns_of(cells[i]));
  };
  widen(table.head);
  for (const auto& row : table.rows) widen(row);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      // Names are aligned to the left, numbers to the right.
      const std::string room(widths[i] - columns_of(cells[i]), ' ');
      const bool name = i < 2;
      out += "  " + (name ? cells[i] + room : room + cells[i]);
    }
    return out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
  };
  std::string out = fmt::format("{}\n\n{}", table.title, line(table.head));
  for (const auto& row : table.rows) out += line(row);
  return out;
}

std::string table_row(const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += fmt::format("<{0}>{1}</{0}>", i == 0 ? "th" : "td", escape_markup(cells[i]));
  }
  return out + "</tr>\n";
}

std::string table_card(const ReportTable& table) {
  std::string body = "<div class=\"scroll\"><table>\n" + table_row(table.head);
  for (const auto& row : table.rows) body += table_row(row);
  return html_card(table.title, body + "</table></div>\n", "", true);
}

/// The number of findings with each verdict, the bad verdicts first.
std::string tally(const std::vector<Finding>& findings) {
  std::string out;
  for (const auto& [verdict, words] : {std::pair(Verdict::kDidNotHold, "did not hold"),
                                       {Verdict::kNotSeen, "not seen"},
                                       {Verdict::kHeld, "held"}}) {
    const auto count =
        std::count_if(findings.begin(), findings.end(),
                      [wanted = verdict](const Finding& finding) { return finding.verdict == wanted; });
    if (count > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, words);
  }
  return out;
}

std::string findings_card(const std::vector<Finding>& findings) {
  std::string body = "<table>\n";
  for (const Finding& finding : findings) {
    body += fmt::format("<tr><th>{}<br/>{}</th><td><b>{}</b></td></tr>\n",
                        escape_markup("expected: " + finding.expectation),
                        escape_markup("found: " + finding.found), to_string(finding.verdict));
  }
  return html_card("Expected and found", body + "</table>\n",
                   "The expectations are part of the program: they were there before the runs.", true);
}

std::string commands_card(const std::vector<ReportedRun>& runs) {
  std::string body = "<pre>";
  std::set<std::string_view> told;
  for (const ReportedRun& run : runs) {
    const bool again = !told.insert(run.command).second;  // the command was shown for an earlier round
    if (again && run.failure.empty()) continue;
    body += escape_markup(run.command) + "\n";
    if (!run.failure.empty()) body += escape_markup("  failed: " + run.failure) + "\n";
  }
  return html_card("The runs, one by one", body + "</pre>\n", "", true);
}

nlohmann::json optional_json(const std::optional<double>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json();
}

ReportSubject subject_of(const Experiment& experiment, const std::string& circumstances) {
  return {std::string(experiment.name()), std::string(experiment.description()),
          std::string(experiment.method()), circumstances, provenance()};
}

std::vector<ReportedRun> reported(const std::vector<RunFigures>& runs) {
  std::vector<ReportedRun> all;
  all.reserve(runs.size());
  for (const RunFigures& run : runs)
    all.push_back({run.planned.label, command_line(run.planned), run.failure});
  return all;
}

}  // namespace

std::string circumstances(const Experiment& experiment, const ExperimentOptions& options,
                          std::uint32_t cores) {
  const std::string processes =
      options.nodes.empty()
          ? fmt::format("{} workers and {} server{}", options.workers, options.servers,
                        options.servers == 1 ? "" : "s")
          : fmt::format("{} nodes of a server and a worker each", fmt::join(options.nodes, " and "));
  std::string text = fmt::format("{} on {} cores, seed {}", processes, cores, options.seed);
  if (options.item_time.count() > 0) {
    text += fmt::format("; each rating and token takes {} ns", options.item_time.count());
  }
  if (options.network.empty()) {
    text += "; shared memory as it is";
    if (experiment.compares_models()) text += ", read through the row cache";
  } else {
    text += fmt::format("; network of {}", options.network);
  }
  return text;
}

std::string command_line(const PlannedRun& run) {
  if (run.peer == nullptr) return "verbena run " + absl::StrJoin(run.arguments, " ");
  return run.program + " " + absl::StrJoin(run.peer->arguments(run.peer_task), " ");
}

std::string report_text(const ReportSubject& subject, const Judgement& judgement,
                        const std::vector<ReportedRun>& runs) {
  std::string out =
      fmt::format("experiment {}: {}\n{}\n", subject.name, subject.description, subject.circumstances);
  out += fmt::format("{}, on {}: {}\n", subject.made.date, subject.made.host, subject.made.command);
  for (const ReportTable& table : judgement.tables) out += "\n" + table_text(table);
  out += "\n";
  for (const Finding& finding : judgement.findings) {
    out += fmt::format("{:<12}  expected: {}\n{:<12}  found:    {}\n", to_string(finding.verdict),
                       finding.expectation, "", finding.found);
  }
  for (const ReportedRun& run : runs) {
    if (!run.failure.empty())
      out += fmt::format("\nfailed: {}: {}\n", run.label, base::printable(run.failure));
  }
  out += fmt::format("\n{} expectations: {}\n", judgement.findings.size(), tally(judgement.findings));
  return base::printable_lines(out);
}

nlohmann::json report_json(const ReportSubject& subject, const Judgement& judgement, nlohmann::json runs) {
  nlohmann::json json = {{"kind", "experiment"},
                         {"schema", kExperimentSchema},
                         {"name", subject.name},
                         {"circumstances", subject.circumstances},
                         {"findings", nlohmann::json::array()},
                         {"runs", std::move(runs)}};
  add_provenance(subject.made, json);
  for (const Finding& finding : judgement.findings) {
    json["findings"].push_back({{"expected", finding.expectation},
                                {"found", finding.found},
                                {"verdict", to_string(finding.verdict)}});
  }
  return json;
}

std::string report_html(const ReportSubject& subject, const Judgement& judgement,
                        const std::vector<ReportedRun>& runs) {
  std::string body =
      "<div class=\"figures\">\n" +
      html_figure(tally(judgement.findings), fmt::format("of {} expectations", judgement.findings.size())) +
      html_figure(std::to_string(runs.size()), "runs") + "</div>\n<div class=\"cards\">\n";
  body += html_card("What is done", fmt::format("<p>{}</p>\n", escape_markup(subject.method)), "", true);
  body += findings_card(judgement.findings);
  for (const ReportChart& chart : judgement.charts) body += html_card(chart.title, chart.svg, chart.note);
  for (const ReportTable& table : judgement.tables) body += table_card(table);
  body += commands_card(runs);
  return html_page(fmt::format("verbena experiment {}", subject.name), subject.name,
                   fmt::format("{}; {}", subject.description, subject.circumstances), subject.made,
                   body + "</div>\n");
}

std::string experiment_text(const Experiment& experiment, const std::string& circumstances,
                            const Judgement& judgement, const std::vector<RunFigures>& runs) {
  return report_text(subject_of(experiment, circumstances), judgement, reported(runs));
}

nlohmann::json experiment_json(const Experiment& experiment, const std::string& circumstances,
                               const Judgement& judgement, const std::vector<RunFigures>& runs) {
  nlohmann::json entries = nlohmann::json::array();
  for (const RunFigures& run : runs) {
    nlohmann::json entry = {{"label", run.planned.label},
                            {"model", run.planned.application},
                            {"consistency", run.planned.consistency},
                            {"straggler", run.planned.straggler},
                            {"budget_mb_per_s", run.planned.budget_mb_per_s},
                            {"command", command_line(run.planned)}};
    if (!run.planned.allocation.empty()) entry["allocation"] = run.planned.allocation;
    if (run.planned.nodes > 0) entry["nodes"] = run.planned.nodes;
    if (!run.planned.task.empty()) {
      entry["task"] = run.planned.task;
      entry["workers"] = run.planned.workers;
    }
    if (experiment.makes_rounds()) entry["round"] = run.planned.round;
    if (experiment.compares_copies()) entry["replicas"] = run.planned.replicas;
    if (!run.failure.empty()) {
      entry["failure"] = run.failure;
    } else {
      entry["main_objective"] = run.objective;
      entry["training_seconds"] = run.training_seconds;
      entry["throughput"] = run.throughput;
      entry["share_waited"] = run.share_waited;
      entry["share_waited_by_worker"] = run.share_waited_by_worker;
      entry["mean_clock_differential"] = optional_json(mean_clock_differential(run));
      entry["reads_by_lag"] = run.reads_by_lag;
      entry["share_local"] = optional_json(run.share_local);
      entry["rows_moved"] = run.rows_moved;
      entry["rows_replicated"] = run.rows_replicated;
      entry["move_p50_seconds"] = optional_json(run.move_p50_seconds);
      entry["move_p99_seconds"] = optional_json(run.move_p99_seconds);
      if (experiment.compares_copies() && run.planned.peer == nullptr) {
        const ProcessorTime& processor = run.processor_time;
        entry["elapsed_seconds"] = run.elapsed_seconds;
        entry["processor_seconds"] = {{"workers", processor.workers_seconds},
                                      {"servers", processor.servers_seconds},
                                      {"copies", processor.copies_seconds}};
        entry["update_bytes"] = run.update_bytes;
        entry["bytes_to_copies"] = run.bytes_to_copies;
      }
      entry["iterations"] = nlohmann::json::array();
      for (const IterationRecord& iteration : run.iterations) {
        entry["iterations"].push_back(iteration_json(iteration));
      }
    }
    entries.push_back(std::move(entry));
  }
  return report_json(subject_of(experiment, circumstances), judgement, std::move(entries));
}

std::string experiment_html(const Experiment& experiment, const std::string& circumstances,
                            const Judgement& judgement, const std::vector<RunFigures>& runs) {
  return report_html(subject_of(experiment, circumstances), judgement, reported(runs));
}

}  // namespace verbena::apps
