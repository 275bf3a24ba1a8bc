// Starts the processes of a run, listens to them, and ends them all when one of them fails.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "apps/launcher/child_end.hpp"
#include "apps/launcher/child_process.hpp"
#include "apps/launcher/memory_kills.hpp"
#include "apps/launcher/run_monitor.hpp"
#include "apps/launcher/stop_signals.hpp"
#include "apps/launcher/succession.hpp"
#include "apps/report/run_status.hpp"
#include "job/embedded_rendezvous.hpp"
#include "job/run_secret.hpp"
#include "job/shared_word.hpp"

namespace verbena::apps {

/// Thread safety: belongs to one thread, the only one of its process.
class Launcher {
 public:
  struct Command {
    std::string name;  ///< "worker 1"
    std::vector<std::string> arguments;
    bool server = false;
    std::optional<job::ProgramRole> role = std::nullopt;  ///< as for ChildProcess::start()
    std::optional<Succession::Copy> copy = std::nullopt;  ///< of a server that has others
    /// Of a worker process that another one can replace: how many workers it has. 0: none can.
    std::uint32_t replaceable_workers = 0;
  };
  /// Of another copy of a server: with this number, which none had before.
  using NewCopy = std::function<Command(const Succession::Copy&)>;

  /// `checkpoints`: the folder of the run's; empty: none are made. If they are, workers go on after a signal
  /// until what they train is saved, however long that takes, and then end by themselves. A second signal
  /// ends them as usual.
  /// `new_copy`: the command of a copy that takes the place of one that has died; none: no copy does.
  explicit Launcher(RunMonitor& monitor, std::string checkpoints = "", NewCopy new_copy = {})
      : monitor_(monitor), checkpoints_(std::move(checkpoints)), new_copy_(std::move(new_copy)) {}

  /// Starts all commands, in the order of their ranks at the rendezvous, and waits until the processes have
  /// ended. Whatever happens, none of them is left when it returns: when one has failed, the others are asked
  /// to end, and killed if they do not. CANCELLED after a signal, see signal(); else the failure that caused
  /// the others. A signal that came so late that all workers have finished is none.
  absl::Status run(const std::vector<Command>& commands);

  [[nodiscard]] int signal() const { return signal_; }
  /// Whether run() has failed because a process has died, and not because one has ended by itself: somebody
  /// has killed it, it has crashed, or the others have found it silent, and it had to be killed. The same
  /// processes, started again, may well succeed.
  [[nodiscard]] bool has_lost_process() const;

 private:
  using Clock = RunMonitor::Clock;
  using Cause = RunMonitor::Cause;
  /// What a worker process has of those that were the same one before it.
  struct WorkerLife {
    std::uint32_t process = 0;          ///< which of the worker processes it is
    std::uint32_t incarnation = 0;      ///< how many have been this one before it
    std::int64_t newest_iteration = 0;  ///< that any of them has reported
    std::uint32_t deaths = 0;           ///< since then
  };
  struct Child {
    ChildProcess process;
    pid_t pid = -1;  ///< also when it has ended
    Command command = {};
    bool server = false;
    std::optional<Succession::Copy> copy;
    bool joins = false;  ///< the copy has not got all that the others have
    WorkerLife life = {};
    bool is_replaced = false;
    std::optional<std::string> drain;  ///< it was asked to step aside; the mark of the answer
    Clock::time_point drained_at;
    ChildHistory history = {};
  };

  absl::Status start(const std::vector<Command>& commands);
  absl::Status begin_succession(const std::shared_ptr<const transport::Secret>& secret);
  absl::Status start(const Command& command, bool joins, const WorkerLife& life);
  void end_suspect(const cluster::Controller::Suspect& suspect);
  void on_progress(Child& child, const job::ChildMessage& message);
  void end_silent_worker(const job::SilentWorkerMessage& message);
  [[nodiscard]] bool is_replaced(Child& child, int wait_status);
  [[nodiscard]] bool is_worker_replaced(Child& child, int wait_status);
  void replace(std::uint32_t server);
  void on_joined(const Succession::Copy& copy);
  void take_drains();
  absl::Status drain(const std::string& mark, const DrainRequest& request);
  void end_those_that_do_not_leave();
  void end_those_that_join();
  void tell_status();
  [[nodiscard]] RunStatus status() const;
  void add_servers(RunStatus& status) const;
  [[nodiscard]] bool may_go_back(const Child& child, const job::FailedMessage& failed) const;
  [[nodiscard]] bool is_left_over(const Child& child) const;
  void wait(const StopSignals& signals);
  [[nodiscard]] int poll_timeout_ms() const;
  void on_signal(int number);
  void ask_workers_to_save();
  void on_line(Child& child, std::string_view line);
  void on_end(Child& child, int wait_status);
  void check_deadline();
  void fail(Cause cause, absl::Status status);
  void stop_all();
  [[nodiscard]] bool any_running(bool workers_only) const;
  [[nodiscard]] bool all_workers_finished() const;

  RunMonitor& monitor_;
  const std::string checkpoints_;
  const bool saves_first_ = !checkpoints_.empty();
  const NewCopy new_copy_;
  std::optional<job::SharedWord> stop_word_;  ///< if `saves_first_`: for StopAgreement
  std::optional<job::RunSecret> run_secret_;  ///< nullopt: nobody can look into this run
  std::optional<job::RendezvousHost> rendezvous_;
  bool has_copies_ = false;
  bool replaces_workers_ = false;
  std::unique_ptr<Succession> succession_;  ///< nullptr: no copies, and nobody can ask how the run is
  Clock::time_point next_status_ = Clock::time_point::min();
  std::uint32_t next_copy_ = 0;                            ///< the number of the next one that joins
  std::map<std::uint32_t, std::uint32_t> failed_to_join_;  ///< by server: how many, one after the other
  std::deque<Child> children_;
  const MemoryKills memory_kills_before_ = count_memory_kills();
  bool stopping_ = false;
  Clock::time_point deadline_ = Clock::time_point::max();  ///< then what still runs is killed
  int signal_ = 0;
};

}  // namespace verbena::apps
