// `verbena experiment scale`.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

void add_scale_experiment(CLI::App& experiment_command, Run* run);

}  // namespace verbena::apps
