// `verbena checkpoint`: what is in the checkpoints of jobs.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

void add_checkpoint_command(CLI::App& program, Run* run);

}  // namespace verbena::apps
