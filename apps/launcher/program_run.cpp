#include "apps/launcher/program_run.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/application.hpp"
#include "apps/launcher/child_process.hpp"
#include "apps/launcher/host_run.hpp"
#include "apps/launcher/launcher.hpp"
#include "apps/launcher/memory_kills.hpp"
#include "apps/report/exit_status.hpp"
#include "base/return_if_error.hpp"
#include "job/address_exchange.hpp"
#include "job/child_message.hpp"
#include "job/embedded_rendezvous.hpp"

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

job::ProgramRole role_of(const JobOptions& job, std::uint32_t rank, std::uint32_t node) {
  return {.rank = rank,
          .workers = job.workers,
          .servers = job.servers,
          .node = node,
          .scheme = job.transport.transport,
          .device = job.transport.device,
          .device_port = job.transport.device_port,
          .shares_cores = shares_cores(job),
          .read_path = read_path_of(job),
          .update_budget_mb_per_s = job.budget_mb_per_s,
          .silence_timeout_ms = job.silence_timeout_ms};
}

std::vector<Launcher::Command> program_commands(const JobOptions& job,
                                                const std::vector<std::string>& words) {
  std::vector<Launcher::Command> commands;
  for (std::uint32_t rank = 0; rank < job.servers; ++rank) commands.push_back(server_command(job, rank));
  for (std::uint32_t rank = 0; rank < job.workers; ++rank) {
    commands.push_back({.name = fmt::format("worker {}", rank),
                        .arguments = words,
                        .role = role_of(job, rank, rank % job.servers)});
  }
  return commands;
}

/// The program of one worker, under a process that mpirun or srun has started.
class ProgramUnderCluster {
 public:
  explicit ProgramUnderCluster(Outlet& outlet) : outlet_(outlet) {}

  /// Starts it and waits for its end. CANCELLED after a stop, and if the program has said itself why it
  /// fails.
  absl::Status run(const Role& role, const std::vector<std::string>& words, const std::atomic<bool>& stop) {
    const absl::StatusOr<std::vector<std::string>> addresses = role.addresses->addresses("", stop);
    if (!addresses.ok()) return addresses.status();
    job::RendezvousHost rendezvous(1, role.job.transport.secret);
    job::AddressExchange::pass_on(*addresses, rendezvous);
    const absl::StatusOr<int> seat = rendezvous.add();
    if (!seat.ok()) return seat.status();
    const std::uint32_t node = role.own_server.value_or(role.rank % role.job.servers);
    absl::StatusOr<ChildProcess> child =
        ChildProcess::start("the program", words, *seat, role_of(role.job, role.rank, node));
    ::close(*seat);
    if (!child.ok()) return child.status();
    std::optional<int> end;
    while (!end) {
      wait(*child, rendezvous);
      RETURN_IF_ERROR(rendezvous.serve());
      // Ask for its end first: then everything that it has sent is in the pipe.
      end = child->reap();
      child->read_lines([&](std::string_view line) { pass_on(line); });
      if (stop || !broken_.ok()) ask_to_end(*child);
    }
    if (stop || has_failed_) return absl::CancelledError("stopped, or it has said why it ends");
    RETURN_IF_ERROR(broken_);
    if (*end == 0) return has_finished_ ? absl::OkStatus() : ended_without_session(child->name());
    const bool is_killed = WIFSIGNALED(*end);
    std::string why = fmt::format("{} {}", child->name(), describe_end(*end));
    if (is_killed && WTERMSIG(*end) == SIGKILL) why += guess_at_kill(kills_before_, count_memory_kills());
    outlet_.send(job::FailedMessage{absl::AbortedError(why),
                                    is_killed ? job::Cause::kKilled : job::Cause::kSilentEnd});
    return absl::CancelledError("it has ended, which is said");
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kTickMs = 50;
  /// From SIGTERM to SIGKILL: less than run_jobs() gives a job.
  static constexpr auto kPoliteness = std::chrono::milliseconds(700);

  static void wait(const ChildProcess& child, const job::RendezvousHost& rendezvous) {
    const int events = rendezvous.wants_to_write(0) ? POLLIN | POLLOUT : POLLIN;
    std::array<pollfd, 3> wanted = {{{child.end_descriptor(), POLLIN, 0},
                                     {child.message_descriptor(), POLLIN, 0},
                                     {rendezvous.descriptor(0), static_cast<short>(events), 0}}};
    ::poll(wanted.data(), wanted.size(), kTickMs);
  }
  void pass_on(std::string_view line) {
    const absl::StatusOr<job::ChildMessage> message = job::decode(line);
    if (!message.ok()) {
      broken_ = message.status();
      return;
    }
    has_failed_ |= std::holds_alternative<job::FailedMessage>(*message);
    has_finished_ |= std::holds_alternative<job::FinishedMessage>(*message);
    outlet_.send(*message);
  }
  void ask_to_end(const ChildProcess& child) {
    if (!asked_at_) child.signal(SIGTERM);
    if (!asked_at_) asked_at_ = Clock::now();
    if (Clock::now() > *asked_at_ + kPoliteness) child.signal(SIGKILL);
  }

  Outlet& outlet_;
  const MemoryKills kills_before_ = count_memory_kills();
  bool has_failed_ = false;    ///< and said why
  bool has_finished_ = false;  ///< its worker has left the job
  absl::Status broken_;        ///< it said what no program says
  std::optional<Clock::time_point> asked_at_;
};

/// The words with the program's path in place of its name.
absl::StatusOr<std::vector<std::string>> with_path(std::vector<std::string> words) {
  absl::StatusOr<std::string> program = find_program(words.front());
  if (!program.ok()) return program.status();
  words.front() = *std::move(program);
  return words;
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
  const absl::StatusOr<std::vector<std::string>> words = with_path(options.words);
  if (!words.ok()) return report_error(words.status());
  Program application(options);
  CLI::App none;
  const ApplicationOptions arguments(none, application);
  run.job.transport = decided(run.job.transport, transport::Reach::kHost);
  if (absl::Status status = check(run, application); !status.ok()) return report_error(status);
  const absl::StatusOr<std::unique_ptr<RunOutputs>> outputs = RunOutputs::create(run, application, arguments);
  if (!outputs.ok()) return report_error(outputs.status());
  Launcher launcher((*outputs)->monitor());
  const absl::Status ended = launcher.run(program_commands(run.job, *words));
  return (*outputs)->finish(ended, launcher.signal());
}

int run_program_in_cluster(const RunOptions& run, const ProgramOptions& options, ClusterOptions cluster) {
  Program application(options);
  CLI::App none;
  const ApplicationOptions arguments(none, application);
  cluster.worker_jobs = [&options](const Role& role, Outlet& outlet, const std::atomic<bool>& stop) {
    ProcessJobs jobs;
    jobs.jobs.emplace_back([&]() -> absl::Status {
      const absl::StatusOr<std::vector<std::string>> words = with_path(options.words);  // on this host
      if (!words.ok()) return words.status();
      return ProgramUnderCluster(outlet).run(role, *words, stop);
    });
    return jobs;
  };
  return run_in_cluster(run, application, arguments, cluster);
}

}  // namespace verbena::apps
