#include "apps/program/failover_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/experiment/experiment_failover.hpp"
#include "apps/experiment/experiment_output.hpp"
#include "apps/inspect/job_status.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/options/numbers.hpp"
#include "apps/peers/program.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/format.hpp"
#include "base/file_descriptor.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "job/child_message.hpp"
#include "job/run_secret.hpp"
#include "job/starters.hpp"
#include "protocol/messages.hpp"
#include "transport/secret.hpp"

namespace verbena::apps {
namespace {

using FailoverClock = std::chrono::steady_clock;

constexpr const char* kBundledChapters = "data/kjv-chapters.tsv.gz";
constexpr auto kTurn = std::chrono::milliseconds(5);
constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
constexpr auto kLookPatience = std::chrono::milliseconds(500);
/// A run that is hit for less time than this shows nothing.
constexpr auto kLeastTime = std::chrono::seconds(1);
/// A run that says nothing for so long hangs: neither an iteration nor a failover.
constexpr auto kRunPatience = std::chrono::seconds(120);

struct FailoverCommand {
  FailoverOptions failover;
  std::string output = "experiment-failover";
  bool quiet = false;
};

/// What a run has written, by the names of the files.
using ModelFiles = std::map<std::string, std::string>;

ModelFiles read_model(const std::string& folder) {
  ModelFiles model;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    model[entry.path().filename().string()] = std::move(text).str();
  }
  return model;
}

/// A pipe with a name, in which a run's metrics arrive line by line.
class MetricsPipe {
 public:
  static absl::StatusOr<MetricsPipe> make(const std::string& path) {
    ::unlink(path.c_str());
    const bool is_made = ::mkfifo(path.c_str(), S_IRUSR | S_IWUSR) == 0;
    MetricsPipe pipe(
        path, base::FileDescriptor(is_made ? ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1));
    const int reason = errno;
    if (!is_made || pipe.descriptor_.get() < 0)
      return absl::InternalError(fmt::format("{}: {}", path, std::strerror(reason)));
    return pipe;
  }
  MetricsPipe(MetricsPipe&&) = default;
  MetricsPipe& operator=(MetricsPipe&&) = delete;
  ~MetricsPipe() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  /// Waits for lines, not for long.
  template <class Use>
  void read(const Use& use) {
    // Before it is opened at its other end it is at its end, which is no reason to turn without rest.
    pollfd wanted = {.fd = descriptor_.get(), .events = POLLIN, .revents = 0};
    ::poll(&wanted, 1, static_cast<int>(kTurn.count()));
    std::array<char, 65536> block{};
    for (ssize_t got = 0; (got = ::read(descriptor_.get(), block.data(), block.size())) > 0;)
      text_.append(block.data(), static_cast<std::size_t>(got));
    // Both ends are open: nothing stays behind, however this process ends.
    if (!text_.empty() && !path_.empty()) ::unlink(std::exchange(path_, "").c_str());
    if ((wanted.revents & POLLHUP) != 0) ::poll(nullptr, 0, static_cast<int>(kTurn.count()));
    for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1))
      use(std::string_view(text_).substr(0, end));
  }

 private:
  MetricsPipe(std::string path, base::FileDescriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  std::string path_;
  base::FileDescriptor descriptor_;
  std::string text_;
};

/// Whether that process was started by the other one: a number that the kernel has given away anew was not.
bool is_child_of(std::int64_t pid, pid_t parent) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (pid <= 1 || name_end == std::string::npos) return false;
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  pid_t found = 0;
  return rest >> state >> found && found == parent;
}

/// How the run of that launcher is; nullopt: it does not say.
std::optional<RunStatus> status_of_run(pid_t launcher) {
  auto secret = transport::Secret::read_file(job::RunSecret::path_of(launcher));
  if (!secret.ok()) return std::nullopt;  // it has just begun
  inspect::FoundJob job;
  job.name = fmt::format("run-{}", launcher);
  const auto run = inspect::ask_launcher(job, *std::move(secret), kLookPatience);
  return run.ok() ? *run : std::nullopt;
}

/// One of the experiment's runs, while it goes on.
class WatchedRun {
 public:
  /// `saboteur`: nullptr: nothing is hit.
  WatchedRun(Program& program, MetricsPipe& pipe, Saboteur* saboteur, FailoverRun& run)
      : program_(program), pipe_(pipe), saboteur_(saboteur), run_(run) {}

