// A run as one page: curves, staleness, waits, the summary. Nothing is loaded from anywhere.
#pragma once

#include <string>
#include <vector>

#include "apps/report/run_record.hpp"
#include "apps/report/summary.hpp"

namespace verbena::apps {

/// `printed`: the model's own words.
std::string html_report(const RunSettings& settings, const RunRecord& record, double elapsed_seconds,
                        const std::vector<std::string>& printed);

}  // namespace verbena::apps
