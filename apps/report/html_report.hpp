// A run as one page: curves, staleness, waits, the summary. The page loads nothing from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "apps/report/run_record.hpp"
#include "apps/report/summary.hpp"

namespace verbena::apps {

/// `printed`: the lines that the model has printed.
std::string html_report(const RunSettings& settings, const RunRecord& record, double elapsed_seconds,
                        const std::vector<std::string>& printed);

}  // namespace verbena::apps
