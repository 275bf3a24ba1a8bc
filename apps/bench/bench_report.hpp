// A benchmark's results as one page: latencies and bandwidth by size, and the table. The page loads nothing
// from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "apps/bench/report.hpp"
#include "apps/report/provenance.hpp"

namespace verbena::apps {

std::string bench_report(const bench::Circumstances& circumstances, const Provenance& made,
                         const std::vector<bench::Result>& results,
                         const std::vector<bench::GatherCrossover>& crossovers = {});

}  // namespace verbena::apps
