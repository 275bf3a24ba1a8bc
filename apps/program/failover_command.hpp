// `verbena experiment failover`: makes runs whose servers it kills.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

void add_failover_experiment(CLI::App& experiment_command, Run* run);

}  // namespace verbena::apps
