#include "apps/experiment/experiment_failover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "absl/strings/str_join.h"
#include "apps/experiment/rounds.hpp"
#include "apps/report/format.hpp"
#include "apps/report/provenance.hpp"
#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace {

using Kind = Fault::Kind;
using ServerRole = RunStatus::Copy::Role;

/// The first faults come when the run has begun to train.
constexpr double kQuietStart = 0.3;
/// One of so many faults stops a process instead of killing it; one of so many hits one that joins.
constexpr std::size_t kStopsOneOf = 6;
constexpr std::size_t kJoinersOneOf = 8;
constexpr std::size_t kMostFailoverCharts = 6;
constexpr double kChartBins = 120;
constexpr double kSoonSeconds = 0.1;    // until another one serves
constexpr double kJoinSeconds = 1.0;    // until another copy has joined
constexpr double kNoticeSeconds = 1.0;  // beyond --silence-timeout
constexpr double kGoesOnSeconds = 1.0;  // until another process has a worker's place, and all have gone on
constexpr double kShareAfter = 0.95;    // of the throughput before
constexpr double kLeastSeconds = 1.0;   // in which throughput means something

constexpr const char* kFailoverDescription =
    "servers with copies, or workers, of which one after the other is killed or stopped while they train";
constexpr const char* kFailoverMethod =
    "A run in which nothing dies trains a model under BSP. Then the same run is made again and again, until "
    "the "
    "minutes are over, with --replicas 1, and all the while one of its server processes, chosen at random, "
    "is killed (SIGKILL), or now and then stopped (SIGSTOP), so that only its silence tells: processes that "
    "serve, that follow, and that are just joining. A server whose last whole copy is left is spared until "
    "another "
    "one has joined; servers are hit independently of each other. Each model is compared with the first one, "
    "byte for byte. Times are from the signal to the run's own word of it (`failover` and `join` in its "
    "metrics). With --hit workers there are no copies, and workers are hit, one at a time: of ctr, kge or "
    "word2vec, where another process takes the place of one. Models are compared where no worker draws "
    "random "
    "numbers: ctr on one server.";

std::int64_t usual_failover_iterations(std::string_view application) {
  return application == "ctr" ? 20 : 100;  // passes of ctr
}

std::string what_was_hit(const Fault& fault) {
  return fmt::format("{} {}", fault.worker ? "is a worker" : name_of(fault.role),
                     fault.kind == Kind::kKilled ? "killed" : "stopped");
}

std::string describe(const Fault& fault) {
  const auto after = [](const std::optional<double>& seconds) {
    return seconds ? format_short_time(*seconds) : std::string("–");
  };
  if (fault.worker) {
    return fmt::format(
        "{:.2f} s: worker {} was {}; another process had its place after {}, and all had gone on after {}",
        fault.seconds, *fault.worker, fault.kind == Kind::kKilled ? "killed" : "stopped",
        after(fault.back_after), after(fault.next_iteration_after));
  }
  return fmt::format(
      "{:.2f} s: a process of server {} that {} was {}; the others went on after {}, another copy "
      "had joined after {}",
      fault.seconds, fault.server, name_of(fault.role), fault.kind == Kind::kKilled ? "killed" : "stopped",
      after(fault.back_after), after(fault.joined_after));
}

bool is_disturbed(const FailoverRun& run) {
  return !run.faults.empty();
}

/// Of the faults that `which` says, how long each took.
template <class Which>
std::vector<double> seconds_of(const std::vector<FailoverRun>& runs, std::optional<double> Fault::*time,
                               const Which& which) {
  std::vector<double> times;
  for (const FailoverRun& run : runs) {
    for (const Fault& fault : run.faults) {
      if (which(fault) && fault.*time) times.push_back(*(fault.*time));
    }
  }
  return times;
}

std::string spread_text(const std::vector<double>& times) {
  if (times.empty()) return "none was seen";
  return fmt::format("{} as a rule, {} at p99, {} at most, of {}", format_short_time(*median(times)),
                     format_short_time(*percentile(times, 0.99)),
                     format_short_time(*std::ranges::max_element(times)), times.size());
}

