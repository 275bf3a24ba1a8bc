// The subcommands. Each adds itself to the program; when it is given on the command line, `*run` becomes what
// carries it out and returns the exit status. `letter`: what the process was told beside its command line.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "apps/application.hpp"
#include "job/launch_letter.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

class ApplicationOptions;
struct RunOptions;

using Run = std::function<int(const job::LaunchLetter& letter)>;
using Applications = std::vector<std::unique_ptr<Application>>;

/// What to do about a run that was asked for; returns the exit status.
using CarryOutRun =
    std::function<int(const RunOptions& run, Application& application, const ApplicationOptions& options)>;
/// `program_words`: what stands behind a "--", a program of the user's own and its arguments.
void add_run_command(CLI::App& program, const Applications& applications, const CarryOutRun& carry_out,
                     const std::vector<std::string>& program_words, Run* run);
/// `verbena run` itself: here, or as one of the processes that mpirun or srun has started.
int run_application(const RunOptions& run, Application& application, const ApplicationOptions& options);

void add_server_command(CLI::App& program, Run* run);
void add_worker_command(CLI::App& program, const Applications& applications, Run* run);

/// It may be asked for any of the others, whenever they are added.
void add_help_command(CLI::App& program, Run* run);

/// For subcommands that need no application, such as bench and generate.
using AddCommand = std::function<void(CLI::App& program, Run* run)>;

/// Those that the binary knows, in the order of --help.
std::vector<AddCommand> make_commands();

/// All that can be written on the command line. When it is parsed, `*run` becomes what was asked for; it must
/// not outlive the program. The program must not outlive `applications` and `run`.
std::unique_ptr<CLI::App> make_program(const Applications& applications,
                                       const std::vector<AddCommand>& commands, Run* run,
                                       const std::vector<std::string>& program_words = {});

/// The program: everything but which applications and further subcommands there are.
int verbena_main(int argc, char** argv, const Applications& applications,
                 const std::vector<AddCommand>& commands = {});

}  // namespace verbena::apps
