// `verbena doctor`: will verbs work on this host, and how to repair it if not.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

/// Exit statuses: 0 verbs will work, 1 only shared memory will work, 2 wrong usage, 3 neither will work.
void add_doctor_command(CLI::App& program, Run* run);

}  // namespace verbena::apps
