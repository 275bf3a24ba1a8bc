#include "tests/simulation/hosts.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace verbena::simulation {

using Operation = checkpoint::SimulatedDisk::Operation;

/// Work in a task of its own.
class Hosts::TaskRun final : public Run {
 public:
  TaskRun(Hosts& hosts, std::function<void()> work) : scheduler_(hosts.scheduler_) {
    const Process process = hosts.process_of_.at(scheduler_.running());
    const TaskId task = scheduler_.spawn([this, work = std::move(work)] {
      work();
      has_ended_ = true;
      if (is_waited_for_) scheduler_.wake(waiter_);
    });
    hosts.process_of_.emplace(task, process);
  }
  ~TaskRun() override {
    waiter_ = scheduler_.running();
    is_waited_for_ = true;
    while (!has_ended_) scheduler_.sleep(scheduler_.now() + std::chrono::seconds(1));
  }

 private:
  Scheduler& scheduler_;
  bool has_ended_ = false;
  bool is_waited_for_ = false;
  TaskId waiter_ = 0;
};

Hosts::Hosts(Scheduler& scheduler, checkpoint::SimulatedDisk& disk, const HostOptions& options,
             Strikes strikes)
    : scheduler_(scheduler),
      disk_(disk),
      options_(options),
      strikes_(std::move(strikes)),
      random_(options.seed),
      files_(disk),
      runner_(*this) {
  disk_.intercept([this](Operation operation, const std::string& path) { return before(operation, path); });
}

Hosts::~Hosts() {
  disk_.intercept(nullptr);
}

void Hosts::belongs_to(Process process) {
  process_of_.emplace(scheduler_.running(), process);
}

std::vector<TaskId> Hosts::tasks_of(Process process) const {
  std::vector<TaskId> tasks;
  for (const auto& [task, of] : process_of_) {
    if (of == process) tasks.push_back(task);
  }
  return tasks;
}

TimePoint Hosts::last_served(Process process) const {
  const auto found = last_served_.find(process);
  return found == last_served_.end() ? TimePoint() : found->second;
}

std::unique_ptr<base::ErrandRunner::Run> Hosts::begin(std::function<void()> work) {
  return std::make_unique<TaskRun>(*this, std::move(work));
}

absl::Status Hosts::before(Operation operation, const std::string& path) {
  const Process user = process_of_.at(scheduler_.running());
  const auto time = std::uniform_int_distribution<Duration::rep>(0, options_.slowest.count())(random_);
  scheduler_.compute(Duration(time));  // others go on meanwhile
  last_served_[user] = scheduler_.now();
  const auto refuse = [&](int error) { return absl::ErrnoToStatus(error, fmt::format("{}: cannot", path)); };
  if (!has_power_ || dead_.contains(user)) return refuse(ENODEV);
  const std::uint64_t number = operations_++;
  bool fails = false;
  for (const DiskFault& fault : options_.faults) {
    if (fault.operation != number) continue;
    strikes_(fault, user);
    if (fault.what == DiskFault::What::kFails) fails = true;
    if (fault.what == DiskFault::What::kIsFull) full_for_ += fault.length;
    if (fault.what == DiskFault::What::kPowerFails) has_power_ = false;
  }
  if (!has_power_ || dead_.contains(user)) return refuse(ENODEV);
  if (fails) return refuse(EIO);
  const bool needs_room = operation == Operation::kCreate || operation == Operation::kWrite ||
                          operation == Operation::kMakeFolder;
  if (!needs_room || full_for_ == 0) return absl::OkStatus();
  --full_for_;
  return refuse(ENOSPC);
}

}  // namespace verbena::simulation
