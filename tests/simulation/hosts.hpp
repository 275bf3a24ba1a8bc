// The hosts of a simulated job, as far as checkpoints need them: a disk that all of them see, whose
// operations take virtual time and go wrong as the scenario says, and work that a process does beside its
// other tasks.
//
// As long as it lives, it stands in for the host of this thread (base/stand_in.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/simulation/scheduler.hpp"
#include "base/errand.hpp"
#include "base/stand_in.hpp"
#include "checkpoint/file_system.hpp"
#include "tests/checkpoint/simulated_disk.hpp"
#include "tests/simulation/disk_fault.hpp"

namespace verbena::simulation {

/// A server or a worker.
struct Process {
  bool is_server = false;
  std::uint32_t rank = 0;
  std::uint32_t number = 0;  ///< among those that have been it: of a server's copies, and of all workers
  friend auto operator<=>(const Process&, const Process&) = default;
};

struct HostOptions {
  std::uint64_t seed = 0;
  Duration slowest{0};  ///< how long an operation of the disk takes at most
  std::vector<DiskFault> faults;
};

/// Thread safety: none.
class Hosts final : public base::ErrandRunner {
 public:
  /// `strikes` is told of a fault before anything comes of it, with the process that has asked for the
  /// operation. All must outlive the hosts; so must the tasks that they begin.
  using Strikes = std::function<void(const DiskFault& fault, Process user)>;
  Hosts(Scheduler& scheduler, checkpoint::SimulatedDisk& disk, const HostOptions& options, Strikes strikes);
  ~Hosts() override;

  /// The running task is the process's.
  void belongs_to(Process process);
  /// Its tasks, also those of its errands.
  [[nodiscard]] std::vector<TaskId> tasks_of(Process process) const;
  /// When the disk had done what the process last asked for; the epoch: it has asked for nothing.
  [[nodiscard]] TimePoint last_served(Process process) const;
  /// The process asks for nothing any more.
  void kill(Process process) { dead_.insert(process); }

  std::unique_ptr<Run> begin(std::function<void()> work) override;

 private:
  class TaskRun;

  absl::Status before(checkpoint::SimulatedDisk::Operation operation, const std::string& path);

  Scheduler& scheduler_;
  checkpoint::SimulatedDisk& disk_;
  const HostOptions options_;
  const Strikes strikes_;
  std::mt19937_64 random_;
  std::map<TaskId, Process> process_of_;
  std::map<Process, TimePoint> last_served_;
  std::set<Process> dead_;
  bool has_power_ = true;
  std::uint64_t operations_ = 0;
  std::uint64_t full_for_ = 0;  ///< operations that need room
  const base::StandIn<checkpoint::FileSystem> files_;
  const base::StandIn<base::ErrandRunner> runner_;
};

}  // namespace verbena::simulation
