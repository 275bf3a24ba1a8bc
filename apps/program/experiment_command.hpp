// `verbena experiment NAME`.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

void add_experiment_command(CLI::App& program, Run* run);

}  // namespace verbena::apps
