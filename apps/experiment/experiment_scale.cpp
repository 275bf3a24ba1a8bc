#include "apps/experiment/experiment_scale.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/report/format.hpp"
#include "apps/report/provenance.hpp"
#include "apps/report/svg_chart.hpp"
#include <verbena/consistency.hpp>

namespace verbena::apps {
namespace {

/// A resource that is at least this busy counts as used up.
constexpr double kSaturated = 0.9;

constexpr const char* kDescription = "what jobs of 8 to 1,024 workers wait for, simulated";
constexpr const char* kMethod =
    "The real server and the real sessions, driven step by step in one thread and in virtual time. Each "
    "node has one network card, which all its peers share, and one processor; what messages, rows and "
    "computing cost a processor is measured on this host at the start, or given. At each clock every worker "
    "pulls all rows of one table, computes, and pushes an update to each row. The table and a worker's "
    "examples stay the same while the number of workers grows, and servers grow with it. A clock's "
    "computing varies from worker to worker and from clock to clock. Efficiency is clocks a second against "
    "the smallest job under the same model. Cards and processors are those of the busiest server, over the "
    "measured clocks; a server has one lane.";

double mean_differential(const scale::CellFigures& figures) {
  return StalenessHistogram{figures.reads_by_lag}.mean_clock_differential();
}

double share_at(const scale::CellFigures& figures, std::size_t lag) {
  const double all = static_cast<double>(
      std::accumulate(figures.reads_by_lag.begin(), figures.reads_by_lag.end(), std::uint64_t{0}));
  return all > 0 && lag < figures.reads_by_lag.size() ? static_cast<double>(figures.reads_by_lag[lag]) / all
                                                      : 0;
}

std::string bytes_text(double bytes) {
  return bytes >= 1e6 ? fmt::format("{:.2f} MB", bytes / 1e6) : fmt::format("{:.1f} kB", bytes / 1e3);
}

std::string costs_text(const scale::Costs& costs) {
  std::string text;
  for (const scale::CostField& field : scale::kCostFields)
    text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", field.name, costs.*field.value);
  return text;
}

/// All runs, with functions to look them up.
struct Seen {
  const ScaleOptions& options;
  const std::vector<ScaleRun>& runs;

