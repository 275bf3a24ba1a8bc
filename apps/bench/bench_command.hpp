// `verbena bench`: latency and throughput of the transport and the tables, beside what the machine can do.
#pragma once

#include <functional>

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

/// Adds the subcommand; when it is given, `*run` becomes what carries it out and returns the exit status.
void add_bench_command(CLI::App& program, std::function<int()>* run);

}  // namespace verbena::apps
