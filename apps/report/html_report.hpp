// A run as one page: curves, staleness, waits, the summary. The page loads nothing from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "apps/chart.hpp"
#include "apps/report/run_record.hpp"
#include "apps/report/summary.hpp"

namespace verbena::apps {

/// `charts`: the model's own, beside the curves of its objectives. `printed`: the lines that it has printed.
std::string html_report(const RunSettings& settings, const RunRecord& record, double elapsed_seconds,
                        const std::vector<ModelChart>& charts, const std::vector<std::string>& printed);

}  // namespace verbena::apps
