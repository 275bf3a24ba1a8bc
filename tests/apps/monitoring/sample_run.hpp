// A run in which something of everything has happened.
#pragma once

#include "apps/report/run_record.hpp"
#include "apps/report/run_status.hpp"
#include "apps/report/summary.hpp"

namespace verbena::apps {

inline RunSettings sample_settings() {
  RunSettings settings;
  settings.model = "mf";
  settings.throughput_unit = "ratings";
  settings.main_objective = "train_rmse";
  settings.iterations = 10;
  settings.consistency = "ssp:1";
  settings.transport = "a \"quick\" \\ one";
  settings.read_path = "cached";
  settings.servers = 2;
  settings.workers = 2;
  return settings;
}

/// Two workers. Worker 1 is one iteration behind, and has read some rows.
inline RunRecord sample_record() {
  RunRecord record(2, [](const std::map<std::string, double>& sums) { return sums; });
  for (const std::uint32_t worker : {0U, 1U, 0U}) {
    const std::int64_t iteration = record.workers()[worker].last_iteration < 0 ? 1 : 2;
    static_cast<void>(record.add(
        job::IterationMessage{
            worker, {.iteration = iteration, .items = 100, .seconds = 0.5, .sums = {{"train_rmse", 0.25}}}},
        static_cast<double>(iteration)));
  }
  job::StatisticsMessage counted{.worker = 1, .seconds = 4, .statistics = {}};
  counted.statistics.waited_seconds = 1;
  counted.statistics.rows_pulled = 700;
  counted.statistics.staleness.reads_by_lag = {600, 60, 0, 0, 30, 10};
  static_cast<void>(record.add(counted));
  record.note({.kind = RunEvent::Kind::kFailover, .elapsed_seconds = 1.5, .what = "server 0 has died"});
  return record;
}

inline RunStatus sample_status(const RunRecord& record) {
  RunStatus status = status_of(record, /*elapsed_seconds=*/3);
  status.title = "mf, ssp:1";
  status.configuration = 2;
  status.servers = {{{.copy = 1, .pid = 4711, .role = RunStatus::Copy::Role::kServes, .host = "node \"2\""}},
                    {}};
  status.moves = {"the move of server 0 from node2 to node3 copies"};
  return status;
}

}  // namespace verbena::apps
