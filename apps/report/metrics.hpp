// The metrics file: one JSON object per line. The schema is a contract, described in docs/metrics.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "apps/data/output_file.hpp"
#include "apps/report/run_record.hpp"

namespace verbena::apps {

struct RunSettings;

/// Changes when a field is removed or changes its meaning, not when one is added.
inline constexpr int kMetricsSchema = 1;

/// The fields that say how a run was made, with "schema".
nlohmann::json settings_json(const RunSettings& settings);

nlohmann::json start_json(const RunSettings& settings, const std::string& version);
nlohmann::json iteration_json(const IterationRecord& record);
/// `what`: which copy of the server has died, and how; `pid`: its process.
nlohmann::json failover_json(std::uint32_t server, std::int64_t pid, std::string_view what,
                             double elapsed_seconds);
/// `what`: which copy of the server can take its place from now on; `pid`: its process.
nlohmann::json join_json(std::uint32_t server, std::int64_t pid, std::string_view what,
                         double elapsed_seconds);
/// `what`: which worker process has died, and how; `process`: its number; `pid`: of the one in its place.
nlohmann::json replacement_json(std::uint32_t process, std::int64_t pid, std::string_view what,
                                double elapsed_seconds);
/// `restart` counts from 1; `why`: who has died, and how.
nlohmann::json restart_json(std::uint32_t restart, std::string_view why,
                            std::optional<std::int64_t> after_iteration, double elapsed_seconds);
nlohmann::json worker_json(std::uint32_t rank, const WorkerRecord& record);

/// Lines go to an OutputFile: a file appears, complete, only when the run has succeeded; a pipe or a device
/// gets each line at once.
class MetricsFile {
 public:
  static absl::StatusOr<MetricsFile> create(const std::string& path);
  void write(const nlohmann::json& line);
  absl::Status commit() { return file_.commit(); }

 private:
  explicit MetricsFile(OutputFile file) : file_(std::move(file)) {}
  OutputFile file_;
};

}  // namespace verbena::apps
