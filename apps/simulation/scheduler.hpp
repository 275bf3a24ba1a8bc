// Runs the tasks of a simulated cluster in one thread and in virtual time. The task that is due first always
// runs. How long its steps take, and where it pauses, is drawn from the seed. If steps take no time and there
// are no pauses, time passes only in compute() and sleep().
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/simulation/fiber.hpp"
#include "apps/simulation/network.hpp"

namespace verbena::simulation {

struct SchedulerOptions {
  std::uint64_t seed = 0;
  Duration min_step = std::chrono::nanoseconds(50);
  Duration max_step = std::chrono::nanoseconds(800);
  double pause_probability = 0;  ///< probability that a step takes up to max_pause
  Duration max_pause = std::chrono::milliseconds(2);
};

class Scheduler final : public Pacer {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler() override;

  /// Steps of the task take `slowness` times as long as those of others.
  TaskId spawn(std::function<void()> body, double slowness = 1);

  enum class Outcome : std::uint8_t { kAllEnded, kOutOfTime, kOutOfSteps };
  /// Runs until all tasks have ended, or the virtual time or the number of steps is used up.
  Outcome run(Network& network, TimePoint limit, std::uint64_t max_steps);

  /// The running task works for `duration` (times its slowness).
  void compute(Duration duration);
  /// The running task waits until it is woken, or `until`.
  void sleep(TimePoint until) { block(running_, until); }
  /// The task's process is stopped: it does nothing before `until`, whatever wakes it.
  void stop(TaskId task, TimePoint until) {
    tasks_[task].stopped_until = std::max(tasks_[task].stopped_until, until);
  }
  [[nodiscard]] TaskId running() const { return running_; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  /// A digest of which task ran when.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }

  [[nodiscard]] TimePoint now() const override { return now_; }
  void step(TaskId task) override;
  void block(TaskId task, TimePoint until) override;
  void wake(TaskId task) override;

 private:
  struct Task {
    std::unique_ptr<Fiber> fiber;
    double slowness = 1;
    TimePoint due;
    TimePoint stopped_until;
    bool blocked = false;
  };

  [[nodiscard]] Duration draw(Duration least, Duration most);
  void set_due(TaskId task, TimePoint due);
  void yield();

  const SchedulerOptions options_;
  std::mt19937_64 random_;
  std::vector<Task> tasks_;
  std::set<std::pair<TimePoint, TaskId>> due_;  ///< the tasks that have not ended
  TaskId running_ = 0;
  Network* network_ = nullptr;
  TimePoint now_ = TimePoint(std::chrono::seconds(1));
  std::uint64_t steps_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace verbena::simulation