  /// Until it has ended; from `peace` on nothing is hit any more. DEADLINE_EXCEEDED: it hangs.
  absl::Status watch(FailoverClock::time_point peace) {
    while (program_.read(std::chrono::milliseconds(0))) {
      read_metrics();
      const bool may_hit = saboteur_ != nullptr && began_ && FailoverClock::now() < peace;
      if (may_hit && saboteur_->is_due(elapsed())) look_and_hit();
      if (FailoverClock::now() > heard_ + kRunPatience) {
        return absl::DeadlineExceededError(
            fmt::format("it has neither trained nor failed over for {} s", kRunPatience.count()));
      }
    }
    read_metrics();
    return program_.wait(std::chrono::seconds(10));
  }

 private:
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(FailoverClock::now() - *began_).count();
  }

  void read_metrics() {
    pipe_.read([&](std::string_view line) {
      heard_ = FailoverClock::now();
      if (!began_) began_ = heard_;  // the first line comes when the run's own clock begins
      add_metrics_line(line, run_);
    });
  }

  void look_and_hit() {
    if (FailoverClock::now() < next_look_) return;
    next_look_ = FailoverClock::now() + kBetweenLooks;
    const std::optional<RunStatus> status = status_of_run(program_.pid());
    if (!status) return;
    const std::optional<ServerFault> fault = saboteur_->choose(*status, elapsed());
    if (!fault || !is_child_of(fault->pid, program_.pid())) return;
    run_.faults.push_back(*fault);
    run_.faults.back().seconds = elapsed();
    ::kill(static_cast<pid_t>(fault->pid), fault->kind == ServerFault::Kind::kKilled ? SIGKILL : SIGSTOP);
  }

  Program& program_;
  MetricsPipe& pipe_;
  Saboteur* const saboteur_;
  FailoverRun& run_;
  std::optional<FailoverClock::time_point> began_;
  FailoverClock::time_point heard_ = FailoverClock::now();  ///< when it last said something
  FailoverClock::time_point next_look_ = FailoverClock::time_point::min();
};

/// The path of this program: a name like /proc/self/exe would stand in the run's provenance.
std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/proc/self/exe" : path.string();
}

/// Makes a run, and reads its model.
absl::StatusOr<ModelFiles> make_watched_run(const FailoverCommand& options, Saboteur* saboteur,
                                            FailoverClock::time_point peace, FailoverRun& run) {
  const std::string folder = options.output + "/model";
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  std::filesystem::create_directories(folder, error);
  if (error) return absl::InternalError(fmt::format("{}: {}", folder, error.message()));
  const std::string pipe_path = options.output + "/metrics.pipe";
  absl::StatusOr<MetricsPipe> pipe = MetricsPipe::make(pipe_path);
  if (!pipe.ok()) return pipe.status();
  std::vector<std::string> arguments = failover_arguments(options.failover);
  arguments.insert(arguments.begin(), own_program());
  arguments.insert(arguments.end(), {fmt::format("--output={}/model", folder),
                                     fmt::format("--metrics={}", pipe_path), "--quiet"});
  absl::StatusOr<std::unique_ptr<Program>> program = Program::start(arguments);
  if (!program.ok()) return program.status();
  RETURN_IF_ERROR(WatchedRun(**program, *pipe, saboteur, run).watch(peace));
  ModelFiles model = read_model(folder);
  std::filesystem::remove_all(folder, error);
  if (model.empty()) return absl::InternalError("it has written no model");
  return model;
}

void show_progress(const FailoverRun& run) {
  std::size_t stopped = 0;
  for (const ServerFault& fault : run.faults) stopped += fault.kind == ServerFault::Kind::kStopped ? 1 : 0;
  print_error("{}: {}; {} killed, {} stopped, {}\n", run.label,
              run.failure.empty() ? "the model is as it should be" : base::printable(run.failure),
              run.faults.size() - stopped, stopped, format_seconds(run.seconds));
}

/// Runs of which servers die, until the time is over.
std::vector<FailoverRun> make_disturbed_runs(const FailoverCommand& options, const ModelFiles& wanted) {
  std::vector<FailoverRun> runs;
  const FailoverClock::time_point end =
      FailoverClock::now() + std::chrono::duration_cast<FailoverClock::duration>(
                                 std::chrono::duration<double>(options.failover.minutes * 60));
  do {
    FailoverRun& run = runs.emplace_back();
    run.label = fmt::format("run {}", runs.size());
    Saboteur saboteur(mix(options.failover.seed ^ mix(runs.size())), options.failover.seconds_between);
    const absl::StatusOr<ModelFiles> model = make_watched_run(options, &saboteur, end, run);
    if (!model.ok()) {
      run.failure = std::string(base::printable(model.status()).message());
    } else if (*model != wanted) {
      run.differs = true;
      run.failure = "its model is not that of the undisturbed run";
    }
    if (!options.quiet) show_progress(run);
  } while (FailoverClock::now() + kLeastTime < end);
  return runs;
}

