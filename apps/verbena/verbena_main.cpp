#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>

#include "apps/thrown.hpp"
#include "apps/verbena/commands.hpp"
#include "apps/verbena/console.hpp"
#include "apps/verbena/exit_status.hpp"
#include "apps/verbena/manual_formatter.hpp"

namespace verbena::apps {
namespace {

[[noreturn]] void on_terminate();

void set_up_process(int argc, char** argv) {
  std::set_terminate(on_terminate);
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

/// CLI11 takes the next word for the value where there is none after a "=".
absl::Status check_words(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    if (word.starts_with("--") && word.size() > 2 && word.find('=') == word.size() - 1) {
      return absl::InvalidArgumentError(fmt::format("{}: a value is expected after the =", word));
    }
  }
  return absl::OkStatus();
}

/// No option has a use for an empty value, least of all one that is a path; and a word that begins as an option does is
/// the next option, before which the value was forgotten.
CLI::Validator value() {
  return CLI::Validator(
      [](const std::string& text) {
        if (text.empty()) return std::string("a value is expected, not an empty one");
        if (!text.starts_with("--")) return std::string();
        return fmt::format("a value is expected, not the option {} (of a file, write ./{})", text, text);
      },
      "");
}

void expect_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const bool is_flag = option->get_items_expected_max() == 0;
    const bool may_be_bare = option->get_items_expected_min() == 0;
    if (!is_flag && !may_be_bare) option->check(value());
  }
  for (CLI::App* inner : command.get_subcommands([](CLI::App*) { return true; })) expect_values(*inner);
}

/// What is to be done, of which `run` is left. An exit status where that was all.
std::optional<int> parse(CLI::App& program, int argc, char** argv) {
  if (const absl::Status status = check_words(argc, argv); !status.ok()) return report_error(status);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* app = &program;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    put(stdout, app->help());
    return kExitOk;
  } catch (const CLI::CallForVersion& version) {
    print_out("{}\n", version.what());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return report_error(usage_error(program, error));
  }
  return std::nullopt;
}

/// What was printed must have arrived, as far as someone wanted to read it.
int check_output(int status) {
  const absl::Status arrived = flush_output();
  if (arrived.ok() || status != kExitOk) return status;
  report_error(arrived);
  return kExitFailed;
}

/// The last resort for what is thrown where nothing may be thrown, or in a thread of a library: a line and a status
/// instead of an abort. A terminate without an exception is a broken invariant of ours.
[[noreturn]] void on_terminate() {
  const std::exception_ptr thrown = std::current_exception();
  if (thrown == nullptr) std::abort();
  try {
    report_error(run_caught([&]() -> absl::Status { std::rethrow_exception(thrown); }));
  } catch (...) {  // nothing was unwound, and no memory given back
    (void)std::fputs("verbena: error: out of memory\n", stderr);
  }
  ::_exit(kExitFailed);
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
  expect_values(program);
  return made;
}

int verbena_main(int argc, char** argv, const Applications& applications,
                 const std::vector<AddCommand>& commands) {
  int status = kExitFailed;
  const absl::Status ended = run_caught([&] {
    set_up_process(argc, argv);
    const absl::StatusOr<LaunchLetter> letter = take_letter();
    if (!letter.ok()) return letter.status();
    Run run;
    const std::unique_ptr<CLI::App> program = make_program(applications, commands, &run);
    const std::optional<int> parsed = parse(*program, argc, argv);
    status = parsed ? *parsed : run(*letter);
    return absl::OkStatus();
  });
  if (!ended.ok()) status = report_error(ended);
  return check_output(status);
}

}  // namespace verbena::apps
