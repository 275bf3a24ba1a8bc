// `verbena experiment scale`: simulates jobs of many workers, to see what they wait for. Planning and judging
// are functions of their arguments; scale_command.cpp simulates the jobs in between.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/experiment/experiment.hpp"
#include "apps/experiment/experiment_report.hpp"
#include "apps/scale/cell.hpp"

namespace verbena::apps {

struct ScaleOptions {
  std::vector<std::uint32_t> workers = {8, 32, 128, 512, 1024};
  std::vector<std::string> models = {"bsp", "ssp:2", "essp:2"};  ///< as for --consistency
  std::uint32_t workers_per_server = 32;
  std::uint32_t servers = 0;  ///< servers of each job; 0: by workers_per_server
  std::string network = "latency=3us,bandwidth=10Gb/s";
  /// Everything that does not change from job to job.
  scale::CellOptions cell;
};

/// A simulated job cannot have more connections: each takes about 0.1 MB.
inline constexpr std::uint64_t kMaxConnections = 65'536;

/// One job.
struct ScaleRun {
  std::string model;
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
  std::string failure;  ///< empty: it has been simulated
  scale::CellFigures figures;
};

/// All jobs, not simulated yet, ordered by size and within one size in the order of the models.
/// INVALID_ARGUMENT if a job has too many connections.
absl::StatusOr<std::vector<ScaleRun>> plan_scale(const ScaleOptions& options);

/// The options for simulating the job. REQUIRES: the model and the network can be parsed, all costs are
/// known.
scale::CellOptions cell_of(const ScaleOptions& options, const ScaleRun& run);

/// The command that simulates it again.
std::string command_line(const ScaleOptions& options, const ScaleRun& run);

/// The busiest resource, and how busy it is.
struct Bottleneck {
  std::string what;
  double busy = 0;
};
/// The busiest of the cards and a server's processor.
Bottleneck busiest_resource(const scale::CellFigures& figures);
/// What keeps a job from being faster, in some words.
std::string limit_text(const scale::CellFigures& figures);

Judgement judge_scale(const ScaleOptions& options, const std::vector<ScaleRun>& runs);

ReportSubject scale_subject(const ScaleOptions& options);
std::vector<ReportedRun> reported_runs(const ScaleOptions& options, const std::vector<ScaleRun>& runs);
nlohmann::json scale_json(const ScaleOptions& options, const Judgement& judgement,
                          const std::vector<ScaleRun>& runs);

}  // namespace verbena::apps
