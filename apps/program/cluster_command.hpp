// `verbena cluster`: who does what in a running job.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

void add_cluster_command(CLI::App& program, Run* run);

}  // namespace verbena::apps
