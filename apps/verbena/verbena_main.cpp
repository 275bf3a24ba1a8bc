#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "apps/verbena/commands.hpp"
#include "apps/verbena/exit_status.hpp"
#include "apps/verbena/manual_formatter.hpp"

namespace verbena::apps {
namespace {

void set_up_process(int argc, char** argv) {
  // A reader that goes away and a file that may not grow are errors of a write, no reason to die.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_color_mt("verbena"));
  spdlog::set_pattern("%H:%M:%S.%e %P %l: %v");
  const bool verbose = std::any_of(argv, argv + argc, [](const char* argument) {
    return std::strcmp(argument, "-v") == 0 || std::strcmp(argument, "--verbose") == 0;
  });
  spdlog::set_level(verbose ? spdlog::level::info : spdlog::level::warn);
}

/// One line for what CLI11 has found; it names the option, we name the help.
absl::Status usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App* app = &program;
  std::string command = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    command += " " + app->get_name();
  }
  // CLI11 says only that something is missing where the name of something unknown was given.
  const std::vector<std::string> unknown = program.remaining(true);
  if (app->get_require_subcommand_min() > 0 && !unknown.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("there is no {} (see {} --help)", unknown.front(), command));
  }
  return absl::InvalidArgumentError(fmt::format("{} (see {} --help)", error.what(), command));
}

int parse_and_run(CLI::App& program, int argc, char** argv, const Run& run) {
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* app = &program;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    fmt::print("{}", app->help());
    return kExitOk;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return report_error(usage_error(program, error));
  }
  return run();
}

/// What was printed must have arrived, as far as someone wanted to read it.
int check_output(int status) {
  if ((std::fflush(stdout) == 0 && std::ferror(stdout) == 0) || errno == EPIPE || status != kExitOk)
    return status;
  report_error(absl::UnknownError(fmt::format("standard output: {}", std::strerror(errno))));
  return kExitFailed;
}

}  // namespace

std::unique_ptr<CLI::App> make_program(const Applications& applications,
                                       const std::vector<AddCommand>& commands, Run* run) {
  auto made = std::make_unique<CLI::App>(
      "a parameter server on one-sided RDMA\n\nWorkers train one model together: they pull rows of "
      "shared tables from servers and push updates to them.",
      "verbena");
  CLI::App& program = *made;
  program.formatter(std::make_shared<ManualFormatter>());
  program.set_help_flag("-h,--help", "Show this.");
  program.get_help_ptr()->group("General");
  program.set_version_flag("--version", std::string("verbena ") + VERBENA_VERSION, "Show the version.");
  program.get_version_ptr()->group("General");
  program.require_subcommand(1);
  add_run_command(program, applications, run_application, run);
  add_server_command(program, run);
  add_worker_command(program, applications, run);
  for (const AddCommand& add : commands) add(program, run);
  return made;
}

int verbena_main(int argc, char** argv, const Applications& applications,
                 const std::vector<AddCommand>& commands) {
  set_up_process(argc, argv);
  Run run;
  const std::unique_ptr<CLI::App> program = make_program(applications, commands, &run);
  return check_output(parse_and_run(*program, argc, argv, run));
}

}  // namespace verbena::apps
