// `verbena generate`: input with a known answer.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

void add_generate_command(CLI::App& program, Run* run);

}  // namespace verbena::apps
