// `verbena worker APP`: one worker process.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "apps/options/validators.hpp"
#include "apps/verbena/child_command.hpp"
#include "apps/verbena/commands.hpp"
#include "apps/verbena/exit_status.hpp"
#include "apps/verbena/run_settings.hpp"
#include "consistency/model.hpp"

namespace verbena::apps {
namespace {

struct WorkerOptions {
  ChildOptions child;
  bool baseline = false;
};

class WorkerReporter : public Reporter {
 public:
  WorkerReporter(std::uint32_t worker, Outlet& outlet) : worker_(worker), outlet_(outlet) {}
  void iteration(const IterationReport& report) override { outlet_.send(IterationMessage{worker_, report}); }
  void print(std::string_view line) override { outlet_.send(PrintMessage{std::string(line)}); }
  void progress(std::string_view what, double done, double total) override {
    outlet_.send(ProgressMessage{worker_, std::string(what), done, total});
  }
  void summary(const std::string& name, nlohmann::json value) override {
    outlet_.send(SummaryMessage{name, std::move(value)});
  }

 private:
  const std::uint32_t worker_;
  Outlet& outlet_;
};

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

absl::Status train(Application& application, const JobOptions& job, std::uint32_t worker, Outlet& outlet,
                   const std::atomic<bool>& stop) {
  absl::StatusOr<std::unique_ptr<transport::Transport>> transport = make_transport(job.transport);
  if (!transport.ok()) return transport.status();
  SessionOptions options{.servers = server_addresses(job),
                         .rank = worker,
                         .workers = job.total_workers(),
                         .read_path = read_path_of(job),
                         .transport = *std::move(transport)};
  absl::StatusOr<std::unique_ptr<Session>> session = Session::connect(options);
  if (!session.ok()) return session.status();
  WorkerReporter reporter(worker, outlet);
  WorkerContext context{.session = **session,
                        .consistency = *consistency::parse_model(job.consistency),
                        .reporter = reporter,
                        .stop = stop};
  const double waited_before = (*session)->statistics().waited_seconds;  // for the servers to appear
  const Stopwatch stopwatch;
  absl::Status status = application.run_worker(context);
  if (!status.ok()) {
    (*session)->give_up(status);
    return status;
  }
  FinishedMessage finished{worker, stopwatch.seconds(), (*session)->statistics()};
  finished.statistics.waited_seconds -= waited_before;
  outlet.send(finished);
  return absl::OkStatus();
}

absl::Status train_baseline(Application& application, Outlet& outlet, const std::atomic<bool>& stop) {
  WorkerReporter reporter(0, outlet);
  BaselineContext context{.reporter = reporter, .stop = stop};
  const Stopwatch stopwatch;
  absl::Status status = application.run_baseline(context);
  if (status.ok()) outlet.send(FinishedMessage{0, stopwatch.seconds(), {}});
  return status;
}

absl::Status check(const WorkerOptions& options, Application& application) {
  const ChildOptions& child = options.child;
  if (child.rank >= child.job.workers) {
    return absl::InvalidArgumentError(
        fmt::format("--worker-rank counts from 0: it must be less than --workers {}", child.job.workers));
  }
  if (child.report_to >= 0) return absl::OkStatus();  // the launcher has looked
  if (absl::Status status = options.baseline ? check(child.job) : check_by_hand(child.job); !status.ok()) {
    return status;
  }
  return application.check(options.baseline ? 1 : child.job.total_workers());
}

int run_worker(WorkerOptions options, Application& application, const ApplicationOptions& arguments) {
  if (absl::Status status = check(options, application); !status.ok()) return report_error(status);
  ChildOptions& child = options.child;
  child.job.transport = decided_by_hand(child.job);
  spdlog::info("worker {}: {} {}", child.rank, effective(child.job), arguments.effective());
  const std::uint32_t first = child.rank * child.job.threads;
  PipeOutlet pipe(child.report_to);
  ConsoleOutlet console(run_settings(application, arguments, child.job, options.baseline), first,
                        [&](const auto& sums) { return application.objectives(sums); });
  Outlet& outlet = child.report_to >= 0 ? static_cast<Outlet&>(pipe) : console;
  std::atomic<bool> stop = false;
  ProcessJobs jobs;
  if (options.baseline) {
    jobs.jobs.emplace_back([&] { return train_baseline(application, outlet, stop); });
  } else {
    for (std::uint32_t thread = 0; thread < child.job.threads; ++thread) {
      jobs.jobs.emplace_back(
          [&, worker = first + thread] { return train(application, child.job, worker, outlet, stop); });
    }
  }
  const int status = run_child(child, std::move(jobs), outlet, stop);
  if (status == kExitOk && child.report_to < 0) console.finish();
  return status;
}

}  // namespace

void add_worker_command(CLI::App& program, const Applications& applications, Run* run) {
  CLI::App* command = program.add_subcommand("worker",
                                             "start one worker process by hand\n\nAll workers of a job are "
                                             "given the same options but for --worker-rank. "
                                             "`verbena run` starts servers and workers by itself.");
  command->require_subcommand(1);
  command->footer(examples({"verbena server --job demo --servers 1 --workers 2 &",
                            "verbena worker APP --job demo --servers 1 --workers 2 --worker-rank 0 … &",
                            "verbena worker APP --job demo --servers 1 --workers 2 --worker-rank 1 …",
                            "verbena worker APP --addresses node1:7001,node2:7001 --servers 2 --workers 2 "
                            "--worker-rank 1 …"}));
  for (const auto& application : applications) {
    auto options = std::make_shared<WorkerOptions>();
    CLI::App* app =
        command->add_subcommand(std::string(application->name()), std::string(application->description()));
    auto arguments = std::make_shared<ApplicationOptions>(*app, *application);
    JobOptions& job = options->child.job;
    app->add_option("--worker-rank", options->child.rank, "Which of the worker processes this is, from 0.")
        ->type_name("R")
        ->check(whole_number(0, UINT32_MAX))
        ->group(kProcessOptions)
        ->capture_default_str();
    add_size_options(*app, job);
    add_transport_options(*app, job.transport, kProcessOptions);
    add_address_options(*app, job);
    add_consistency_options(*app, job);
    add_verbose_option(*app, job);
    add_report_option(*app, options->child);
    app->add_flag("--baseline", options->baseline, "Train in a plain loop, without a parameter server.")
        ->group(kProcessOptions);
    app->callback([options, arguments, run, &application] {
      *run = [options, arguments, &application] { return run_worker(*options, *application, *arguments); };
    });
  }
}

}  // namespace verbena::apps
