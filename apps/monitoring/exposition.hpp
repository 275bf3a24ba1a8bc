// What is known of a run, in Prometheus' text format 0.0.4 (docs/monitoring.md lists the names).
#pragma once

#include <string>

#include "apps/report/run_record.hpp"
#include "apps/report/run_status.hpp"
#include "apps/report/summary.hpp"

namespace verbena::apps {

inline constexpr const char* kExpositionType = "text/plain; version=0.0.4; charset=utf-8";

/// `began_seconds`: when the run began, since 1970. `status`: of this moment.
std::string exposition(const RunSettings& settings, const RunRecord& record, const RunStatus& status,
                       double began_seconds);

}  // namespace verbena::apps
