// `verbena table`: what is in the tables of a running job.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

void add_table_command(CLI::App& program, Run* run);

}  // namespace verbena::apps
