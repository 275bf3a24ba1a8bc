#include "apps/launcher/program_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/application.hpp"
#include "apps/launcher/host_run.hpp"
#include "apps/launcher/launcher.hpp"
#include "apps/report/exit_status.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

/// The program as the launcher's outputs see it: it reports iterations, and the sums are the objectives.
class Program : public Application {
 public:
  explicit Program(const ProgramOptions& options)
      : options_(options), name_(std::filesystem::path(options.words.front()).filename()) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string_view description() const override { return "a program of your own"; }
  [[nodiscard]] std::string_view throughput_unit() const override { return "items"; }
  [[nodiscard]] std::string_view main_objective() const override { return options_.objective; }
  /// What the metrics say about how the program was run.
  void add_options(CLI::App& command) override {
    command.add_option("--command")->default_str(absl::StrJoin(options_.words, " "));
  }
  [[nodiscard]] Files files() const override { return {}; }
  absl::Status check(std::uint32_t /*workers*/) override { return absl::OkStatus(); }
  /// Only the program knows how many.
  [[nodiscard]] std::int64_t iterations() const override { return 0; }
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override {
    return sums;
  }
  absl::Status run_worker(WorkerContext& /*context*/) const override { return runs_elsewhere(); }
  absl::Status run_baseline(BaselineContext& /*context*/) const override { return runs_elsewhere(); }

 private:
  static absl::Status runs_elsewhere() { return absl::UnimplementedError("a program runs as itself"); }

  const ProgramOptions& options_;
  const std::string name_;
};

/// Finds the program like a shell: by PATH, unless its name has a slash.
absl::StatusOr<std::string> find_program(const std::string& name) {
  std::vector<std::string> places = {name};
  if (name.find('/') == std::string::npos) {
    const char* const path = std::getenv("PATH");
    places = absl::StrSplit(path == nullptr ? "" : path, ':');
    for (std::string& place : places) place = fmt::format("{}/{}", place.empty() ? "." : place, name);
  }
  for (const std::string& place : places) {
    std::error_code error;
    if (std::filesystem::is_regular_file(place, error) && ::access(place.c_str(), X_OK) == 0) return place;
  }
  return absl::NotFoundError(fmt::format("{}: there is no such program, or it may not be executed", name));
}

std::vector<Launcher::Command> program_commands(const JobOptions& job, const ProgramOptions& options,
                                                const std::string& program) {
  std::vector<Launcher::Command> commands;
  for (std::uint32_t rank = 0; rank < job.servers; ++rank) commands.push_back(server_command(job, rank));
  std::vector<std::string> words = options.words;
  words.front() = program;
  for (std::uint32_t rank = 0; rank < job.workers; ++rank) {
    commands.push_back({.name = fmt::format("worker {}", rank),
                        .arguments = words,
                        .role = job::ProgramRole{.rank = rank,
                                                 .workers = job.workers,
                                                 .servers = job.servers,
                                                 .scheme = job.transport.transport,
                                                 .device = job.transport.device,
                                                 .device_port = job.transport.device_port,
                                                 .shares_cores = shares_cores(job),
                                                 .read_path = read_path_of(job),
                                                 .update_budget_mb_per_s = job.budget_mb_per_s,
                                                 .silence_timeout_ms = job.silence_timeout_ms}});
  }
  return commands;
}

absl::Status check(const RunOptions& run, Program& application) {
  RETURN_IF_ERROR(check_all(application, run));
  return check_host(run.job);
}

}  // namespace

void add_program_options(CLI::App& command, ProgramOptions& options) {
  command
      .add_option(
          "--objective", options.objective,
          "Of what a program reports, the sum to be shown while it runs; by default the first by name.")
      ->type_name("NAME")
      ->group("Output");
}

int run_program(RunOptions run, const ProgramOptions& options) {
  const absl::StatusOr<std::string> program = find_program(options.words.front());
  if (!program.ok()) return report_error(program.status());
  Program application(options);
  CLI::App none;
  const ApplicationOptions arguments(none, application);
  run.job.transport = decided(run.job.transport, transport::Reach::kHost);
  if (absl::Status status = check(run, application); !status.ok()) return report_error(status);
  const absl::StatusOr<std::unique_ptr<RunOutputs>> outputs = RunOutputs::create(run, application, arguments);
  if (!outputs.ok()) return report_error(outputs.status());
  Launcher launcher((*outputs)->monitor());
  const absl::Status ended = launcher.run(program_commands(run.job, options, *program));
  return (*outputs)->finish(ended, launcher.signal());
}

}  // namespace verbena::apps