Finding judge_seconds(std::string expectation, const std::vector<double>& times, double limit) {
  Finding finding{.expectation = std::move(expectation), .found = spread_text(times)};
  if (!times.empty()) finding.verdict = verdict_of(*median(times) <= limit);
  return finding;
}

struct FaultCount {
  std::size_t killed = 0;
  std::size_t stopped = 0;
};
FaultCount count_faults(const FailoverRun& run) {
  const auto stopped = static_cast<std::size_t>(std::ranges::count(run.faults, Kind::kStopped, &Fault::kind));
  return {run.faults.size() - stopped, stopped};
}

Finding judge_survival(const std::vector<FailoverRun>& runs) {
  Finding finding{
      .expectation =
          "whichever process dies or hangs, of a server or of the workers one at a time: no run ends",
      .found = ""};
  std::size_t disturbed = 0;
  std::size_t ended = 0;
  FaultCount faults;
  for (const FailoverRun& run : runs) {
    if (!is_disturbed(run)) continue;
    ++disturbed;
    if (!run.failure.empty() && !run.differs) ++ended;
    faults.killed += count_faults(run).killed;
    faults.stopped += count_faults(run).stopped;
  }
  finding.found = fmt::format("{} of {} runs went on to their ends; {} processes were killed, {} stopped",
                              disturbed - ended, disturbed, faults.killed, faults.stopped);
  if (disturbed > 0) finding.verdict = verdict_of(ended == 0);
  return finding;
}

Finding judge_models(const std::vector<FailoverRun>& runs) {
  Finding finding{.expectation = "each of these runs trains the model of the undisturbed run, byte for byte",
                  .found = ""};
  std::size_t finished = 0;
  std::size_t same = 0;
  for (const FailoverRun& run : runs) {
    if (!is_disturbed(run) || (!run.failure.empty() && !run.differs)) continue;
    ++finished;
    same += run.differs ? 0 : 1;
  }
  finding.found = fmt::format("{} of {} models", same, finished);
  if (finished > 0) finding.verdict = verdict_of(same == finished);
  return finding;
}

ReportTable table_of_runs(const FailoverOptions& options, const std::vector<FailoverRun>& runs) {
  const char* const good = trains_the_same(options) ? "the same" : "not compared";
  ReportTable table{.title = "Runs",
                    .head = {"run", "model", "killed", "stopped", "seconds", "throughput", "of undisturbed"},
                    .rows = {}};
  for (const FailoverRun& run : runs) {
    const FaultCount faults = count_faults(run);
    const double undisturbed = runs.front().throughput;
    table.rows.push_back({run.label, !run.failure.empty() ? (run.differs ? "another one" : "none") : good,
                          std::to_string(faults.killed), std::to_string(faults.stopped),
                          format_seconds(run.seconds), format_rate(run.throughput, run.unit),
                          undisturbed > 0 ? format_share(run.throughput / undisturbed) : "–"});
  }
  return table;
}

/// Of times: the median, the 99th percentile, the longest one.
void add_spread(const std::vector<double>& times, std::vector<std::string>& row) {
  row.push_back(times.empty() ? "–" : format_short_time(*median(times)));
  row.push_back(times.empty() ? "–" : format_short_time(*percentile(times, 0.99)));
  row.push_back(times.empty() ? "–" : format_short_time(*std::ranges::max_element(times)));
}

ReportTable table_of_faults(const std::vector<FailoverRun>& runs) {
  ReportTable table{.title = "Until others went on, and until another copy had joined",
                    .head = {"a process that", "count", "on: median", "on: p99", "on: most", "joined: median",
                             "joined: p99", "joined: most"},
                    .rows = {}};
  for (const ServerRole role : {ServerRole::kServes, ServerRole::kFollows, ServerRole::kJoins}) {
    for (const Kind kind : {Kind::kKilled, Kind::kStopped}) {
      const auto is_such = [&](const Fault& fault) { return fault.role == role && fault.kind == kind; };
      std::size_t count = 0;
      for (const FailoverRun& run : runs)
        count += static_cast<std::size_t>(std::ranges::count_if(run.faults, is_such));
      if (count == 0) continue;
      std::vector<std::string>& row = table.rows.emplace_back(
          std::vector<std::string>{what_was_hit({.kind = kind, .role = role}), std::to_string(count)});
      for (const auto time : {&Fault::back_after, &Fault::joined_after})
        add_spread(seconds_of(runs, time, is_such), row);
    }
  }
  return table;
}

