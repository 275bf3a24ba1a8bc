#include "apps/launcher/roles.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "apps/conditions/competitors.hpp"
#include "apps/conditions/slowdown.hpp"
#include "apps/launcher/early_reading.hpp"
#include "apps/launcher/short_slices.hpp"
#include "apps/launcher/told_configuration.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "apps/resuming/hand_over.hpp"
#include "apps/resuming/stop_gate.hpp"
#include "base/return_if_error.hpp"
#include "job/address_exchange.hpp"
#include "job/launchers_configuration.hpp"
#include "job/server_place.hpp"
#include "server/driver.hpp"
#include "server/server.hpp"
#include <verbena/consistency.hpp>
#include <verbena/session.hpp>

namespace verbena::apps {
namespace {

/// Where this process learns which copies servers have, if its launcher decides about them; else nullptr.
std::shared_ptr<cluster::StoredConfiguration> stored_configuration_for(const Role& role) {
  return role.decided == nullptr ? nullptr
                                 : job::launchers_configuration(job::place_of_store(::getppid()),
                                                                role.job.transport.secret, role.decided);
}

/// Where this process learns which copies servers have; nullptr: they have none.
std::shared_ptr<cluster::ConfigurationSource> configuration_for(const Role& role) {
  if (role.told != nullptr) return role.told->source();
  return stored_configuration_for(role);
}

/// While nobody leads the run, no copy takes the place of a server that is gone.
std::uint32_t timeout_ms_of(const Role& role) {
  const std::chrono::milliseconds absence =
      role.told == nullptr ? std::chrono::seconds(0) : role.job.longest_absence_of_leader();
  return SessionOptions{}.timeout_ms + static_cast<std::uint32_t>(absence.count());
}

/// `addresses`: of all copies of all servers, by number.
cluster::Configuration first_configuration(const JobOptions& job, const std::vector<std::string>& addresses) {
  cluster::Configuration first{.number = 1, .servers = {}};
  first.servers.resize(job.servers);
  for (std::uint32_t number = 0; number < addresses.size(); ++number)
    first.servers[number % job.servers].push_back(addresses[number]);
  return first;
}

absl::Status serve(const Role& role, transport::Transport& transport, Outlet& outlet,
                   const std::atomic<bool>& stop) {
  const JobOptions& job = role.job;
  const absl::StatusOr<std::string> address =
      role.addresses == nullptr ? server_addresses(job)[role.rank]
                                : fresh_address(job.transport, role.run.value_or(::getppid()), role.rank);
  if (!address.ok()) return address.status();
  const auto stored = stored_configuration_for(role);
  const std::shared_ptr<cluster::ConfigurationSource> configuration =
      role.told != nullptr ? role.told->source() : stored;
  absl::StatusOr<std::unique_ptr<server::Server>> made =
      server::Server::create(transport, {.address = *address,
                                         .rank = role.rank % job.servers,
                                         .servers = job.servers,
                                         .workers = job.total_workers(),
                                         .outlives_workers = job.outlives_workers,
                                         .backup_every_ms = job.backup_every_ms,
                                         .replaces_workers = role.replaces_workers,
                                         .silence_timeout_ms = job.silence_timeout_ms,
                                         .configuration = configuration,
                                         .joins = role.joins,
                                         .threads = job.chosen_server_threads(),
                                         .lanes = job.chosen_lanes(),
                                         .push_budget_mb_per_s = job.budget_mb_per_s});
  if (!made.ok()) return role.addresses == nullptr ? at_chosen_place(made.status()) : made.status();
  if (role.replaces_workers) {
    (*made)->set_suspect([&outlet](std::uint32_t worker, const absl::Status& why) {
      outlet.send(job::SilentWorkerMessage{worker, std::string(why.message())});
    });
  }
  if (role.addresses != nullptr) {
    const std::string own = transport.listening_address();
    RETURN_IF_ERROR(job::check_can_be_found(own));
    if (role.told != nullptr) role.told->listens_at(own);
    if (role.joins && role.told != nullptr) {
      role.told->join();
    } else if (role.joins) {
      stored->join(role.rank % job.servers, role.rank / job.servers, own);
    } else {
      const absl::StatusOr<std::vector<std::string>> met = role.addresses->addresses(own, stop);
      if (!met.ok()) return met.status();
      role.on_met();
      if (role.told != nullptr) role.told->begin(*met);
      if (stored != nullptr) stored->propose(first_configuration(job, *met));
    }
  }
  if (!spins(job)) ask_for_short_slices();
  absl::Status ended = server::drive(**made, transport, stop);
  if (job.replicas > 0 && role.told == nullptr)
    outlet.send(job::ServedMessage{.bytes_to_copies = (*made)->bytes_to_copies()});
  return ended;
}

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// What a worker's session has done since its training began.
class Tally {
 public:
  explicit Tally(const Session& session) : session_(session) {}
  [[nodiscard]] double seconds() const { return stopwatch_.seconds(); }
  [[nodiscard]] SessionStatistics statistics() const {
    SessionStatistics statistics = session_.statistics();
    statistics.waited_seconds -= waited_before_seconds_;
    return statistics;
  }

