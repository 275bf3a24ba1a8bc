#include "apps/launcher/program_run.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/application.hpp"
#include "apps/launcher/child_end.hpp"
#include "apps/launcher/child_process.hpp"
#include "apps/launcher/configuration_relay.hpp"
#include "apps/launcher/host_run.hpp"
#include "apps/launcher/launcher.hpp"
#include "apps/launcher/memory_kills.hpp"
#include "apps/options/numbers.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "base/poll_timeout.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "job/address_exchange.hpp"
#include "job/child_message.hpp"
#include "job/embedded_rendezvous.hpp"
#include "job/server_place.hpp"

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

/// For a program that this process starts.
job::ProgramRole role_of(const JobOptions& job, std::uint32_t rank, std::uint32_t node) {
  return {.rank = rank,
          .workers = job.workers,
          .servers = job.servers,
          .node = node,
          .scheme = job.transport.transport,
          .tls = job.transport.tls,
          .device = job.transport.device,
          .device_port = job.transport.device_port,
          .shares_cores = !spins(job),
          .read_path = read_path_of(job),
          .update_budget_mb_per_s = job.budget_mb_per_s,
          .silence_timeout_ms = job.silence_timeout_ms,
          .copies = job.replicas,
          .store = job::place_of_store(::getpid())};
}