/// Items a second since all have gone on after this fault, until the next one or the end of the training.
std::optional<double> rate_after(const FailoverRun& run, std::size_t fault) {
  if (!run.faults[fault].next_iteration_after) return std::nullopt;
  const double begin = run.faults[fault].seconds + *run.faults[fault].next_iteration_after;
  double end = run.items.back().first;
  for (std::size_t next = fault + 1; next < run.faults.size(); ++next)
    end = std::min(end, run.faults[next].seconds);
  double items = 0;
  double last = begin;
  for (const auto& [seconds, count] : run.items) {
    if (seconds <= begin || seconds > end) continue;
    items += count;
    last = seconds;
  }
  return last - begin >= kLeastSeconds ? std::optional(items / (last - begin)) : std::nullopt;
}

/// Of the undisturbed run's rate, after each fault.
std::vector<double> shares_after(const std::vector<FailoverRun>& runs) {
  std::vector<double> shares;
  const FailoverRun& undisturbed = runs.front();
  if (undisturbed.items.size() < 2) return shares;
  double items = 0;
  for (std::size_t i = 1; i < undisturbed.items.size(); ++i) items += undisturbed.items[i].second;
  const double rate = items / (undisturbed.items.back().first - undisturbed.items.front().first);
  for (const FailoverRun& run : runs) {
    for (std::size_t fault = 0; fault < run.faults.size(); ++fault) {
      if (const std::optional<double> after = rate_after(run, fault)) shares.push_back(*after / rate);
    }
  }
  return shares;
}

ReportTable table_of_workers(const std::vector<FailoverRun>& runs) {
  ReportTable table{.title = "Until another process had a worker's place, and until all had gone on",
                    .head = {"a process that", "count", "place: median", "place: p99", "place: most",
                             "on: median", "on: p99", "on: most"},
                    .rows = {}};
  for (const Kind kind : {Kind::kKilled, Kind::kStopped}) {
    const auto is_such = [&](const Fault& fault) { return fault.kind == kind; };
    std::size_t count = 0;
    for (const FailoverRun& run : runs)
      count += static_cast<std::size_t>(std::ranges::count_if(run.faults, is_such));
    if (count == 0) continue;
    std::vector<std::string>& row = table.rows.emplace_back(
        std::vector<std::string>{what_was_hit({.kind = kind, .worker = 0}), std::to_string(count)});
    for (const auto time : {&Fault::back_after, &Fault::next_iteration_after})
      add_spread(seconds_of(runs, time, is_such), row);
  }
  return table;
}

std::vector<Finding> judge_servers(const FailoverOptions& options, const std::vector<FailoverRun>& runs) {
  const auto kills = [](ServerRole role) {
    return [role](const Fault& fault) { return fault.role == role && fault.kind == Kind::kKilled; };
  };
  const auto is_stop = [](const Fault& fault) { return fault.kind == Kind::kStopped; };
  const auto is_kill_of_a_whole_one = [](const Fault& fault) {
    return fault.kind == Kind::kKilled && fault.role != ServerRole::kJoins;
  };
  const double silence = options.silence_timeout_ms / 1000.0;
  return {judge_seconds("when a process that serves is killed, another one serves within 0.1 s",
                        seconds_of(runs, &Fault::back_after, kills(ServerRole::kServes)), kSoonSeconds),
          judge_seconds(
              fmt::format("one that is stopped is replaced within a second after --silence-timeout, {:g} s",
                          silence),
              seconds_of(runs, &Fault::back_after, is_stop), silence + kNoticeSeconds),
          judge_seconds("another copy has joined within a second after a kill",
                        seconds_of(runs, &Fault::joined_after, is_kill_of_a_whole_one), kJoinSeconds)};
}