  [[nodiscard]] const ScaleRun* run(const std::string& model, std::uint32_t workers) const {
    const auto found = std::find_if(runs.begin(), runs.end(), [&](const ScaleRun& run) {
      return run.model == model && run.workers == workers && run.failure.empty();
    });
    return found == runs.end() ? nullptr : &*found;
  }
  [[nodiscard]] double clocks_a_second(const ScaleRun& run) const {
    return static_cast<double>(options.cell.clocks) / run.figures.seconds;
  }
  [[nodiscard]] std::optional<double> efficiency(const ScaleRun& seen, std::uint32_t against) const {
    const ScaleRun* const measure = run(seen.model, against);
    return measure == nullptr ? std::nullopt
                              : std::optional(clocks_a_second(seen) / clocks_a_second(*measure));
  }
  [[nodiscard]] std::uint32_t smallest() const { return runs.empty() ? 0 : runs.front().workers; }
  [[nodiscard]] std::uint32_t largest() const { return runs.empty() ? 0 : runs.back().workers; }
  /// The smallest size with as many workers per server as the largest has.
  [[nodiscard]] std::uint32_t smallest_alike() const {
    for (const ScaleRun& run : runs) {
      if (run.workers * runs.back().servers == runs.back().workers * run.servers) return run.workers;
    }
    return 0;
  }
  /// The first of the experiment's models that is `name`, with or without parameters.
  [[nodiscard]] std::string model(std::string_view name) const {
    for (const std::string& each : options.models) {
      if (each == name || (each.starts_with(name) && each.size() > name.size() && each[name.size()] == ':'))
        return each;
    }
    return std::string(name);
  }
};

constexpr const char* kNotMade = "the runs that it needs were not made, or failed";

/// What judge_sizes() reports for a size, if `tell` has something to say about it: a text, and whether the
/// result is as expected.
struct Told {
  std::string text;
  bool held = true;
};
template <class Tell>
Finding judge_sizes(const Seen& seen, std::string expectation, Tell tell) {
  Finding finding{.expectation = std::move(expectation)};
  bool held = true;
  for (const std::uint32_t workers : seen.options.workers) {
    const std::optional<Told> told = tell(workers);
    if (!told) continue;
    finding.found += fmt::format("{}{}: {}{}", finding.found.empty() ? "" : "; ", workers, told->text,
                                 told->held ? "" : " (not so)");
    held &= told->held;
  }
  if (finding.found.empty()) {
    finding.found = kNotMade;
  } else {
    finding.verdict = verdict_of(held);
  }
  return finding;
}

Finding judge_waiting(const Seen& seen, const std::string& model) {
  const std::string bsp = seen.model("bsp");
  return judge_sizes(seen, fmt::format("{} waits less than {}, at each size", model, bsp),
                     [&](std::uint32_t workers) -> std::optional<Told> {
                       const ScaleRun* const strict = seen.run(bsp, workers);
                       const ScaleRun* const loose = seen.run(model, workers);
                       if (strict == nullptr || loose == nullptr) return std::nullopt;
                       return Told{fmt::format("{} against {}", format_share(loose->figures.waited),
                                               format_share(strict->figures.waited)),
                                   loose->figures.waited < strict->figures.waited};
                     });
}

/// Judges the growth between two sizes of a model by `tell(few, many)`.
template <class Tell>
Finding judge_growth(const Seen& seen, const std::string& model, std::uint32_t smallest,
                     std::string expectation, Tell tell) {
  Finding finding{.expectation = std::move(expectation), .found = kNotMade};
  const ScaleRun* const few = seen.run(model, smallest);
  const ScaleRun* const many = seen.run(model, seen.largest());
  if (few == nullptr || many == nullptr || few == many) return finding;
  Told told = tell(*few, *many);
  finding.found = std::move(told.text);
  finding.verdict = verdict_of(told.held);
  return finding;
}

Finding judge_bsp_growth(const Seen& seen) {
  const std::string bsp = seen.model("bsp");
  return judge_growth(
      seen, bsp, seen.smallest(),
      fmt::format("{} waits more, the more workers there are: the slowest of many is slower", bsp),
      [&](const ScaleRun& few, const ScaleRun& many) {
        return Told{
            fmt::format("{} with {} workers, {} with {}; the slowest computed {} and {} of the time",
                        format_share(few.figures.waited), few.workers, format_share(many.figures.waited),
                        many.workers, format_share(few.figures.slowest), format_share(many.figures.slowest)),
            many.figures.waited > few.figures.waited};
      });
}

Finding judge_server(const Seen& seen, const std::string& model) {
  return judge_sizes(
      seen, fmt::format("{}: a server's card is busier than its processor, at each size", model),
      [&](std::uint32_t workers) -> std::optional<Told> {
        const ScaleRun* const run = seen.run(model, workers);
        if (run == nullptr) return std::nullopt;
        const scale::Busy& server = run->figures.server;
        const double card = std::max(server.card_in, server.card_out);
        return Told{fmt::format("card {}, processor {}", format_share(card), format_share(server.processor)),
                    card >= server.processor};
      });
}

Finding judge_freshness(const Seen& seen) {
  const std::string ssp = seen.model("ssp");
  const std::string essp = seen.model("essp");
  return judge_sizes(
      seen, fmt::format("{}'s mean clock differential is closer to −1 than {}'s, at each size", essp, ssp),
      [&](std::uint32_t workers) -> std::optional<Told> {
        const ScaleRun* const lazy = seen.run(ssp, workers);
        const ScaleRun* const eager = seen.run(essp, workers);
        if (lazy == nullptr || eager == nullptr) return std::nullopt;
        const double lazy_mean = mean_differential(lazy->figures);
        const double eager_mean = mean_differential(eager->figures);
        return Told{fmt::format("{:.2f} against {:.2f}", eager_mean, lazy_mean), eager_mean > lazy_mean};
      });
}

/// Compares jobs with the same number of workers per server.
Finding judge_bytes(const Seen& seen, const std::string& model) {
  return judge_growth(
      seen, model, seen.smallest_alike(),
      fmt::format(
          "{}: where servers grow with the workers, what goes in and out of one at a clock stays within 10 %",
          model),
      [&](const ScaleRun& few, const ScaleRun& many) {
        const double before = few.figures.bytes_in + few.figures.bytes_out;
        const double after = many.figures.bytes_in + many.figures.bytes_out;
        return Told{fmt::format("{} with {} workers, {} with {}", bytes_text(before), few.workers,
                                bytes_text(after), many.workers),
                    std::abs(after / before - 1) <= 0.1};
      });
}

/// Compares the same jobs as judge_bytes().
Finding judge_efficiency(const Seen& seen, const std::string& model) {
  constexpr double kEfficient = 0.8;
  return judge_growth(
      seen, model, seen.smallest_alike(),
      fmt::format(
          "{}: the largest job has at least {} of the clocks a second of the smallest with as many workers a "
          "server",
          model, format_share(kEfficient)),
      [&](const ScaleRun& few, const ScaleRun& many) {
        const double efficiency = seen.clocks_a_second(many) / seen.clocks_a_second(few);
        return Told{
            fmt::format("{}: {:.1f} with {} workers, {:.1f} with {}", format_share(efficiency),
                        seen.clocks_a_second(few), few.workers, seen.clocks_a_second(many), many.workers),
            efficiency >= kEfficient};
      });
}

ReportTable jobs_table(const Seen& seen) {
  ReportTable table{.title = "Jobs (in, out: of a server at a clock; cards, processor: of a server)",
                    .head = {"workers", "model", "servers", "clocks/s", "efficiency", "waited", "computing",
                             "differential", "in", "out", "card in", "card out", "processor", "limited by"},
                    .rows = {}};
  for (const ScaleRun& run : seen.runs) {
    if (!run.failure.empty()) continue;
    const scale::CellFigures& figures = run.figures;
    const auto efficiency = seen.efficiency(run, seen.smallest());
    table.rows.push_back({std::to_string(run.workers), run.model, std::to_string(run.servers),
                          fmt::format("{:.1f}", seen.clocks_a_second(run)),
                          efficiency ? format_share(*efficiency) : "–", format_share(figures.waited),
                          format_share(figures.computed), fmt::format("{:.2f}", mean_differential(figures)),
                          bytes_text(figures.bytes_in), bytes_text(figures.bytes_out),
                          format_share(figures.server.card_in), format_share(figures.server.card_out),
                          format_share(figures.server.processor), limit_text(figures)});
  }
  return table;
}

ReportTable work_table(const Seen& seen) {
  ReportTable table{.title = "What a server's processor does, in parts of the time",
                    .head = {"workers", "model", "messages", "rows", "advances, for each worker",
                             "turns, for each worker", "all"},
                    .rows = {}};
  for (const ScaleRun& run : seen.runs) {
    if (!run.failure.empty()) continue;
    const scale::Work& work = run.figures.server_work;
    table.rows.push_back({std::to_string(run.workers), run.model, format_share(work.messages),
                          format_share(work.rows), format_share(work.advances), format_share(work.turns),
                          format_share(work.messages + work.rows + work.advances + work.turns)});
  }
  return table;
}

ReportTable saturation_table(const Seen& seen) {
  ReportTable table{.title = "What saturates first (90 % of the time and more)",
                    .head = {"model", "what", "from"},
                    .rows = {}};
  for (const std::string& model : seen.options.models) {
    Bottleneck most;
    const ScaleRun* at = nullptr;
    for (const ScaleRun& run : seen.runs) {
      if (run.model != model || !run.failure.empty() || most.busy >= kSaturated) continue;
      const Bottleneck here = busiest_resource(run.figures);
      if (here.busy <= most.busy) continue;
      most = here;
      at = &run;
    }
    if (at == nullptr) continue;
    table.rows.push_back({model,
                          most.busy >= kSaturated
                              ? most.what
                              : fmt::format("nothing; most, {} ({})", most.what, format_share(most.busy)),
                          fmt::format("{} workers", at->workers)});
  }
  return table;
}

std::string workers_text(double workers) {
  return fmt::format("{:.0f}", workers);
}

/// A curve for each model, over the number of workers.
template <class Value>
std::string curves_by_workers(const Seen& seen, const std::string& label, std::string (*text)(double),
                              Value value) {
  LogChart chart{
      .x_label = "workers", .y_label = label, .x_text = workers_text, .y_text = text, .series = {}};
  for (const std::string& model : seen.options.models) {
    Series series{.label = model, .points = {}};
    for (const ScaleRun& run : seen.runs) {
      if (run.model == model && run.failure.empty()) series.points.emplace_back(run.workers, value(run));
    }
    chart.series.push_back(std::move(series));
  }
  return to_svg(chart);
}

ReportChart distribution(const Seen& seen, std::uint32_t workers) {
  BarChart chart{.title = fmt::format("share of reads by clock differential, {} workers", workers)};
  for (const std::string& model : seen.options.models) {
    const ScaleRun* const run = seen.run(model, workers);
    if (run == nullptr) continue;
    for (std::size_t lag = 0; lag < run->figures.reads_by_lag.size(); ++lag) {
      const double share = share_at(run->figures, lag);
      if (share > 0)
        chart.bars.push_back({fmt::format("−{} {}", lag + 1, model), share, format_share(share)});
    }
  }
  return {fmt::format("Reads by clock differential, {} workers", workers), to_svg(chart), ""};
}

std::vector<ReportChart> charts_of(const Seen& seen) {
  std::vector<ReportChart> charts;
  charts.push_back({"Clocks a second",
                    curves_by_workers(
                        seen, "clocks a second", [](double value) { return fmt::format("{:.4g}", value); },
                        [&](const ScaleRun& run) { return seen.clocks_a_second(run); }),
                    "Of each worker: even is ideal."});
  charts.push_back({"Share of time waited",
                    curves_by_workers(seen, "waited", format_share,
                                      [](const ScaleRun& run) { return run.figures.waited; }),
                    "Of all workers."});
  charts.push_back({"A server's processor",
                    curves_by_workers(seen, "busy", format_share,
                                      [](const ScaleRun& run) { return run.figures.server.processor; }),
                    "The busiest server's."});
  charts.push_back({"A server's card",
                    curves_by_workers(seen, "busy", format_share,
                                      [](const ScaleRun& run) {
                                        return std::max(run.figures.server.card_in,
                                                        run.figures.server.card_out);
                                      }),
                    "The busiest server's, in its busier direction."});
  charts.push_back({"Age of what is read",
                    curves_by_workers(
                        seen, "clocks", [](double value) { return fmt::format("{:.4g}", value); },
                        [](const ScaleRun& run) { return -mean_differential(run.figures); }),
                    "The mean clock differential without its sign: 1 is the freshest there is."});
  charts.push_back(distribution(seen, seen.smallest()));
  if (seen.largest() != seen.smallest()) charts.push_back(distribution(seen, seen.largest()));
  return charts;
}

}  // namespace

absl::StatusOr<std::vector<ScaleRun>> plan_scale(const ScaleOptions& options) {
  std::vector<std::uint32_t> sizes = options.workers;
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<ScaleRun> runs;
  for (const std::uint32_t workers : sizes) {
    const std::uint32_t by_ratio = std::max(1U, workers / options.workers_per_server);
    const std::uint32_t servers = options.servers > 0 ? options.servers : by_ratio;
    if (std::uint64_t{workers} * servers > kMaxConnections) {
      return absl::InvalidArgumentError(fmt::format(
          "{} workers and {} servers have {} connections; no more than {} can be simulated: take fewer "
          "servers (--workers-per-server, --servers)",
          workers, servers, std::uint64_t{workers} * servers, kMaxConnections));
    }
    for (const std::string& model : options.models)
      runs.push_back({.model = model, .workers = workers, .servers = servers});
  }
  return runs;
}

scale::CellOptions cell_of(const ScaleOptions& options, const ScaleRun& run) {
  scale::CellOptions cell = options.cell;
  cell.model = *parse_consistency(run.model);
  cell.workers = run.workers;
  cell.servers = run.servers;
  cell.network = *parse_network(options.network);
  return cell;
}

std::string command_line(const ScaleOptions& options, const ScaleRun& run) {
  const scale::CellOptions& cell = options.cell;
  std::string line = fmt::format(
      "verbena experiment scale --workers {} --servers {} --models {} --rows {} --width {} --examples {} "
      "--clocks {} --spread {:g} --straggler {:g} --network {} --seed {}",
      run.workers, run.servers, run.model, cell.rows, cell.width, cell.examples, cell.clocks, cell.spread,
      cell.straggler, options.network, cell.seed);
  for (const scale::CostField& field : scale::kCostFields)
    line += fmt::format(" --{}-ns {:g}", field.name, cell.costs.*field.value);
  return line;
}

Bottleneck busiest_resource(const scale::CellFigures& figures) {
  const Bottleneck all[] = {{"server processor", figures.server.processor},
                            {"server card in", figures.server.card_in},
                            {"server card out", figures.server.card_out},
                            {"worker card in", figures.worker.card_in},
                            {"worker card out", figures.worker.card_out}};
  return *std::max_element(std::begin(all), std::end(all),
                           [](const Bottleneck& a, const Bottleneck& b) { return a.busy < b.busy; });
}

std::string limit_text(const scale::CellFigures& figures) {
  const Bottleneck busiest = busiest_resource(figures);
  const bool used_up = busiest.busy >= kSaturated;
  const std::string resource = fmt::format("{} {}", busiest.what, format_share(std::min(1.0, busiest.busy)));
  // A server that is never idle may still keep up: it handles more in each turn.
  if (figures.computed >= kSaturated) {
    return fmt::format("computing {}{}", format_share(figures.computed), used_up ? "; " + resource : "");
  }
  if (used_up) return resource;
  if (figures.slowest >= kSaturated) return "the slowest at each clock";
  return fmt::format("taking turns: slowest {}, {}", format_share(figures.slowest), resource);
}

Judgement judge_scale(const ScaleOptions& options, const std::vector<ScaleRun>& runs) {
  const Seen seen{options, runs};
  Judgement judgement;
  const std::string ssp = seen.model("ssp");
  const std::string essp = seen.model("essp");
  for (const std::string& model : {ssp, essp}) judgement.findings.push_back(judge_waiting(seen, model));
  judgement.findings.push_back(judge_bsp_growth(seen));
  for (const std::string& model : {seen.model("bsp"), ssp, essp})
    judgement.findings.push_back(judge_server(seen, model));
  judgement.findings.push_back(judge_freshness(seen));
  for (const std::string& model : {seen.model("bsp"), ssp, essp})
    judgement.findings.push_back(judge_bytes(seen, model));
  for (const std::string& model : {ssp, essp}) judgement.findings.push_back(judge_efficiency(seen, model));
  if (runs.empty()) return judgement;
  judgement.tables = {jobs_table(seen), work_table(seen), saturation_table(seen)};
  judgement.charts = charts_of(seen);
  return judgement;
}

ReportSubject scale_subject(const ScaleOptions& options) {
  const scale::CellOptions& cell = options.cell;
  return {
      .name = "scale",
      .description = kDescription,
      .method = kMethod,
      .circumstances = fmt::format(
          "{} workers, {}; {} rows of {} floats; {} examples a worker and clock; {} clocks after {}; "
          "computing varies by {}{}; network {}; seed {}; costs in ns: {}",
          fmt::join(options.workers, ", "),
          options.servers > 0 ? fmt::format("{} servers", options.servers)
                              : fmt::format("{} a server", options.workers_per_server),
          cell.rows, cell.width, cell.examples, cell.clocks, cell.warm_up_clocks, format_share(cell.spread),
          cell.straggler > 1 ? fmt::format(", worker 1 {:g} times slower", cell.straggler) : "",
          options.network, cell.seed, costs_text(cell.costs)),
      .made = provenance()};
}

std::vector<ReportedRun> reported_runs(const ScaleOptions& options, const std::vector<ScaleRun>& runs) {
  std::vector<ReportedRun> all;
  all.reserve(runs.size());
  for (const ScaleRun& run : runs) {
    all.push_back(
        {fmt::format("{} workers, {}", run.workers, run.model), command_line(options, run), run.failure});
  }
  return all;
}

nlohmann::json scale_json(const ScaleOptions& options, const Judgement& judgement,
                          const std::vector<ScaleRun>& runs) {
  nlohmann::json entries = nlohmann::json::array();
  const auto busy_json = [](const scale::Busy& busy) {
    return nlohmann::json{
        {"card_in", busy.card_in}, {"card_out", busy.card_out}, {"processor", busy.processor}};
  };
  for (const ScaleRun& run : runs) {
    nlohmann::json entry = {{"workers", run.workers},
                            {"servers", run.servers},
                            {"consistency", run.model},
                            {"command", command_line(options, run)}};
    if (!run.failure.empty()) {
      entry["failure"] = run.failure;
    } else {
      const scale::CellFigures& figures = run.figures;
      entry["clocks"] = options.cell.clocks;
      entry["virtual_seconds"] = figures.seconds;
      entry["share_waited"] = figures.waited;
      entry["share_computed"] = figures.computed;
      entry["share_slowest_computed"] = figures.slowest;
      entry["mean_clock_differential"] = mean_differential(figures);
      entry["reads_by_lag"] = figures.reads_by_lag;
      entry["bytes_in_per_server_and_clock"] = figures.bytes_in;
      entry["bytes_out_per_server_and_clock"] = figures.bytes_out;
      entry["server_work"] = {{"messages", figures.server_work.messages},
                              {"rows", figures.server_work.rows},
                              {"advances", figures.server_work.advances},
                              {"turns", figures.server_work.turns}};
      entry["server_busy"] = busy_json(figures.server);
      entry["worker_busy"] = busy_json(figures.worker);
      entry["limited_by"] = limit_text(figures);
    }
    entries.push_back(std::move(entry));
  }
  nlohmann::json json = report_json(scale_subject(options), judgement, std::move(entries));
  for (const scale::CostField& field : scale::kCostFields)
    json["costs_ns"][std::string(field.name)] = options.cell.costs.*field.value;
  return json;
}

}  // namespace verbena::apps
