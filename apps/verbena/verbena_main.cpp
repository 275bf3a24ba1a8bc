#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "apps/verbena/commands.hpp"
#include "apps/verbena/console.hpp"
#include "apps/verbena/exit_status.hpp"
#include "apps/verbena/manual_formatter.hpp"
#include "apps/verbena/usage_error.hpp"
#include "protocol/printable.hpp"

namespace verbena::apps {
namespace {

/// A log line's text: some of it peers have written.
class PrintableText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string text = protocol::printable({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableText>();
  }
};

void set_up_log(bool verbose) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("verbena"));  // without colours, everywhere
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableText>('*').set_pattern("%H:%M:%S.%e %P %l: %*");
  spdlog::set_formatter(std::move(formatter));
  spdlog::set_level(verbose ? spdlog::level::info : spdlog::level::warn);
}

void set_up_process(int argc, char** argv) {
  // A reader that goes away and a file that may not grow are errors of a write, no reason to die.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  set_up_log(std::any_of(argv, argv + argc, [](const char* argument) {
    return std::strcmp(argument, "-v") == 0 || std::strcmp(argument, "--verbose") == 0;
  }));
}

int parse_and_run(CLI::App& program, int argc, char** argv, const Run& run) {
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::string name;
    put(stdout, innermost_command(program, &name).help());
    return kExitOk;
  } catch (const CLI::CallForVersion& version) {
    print_out("{}\n", version.what());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return report_error(usage_error(program, error));
  }
  return run();
}

/// What was printed must have arrived, as far as someone wanted to read it.
int check_output(int status) {
  const absl::Status arrived = flush_output();
  if (arrived.ok() || status != kExitOk) return status;
  report_error(arrived);
  return kExitFailed;
}

}  // namespace

int verbena_main(int argc, char** argv, const Applications& applications,
                 const std::vector<AddCommand>& commands) {
  set_up_process(argc, argv);
  CLI::App program(
      "a parameter server on one-sided RDMA\n\nWorkers train one model together: they pull rows of "
      "shared tables from servers and push updates to them.",
      "verbena");
  program.formatter(std::make_shared<ManualFormatter>());
  program.set_help_flag("-h,--help", "Show this.");
  program.get_help_ptr()->group("General");
  program.set_version_flag("--version", std::string("verbena ") + VERBENA_VERSION, "Show the version.");
  program.get_version_ptr()->group("General");
  program.require_subcommand(1);
  Run run;
  add_run_command(program, applications, run_application, &run);
  add_server_command(program, &run);
  add_worker_command(program, applications, &run);
  for (const AddCommand& add : commands) add(program, &run);
  add_help_command(program, &run);
  return check_output(parse_and_run(program, argc, argv, run));
}

}  // namespace verbena::apps
