#include "apps/launcher/launcher.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "apps/launcher/own_checkpoints.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "base/poll_timeout.hpp"
#include "base/printable.hpp"

namespace verbena::apps {
namespace {

constexpr auto kPoliteness = std::chrono::milliseconds(1500);  // from SIGTERM to SIGKILL
constexpr int kTickMs = 1000;
/// From one status to the next, unless something has happened to a process.
constexpr auto kBetweenStatuses = std::chrono::milliseconds(250);
/// Copies of a server that fail to join, one after the other, before no other one is started.
constexpr std::uint32_t kMostFailedToJoin = 3;

}  // namespace

absl::Status Launcher::run(const std::vector<Command>& commands) {
  StopSignals signals({SIGINT, SIGTERM, SIGHUP});
  if (absl::Status status = start(commands); !status.ok()) fail(Cause::kOwnError, std::move(status));
  while (any_running(false)) {
    wait(signals);
    if (absl::Status status = rendezvous_->serve(); !status.ok()) fail(Cause::kOwnError, std::move(status));
    if (succession_ != nullptr) {
      succession_->poll([&](const auto& suspect) { end_suspect(suspect); },
                        [&](const auto& copy) { on_joined(copy); });
      take_drains();
    }
    while (const std::optional<int> number = signals.take()) on_signal(*number);
    for (std::size_t number = 0; number < children_.size(); ++number) {  // there may be more meanwhile
      Child& child = children_[number];
      if (!child.process.running()) continue;
      // Ask for its end first: then everything that it has sent is in the pipe.
      const std::optional<int> end = child.process.reap();
      child.process.read_lines([&](std::string_view line) { on_line(child, line); });
      if (end) on_end(child, *end);
    }
    end_those_that_do_not_leave();
    check_deadline();
    tell_status();
    monitor_.answer_watchers([this] { return status(); });
    monitor_.tick();
  }
  monitor_.finish();
  if (saves_first_ && all_workers_finished()) signal_ = 0;
  if (signal_ == 0) return monitor_.failure();
  if (saves_first_ && !monitor_.model_summary().contains(kSavedAtStop))
    monitor_.warn(words_of_unsaved_stop(checkpoints_, monitor_.failure()));
  return absl::CancelledError("stopped by a signal");
}

void Launcher::wait(const StopSignals& signals) {
  std::vector<pollfd> wanted = {{signals.descriptor(), POLLIN, 0}};
  for (const Child& child : children_) {
    if (!child.process.running()) continue;
    wanted.push_back({child.process.end_descriptor(), POLLIN, 0});
    wanted.push_back({child.process.message_descriptor(), POLLIN, 0});  // poll() ignores −1
  }
  for (std::size_t rank = 0; rank < rendezvous_->size(); ++rank) {
    const int events = rendezvous_->wants_to_write(rank) ? POLLIN | POLLOUT : POLLIN;
    wanted.push_back({rendezvous_->descriptor(rank), static_cast<short>(events), 0});
  }
  monitor_.add_descriptors(wanted);
  int timeout_ms = poll_timeout_ms();
  if (succession_ != nullptr) {
    succession_->store().add_descriptors(wanted);
    timeout_ms = succession_->store().timeout_ms(timeout_ms);
  }
  if (::poll(wanted.data(), wanted.size(), timeout_ms) < 0 && errno != EINTR) {
    const int error = errno;
    fail(Cause::kOwnError, absl::InternalError(fmt::format("poll: {}", std::strerror(error))));
  }
}

absl::Status Launcher::start(const std::vector<Command>& commands) {
  absl::StatusOr<job::RunSecret> of_run = job::RunSecret::make(::getpid());
  if (of_run.ok()) {
    run_secret_.emplace(*std::move(of_run));
  } else {
    spdlog::info("nobody can look into this run: {}", std::string(of_run.status().message()));
  }
  absl::StatusOr<std::shared_ptr<const transport::Secret>> secret =
      run_secret_ ? run_secret_->secret() : transport::Secret::random();
  if (!secret.ok()) return secret.status();
  if (saves_first_) {
    absl::StatusOr<job::SharedWord> word = job::SharedWord::make();
    if (!word.ok()) return word.status();
    stop_word_.emplace(*std::move(word));
  }
  has_copies_ =
      std::any_of(commands.begin(), commands.end(), [](const Command& one) { return one.copy.has_value(); });
  if (absl::Status status = begin_succession(*secret); !status.ok()) return status;
  rendezvous_.emplace(static_cast<std::uint32_t>(commands.size()), *std::move(secret));
  replaces_workers_ = std::any_of(commands.begin(), commands.end(),
                                  [](const Command& one) { return one.replaceable_workers > 0; });
  WorkerLife next;
  for (const Command& command : commands) {
    if (absl::Status status = start(command, /*joins=*/false, next); !status.ok()) return status;
    if (!command.server) ++next.process;
    if (command.copy) next_copy_ = std::max(next_copy_, command.copy->copy + 1);
  }
  return absl::OkStatus();
}

absl::Status Launcher::begin_succession(const std::shared_ptr<const transport::Secret>& secret) {
  if (!has_copies_ && !run_secret_) return absl::OkStatus();  // nobody would ask
  absl::StatusOr<std::unique_ptr<Succession>> succession = Succession::begin(secret);
  if (succession.ok()) {
    succession_ = *std::move(succession);
  } else if (has_copies_) {
    return succession.status();
  } else {
    spdlog::info("nobody can ask how this run is: {}", std::string(succession.status().message()));
  }
  return absl::OkStatus();
}

absl::Status Launcher::start(const Command& command, bool joins, const WorkerLife& life) {
  const absl::StatusOr<int> seat = rendezvous_->add();
  if (!seat.ok()) return seat.status();
  absl::StatusOr<ChildProcess> process =
      ChildProcess::start(command.name, command.arguments,
                          {.rendezvous = *seat,
                           .stop_word = stop_word_ ? stop_word_->descriptor() : -1,
                           .decided = has_copies_ ? succession_->decided_descriptor() : -1,
                           .joins = joins,
                           .replaces_workers = replaces_workers_,
                           .incarnation = life.incarnation,
                           .program = command.role});
  ::close(*seat);
  if (!process.ok()) return process.status();
  const pid_t pid = process->pid();
  children_.push_back({.process = *std::move(process),
                       .pid = pid,
                       .command = command,
                       .server = command.server,
                       .copy = command.copy,
                       .joins = joins,
                       .life = life,
                       .history = {.must_finish = command.role.has_value()}});
  return absl::OkStatus();
}

int Launcher::poll_timeout_ms() const {
  return base::poll_timeout_ms(deadline_, std::chrono::milliseconds(kTickMs));
}

void Launcher::on_signal(int number) {
  const bool is_second = signal_ != 0;
  signal_ = number;
  if (saves_first_ && !is_second && !stopping_) return ask_workers_to_save();
  stop_all();
  if (is_second) deadline_ = Clock::now();  // kill without waiting
}

/// Servers are needed until the last worker has left.
void Launcher::ask_workers_to_save() {
  monitor_.warn(
      "stopping: saves this iteration, or one of the next, when it is done; a second signal ends "
      "the run at once");
  for (Child& child : children_) {
    if (child.server) continue;
    child.process.signal(kSaveSignal);
    child.history.asked_to_end = true;
  }
}

void Launcher::on_line(Child& child, std::string_view line) {
  if (child.joins) {  // the run does without it
    const absl::StatusOr<job::ChildMessage> said = job::decode(line);
    const auto* const failure = said.ok() ? std::get_if<job::FailedMessage>(&*said) : nullptr;
    if (failure != nullptr && !child.history.asked_to_end) {
      monitor_.warn(fmt::format("{} cannot join: {}", child.process.name(),
                                std::string(base::printable(failure->status).message())));
    }
    return;
  }
  const std::optional<job::ChildMessage> message = monitor_.hear(child.process.name(), line);
  if (message && std::holds_alternative<job::FailedMessage>(*message)) child.history.reported_failure = true;
  if (message && std::holds_alternative<job::FinishedMessage>(*message)) child.history.finished = true;
  if (message) on_progress(child, *message);
  if (monitor_.failed()) stop_all();
}

/// Others wait for it. It may be stopped, and could go on one day: that it has ended must be certain.
void Launcher::end_suspect(const cluster::Controller::Suspect& suspect) {
  for (Child& child : children_) {
    const bool is_it = child.copy && child.copy->server == suspect.who.server &&
                       child.copy->copy == suspect.who.copy && child.process.running();
    if (!is_it || stopping_) continue;
    monitor_.note_lost(RunEvent::Kind::kSilence,
                       fmt::format("{} shows no sign of life, and is ended: {}", child.process.name(),
                                   base::printable(suspect.why)));
    child.process.signal(SIGKILL);
  }
}

void Launcher::on_progress(Child& child, const job::ChildMessage& message) {
  if (const auto* silent = std::get_if<job::SilentWorkerMessage>(&message); silent && child.server)
    end_silent_worker(*silent);
  const auto* iteration = std::get_if<job::IterationMessage>(&message);
  if (iteration == nullptr || iteration->report.iteration <= child.life.newest_iteration) return;
  child.life.newest_iteration = iteration->report.iteration;
  child.life.deaths = 0;
}

/// A server has found out. As end_suspect().
void Launcher::end_silent_worker(const job::SilentWorkerMessage& message) {
  for (Child& child : children_) {
    const std::uint32_t workers = child.command.replaceable_workers;
    const bool is_it =
        workers > 0 && child.process.running() && child.life.process == message.worker / workers;
    if (!is_it || stopping_) continue;
    monitor_.note_lost(RunEvent::Kind::kSilence,
                       fmt::format("{} shows no sign of life, and is ended: {}", child.process.name(),
                                   base::printable(message.why)));
    child.process.signal(SIGKILL);
  }
}

/// The worker's process was killed, and another one takes its place. One that has ended by itself would do so
/// again; and so would one that is killed at the same place of its data, again and again.
bool Launcher::is_worker_replaced(Child& child, int wait_status) {
  const std::uint32_t workers = child.command.replaceable_workers;
  const bool may_be = workers > 0 && WIFSIGNALED(wait_status) && !child.history.finished &&
                      rendezvous_->have_met() && !stopping_ && signal_ == 0;
  if (!may_be) return false;
  WorkerLife life = child.life;
  if (++life.deaths > RunMonitor::kMostDeathsOfWorker) {
    monitor_.warn(
        fmt::format("{} is not replaced again: {} processes in its place have died before they "
                    "had finished iteration {}",
                    child.process.name(), RunMonitor::kMostDeathsOfWorker, life.newest_iteration + 1));
    return false;
  }
  ++life.incarnation;
  if (const absl::Status status = start(child.command, /*joins=*/false, life); !status.ok()) {
    monitor_.warn(fmt::format("{} is not replaced: {}", child.process.name(), std::string(status.message())));
    return false;
  }
  child.is_replaced = true;
  next_status_ = Clock::time_point::min();
  const pid_t next = children_.back().pid;
  monitor_.replace(life.process, next, life.process * workers, workers,
                   fmt::format("{} {}: another process (pid {}) takes its place", child.process.name(),
                               describe_end(wait_status), next));
  return true;
}

/// The child was killed, and a copy of it goes on; or it was to join, and the others go on without it.
bool Launcher::is_replaced(Child& child, int wait_status) {
  if (!child.copy || child.history.killed || stopping_ || signal_ != 0) return false;
  // One that joins when workers have ended is dismissed, or killed, and nobody needs it.
  if (child.joins ? !any_running(true) : !WIFSIGNALED(wait_status) && !child.drain) return false;
  const std::uint32_t server = child.copy->server;
  const absl::StatusOr<std::string> next = succession_->remove(*child.copy);
  if (absl::IsDataLoss(next.status())) return false;
  next_status_ = Clock::time_point::min();
  if (child.joins) {
    ++failed_to_join_[server];
    monitor_.note_lost(RunEvent::Kind::kNoJoin, fmt::format("{} {} before it had what the others have",
                                                            child.process.name(), describe_end(wait_status)));
  } else if (!next.ok()) {
    return false;
  } else {
    const std::string how = child.drain ? "has stepped aside, as it was asked to" : describe_end(wait_status);
    const std::string what = fmt::format("{} {}: {}", child.process.name(), how, *next);
    if (child.drain) succession_->store().answer_drain(*child.drain, what);
    monitor_.fail_over(server, child.pid, what);
  }
  replace(server);
  return true;
}

/// Starts another copy, so that the server survives as many deaths as before.
void Launcher::replace(std::uint32_t server) {
  if (!new_copy_ || !any_running(true)) return;
  if (failed_to_join_[server] >= kMostFailedToJoin) {
    if (failed_to_join_[server] == kMostFailedToJoin) {
      monitor_.warn(fmt::format(
          "server {} gets no other copy: {} in a row have failed to join; why each did stands above", server,
          kMostFailedToJoin));
    }
    return;
  }
  const Command command = new_copy_({.server = server, .copy = next_copy_++});
  if (const absl::Status status = start(command, /*joins=*/true, {}); !status.ok()) {
    monitor_.warn(fmt::format("server {} gets no other copy: {}", server, std::string(status.message())));
  }
}

void Launcher::on_joined(const Succession::Copy& copy) {
  for (Child& child : children_) {
    if (!child.copy || *child.copy != copy) continue;
    child.joins = false;
    failed_to_join_[copy.server] = 0;
    next_status_ = Clock::time_point::min();
    monitor_.note_joined(copy.server, child.pid,
                         fmt::format("{} has all that server {} has, and can take its place",
                                     child.process.name(), copy.server));
  }
}

void Launcher::take_drains() {
  for (const auto& [mark, request] : succession_->store().take_drains()) {
    if (const absl::Status status = drain(mark, request); !status.ok())
      succession_->store().answer_drain(mark, status);
  }
}

/// It ends, and its copy takes its place as if it had died; what it has that counts, the copy has, too.
absl::Status Launcher::drain(const std::string& mark, const DrainRequest& request) {
  if (!has_copies_)
    return absl::FailedPreconditionError("the run's servers have no copies: expected a run with --replicas");
  if (stopping_ || signal_ != 0 || !any_running(true))
    return absl::FailedPreconditionError("the run is about to end");
  const absl::StatusOr<Succession::Copy> copy = succession_->may_leave(request);
  if (!copy.ok()) return copy.status();
  for (Child& child : children_) {
    if (!child.process.running() || !child.copy || *child.copy != *copy) continue;
    if (child.drain)
      return absl::FailedPreconditionError(fmt::format("{} steps aside already", child.process.name()));
    child.drain = mark;
    child.drained_at = Clock::now();
    child.process.signal(saves_first_ ? kEndSignal : SIGTERM);
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError("its process has ended just now");
}

/// One that is stopped, say.
void Launcher::end_those_that_do_not_leave() {
  for (Child& child : children_) {
    if (child.drain && child.process.running() && Clock::now() >= child.drained_at + kPoliteness)
      child.process.signal(SIGKILL);
  }
}

/// Workers have ended: nobody needs them any more, and who does not know them cannot tell them so.
void Launcher::end_those_that_join() {
  for (Child& child : children_) {
    if (!child.joins || !child.process.running()) continue;
    child.process.signal(SIGKILL);
    child.history.asked_to_end = child.history.killed = true;
  }
}

/// For `verbena cluster status`.
void Launcher::tell_status() {
  if (succession_ == nullptr || Clock::now() < next_status_) return;
  next_status_ = Clock::now() + kBetweenStatuses;
  succession_->store().publish(encode(status()));
}

RunStatus Launcher::status() const {
  RunStatus status = monitor_.status();
  std::error_code error;
  if (!checkpoints_.empty()) status.checkpoints = std::filesystem::absolute(checkpoints_, error).string();
  add_servers(status);
  const auto is_worker = [](const Child& child) { return !child.server && !child.is_replaced; };
  std::vector<std::int64_t> processes(static_cast<std::size_t>(std::ranges::count_if(children_, is_worker)));
  for (const Child& child : children_) {
    if (is_worker(child)) processes[child.life.process] = child.process.running() ? child.pid : 0;
  }
  const std::size_t threads = status.workers.size() / std::max<std::size_t>(processes.size(), 1);
  for (RunStatus::Worker& worker : status.workers) {
    const std::size_t process = worker.worker / std::max<std::size_t>(threads, 1);
    if (process < processes.size()) worker.pid = processes[process];
  }
  return status;
}

void Launcher::add_servers(RunStatus& status) const {
  using CopyRole = RunStatus::Copy::Role;
  const auto chains = has_copies_ ? succession_->chains() : std::nullopt;
  if (chains) status.configuration = chains->number;
  const auto place_of = [&](const Succession::Copy& who) -> std::ptrdiff_t {
    if (!chains || who.server >= chains->servers.size()) return 0;
    const std::vector<Succession::Copy>& chain = chains->servers[who.server];
    return std::ranges::find(chain, who) - chain.begin();
  };
  std::uint32_t next_server = 0;
  for (const Child& child : children_) {
    if (!child.server) continue;
    const Succession::Copy who = child.copy.value_or(Succession::Copy{.server = next_server++});
    if (who.server >= status.servers.size()) status.servers.resize(who.server + 1);
    if (!child.process.running()) continue;
    CopyRole role = has_copies_ ? CopyRole::kStarts : CopyRole::kServes;
    if (child.joins) role = CopyRole::kJoins;
    if (!child.joins && chains) role = place_of(who) == 0 ? CopyRole::kServes : CopyRole::kFollows;
    status.servers[who.server].push_back({.copy = who.copy, .pid = child.pid, .role = role});
  }
  for (std::uint32_t server = 0; server < status.servers.size(); ++server) {
    // Those that join are not found, and come last.
    std::ranges::stable_sort(status.servers[server], {}, [&](const RunStatus::Copy& one) {
      return place_of({.server = server, .copy = one.copy});
    });
  }
}

void Launcher::on_end(Child& child, int wait_status) {
  const bool is_copy = child.copy && child.copy->copy > 0;
  monitor_.note_processor_time(is_copy        ? &ProcessorTime::copies_seconds
                               : child.server ? &ProcessorTime::servers_seconds
                                              : &ProcessorTime::workers_seconds,
                               child.process.processor_seconds());
  child.history.finished |= child.copy && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kExitOk;
  if (is_replaced(child, wait_status) || is_worker_replaced(child, wait_status)) return;
  if (child.joins) return;  // nobody needs it any more
  std::optional<job::FailedMessage> failed =
      judge_end(child.process.name(), wait_status, child.history, memory_kills_before_);
  if (failed && may_go_back(child, *failed)) {
    monitor_.warn(
        "with --checkpoint FOLDER --restarts N a run goes back to its newest checkpoint when a worker dies "
        "that no other process can replace");
  }
  if (failed) fail(*failed->cause, std::move(failed->status));
  // It has not saved: it had not even begun.
  if (signal_ != 0 && WIFSIGNALED(wait_status)) stop_all();
  if (stopping_ || any_running(true)) return;
  end_those_that_join();
  deadline_ = Clock::now() + RunMonitor::kServersPatience;
  if (signal_ != 0) stop_all();  // some workers may have ended before a server knew them
}

/// If it had been started in another way: for users who do not know.
bool Launcher::may_go_back(const Child& child, const job::FailedMessage& failed) const {
  return !child.server && !child.command.role && failed.cause == Cause::kKilled && checkpoints_.empty() &&
         child.command.replaceable_workers == 0 && !stopping_;
}

void Launcher::check_deadline() {
  if (Clock::now() < deadline_) return;
  for (const Child& child : children_) {
    if (!stopping_ && child.process.running() && !is_left_over(child)) {
      monitor_.fail_still_running(child.process.name());
      stop_all();
      return;
    }
  }
  deadline_ = Clock::time_point::max();
  for (Child& child : children_) {
    if (!child.process.running()) continue;
    child.process.signal(SIGKILL);
    child.history.killed = true;
  }
}

/// Another copy of its server has ended as it should. The one before this one may have died before it could
/// dismiss it.
bool Launcher::is_left_over(const Child& child) const {
  return child.copy && std::any_of(children_.begin(), children_.end(), [&](const Child& other) {
           return other.copy && other.copy->server == child.copy->server && other.history.finished;
         });
}

void Launcher::fail(Cause cause, absl::Status status) {
  monitor_.fail(cause, std::move(status));
  stop_all();
}

void Launcher::stop_all() {
  if (stopping_) return;
  stopping_ = true;
  deadline_ = std::min(deadline_, Clock::now() + kPoliteness);
  for (Child& child : children_) {
    child.process.signal(saves_first_ ? kEndSignal : SIGTERM);
    child.history.asked_to_end = true;
  }
}

bool Launcher::has_lost_process() const {
  if (signal_ != 0) return false;
  // Nobody has an error of its own, but others have missed a process, or were told of one. It is silent if it
  // did not end when it was asked to, as all do that run.
  const bool is_missed = monitor_.cause() == Cause::kPeerGone || monitor_.cause() == Cause::kFollowed;
  const bool was_silent = std::any_of(children_.begin(), children_.end(),
                                      [](const Child& child) { return child.history.killed; });
  return monitor_.cause() == Cause::kKilled || (is_missed && was_silent);
}

bool Launcher::all_workers_finished() const {
  return std::all_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.server || child.is_replaced || child.history.finished;
  });
}

bool Launcher::any_running(bool workers_only) const {
  return std::any_of(children_.begin(), children_.end(), [&](const Child& child) {
    return child.process.running() && !(workers_only && child.server);
  });
}

}  // namespace verbena::apps
