#include "apps/program/watched_run.hpp"

#include <fmt/format.h>
#include <sys/types.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "apps/inspect/job_status.hpp"
#include "job/run_secret.hpp"
#include "transport/secret.hpp"

namespace verbena::apps {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(5);
constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
constexpr auto kLookPatience = std::chrono::milliseconds(500);
/// A run that says nothing for so long hangs: neither an iteration nor a failover.
constexpr auto kRunPatience = std::chrono::seconds(120);

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

}  // namespace

absl::Status WatchedRun::watch(Clock::time_point peace) {
  while (program_.read(std::chrono::milliseconds(0))) {
    read_metrics();
    const bool may_hit = saboteur_ != nullptr && began_ && Clock::now() < peace;
    if (may_hit && saboteur_->is_due(elapsed())) look_and_hit();
    if (Clock::now() > heard_ + kRunPatience) {
      return absl::DeadlineExceededError(
          fmt::format("it has neither trained nor failed over for {} s", kRunPatience.count()));
    }
  }
  read_metrics();
  return program_.wait(std::chrono::seconds(10));
}

double WatchedRun::elapsed() const {
  return std::chrono::duration<double>(Clock::now() - *began_).count();
}

void WatchedRun::read_metrics() {
  pipe_.read(kTurn, [&](std::string_view line) {
    heard_ = Clock::now();
    if (!began_) began_ = heard_;  // the first line comes when the run's own clock begins
    add_metrics_line(line, run_);
  });
}

void WatchedRun::look_and_hit() {
  if (Clock::now() < next_look_) return;
  next_look_ = Clock::now() + kBetweenLooks;
  const std::optional<RunStatus> status = status_of_run(program_.pid());
  if (!status) return;
  const std::optional<Fault> fault = saboteur_->choose(*status, elapsed());
  if (!fault || !is_child_of(fault->pid, program_.pid())) return;
  run_.faults.push_back(*fault);
  run_.faults.back().seconds = elapsed();
  ::kill(static_cast<pid_t>(fault->pid), fault->kind == Fault::Kind::kKilled ? SIGKILL : SIGSTOP);
}

}  // namespace verbena::apps
