// A page that shows a run while it goes on: who is behind, how stale reads are, throughput, who waits, what
// has happened. It is one file, and asks for /status.json each second.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/report/run_record.hpp"
#include "apps/report/run_status.hpp"
#include "apps/report/summary.hpp"

namespace verbena::apps {

std::string live_page(const RunSettings& settings);

/// What the page shows; docs/monitoring.md describes it. Its size has a bound.
nlohmann::json live_json(const RunSettings& settings, const RunRecord& record, const RunStatus& status);

}  // namespace verbena::apps
