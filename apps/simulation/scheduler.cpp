#include "apps/simulation/scheduler.hpp"

#include <algorithm>
#include <cassert>

namespace verbena::simulation {

Scheduler::Scheduler(const SchedulerOptions& options) : options_(options), random_(options.seed) {}
Scheduler::~Scheduler() = default;

TaskId Scheduler::spawn(std::function<void()> body, double slowness) {
  Task& task = tasks_.emplace_back();
  task.fiber = std::make_unique<Fiber>(std::move(body));
  task.slowness = slowness;
  task.due = now_ + draw(Duration(0), std::chrono::microseconds(20));
  const auto number = static_cast<TaskId>(tasks_.size() - 1);
  due_.emplace(task.due, number);
  return number;
}

Duration Scheduler::draw(Duration least, Duration most) {
  return Duration(std::uniform_int_distribution<Duration::rep>(least.count(), most.count())(random_));
}

void Scheduler::set_due(TaskId task, TimePoint due) {
  auto entry = due_.extract({tasks_[task].due, task});
  entry.value().first = tasks_[task].due = due;
  due_.insert(std::move(entry));
}

Scheduler::Outcome Scheduler::run(Network& network, TimePoint limit, std::uint64_t max_steps) {
  network_ = &network;
  const std::uint64_t last_step = steps_ + max_steps;
  for (;;) {
    if (due_.empty()) return Outcome::kAllEnded;
    const TaskId next = due_.begin()->second;
    Task& task = tasks_[next];
    if (task.due < task.stopped_until) {
      set_due(next, task.stopped_until);
      continue;
    }
    // What the network does may make another task due.
    if (const TimePoint action = network.next(); action <= task.due) {
      now_ = std::max(now_, action);
      network.run_due();
      continue;
    }
    now_ = std::max(now_, task.due);
    if (now_ > limit) return Outcome::kOutOfTime;
    if (++steps_ > last_step) return Outcome::kOutOfSteps;
    running_ = next;
    digest_ = (digest_ ^ static_cast<std::uint64_t>(now_.time_since_epoch().count()) ^ next) * 0x100000001b3;
    task.blocked = false;
    task.fiber->resume();
    if (tasks_[next].fiber->ended()) due_.erase({tasks_[next].due, next});
  }
}

void Scheduler::yield() {
  tasks_[running_].fiber->suspend();
}

void Scheduler::compute(Duration duration) {
  set_due(running_, now_ + std::chrono::duration_cast<Duration>(duration * tasks_[running_].slowness));
  yield();
}

void Scheduler::step(TaskId task) {
  // Outside of run(), while a job is built, no other task can run.
  if (network_ == nullptr || task != running_) return;
  if (options_.max_step == Duration::zero() && options_.pause_probability == 0) return;
  const bool pauses =
      options_.pause_probability > 0 && std::bernoulli_distribution(options_.pause_probability)(random_);
  compute(pauses ? draw(options_.max_step, options_.max_pause) : draw(options_.min_step, options_.max_step));
}

void Scheduler::block(TaskId task, TimePoint until) {
  assert(task == running_);
  set_due(task, std::max(until, now_));
  tasks_[task].blocked = true;
  yield();
}

void Scheduler::wake(TaskId task) {
  if (!tasks_[task].blocked) return;
  set_due(task, std::min(tasks_[task].due, now_ + draw(Duration(0), options_.max_step)));
}

}  // namespace verbena::simulation
