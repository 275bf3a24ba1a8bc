#include "apps/verbena/metrics.hpp"

#include "apps/verbena/child_message.hpp"
#include "apps/verbena/summary.hpp"

namespace verbena::apps {

nlohmann::json settings_json(const RunSettings& settings) {
  return {{"schema", kMetricsSchema},
          {"model", settings.model},
          {"consistency", settings.consistency},
          {"transport", settings.transport},
          {"read_path", settings.read_path},
          {"allocation", settings.allocation},
          {"servers", settings.servers},
          {"workers", settings.workers},
          {"threads", settings.threads},
          {"seed", settings.seed ? nlohmann::json(*settings.seed) : nlohmann::json()},
          {"options", settings.options},
          {"baseline", settings.baseline},
          {"budget_mb_per_s", settings.budget_mb_per_s},
          {"network", settings.network.empty() ? nlohmann::json() : nlohmann::json(settings.network)},
          {"slow", settings.slow},
          {"main_objective", settings.main_objective},
          {"throughput_unit", settings.throughput_unit}};
}

nlohmann::json start_json(const RunSettings& settings, const std::string& version) {
  nlohmann::json start = settings_json(settings);
  start["kind"] = "start";
  start["version"] = version;
  start["iterations"] = settings.iterations;
  return start;
}

nlohmann::json iteration_json(const IterationRecord& record) {
  return {{"schema", kMetricsSchema},
          {"kind", "iteration"},
          {"iteration", record.iteration},
          {"items", record.items},
          {"seconds", record.seconds},
          {"training_seconds", record.training_seconds},
          {"elapsed_seconds", record.elapsed_seconds},
          {"throughput", record.seconds > 0 ? record.items / record.seconds : 0},
          {"objectives", record.objectives}};
}

nlohmann::json worker_json(std::uint32_t rank, const WorkerRecord& record) {
  const FinishedMessage finished = record.finished.value_or(FinishedMessage{});
  nlohmann::json worker = {{"schema", kMetricsSchema},
                           {"kind", "worker"},
                           {"worker", rank},
                           {"items", record.items},
                           {"training_seconds", record.training_seconds},
                           {"session_seconds", finished.seconds},
                           {"throughput", record.throughput()},
                           {"waited_seconds", finished.statistics.waited_seconds},
                           {"share_waited", record.share_waited()},
                           {"rows_pulled", finished.statistics.rows_pulled},
                           {"rows_pushed", finished.statistics.rows_pushed},
                           {"rows_eagerly_received", finished.statistics.rows_eagerly_received},
                           {"rows_shipped_ahead", finished.statistics.rows_shipped_ahead},
                           {"value_bound_waits", finished.statistics.value_bound_waits},
                           {"value_bound_waited_seconds", finished.statistics.value_bound_waited_seconds},
                           {"reads_by_lag", finished.statistics.staleness.reads_by_lag}};
  for (const RowCount& count : kDynamicRowCounts) worker[count.name] = finished.statistics.*count.value;
  return worker;
}

absl::StatusOr<MetricsFile> MetricsFile::create(const std::string& path) {
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  return MetricsFile(*std::move(file));
}

void MetricsFile::write(const nlohmann::json& line) {
  file_.write(to_line(line));
  file_.flush();
}

}  // namespace verbena::apps