std::vector<Finding> judge_workers(const std::vector<FailoverRun>& runs) {
  std::vector<Finding> findings = {judge_seconds(
      "when a worker is killed, another process has its place, and all have gone on, within a second",
      seconds_of(runs, &Fault::next_iteration_after,
                 [](const Fault& fault) { return fault.kind == Kind::kKilled; }),
      kGoesOnSeconds)};
  const std::vector<double> shares = runs.empty() ? std::vector<double>() : shares_after(runs);
  Finding throughput{.expectation = "from then on they are as fast as the undisturbed run: at least 95 %",
                     .found = "none had a second's time before the next one was hit"};
  if (!shares.empty()) {
    throughput.found = fmt::format("{} as a rule, {} at least, of {}", format_share(*median(shares)),
                                   format_share(*std::ranges::min_element(shares)), shares.size());
    throughput.verdict = verdict_of(*median(shares) >= kShareAfter);
  }
  findings.push_back(std::move(throughput));
  return findings;
}

/// Items a second, in pieces of the run's time.
Points throughput_over_time(const FailoverRun& run) {
  Points points;
  if (run.items.empty()) return points;
  const double width = std::max(run.items.back().first / kChartBins, 0.05);
  double begin = 0;
  double sum = 0;
  for (const auto& [seconds, items] : run.items) {
    sum += items;
    if (seconds - begin < width) continue;
    // A piece ends with an iteration: one that took long is a piece of its own.
    points.emplace_back(begin, sum / (seconds - begin));
    points.emplace_back(seconds, sum / (seconds - begin));
    begin = seconds;
    sum = 0;
  }
  return points;
}

ReportChart chart_of_run(const FailoverRun& run, const FailoverRun& undisturbed) {
  CurveChart chart{
      .x_label = "seconds since the start",
      .y_label = fmt::format("{} a second", run.unit),
      .series = {{.label = run.label, .points = throughput_over_time(run)},
                 {.label = undisturbed.label, .points = throughput_over_time(undisturbed), .dashed = true}}};
  std::vector<ChartMark> marks;
  for (const Fault& fault : run.faults) marks.push_back({fault.seconds, describe(fault)});
  return {fmt::format("{}: throughput over time", run.label), to_svg(chart, marks),
          "Each vertical line is a process that was killed or stopped; what followed is said if you point at "
          "it."};
}

nlohmann::json seconds_json(const std::optional<double>& seconds) {
  return seconds ? nlohmann::json(*seconds) : nlohmann::json();
}

nlohmann::json fault_json(const Fault& fault) {
  nlohmann::json json = {{"kind", fault.kind == Kind::kKilled ? "killed" : "stopped"},
                         {"pid", fault.pid},
                         {"elapsed_seconds", fault.seconds},
                         {"back_after_seconds", seconds_json(fault.back_after)}};
  if (fault.worker) {
    json["worker"] = *fault.worker;
    json["next_iteration_after_seconds"] = seconds_json(fault.next_iteration_after);
  } else {
    json["role"] = name_of(fault.role);
    json["server"] = fault.server;
    json["joined_after_seconds"] = seconds_json(fault.joined_after);
  }
  return json;
}

}  // namespace

std::vector<std::string> failover_arguments(const FailoverOptions& options) {
  const std::int64_t iterations =
      options.iterations > 0 ? options.iterations : usual_failover_iterations(options.application);
  std::vector<std::string> arguments = {"run",
                                        options.application,
                                        fmt::format("--data={}", options.data),
                                        fmt::format("--servers={}", options.servers),
                                        fmt::format("--workers={}", options.workers),
                                        "--consistency=bsp",
                                        fmt::format("--silence-timeout={}", options.silence_timeout_ms),
                                        fmt::format("--seed={}", options.seed)};
  if (options.hit == kHitServers) arguments.emplace_back("--replicas=1");
  if (options.application == "ctr") {
    arguments.push_back(fmt::format("--passes={}", iterations));
  } else {
    arguments.push_back(fmt::format("--iterations={}", iterations));
  }
  return arguments;
}

absl::Status check(const FailoverOptions& options) {
  const bool hits_workers = options.hit == kHitWorkers;
  const std::span<const char* const> possible =
      hits_workers ? std::span<const char* const>(kReplacementApplications) : kFailoverApplications;
  if (std::ranges::find(possible, std::string_view(options.application)) != possible.end())
    return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("--application {}: with --hit {} expected {}",
                                                options.application, options.hit,
                                                absl::StrJoin(possible, ", ")));
}

