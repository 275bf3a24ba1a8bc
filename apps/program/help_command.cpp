// `verbena help [COMMAND…]`: the same as `verbena COMMAND… --help`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/launcher/job_options.hpp"
#include "apps/program/commands.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"

namespace verbena::apps {
namespace {

int show_help(const CLI::App& program, const std::vector<std::string>& names) {
  const CLI::App* app = &program;
  std::string command = program.get_name();
  for (const std::string& name : names) {
    const auto of_that_name = [&](const CLI::App* each) { return each->get_name() == name; };
    const std::vector<const CLI::App*> found = app->get_subcommands(of_that_name);
    if (found.empty()) {
      return report_error(absl::InvalidArgumentError(
          fmt::format("{} has no command {} (see {} --help)", command, name, command)));
    }
    app = found.front();
    command += " " + name;
  }
  // Not help(), which would show the help of the command that was given, `help` itself.
  put(stdout, app->get_formatter()->make_help(app, "", CLI::AppFormatMode::Normal));
  return kExitOk;
}

}  // namespace

void add_help_command(CLI::App& program, Run* run) {
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* command = program.add_subcommand("help", "show what a command does, and its options");
  command->add_option("COMMAND", *names, "Such as run, or run lda; without one, the whole program.")
      ->type_name("NAME");
  command->footer(examples({"verbena help", "verbena help run lda"}));
  command->callback([&program, names, run] {
    *run = [&program, names](const job::LaunchLetter&) { return show_help(program, *names); };
  });
}

}  // namespace verbena::apps