 private:
  const Session& session_;
  const double waited_before_seconds_ = session_.statistics().waited_seconds;  // until the servers appeared
  const Stopwatch stopwatch_;
};

class WorkerReporter : public Reporter {
 public:
  WorkerReporter(std::uint32_t worker, Outlet& outlet) : worker_(worker), outlet_(outlet) {}
  /// From now on it reports this, too, which must be there as long as the worker trains.
  void begin(const Tally& tally) { tally_ = &tally; }
  void iteration(const IterationReport& report) override {
    if (tally_ != nullptr && timer_.is_due())
      outlet_.send(job::StatisticsMessage{worker_, tally_->seconds(), tally_->statistics()});
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
  const Tally* tally_ = nullptr;  ///< of a plain loop none
  job::StatisticsTimer timer_;
};

/// For what must not end at once, because it is to be saved first.
const std::atomic<bool> kNeverStops = false;

/// The notes of a process's workers, made once.
class SharedNotes {
 public:
  explicit SharedNotes(MakeNotes make) : make_(std::move(make)) {}
  absl::StatusOr<std::map<std::string, std::string>> get() {
    const std::lock_guard lock(mutex_);
    if (!made_) made_ = make_();
    return *made_;
  }

 private:
  const MakeNotes make_;
  std::mutex mutex_;
  std::optional<absl::StatusOr<std::map<std::string, std::string>>> made_;
};

CheckpointPlan plan_of(const Role& role, const Application& application) {
  const CheckpointSettings& settings = role.job.checkpoints;
  constexpr std::int64_t kUsualCheckpoints = 10;
  constexpr std::int64_t kUsuallyKept = 2;
  const std::int64_t tenth = std::max<std::int64_t>(application.iterations() / kUsualCheckpoints, 1);
  return {.folder = settings.folder,
          .every = settings.every.value_or(tenth),
          .after_last = settings.every.has_value(),
          .keep = static_cast<std::uint64_t>(settings.keep.value_or(kUsuallyKept)),
          .increments = static_cast<std::uint32_t>(settings.increments.value_or(0)),
          .keep_resumed = role.replaces_workers};
}

absl::Status train(Application& application, const Role& role, std::uint32_t worker, Outlet& outlet,
                   const std::atomic<bool>& stop, SharedNotes& notes) {
  const JobOptions& job = role.job;
  const std::atomic<bool>& stop_at_once = role.stop_word == nullptr ? stop : kNeverStops;
  std::unique_ptr<ReadAhead> read_ahead;
  if (role.early != nullptr) {
    absl::StatusOr<std::unique_ptr<ReadAhead>> read = role.early->take(worker, outlet);
    if (!read.ok()) return read.status();
    read_ahead = *std::move(read);
  }
  const std::vector<SlowRule> slow = slow_rules(job);
  const absl::StatusOr<std::unique_ptr<Competitors>> competitors = Competitors::start(slow, worker);
  if (!competitors.ok()) return competitors.status();
  if ((*competitors)->count() > 0)
    spdlog::info("worker {}: on core {} with {} busy threads", worker, (*competitors)->core(),
                 (*competitors)->count());
  absl::StatusOr<std::vector<std::string>> addresses =
      role.addresses == nullptr ? server_addresses(job) : role.addresses->addresses("", stop_at_once);
  if (!addresses.ok()) return addresses.status();
  if (role.told != nullptr && !role.joins) role.told->begin(*addresses);
  addresses->resize(job.servers);  // the others follow these
  // All threads of a process belong to one node.
  const std::uint32_t node = role.own_server.value_or(role.rank % job.servers);
  absl::StatusOr<std::unique_ptr<transport::Transport>> transport =
      make_transport(waiting_transport(job), {(*addresses)[node]});
  if (!transport.ok()) return transport.status();
  const SessionOptions options{.servers = *std::move(addresses),
                               .rank = worker,
                               .workers = job.total_workers(),
                               .node = node,
                               .read_path = read_path_of(job),
                               .incarnation = role.incarnation,
                               .timeout_ms = timeout_ms_of(role),
                               .silence_timeout_ms = job.silence_timeout_ms,
                               .resume = job.checkpoints.resume_from,
                               .transport = *std::move(transport),
                               .configuration = configuration_for(role),
                               .gather_row_bytes = gather_row_bytes_of(job),
                               .gather_keys = gather_row_bytes_of(job) ? 1 : SessionOptions{}.gather_keys,
                               .update_budget_mb_per_s = job.budget_mb_per_s};
  // Not if there are competitor threads: they must get the core as the kernel decides.
  if (!spins(job) && (*competitors)->count() == 0) ask_for_short_slices();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::connect(options);
  if (!session.ok()) return session.status();
  WorkerReporter reporter(worker, outlet);
  CheckpointPlan plan = plan_of(role, application);
  if (!plan.folder.empty()) {
    absl::StatusOr<std::map<std::string, std::string>> noted = notes.get();
    if (!noted.ok()) {
      static_cast<void>((*session)->give_up(noted.status()));
      return noted.status();
    }
    plan.notes = *std::move(noted);
  }
  Checkpoints checkpoints(**session, reporter, std::move(plan));
  if (role.stop_word != nullptr) checkpoints.save_at_stop(stop, *role.stop_word);
  if (role.stop_gate != nullptr)
    checkpoints.save_at_stop(*role.stop_gate, worker - role.rank * role.job.threads);
  if (role.hand_over != nullptr)
    checkpoints.step_aside_by(*role.hand_over, worker - role.rank * role.job.threads);
  Slowdown slowdown(slow, worker);
  WorkerContext context{.session = **session,
                        .consistency = *parse_consistency(job.consistency),
                        .reporter = reporter,
                        .stop = stop_at_once,
                        .watch = slowdown,
                        .checkpoints = checkpoints,
                        .read_ahead = std::move(read_ahead)};
  const Tally tally(**session);
  reporter.begin(tally);
  absl::Status status = checkpoints.load();
  if (status.ok()) status = application.run_worker(context);
  if (checkpoints.steps_aside()) return (*session)->step_aside();
  if (checkpoints.has_stopped()) return absl::OkStatus();  // and says goodbye, as one that has finished
  if (!status.ok()) {
    static_cast<void>((*session)->give_up(status));
    return status;
  }
  checkpoints.finish();
  outlet.send(job::FinishedMessage{worker, tally.seconds(), tally.statistics()});
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

absl::StatusOr<ProcessJobs> server_jobs(const Role& role, Outlet& outlet, const std::atomic<bool>& stop) {
  absl::StatusOr<std::unique_ptr<transport::Transport>> made = make_transport(waiting_transport(role.job));
  if (!made.ok()) return made.status();
  const std::shared_ptr<transport::Transport> transport = *std::move(made);
  if (role.told != nullptr) {
    role.told->wake_by([its = std::weak_ptr<transport::Transport>(transport)] {
      if (const auto alive = its.lock()) alive->interrupt();
    });
  }
  ProcessJobs jobs;
  jobs.jobs.emplace_back(
      [&role, transport, &outlet, &stop] { return serve(role, *transport, outlet, stop); });
  jobs.wake = [transport] { transport->interrupt(); };
  return jobs;
}

ProcessJobs worker_jobs(const Role& role, Application& application, Outlet& outlet,
                        const std::atomic<bool>& stop, MakeNotes make_notes) {
  const auto notes = std::make_shared<SharedNotes>(std::move(make_notes));
  ProcessJobs jobs;
  jobs.saves_first = role.stop_word != nullptr;
  if (role.stop_gate != nullptr) jobs.wake = [gate = role.stop_gate] { gate->give_up(); };
  const std::uint32_t first = role.rank * role.job.threads;
  for (std::uint32_t thread = 0; thread < role.job.threads; ++thread) {
    jobs.jobs.emplace_back([&, notes, worker = first + thread] {
      return train(application, role, worker, outlet, stop, *notes);
    });
  }
  return jobs;
}

ProcessJobs baseline_jobs(Application& application, Outlet& outlet, const std::atomic<bool>& stop) {
  ProcessJobs jobs;
  jobs.jobs.emplace_back([&] { return train_baseline(application, outlet, stop); });
  return jobs;
}

}  // namespace verbena::apps