int run_failover(const FailoverCommand& options) {
  if (absl::Status status = job::check_started_once(); !status.ok()) return report_error(status);
  if (!std::filesystem::exists(options.failover.data)) {
    return report_error(
        absl::NotFoundError(fmt::format("--data {}: there is no such file", options.failover.data)));
  }
  if (absl::Status status = make_output_folder(options.output); !status.ok()) return report_error(status);
  std::vector<FailoverRun> runs(1);
  runs.front().label = "undisturbed";
  const absl::StatusOr<ModelFiles> wanted =
      make_watched_run(options, nullptr, FailoverClock::now(), runs.front());
  // It shows whether the input is good; a failure of a later run is a result.
  if (!wanted.ok()) return report_error(wanted.status());
  if (!options.quiet) show_progress(runs.front());
  for (FailoverRun& run : make_disturbed_runs(options, *wanted)) runs.push_back(std::move(run));
  const Judgement judgement = judge_failover(options.failover, runs);
  const ReportSubject subject = failover_subject(options.failover);
  const std::vector<ReportedRun> reported = reported_runs(options.failover, runs);
  const absl::Status written = write_experiment(
      options.output, {.table = report_text(subject, judgement, reported),
                       .numbers = job::to_line(failover_report_json(options.failover, judgement, runs), 1),
                       .page = report_html(subject, judgement, reported)});
  if (!written.ok()) {
    report_error(written);
    return kExitFailed;
  }
  const bool any_failed =
      std::ranges::any_of(runs, [](const FailoverRun& run) { return !run.failure.empty(); });
  return any_failed ? kExitFailed : kExitOk;
}

void add_failover_options(CLI::App& command, FailoverOptions& chosen) {
  constexpr const char* kRuns = "Runs";
  constexpr const char* kFaults = "Faults";
  command.add_option("--application", chosen.application, "What is trained.")
      ->type_name(fmt::format("{}", fmt::join(kFailoverApplications, "|")))
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(kFailoverApplications), std::end(kFailoverApplications))))
      ->group(kRuns)
      ->capture_default_str();
  command
      .add_option("--data", chosen.data,
                  "What it is trained on, as for `verbena run`; the default is for lda.")
      ->type_name("FILE")
      ->group(kRuns)
      ->capture_default_str();
  add_number(command, "--iterations", chosen.iterations,
             "Of each run (passes of ctr); by default as many as take some seconds.", {1, 1'000'000})
      ->type_name("N")
      ->group(kRuns);
  add_number(command, "--servers", chosen.servers, "Servers of each run, each with a copy.",
             {1, protocol::kMaxWorkers})
      ->type_name("S")
      ->group(kRuns)
      ->capture_default_str();
  add_number(command, "--workers", chosen.workers, "Worker processes of each run.",
             {1, protocol::kMaxWorkers})
      ->type_name("W")
      ->group(kRuns)
      ->capture_default_str();
  add_number(command, "--minutes", chosen.minutes,
             "How long servers are hit; the run that goes on then ends in peace.", {0.0, 100'000.0})
      ->type_name("N")
      ->group(kFaults)
      ->capture_default_str();
  add_number(command, "--seconds-between", chosen.seconds_between,
             "From one fault to the next, on average; longer where all copies have to be there again first.",
             {0.01, 3600.0})
      ->type_name("S")
      ->group(kFaults)
      ->capture_default_str();
  add_number(command, "--silence-timeout", chosen.silence_timeout_ms,
             "As for `verbena run`: when a process that is stopped is noticed.", {2000, 600'000})
      ->type_name("MS")
      ->group(kFaults)
      ->capture_default_str();
  add_number(command, "--seed", chosen.seed, "Of all runs, and of what is hit, and when.")
      ->group(kFaults)
      ->capture_default_str();
}

}  // namespace

void add_failover_experiment(CLI::App& experiment_command, Run* run) {
  auto options = std::make_shared<FailoverCommand>();
  options->failover.data = kBundledChapters;
  const ReportSubject subject = failover_subject(options->failover);
  CLI::App* app = experiment_command.add_subcommand(
      subject.name, fmt::format("{}\n\n{}", subject.description, subject.method));
  app->group("Experiments");
  add_failover_options(*app, options->failover);
  app->add_option("--output", options->output,
                  "Where table.txt, numbers.json and report.html are written; made if it is not there.")
      ->type_name("FOLDER")
      ->group("Output")
      ->capture_default_str();
  app->add_flag("-q,--quiet", options->quiet, "No progress; the table at the end only.")->group("Output");
  app->footer(examples({"verbena experiment failover", "verbena experiment failover --minutes 10 --seed 7",
                        "verbena experiment failover --application mf --data ratings.tsv"}));
  app->callback(
      [options, run] { *run = [options](const job::LaunchLetter&) { return run_failover(*options); }; });
}

}  // namespace verbena::apps
