// What workers do in jobs about tables whose rows are not just sums of all that is pushed (row_ledger.hpp):
// random pushes, pulls, scans and calls of functions.
#pragma once

#include "absl/status/status.h"
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/workload.hpp"
#include <verbena/session.hpp>

namespace verbena::simulation {

/// Makes the update rules of these tables known in this process, which may be a server's.
void register_row_rules();

absl::Status run_rows(World& world, const Scenario& scenario, Session& session);

}  // namespace verbena::simulation
