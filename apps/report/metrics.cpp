#include "apps/report/metrics.hpp"

#include "apps/report/provenance.hpp"
#include "apps/report/summary.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {

nlohmann::json settings_json(const RunSettings& settings) {
  nlohmann::json json = {
      {"schema", kMetricsSchema},
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
      {"choices", choices_json(settings.choices)},
      {"baseline", settings.baseline},
      {"budget_mb_per_s", settings.budget_mb_per_s},
      {"network", settings.network.empty() ? nlohmann::json() : nlohmann::json(settings.network)},
      {"slow", settings.slow},
      {"main_objective", settings.main_objective},
      {"throughput_unit", settings.throughput_unit}};
  add_provenance(settings.made, json);
  return json;
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

namespace {

nlohmann::json copy_json(std::string_view kind, std::uint32_t server, std::int64_t pid, std::string_view what,
                         double elapsed_seconds) {
  return {
      {"schema", kMetricsSchema},          {"kind", kind}, {"server", server}, {"pid", pid}, {"what", what},
      {"elapsed_seconds", elapsed_seconds}};
}

}  // namespace

nlohmann::json failover_json(std::uint32_t server, std::int64_t pid, std::string_view what,
                             double elapsed_seconds) {
  return copy_json("failover", server, pid, what, elapsed_seconds);
}

nlohmann::json join_json(std::uint32_t server, std::int64_t pid, std::string_view what,
                         double elapsed_seconds) {
  return copy_json("join", server, pid, what, elapsed_seconds);
}

nlohmann::json replacement_json(std::uint32_t process, std::int64_t pid, std::string_view what,
                                double elapsed_seconds) {
  return {{"schema", kMetricsSchema},
          {"kind", "replacement"},
          {"process", process},
          {"pid", pid},
          {"what", what},
          {"elapsed_seconds", elapsed_seconds}};
}

nlohmann::json restart_json(std::uint32_t restart, std::string_view why,
                            std::optional<std::int64_t> after_iteration, double elapsed_seconds) {
  return {{"schema", kMetricsSchema},
          {"kind", "restart"},
          {"restart", restart},
          {"why", why},
          {"after_iteration", after_iteration ? nlohmann::json(*after_iteration) : nlohmann::json()},
          {"elapsed_seconds", elapsed_seconds}};
}

nlohmann::json worker_json(std::uint32_t rank, const WorkerRecord& record) {
  const job::FinishedMessage finished = record.finished.value_or(job::FinishedMessage{});
  nlohmann::json worker = job::statistics_json(finished.statistics);
  worker["schema"] = kMetricsSchema;
  worker["kind"] = "worker";
  worker["worker"] = rank;
  worker["items"] = record.items;
  worker["training_seconds"] = record.training_seconds;
  worker["session_seconds"] = finished.seconds;
  worker["throughput"] = record.throughput();
  worker["share_waited"] = record.share_waited();
  return worker;
}

absl::StatusOr<MetricsFile> MetricsFile::create(const std::string& path) {
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  return MetricsFile(*std::move(file));
}

void MetricsFile::write(const nlohmann::json& line) {
  file_.write(job::to_line(line));
  file_.flush();
}

}  // namespace verbena::apps