bool trains_the_same(const FailoverOptions& options) {
  return options.hit == kHitServers || (options.application == "ctr" && options.servers == 1);
}

Saboteur::Saboteur(std::uint64_t seed, double seconds_between, bool hits_workers)
    : random_(seed), seconds_between_(seconds_between), hits_workers_(hits_workers), next_(kQuietStart) {}

std::optional<Fault> Saboteur::choose(const RunStatus& status, double seconds) {
  if (!is_due(seconds)) return std::nullopt;
  const bool trains = std::ranges::any_of(
      status.workers, [](const auto& worker) { return worker.iteration > 0 && !worker.finished; });
  if (!trains) return std::nullopt;
  std::optional<Fault> fault = hits_workers_ ? choose_worker(status) : choose_server(status);
  if (!fault) return std::nullopt;
  fault->seconds = seconds;
  hit_.insert(fault->pid);
  next_ = seconds + 2 * seconds_between_ * to_unit_interval(random_());
  return fault;
}

/// All that are there have gone on since the last one was hit.
std::optional<Fault> Saboteur::choose_worker(const RunStatus& status) {
  std::int64_t furthest = 0;
  for (const RunStatus::Worker& worker : status.workers) {
    if (worker.pid == 0 || worker.finished || hit_.contains(worker.pid)) return std::nullopt;
    if (worker.iteration <= hit_at_iteration_) return std::nullopt;
    furthest = std::max(furthest, worker.iteration);
  }
  const RunStatus::Worker& worker = status.workers[random_below(random_, status.workers.size())];
  hit_at_iteration_ = furthest;
  const bool stops = random_below(random_, kStopsOneOf) == 0;
  return Fault{.kind = stops ? Kind::kStopped : Kind::kKilled, .worker = worker.worker, .pid = worker.pid};
}

std::optional<Fault> Saboteur::choose_server(const RunStatus& status) {
  if (status.configuration == 0) return std::nullopt;
  std::vector<Fault> whole;
  std::vector<Fault> joining;
  std::set<std::int64_t> seen;
  for (std::uint32_t server = 0; server < status.servers.size(); ++server) {
    std::size_t in_chain = 0;
    bool is_hit = false;
    for (const RunStatus::Copy& one : status.servers[server]) {
      seen.insert(one.pid);
      is_hit |= hit_.contains(one.pid);
      if (one.role != ServerRole::kJoins) ++in_chain;
    }
    if (in_chain > 1) joiner_was_hit_.erase(server);
    if (is_hit) continue;
    for (const RunStatus::Copy& one : status.servers[server]) {
      const Fault fault{.role = one.role, .server = server, .pid = one.pid};
      if (one.role == ServerRole::kJoins && !joiner_was_hit_.contains(server)) joining.push_back(fault);
      if (one.role != ServerRole::kJoins && in_chain > 1) whole.push_back(fault);
    }
  }
  std::erase_if(hit_, [&](std::int64_t pid) { return !seen.contains(pid); });
  // A run gives up when several in a row fail to join.
  const bool hits_joiner = !joining.empty() && random_below(random_, kJoinersOneOf) == 0;
  const std::vector<Fault>& from = hits_joiner ? joining : whole;
  if (from.empty()) return std::nullopt;
  Fault fault = from[random_below(random_, from.size())];
  if (!hits_joiner && random_below(random_, kStopsOneOf) == 0) fault.kind = Kind::kStopped;
  if (hits_joiner) joiner_was_hit_.insert(fault.server);
  return fault;
}

