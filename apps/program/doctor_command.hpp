// `verbena doctor`: will verbs work on this host, and what mends it if not.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

/// Exit statuses: 0 verbs will work, 1 only shared memory does, 2 wrong use, 3 neither works.
void add_doctor_command(CLI::App& program, Run* run);

}  // namespace verbena::apps
