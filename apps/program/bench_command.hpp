// `verbena bench`: latency and throughput of the transport and of tables, compared with what the machine can
// do.
#pragma once

#include "apps/program/commands.hpp"

namespace verbena::apps {

void add_bench_command(CLI::App& program, Run* run);

}  // namespace verbena::apps
