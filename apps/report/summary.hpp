// The final figures of a run: the table on the terminal, the metrics' last line and the report show the same
// figures.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/report/choices.hpp"
#include "apps/report/provenance.hpp"
#include "apps/report/run_record.hpp"

namespace verbena::apps {

inline constexpr const char* kStaticAllocation = "static";

/// How a run was made; constant during the run.
struct RunSettings {
  std::string model;  ///< the application's name
  std::string throughput_unit;
  std::string main_objective;
  std::int64_t iterations = 0;
  std::string consistency;  ///< "none" for the plain loop
  std::string transport;    ///< "none" for the plain loop
  std::string read_path;
  std::string allocation = kStaticAllocation;  ///< of the model's tables; "none" for the plain loop
  std::uint32_t servers = 0;
  std::uint32_t workers = 1;  ///< processes
  std::uint32_t threads = 1;  ///< workers in each of them
  std::optional<std::uint64_t> seed;
  std::map<std::string, std::string>
      options;      ///< the application's own that have a value, by name without dashes
  Choices choices;  ///< none for the plain loop
  bool baseline = false;
  double budget_mb_per_s = 0;     ///< managed communication; 0: none
  std::string network;            ///< as on the command line; empty: as it is
  std::vector<std::string> slow;  ///< workers that were slowed down, as on the command line
  Provenance made;
  std::string process;             ///< the only one that is shown, such as "worker 1"; empty: all
  std::uint32_t first_worker = 0;  ///< the first worker that is shown
};

/// "lda, bsp, 2 servers × 2 workers"
std::string headline(const RunSettings& settings);

/// Label and text, in the order of printing; the labels are also the names in the summary's "printed".
using SummaryRows = std::vector<std::pair<std::string, std::string>>;
SummaryRows summary_rows(const RunSettings& settings, const RunRecord& record, double elapsed_seconds);

/// One row for each worker: number, throughput, share of time waited.
struct WorkerRow {
  std::string worker;
  std::string throughput;
  std::string waited;
};
std::vector<WorkerRow> worker_rows(const RunSettings& settings, const RunRecord& record);

/// For the terminal.
std::string summary_table(const RunSettings& settings, const RunRecord& record, double elapsed_seconds);

/// The metrics' last line (docs/metrics.md). `extra` is what the model adds; it becomes "model_summary".
nlohmann::json summary_json(const RunSettings& settings, const RunRecord& record, double elapsed_seconds,
                            const nlohmann::json& extra);

}  // namespace verbena::apps
