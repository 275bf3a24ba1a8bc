#include "apps/monitoring/exposition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "apps/report/provenance.hpp"
#include "base/printable.hpp"

namespace verbena::apps {
namespace {

using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };

/// A count of each worker's session.
struct CountMetric {
  std::string_view name;
  std::uint64_t SessionStatistics::*value;
  std::string_view help;
};
constexpr auto kCountMetrics = std::to_array<CountMetric>({
    {"rows_pulled", &SessionStatistics::rows_pulled, "Rows that workers have pulled."},
    {"rows_gathered", &SessionStatistics::rows_gathered,
     "Of the rows pulled, those of sparse tables that their servers gathered."},
    {"rows_pushed", &SessionStatistics::rows_pushed, "Rows to which workers have pushed updates."},
    {"rows_eagerly_received", &SessionStatistics::rows_eagerly_received,
     "Rows that servers have pushed into row caches of workers."},
    {"rows_shipped", &SessionStatistics::rows_shipped,
     "Updates of rows of static tables that were sent to servers."},
    {"rows_shipped_ahead", &SessionStatistics::rows_shipped_ahead,
     "Of the updates sent, those that were sent before their clock ended."},
    {"rows_kept_back", &SessionStatistics::rows_kept_back,
     "Updates that a filter has kept back, each counted in each clock in which it was."},
    {"update_bytes", &SessionStatistics::update_bytes, "Bytes of the messages with updates."},
    {"value_bound_waits", &SessionStatistics::value_bound_waits,
     "How often a worker waited, under vap, until its updates were applied."},
    {"transport_requests", &SessionStatistics::requests_posted, "Requests posted to the transport."},
    {"transport_bytes", &SessionStatistics::bytes_posted, "Bytes of the requests posted to the transport."},
    {"transport_doorbells", &SessionStatistics::doorbells_rung,
     "How often a doorbell was rung for requests."},
    {"rows_pulled_locally", &SessionStatistics::rows_pulled_locally,
     "Rows of dynamic tables that were pulled on the worker's node."},
    {"rows_pulled_remotely", &SessionStatistics::rows_pulled_remotely,
     "Rows of dynamic tables that were pulled from other nodes."},
    {"rows_pulled_from_replicas", &SessionStatistics::rows_pulled_from_replicas,
     "Rows of dynamic tables that were pulled from replicas."},
    {"rows_pushed_locally", &SessionStatistics::rows_pushed_locally,
     "Rows of dynamic tables that were pushed to on the worker's node."},
    {"rows_pushed_remotely", &SessionStatistics::rows_pushed_remotely,
     "Rows of dynamic tables that were pushed to on other nodes."},
    {"rows_pushed_to_replicas", &SessionStatistics::rows_pushed_to_replicas,
     "Rows of dynamic tables that were pushed to in replicas."},
    {"rows_localized", &SessionStatistics::rows_localized, "Rows that localize() has moved to the node."},
    {"rows_moved_by_intent", &SessionStatistics::rows_moved_by_intent,
     "Rows that moved to the node because of intents."},
    {"rows_replicated", &SessionStatistics::rows_replicated, "Rows that got a replica because of intents."},
    {"rows_refreshed", &SessionStatistics::rows_refreshed,
     "How often a replica was read again from its owner."},
    {"locations_asked", &SessionStatistics::locations_asked,
     "Rows that were not where the worker believed them to be."},
});

constexpr std::array kEventKinds = {RunEvent::Kind::kFailover, RunEvent::Kind::kJoin,
                                    RunEvent::Kind::kNoJoin,   RunEvent::Kind::kSilence,
                                    RunEvent::Kind::kRestart,  RunEvent::Kind::kReplacement};
constexpr std::array kCopyRoles = {RunStatus::Copy::Role::kStarts, RunStatus::Copy::Role::kServes,
                                   RunStatus::Copy::Role::kFollows, RunStatus::Copy::Role::kJoins};

/// Upper bounds of the histogram of reads, in clocks.
constexpr std::array<std::size_t, 10> kLagBounds = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

/// Within quotes.
std::string escaped_value(std::string_view text) {
  std::string out;
  for (const char each : base::printable(text)) {  // no newlines
    if (each == '\\' || each == '"') out += '\\';
    out += each;
  }
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);  // the shortest that is read back as the same
}

