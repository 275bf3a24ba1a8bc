#include "apps/launcher/roles.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "apps/conditions/competitors.hpp"
#include "apps/conditions/slowdown.hpp"
#include "apps/launcher/short_slices.hpp"
#include "base/return_if_error.hpp"
#include "job/address_exchange.hpp"
#include "server/driver.hpp"
#include "server/server.hpp"
#include <verbena/consistency.hpp>
#include <verbena/session.hpp>

namespace verbena::apps {
namespace {

absl::Status serve(const Role& role, transport::Transport& transport, const std::atomic<bool>& stop) {
  const JobOptions& job = role.job;
  const std::string address = role.addresses == nullptr
                                  ? server_addresses(job)[role.rank]
                                  : fresh_address(job.transport, ::getppid(), role.rank);
  absl::StatusOr<std::unique_ptr<server::Server>> made =
      server::Server::create(transport, {.address = address,
                                         .rank = role.rank,
                                         .servers = job.servers,
                                         .workers = job.total_workers(),
                                         .outlives_workers = job.outlives_workers,
                                         .silence_timeout_ms = job.silence_timeout_ms,
                                         .threads = job.chosen_server_threads(),
                                         .lanes = job.chosen_lanes(),
                                         .push_budget_mb_per_s = job.budget_mb_per_s});
  if (!made.ok()) return made.status();
  if (role.addresses != nullptr) {
    const std::string own = transport.listening_address();
    RETURN_IF_ERROR(job::check_can_be_found(own));
    const absl::Status met = role.addresses->addresses(own, stop).status();
    if (!met.ok()) return met;
  }
  if (shares_cores(job)) ask_for_short_slices();
  return server::drive(**made, transport, stop);
}

class WorkerReporter : public Reporter {
 public:
  WorkerReporter(std::uint32_t worker, Outlet& outlet) : worker_(worker), outlet_(outlet) {}
  void iteration(const IterationReport& report) override {
    outlet_.send(job::IterationMessage{worker_, report});
  }
  void print(std::string_view line) override { outlet_.send(job::PrintMessage{std::string(line)}); }
  void progress(std::string_view what, double done, double total) override {
    outlet_.send(job::ProgressMessage{worker_, std::string(what), done, total});
  }
  void summary(const std::string& name, nlohmann::json value) override {
    outlet_.send(job::SummaryMessage{name, std::move(value)});
  }

 private:
  const std::uint32_t worker_;
  Outlet& outlet_;
};

TransportOptions transport_of(const JobOptions& job) {
  TransportOptions options = job.transport;
  options.shares_cores = shares_cores(job);
  return options;
}

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

absl::Status train(Application& application, const Role& role, std::uint32_t worker, Outlet& outlet,
                   const std::atomic<bool>& stop) {
  const JobOptions& job = role.job;
  const std::vector<SlowRule> slow = slow_rules(job);
  const absl::StatusOr<std::unique_ptr<Competitors>> competitors = Competitors::start(slow, worker);
  if (!competitors.ok()) return competitors.status();
  if ((*competitors)->count() > 0)
    spdlog::info("worker {}: on core {} with {} busy threads", worker, (*competitors)->core(),
                 (*competitors)->count());
  absl::StatusOr<std::vector<std::string>> addresses =
      role.addresses == nullptr ? server_addresses(job) : role.addresses->addresses("", stop);
  if (!addresses.ok()) return addresses.status();
  // All threads of a process belong to one node.
  const std::uint32_t node = role.own_server.value_or(role.rank % job.servers);
  absl::StatusOr<std::unique_ptr<transport::Transport>> transport =
      make_transport(transport_of(job), {(*addresses)[node]});
  if (!transport.ok()) return transport.status();
  const SessionOptions options{.servers = *std::move(addresses),
                               .rank = worker,
                               .workers = job.total_workers(),
                               .node = node,
                               .read_path = read_path_of(job),
                               .silence_timeout_ms = job.silence_timeout_ms,
                               .transport = *std::move(transport),
                               .update_budget_mb_per_s = job.budget_mb_per_s};
  // Not if there are competitor threads: they must get the core as the kernel decides.
  if (shares_cores(job) && (*competitors)->count() == 0) ask_for_short_slices();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::connect(options);
  if (!session.ok()) return session.status();
  WorkerReporter reporter(worker, outlet);
  Slowdown slowdown(slow, worker);
  WorkerContext context{.session = **session,
                        .consistency = *parse_consistency(job.consistency),
                        .reporter = reporter,
                        .stop = stop,
                        .watch = slowdown};
  const double waited_before = (*session)->statistics().waited_seconds;  // until the servers appeared
  const Stopwatch stopwatch;
  absl::Status status = application.run_worker(context);
  if (!status.ok()) {
    static_cast<void>((*session)->give_up(status));
    return status;
  }
  job::FinishedMessage finished{worker, stopwatch.seconds(), (*session)->statistics()};
  finished.statistics.waited_seconds -= waited_before;
  outlet.send(finished);
  return absl::OkStatus();
}

absl::Status train_baseline(Application& application, Outlet& outlet, const std::atomic<bool>& stop) {
  WorkerReporter reporter(0, outlet);
  BaselineContext context{.reporter = reporter, .stop = stop};
  const Stopwatch stopwatch;
  absl::Status status = application.run_baseline(context);
  if (status.ok()) outlet.send(job::FinishedMessage{0, stopwatch.seconds(), {}});
  return status;
}

}  // namespace

absl::StatusOr<ProcessJobs> server_jobs(const Role& role, const std::atomic<bool>& stop) {
  absl::StatusOr<std::unique_ptr<transport::Transport>> made = make_transport(transport_of(role.job));
  if (!made.ok()) return made.status();
  const std::shared_ptr<transport::Transport> transport = *std::move(made);
  ProcessJobs jobs;
  jobs.jobs.emplace_back([&role, transport, &stop] { return serve(role, *transport, stop); });
  jobs.wake = [transport] { transport->interrupt(); };
  return jobs;
}

ProcessJobs worker_jobs(const Role& role, Application& application, Outlet& outlet,
                        const std::atomic<bool>& stop) {
  ProcessJobs jobs;
  const std::uint32_t first = role.rank * role.job.threads;
  for (std::uint32_t thread = 0; thread < role.job.threads; ++thread) {
    jobs.jobs.emplace_back(
        [&, worker = first + thread] { return train(application, role, worker, outlet, stop); });
  }
  return jobs;
}

ProcessJobs baseline_jobs(Application& application, Outlet& outlet, const std::atomic<bool>& stop) {
  ProcessJobs jobs;
  jobs.jobs.emplace_back([&] { return train_baseline(application, outlet, stop); });
  return jobs;
}

}  // namespace verbena::apps
