// The subcommands. Each adds itself to the program; when it is given on the command line, `*run` becomes a
// function that carries it out and returns the exit status. `letter`: what the launcher told the process in
// addition to its command line.
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

/// Carries out a run that was asked for; returns the exit status.
using CarryOutRun =
    std::function<int(const RunOptions& run, Application& application, const ApplicationOptions& options)>;
/// `program_words`: the words after a "--", which are the user's own program and its arguments.
void add_run_command(CLI::App& program, const Applications& applications, const CarryOutRun& carry_out,
                     const std::vector<std::string>& program_words, Run* run);
/// `verbena run` itself: on this host, or as one of the processes that mpirun or srun has started.
int run_application(const RunOptions& given, Application& application, const ApplicationOptions& options);

void add_server_command(CLI::App& program, Run* run);
void add_worker_command(CLI::App& program, const Applications& applications, Run* run);

/// It can show the help of all other commands, no matter when they are added.
void add_help_command(CLI::App& program, Run* run);

/// `words`: the words after a "--", which are the command line that is to be completed.
void add_completion_commands(CLI::App& program, const std::vector<std::string>& words, Run* run);
void add_manual_command(CLI::App& program, Run* run);

/// For subcommands that need no application, such as bench and generate.
using AddCommand = std::function<void(CLI::App& program, Run* run)>;

/// Makes the subcommands that the binary knows, in the order of --help.
std::vector<AddCommand> make_commands();

/// Everything that can be written on the command line. When the command line is parsed, `*run` becomes what
/// was asked for; `*run` must not outlive the program. The program must not outlive `applications` and `run`.
std::unique_ptr<CLI::App> make_program(const Applications& applications,
                                       const std::vector<AddCommand>& commands, Run* run,
                                       const std::vector<std::string>& program_words = {});

/// The whole program; the caller only chooses the applications and further subcommands.
int verbena_main(int argc, char** argv, const Applications& applications,
                 const std::vector<AddCommand>& commands = {});

}  // namespace verbena::apps