class Writer {
 public:
  /// Begins a metric. All of its samples follow.
  void metric(std::string_view name, MetricType type, std::string_view help) {
    constexpr std::array<std::string_view, 3> kTypeNames = {"counter", "gauge", "histogram"};
    name_ = fmt::format("verbena_{}{}", name, type == MetricType::kCounter ? "_total" : "");
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_,
                         kTypeNames.at(static_cast<std::size_t>(type)));
  }
  void sample(Labels labels, double value, std::string_view suffix = "") {
    text_ += name_;
    text_ += suffix;
    char before = '{';
    for (const auto& [label, text] : labels) {
      text_ += fmt::format("{}{}=\"{}\"", before, label, escaped_value(text));
      before = ',';
    }
    if (labels.size() > 0) text_ += '}';
    text_ += fmt::format(" {}\n", number_text(value));
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    metric(name, MetricType::kGauge, help);
    sample({}, value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

void write_run(const RunSettings& settings, const RunRecord& record, double began_seconds, Writer& out) {
  out.metric("run_info", MetricType::kGauge, "How the run is made; always 1.");
  out.sample({{"model", settings.model},
              {"consistency", settings.consistency},
              {"transport", settings.transport},
              {"read_path", settings.read_path},
              {"allocation", settings.allocation},
              {"throughput_unit", settings.throughput_unit},
              {"version", version()}},
             1);
  out.gauge("run_start_time_seconds", "When the run began, in seconds since 1970.", began_seconds);
  out.gauge("servers", "Servers of the run, without their copies.", settings.servers);
  out.gauge("workers", "Workers of the run.", static_cast<double>(record.workers().size()));
  out.gauge("iterations_planned", "Iterations that are to be done; 0: only the program knows.",
            static_cast<double>(settings.iterations));
  const std::vector<IterationRecord>& iterations = record.iterations();
  out.gauge("iteration", "The last iteration that all workers have reported; 0: none yet.",
            iterations.empty() ? 0 : static_cast<double>(iterations.back().iteration));
  out.gauge("iteration_duration_seconds", "What that iteration took the slowest worker.",
            iterations.empty() ? 0 : iterations.back().seconds);
  out.metric("objective", MetricType::kGauge, "The newest value of each objective.");
  for (const auto& [name, value] : record.objectives()) out.sample({{"objective", name}}, value);
}

void write_events(const RunRecord& record, const RunStatus& status, Writer& out) {
  out.metric("events", MetricType::kCounter, "What has happened to the processes of the run, by kind.");
  for (const RunEvent::Kind kind : kEventKinds) out.sample({{"kind", name_of(kind)}}, record.count(kind));
  out.gauge("configuration",
            "The number of the configuration of servers with copies, or that move; 0: they do not.",
            static_cast<double>(status.configuration));
  out.metric("server_processes", MetricType::kGauge, "The processes of each server, by what they do.");
  for (std::size_t server = 0; server < status.servers.size(); ++server) {
    for (const RunStatus::Copy::Role role : kCopyRoles) {
      const auto count = std::ranges::count(status.servers[server], role, &RunStatus::Copy::role);
      out.sample({{"server", std::to_string(server)}, {"role", name_of(role)}}, static_cast<double>(count));
    }
  }
  std::map<std::string, std::size_t> on_hosts;
  for (const std::vector<RunStatus::Copy>& copies : status.servers) {
    for (const RunStatus::Copy& copy : copies) ++on_hosts[copy.host];
  }
  on_hosts.erase("");
  if (!on_hosts.empty())
    out.metric("host_server_processes", MetricType::kGauge, "Servers and copies on each host.");
  for (const auto& [host, count] : on_hosts) out.sample({{"host", host}}, static_cast<double>(count));
  out.gauge("moves", "Servers, copies and processes with workers that move from host to host, or are to.",
            static_cast<double>(status.moves.size()));
}

/// One sample for each worker.
void write_workers(std::string_view name, MetricType type, std::string_view help, std::size_t workers,
                   absl::FunctionRef<double(std::size_t worker)> value, Writer& out) {
  out.metric(name, type, help);
  for (std::size_t worker = 0; worker < workers; ++worker)
    out.sample({{"worker", std::to_string(worker)}}, value(worker));
}

/// Reads whose data were at most so many clocks old are in a bucket; the record counts by clocks, from 1.
void write_reads(std::size_t worker, const StalenessHistogram& reads, Writer& out) {
  const std::string rank = std::to_string(worker);
  double all = 0;
  double clocks = 0;
  std::size_t bound = 0;
  const auto write_bounds_below = [&](std::size_t lag) {
    for (; bound < kLagBounds.size() && kLagBounds.at(bound) < lag; ++bound)
      out.sample({{"worker", rank}, {"le", std::to_string(kLagBounds.at(bound))}}, all, "_bucket");
  };
  for (std::size_t i = 0; i < reads.reads_by_lag.size(); ++i) {
    write_bounds_below(i + 1);
    const auto count = static_cast<double>(reads.reads_by_lag[i]);
    all += count;
    clocks += count * static_cast<double>(i + 1);
  }
  write_bounds_below(kLagBounds.back() + 1);
  out.sample({{"worker", rank}, {"le", "+Inf"}}, all, "_bucket");
  out.sample({{"worker", rank}}, clocks, "_sum");
  out.sample({{"worker", rank}}, all, "_count");
}

void write_progress(const RunRecord& record, const RunStatus& status, double began_seconds, Writer& out) {
  const std::vector<WorkerRecord>& workers = record.workers();
  const auto gauge = [&](std::string_view name, std::string_view help, auto value) {
    write_workers(name, MetricType::kGauge, help, workers.size(), value, out);
  };
  gauge("worker_iteration", "The last iteration that the worker has reported; -1: none yet.",
        [&](std::size_t i) { return static_cast<double>(workers[i].last_iteration); });
  gauge("worker_iterations_behind", "By how many iterations the worker is behind the foremost.",
        [&](std::size_t i) { return static_cast<double>(iterations_behind(status, status.workers[i])); });
  gauge(
      "worker_last_report_time_seconds",
      "When the worker reported its last iteration, in seconds since 1970; before that, when the run began.",
      [&](std::size_t i) { return began_seconds + workers[i].reported_seconds; });
  gauge("worker_finished", "1 if the worker has trained to the end, else 0.",
        [&](std::size_t i) { return workers[i].finished ? 1.0 : 0.0; });
}

void write_work(const RunRecord& record, Writer& out) {
  const std::vector<WorkerRecord>& workers = record.workers();
  std::vector<job::StatisticsMessage> newest;
  newest.reserve(workers.size());
  for (const WorkerRecord& worker : workers) newest.push_back(worker.newest_statistics());
  const auto counter = [&](std::string_view name, std::string_view help, auto value) {
    write_workers(name, MetricType::kCounter, help, workers.size(), value, out);
  };
  counter("items", "What workers have trained on, in the run's unit of throughput.",
          [&](std::size_t i) { return workers[i].items; });
  counter("training_seconds", "Time that workers have trained.",
          [&](std::size_t i) { return workers[i].training_seconds; });
  counter("session_seconds", "Time since the worker's training began, up to its last count.",
          [&](std::size_t i) { return newest[i].seconds; });
  counter("waited_seconds", "Of that time, how long the worker has waited for others.",
          [&](std::size_t i) { return newest[i].statistics.waited_seconds; });
  counter("value_bound_waited_seconds", "How long workers have waited, under vap, for their own updates.",
          [&](std::size_t i) { return newest[i].statistics.value_bound_waited_seconds; });
  counter("filter_seconds", "Time that workers took to choose, round and pack updates.",
          [&](std::size_t i) { return newest[i].statistics.filter_seconds; });
  for (const CountMetric& count : kCountMetrics) {
    counter(count.name, count.help,
            [&](std::size_t i) { return static_cast<double>(newest[i].statistics.*count.value); });
  }
  out.metric("read_staleness_clocks", MetricType::kHistogram,
             "Rows read through static tables, by how many clocks their data were older than the reader's.");
  for (std::size_t i = 0; i < workers.size(); ++i) write_reads(i, newest[i].statistics.staleness, out);
}

}  // namespace

std::string exposition(const RunSettings& settings, const RunRecord& record, const RunStatus& status,
                       double began_seconds) {
  Writer out;
  write_run(settings, record, began_seconds, out);
  write_events(record, status, out);
  write_progress(record, status, began_seconds, out);
  write_work(record, out);
  return out.take();
}

}  // namespace verbena::apps