std::vector<Launcher::Command> program_commands(const JobOptions& job,
                                                const std::vector<std::string>& words) {
  std::vector<Launcher::Command> commands;
  for (std::uint32_t number = 0; number < job.server_processes(); ++number)
    commands.push_back(server_command(job, number));
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
  /// Whoever sets `stop` calls wake().
  ProgramUnderCluster(Outlet& outlet, const std::atomic<bool>& stop) : outlet_(outlet), stop_(stop) {}
  ~ProgramUnderCluster() { ::close(woken_); }
  ProgramUnderCluster(const ProgramUnderCluster&) = delete;
  ProgramUnderCluster& operator=(const ProgramUnderCluster&) = delete;

  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(woken_, &one, sizeof one);
  }

  /// Starts it and waits for its end. CANCELLED if that was no good end; the outlet has been told why, unless
  /// `stop` was set.
  absl::Status run(const Role& role, const std::vector<std::string>& words) {
    const absl::StatusOr<std::vector<std::string>> addresses = role.addresses->addresses("", stop_);
    if (!addresses.ok()) return addresses.status();
    job::RendezvousHost rendezvous(1, role.job.transport.secret, role.job.server_processes());
    job::AddressExchange::pass_on(*addresses, rendezvous);
    const absl::StatusOr<int> seat = rendezvous.add();
    if (!seat.ok()) return seat.status();
    const std::uint32_t node = role.own_server.value_or(role.rank % role.job.servers);
    job::LaunchLetter letter{.rendezvous = *seat, .program = role_of(role.job, role.rank, node)};
    if (role.told != nullptr) {
      role.told->begin(*addresses);
      absl::StatusOr<std::unique_ptr<ConfigurationRelay>> relay =
          ConfigurationRelay::begin(role.job.transport.secret, *role.told);
      if (!relay.ok()) return relay.status();
      relay_ = *std::move(relay);
      letter.decided = relay_->decided_descriptor();
      letter.program->store = relay_->place();
      letter.program->ends_who_is_left_out = false;
      letter.program->longest_absence_ms =
          static_cast<std::uint32_t>(std::chrono::milliseconds(role.job.longest_absence_of_leader()).count());
    }
    absl::StatusOr<ChildProcess> child = ChildProcess::start("the program", words, std::move(letter));
    ::close(*seat);
    if (!child.ok()) return child.status();
    std::optional<int> end;
    while (!end) {
      wait(*child, rendezvous);
      if (relay_ != nullptr) relay_->poll();
      if (absl::Status status = rendezvous.serve(); !status.ok()) broken_.Update(status);
      // Ask for its end first: then everything that it has sent is in the pipe.
      end = child->reap();
      child->read_lines([&](std::string_view line) { pass_on(line); });
      if (stop_ || !broken_.ok()) ask_to_end(*child);
    }
    if (!broken_.ok())
      return absl::InternalError(fmt::format("{}: {}", child->name(), std::string(broken_.message())));
    return how_it_ended(child->name(), *end);
  }

 private:
  using Clock = std::chrono::steady_clock;
  /// From SIGTERM to SIGKILL: less than the leader gives the members of a job.
  static constexpr auto kPoliteness = std::chrono::milliseconds(400);
  /// A stop reaches the program and this process at about the same time.
  static constexpr auto kStopPatience = std::chrono::milliseconds(200);
  static constexpr auto kTick = std::chrono::seconds(1);

  void wait(const ChildProcess& child, const job::RendezvousHost& rendezvous) const {
    const int events = rendezvous.wants_to_write(0) ? POLLIN | POLLOUT : POLLIN;
    std::vector<pollfd> wanted = {{child.end_descriptor(), POLLIN, 0},
                                  {child.message_descriptor(), POLLIN, 0},
                                  {rendezvous.descriptor(0), static_cast<short>(events), 0},
                                  {history_.asked_to_end ? -1 : woken_, POLLIN, 0}};
    Clock::time_point until = Clock::now() + kTick;
    if (history_.asked_to_end && !history_.killed) until = std::min(until, kill_at_);
    if (relay_ != nullptr) {
      relay_->add_descriptors(wanted);
      until = std::min(until, relay_->next_poll());
    }
    ::poll(wanted.data(), wanted.size(), base::poll_timeout_ms(until, kTick));
  }
  void pass_on(std::string_view line) {
    const absl::StatusOr<job::ChildMessage> message = job::decode(line);
    if (!message.ok()) return broken_.Update(message.status());
    if (std::holds_alternative<job::FailedMessage>(*message)) {
      history_.reported_failure = true;
    } else if (std::holds_alternative<job::FinishedMessage>(*message)) {
      history_.finished = true;
    } else if (!std::holds_alternative<job::IterationMessage>(*message) &&
               !std::holds_alternative<job::StatisticsMessage>(*message)) {
      return broken_.Update(absl::InvalidArgumentError("it said what no session says"));
    }
    outlet_.send(*message);
  }
  void ask_to_end(const ChildProcess& child) {
    if (!std::exchange(history_.asked_to_end, true)) {
      child.signal(SIGTERM);
      kill_at_ = Clock::now() + kPoliteness;
    }
    if (Clock::now() < kill_at_) return;
    child.signal(SIGKILL);
    history_.killed = true;
  }
  absl::Status how_it_ended(const std::string& name, int end) {
    const bool is_stop =
        WIFSIGNALED(end) && (WTERMSIG(end) == SIGTERM || WTERMSIG(end) == SIGINT || WTERMSIG(end) == SIGHUP);
    if (is_stop) {
      pollfd wanted = {woken_, POLLIN, 0};
      ::poll(&wanted, 1, static_cast<int>(kStopPatience.count()));
      if (stop_) return absl::CancelledError("stopped");
    }
    const std::optional<job::FailedMessage> failed = judge_end(name, end, history_, kills_before_);
    if (failed) outlet_.send(*failed);
    return failed || end != 0 || stop_ ? absl::CancelledError("the program has not ended well")
                                       : absl::OkStatus();
  }

  Outlet& outlet_;
  const std::atomic<bool>& stop_;
  const int woken_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const MemoryKills kills_before_ = count_memory_kills();
  std::unique_ptr<ConfigurationRelay> relay_;  ///< nullptr: servers have no copies
  ChildHistory history_{.must_finish = true};
  absl::Status broken_;  ///< why what it says cannot be understood
  Clock::time_point kill_at_;
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
  add_number(
      command, "--restarts", options.restarts,
      "When a server or worker process dies (it is killed, crashes, or shows no sign of life), end the "
      "others, and start all again, at most so many times. The program goes on from its newest "
      "checkpoint if it looks for it when it begins (docs/checkpoints.md). For a run on one host.",
      {0, std::numeric_limits<std::uint32_t>::max()})
      ->type_name("N")
      ->group("Checkpoints")
      ->capture_default_str();
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
  RunMonitor& monitor = (*outputs)->monitor();
  for (std::uint32_t restart = 1;; ++restart) {
    Launcher launcher(monitor, /*checkpoints=*/"", [&](const Succession::Copy& copy) {
      return server_command(run.job, copy.copy * run.job.servers + copy.server);
    });
    const absl::Status ended = launcher.run(program_commands(run.job, *words));
    if (!launcher.has_lost_process() || restart > options.restarts)
      return (*outputs)->finish(ended, launcher.signal());
    const std::string why(base::printable(ended).message());
    put_warning(stderr, fmt::format("verbena: {}: all processes are started again, restart {} of {}\n", why,
                                    restart, options.restarts));
    monitor.go_back(std::nullopt, why);
  }
}

int run_program_in_cluster(const RunOptions& run, const ProgramOptions& options, ClusterOptions cluster) {
  if (options.restarts > 0) {
    return report_error(absl::InvalidArgumentError(
        "--restarts: only what has started the processes can start them again: expected something that does, "
        "with the same words"));
  }
  Program application(options);
  CLI::App none;
  const ApplicationOptions arguments(none, application);
  cluster.worker_jobs = [&options](const Role& role, Outlet& outlet, const std::atomic<bool>& stop) {
    const auto under = std::make_shared<ProgramUnderCluster>(outlet, stop);
    ProcessJobs jobs;
    jobs.jobs.emplace_back([&, under]() -> absl::Status {
      const absl::StatusOr<std::vector<std::string>> words = with_path(options.words);  // on this host
      return words.ok() ? under->run(role, *words) : words.status();
    });
    jobs.wake = [under] { under->wake(); };
    return jobs;
  };
  return run_in_cluster(run, application, arguments, cluster);
}

}  // namespace verbena::apps