void add_metrics_line(std::string_view line, FailoverRun& run) {
  const nlohmann::json said = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object()) return;
  try {
    const std::string kind = said.value("kind", "");
    if (kind == "start") run.unit = said.value("throughput_unit", "");
    if (kind == "iteration") {
      const double seconds = said.at("elapsed_seconds").get<double>();
      run.items.emplace_back(seconds, said.at("items").get<double>());
      for (Fault& fault : run.faults) {
        if (fault.worker && fault.back_after && !fault.next_iteration_after)
          fault.next_iteration_after = std::max(seconds - fault.seconds, 0.0);
      }
      return;
    }
    if (kind == "replacement") {
      const auto process = said.at("process").get<std::uint32_t>();
      for (Fault& fault : run.faults) {
        if (fault.worker == process && !fault.back_after)
          fault.back_after = std::max(said.at("elapsed_seconds").get<double>() - fault.seconds, 0.0);
      }
      return;
    }
    if (kind == "summary") {
      run.throughput = said.at("throughput").get<double>();
      run.seconds = said.at("elapsed_seconds").get<double>();
    }
    if (kind != "failover" && kind != "join") return;
    const double seconds = said.at("elapsed_seconds").get<double>();
    const auto pid = said.at("pid").get<std::int64_t>();
    const auto server = said.at("server").get<std::uint32_t>();
    for (Fault& fault : run.faults) {
      // The clocks begin at about the same moment.
      const double after = std::max(seconds - fault.seconds, 0.0);
      if (kind == "failover" && fault.pid == pid && !fault.back_after) fault.back_after = after;
      const bool waits = fault.server == server && !fault.joined_after &&
                         (fault.back_after || fault.role == ServerRole::kJoins);
      if (kind == "join" && waits && fault.pid != pid) fault.joined_after = after;
    }
  } catch (const nlohmann::json::exception&) {
    return;  // a line of another version
  }
}

Judgement judge_failover(const FailoverOptions& options, const std::vector<FailoverRun>& runs) {
  Judgement judgement;
  const bool hits_workers = options.hit == kHitWorkers;
  judgement.findings = {judge_survival(runs)};
  if (trains_the_same(options)) judgement.findings.push_back(judge_models(runs));
  std::ranges::move(hits_workers ? judge_workers(runs) : judge_servers(options, runs),
                    std::back_inserter(judgement.findings));
  if (runs.empty()) return judgement;
  judgement.tables = {table_of_runs(options, runs),
                      hits_workers ? table_of_workers(runs) : table_of_faults(runs)};
  for (const FailoverRun& run : runs) {
    if (is_disturbed(run) && !run.items.empty() && judgement.charts.size() < kMostFailoverCharts)
      judgement.charts.push_back(chart_of_run(run, runs.front()));
  }
  return judgement;
}

ReportSubject failover_subject(const FailoverOptions& options) {
  return {.name = "failover",
          .description = kFailoverDescription,
          .method = kFailoverMethod,
          .circumstances =
              fmt::format("{} for {:g} minutes; {} servers{}, {} workers; {} are hit, one every "
                          "{:g} s; silence timeout {} ms; seed {}",
                          options.application, options.minutes, options.servers,
                          options.hit == kHitServers ? " with a copy each" : "", options.workers, options.hit,
                          options.seconds_between, options.silence_timeout_ms, options.seed),
          .made = provenance()};
}

std::vector<ReportedRun> reported_runs(const FailoverOptions& options, const std::vector<FailoverRun>& runs) {
  std::vector<ReportedRun> all;
  all.reserve(runs.size());
  for (const FailoverRun& run : runs)
    all.push_back({run.label, "verbena " + absl::StrJoin(failover_arguments(options), " "), run.failure});
  return all;
}

nlohmann::json failover_report_json(const FailoverOptions& options, const Judgement& judgement,
                                    const std::vector<FailoverRun>& runs) {
  nlohmann::json entries = nlohmann::json::array();
  for (const FailoverRun& run : runs) {
    nlohmann::json entry = {{"label", run.label},
                            {"seconds", run.seconds},
                            {"throughput", run.throughput},
                            {"throughput_unit", run.unit},
                            {"differs", run.differs},
                            {"faults", nlohmann::json::array()},
                            {"items", nlohmann::json::array()}};
    if (!run.failure.empty()) entry["failure"] = run.failure;
    for (const Fault& fault : run.faults) entry["faults"].push_back(fault_json(fault));
    for (const auto& [seconds, items] : run.items)
      entry["items"].push_back({{"elapsed_seconds", seconds}, {"items", items}});
    entries.push_back(std::move(entry));
  }
  return report_json(failover_subject(options), judgement, std::move(entries));
}

}  // namespace verbena::apps
