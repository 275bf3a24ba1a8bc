// What workers do in jobs about rows that are taken away: keys come and go, so that rows and segments of the
// index are used again and again while others look for keys there.
//
// Each key has one worker. In some turns of so many clocks it pushes to the key in each clock; in others not
// at all, and the row goes; and in some it pauses for just about as long as a row is given. So a row counts
// the pushes since it came. Who reads more has seen what the row was before; who reads less has lost a push;
// and a number that is no multiple of the key's is another key's.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/workload.hpp"
#include <verbena/session.hpp>

namespace verbena::simulation {

absl::Status run_churn(World& world, const Scenario& scenario, Session& session);

}  // namespace verbena::simulation
