#include "apps/launcher/joint_stop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "apps/resuming/hand_over.hpp"
#include "apps/resuming/stop_gate.hpp"

namespace verbena::apps {
namespace {

using Clock = JointStop::Clock;

std::int64_t iteration_of(const std::optional<JointStop::Decision>& decision) {
  const auto* const ends = decision ? std::get_if<JointStop::EndsAfter>(&*decision) : nullptr;
  return ends == nullptr ? -1 : ends->iteration;
}

TEST(JointStopTest, AllEndAfterTheLargestThatAnyHasBegun) {
  JointStop stop({3, 4});
  EXPECT_FALSE(stop.decide({}));
  EXPECT_FALSE(stop.asks(3));
  EXPECT_TRUE(stop.want(SIGTERM, {}));
  EXPECT_FALSE(stop.want(SIGINT, {}));
  EXPECT_EQ(stop.wanted_by(), SIGTERM);
  EXPECT_TRUE(stop.asks(3));
  EXPECT_FALSE(stop.asks(0)) << "a server's";
  stop.take(0, {.begun = 100});
  stop.take(4, {.begun = 9});
  EXPECT_FALSE(stop.asks(4));
  stop.take(4, {.begun = 12});
  EXPECT_FALSE(stop.decide({}));
  stop.take(3, {.begun = 7});
  EXPECT_EQ(iteration_of(stop.decide({})), 9);
  EXPECT_FALSE(stop.decide({})) << "once";
  EXPECT_EQ(stop.ended_by(), SIGTERM);
}

TEST(JointStopTest, WhoeverHasFinishedEndsItForAll) {
  for (const bool has_ended : {false, true}) {
    JointStop stop({3, 4});
    stop.want(SIGTERM, {});
    if (has_ended) {
      stop.finish(4);
    } else {
      stop.take(4, {.begun = 20, .has_finished = true});
    }
    const auto decision = stop.decide({});
    ASSERT_TRUE(decision);
    EXPECT_TRUE(std::holds_alternative<JointStop::IsTooLate>(*decision));
    EXPECT_EQ(stop.ended_by(), 0);
    EXPECT_FALSE(stop.is_under_way());
  }
}

TEST(JointStopTest, NothingIsSavedIfNobodyHasBegun) {
  JointStop stop({3});
  stop.want(SIGTERM, {});
  stop.take(3, {});
  const auto decision = stop.decide({});
  ASSERT_TRUE(decision);
  EXPECT_TRUE(std::holds_alternative<JointStop::HasNotBegun>(*decision));
  EXPECT_EQ(stop.ended_by(), 0);
}

TEST(JointStopTest, NobodyIsWaitedForForEver) {
  JointStop stop({3, 4});
  const Clock::time_point begin = Clock::now();
  stop.want(SIGTERM, begin);
  stop.take(3, {.begun = 7});
  EXPECT_FALSE(stop.decide(begin + JointStop::kPatience - std::chrono::milliseconds(1)));
  const auto decision = stop.decide(begin + JointStop::kPatience);
  ASSERT_TRUE(decision);
  ASSERT_TRUE(std::holds_alternative<JointStop::IsUnanswered>(*decision));
  EXPECT_EQ(std::get<JointStop::IsUnanswered>(*decision).rank, 4U);
  EXPECT_EQ(stop.ended_by(), 0);
}

/// Processes of workers and rank 0, whose words take any time, in the order of chance. Some step aside for
/// others.
class SimulatedStop {
 public:
  explicit SimulatedStop(std::uint64_t seed) : random_(seed) {
    const auto processes = static_cast<std::uint32_t>(1 + pick(4));
    threads_ = static_cast<std::uint32_t>(1 + pick(2));
    staleness_ = static_cast<std::int64_t>(pick(3) == 0 ? 1000 : pick(3));  // BSP, SSP, and no bound
    iterations_ = static_cast<std::int64_t>(1 + pick(15));
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < processes; ++rank) ranks.push_back(rank);
    stop_ = std::make_unique<JointStop>(ranks);
    for (const std::uint32_t rank : ranks) {
      Process& process = processes_.emplace_back();
      const bool is_late = pick(4) == 0;
      begin(process, is_late);
      if (pick(3) == 0) process.steps_aside_at = static_cast<int>(pick(200));
      for (std::uint32_t thread = 0; thread < threads_; ++thread) {
        Worker worker{.process = rank, .thread = thread};
        // The one before it had finished so many, and begun the next one.
        if (is_late)
          worker.caught_up_at = static_cast<std::int64_t>(pick(static_cast<std::uint64_t>(iterations_)));
        worker.done = worker.caught_up_at;
        workers_.push_back(worker);
      }
    }
    wanted_at_ = static_cast<int>(pick(200));
  }

  /// What is wrong; empty: nothing.
  std::string run() {
    constexpr int kMostSteps = 20'000;
    for (int step = 0; step < kMostSteps; ++step) {
      if (step == wanted_at_) want();
      for (Process& process : processes_) process.is_to_step_aside |= step == process.steps_aside_at;
      std::vector<std::function<void()>> possible;
      for (Worker& worker : workers_) {
        if (can_step(worker)) possible.emplace_back([this, &worker] { take_step(worker); });
      }
      for (std::uint32_t rank = 0; rank < processes_.size(); ++rank) {
        Process& process = processes_[rank];
        if (!process.to_it.empty()) possible.emplace_back([&process] { hear(process); });
        if (!process.to_leader.empty()) possible.emplace_back([this, rank] { hear_answer(rank); });
      }
      if (!wrong_.empty()) return wrong_;
      if (possible.empty()) return is_over() ? judge() : "nobody can go on";
      possible[pick(possible.size())]();
    }
    return "it has no end";
  }

 private:
  struct HasSteppedAside {};
  struct Process {
    std::unique_ptr<StopGate> gate;
    std::unique_ptr<HandOver> hand_over;
    int steps_aside_at = -1;  ///< in steps; −1: it does not
    bool is_to_step_aside = false;
    std::deque<std::function<void(StopGate&)>> to_it;
    std::deque<std::variant<job::HeldMessage, HasSteppedAside>> to_leader;
  };
  enum class State : std::uint8_t { kReads, kTrains, kAtEnd, kHasFinished, kHasEnded, kHasSteppedAside };
  struct Worker {
    std::uint32_t process = 0;
    std::uint32_t thread = 0;
    std::int64_t caught_up_at = 0;  ///< the process before it had finished that
    State state = State::kReads;
    HandOver::Turn turn = HandOver::Turn::kStays;  ///< at its end
    std::int64_t iteration = 1;                    ///< that it has begun
    std::int64_t done = 0;                         ///< it, or the process before it, as others see it
  };

  std::uint64_t pick(std::uint64_t count) { return random_() % count; }
  [[nodiscard]] bool can_step(const Worker& worker) const {
    if (ends_at_once_ || worker.state >= State::kHasFinished) return false;
    if (worker.state != State::kTrains || worker.iteration <= worker.caught_up_at) return true;
    // As its consistency model has it.
    return std::all_of(workers_.begin(), workers_.end(), [&](const Worker& other) {
      return other.state == State::kHasFinished || other.done >= worker.iteration - 1 - staleness_;
    });
  }
  void begin(Process& process, bool is_late) const {
    process.gate = std::make_unique<StopGate>(threads_, is_late, [&process](const StopGate::Begun& begun) {
      process.to_leader.emplace_back(
          job::HeldMessage{.begun = begun.iteration, .has_finished = begun.has_finished});
    });
    process.hand_over = std::make_unique<HandOver>(
        threads_, [&process] { return process.is_to_step_aside; },
        [&process](std::int64_t after) { return process.gate->let_another_go_on(after); });
  }
  void take_step(Worker& worker) {
    Process& process = processes_[worker.process];
    StopGate& gate = *process.gate;
    if (worker.state == State::kReads) {
      gate.begin(worker.thread, 1, worker.caught_up_at > 0);
      worker.state = State::kTrains;
      return;
    }
    const bool is_last = worker.iteration == iterations_;
    const bool is_catching_up = worker.iteration < worker.caught_up_at;
    if (worker.state == State::kTrains) {
      worker.state = State::kAtEnd;
      worker.done = std::max(worker.done, worker.iteration);
      if (!is_catching_up) worker.turn = process.hand_over->ask(worker.thread, worker.iteration, is_last);
      return;
    }
    if (worker.turn == HandOver::Turn::kStepsAside) {
      worker.state = State::kHasSteppedAside;
      if (std::ranges::all_of(workers_, [&](const Worker& one) {
            return one.process != worker.process || one.state == State::kHasSteppedAside;
          }))
        process.to_leader.emplace_back(HasSteppedAside{});
      return;
    }
    if (!is_catching_up && worker.turn == HandOver::Turn::kStays) {
      const auto turn = gate.ask(worker.thread, worker.iteration, is_last);
      if (!turn.ok()) wrong_ = std::string(turn.status().message());
      if (!turn.ok() || *turn == StopGate::Turn::kWaits) return;
      if (*turn == StopGate::Turn::kEnds) {
        worker.state = State::kHasEnded;
        return;
      }
    }
    worker.state = is_last ? State::kHasFinished : State::kTrains;
    if (!is_last) ++worker.iteration;
  }
  void want() {
    stop_->want(SIGTERM, {});
    tell_all([](StopGate& gate) { gate.hold(SIGTERM); });
  }
  void tell_all(const std::function<void(StopGate&)>& word) {
    for (Process& process : processes_) process.to_it.push_back(word);
  }
  static void hear(Process& process) {
    const auto word = process.to_it.front();
    process.to_it.pop_front();
    word(*process.gate);
  }
  /// Another process comes, and hears what the leader says to each that comes.
  void replace(std::uint32_t rank) {
    Process& process = processes_[rank];
    process.is_to_step_aside = false;
    process.to_it.clear();
    process.to_leader.clear();
    begin(process, /*is_late=*/true);
    if (stop_->is_under_way()) process.to_it.emplace_back([](StopGate& gate) { gate.hold(SIGTERM); });
    if (const auto end = stop_->end())
      process.to_it.emplace_back([end](StopGate& gate) { gate.end_after(*end); });
    for (Worker& worker : workers_) {
      if (worker.process == rank)
        worker = {.process = rank, .thread = worker.thread, .caught_up_at = worker.done, .done = worker.done};
    }
  }
  void hear_answer(std::uint32_t rank) {
    const auto word = processes_[rank].to_leader.front();
    processes_[rank].to_leader.pop_front();
    const auto* const answer = std::get_if<job::HeldMessage>(&word);
    if (answer == nullptr) return replace(rank);
    stop_->take(rank, *answer);
    const auto decision = stop_->decide({});
    if (!decision) return;
    if (const auto* const ends = std::get_if<JointStop::EndsAfter>(&*decision)) {
      tell_all([after = ends->iteration](StopGate& gate) { gate.end_after(after); });
    } else if (std::holds_alternative<JointStop::IsTooLate>(*decision)) {
      tell_all([](StopGate& gate) { gate.release(); });
    } else {
      ends_at_once_ = true;
    }
  }
  [[nodiscard]] bool is_over() const {
    return ends_at_once_ || std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
             return worker.state == State::kHasFinished || worker.state == State::kHasEnded;
           });
  }
  [[nodiscard]] std::string judge() const {
    if (ends_at_once_) return "";
    const bool have_ended = workers_[0].state == State::kHasEnded;
    for (const Worker& worker : workers_) {
      if ((worker.state == State::kHasEnded) != have_ended) return "some have ended, and some have finished";
      if (worker.iteration != workers_[0].iteration) return "they have ended after different ones";
      if (worker.done != worker.iteration) return "they have ended before what was trained already";
    }
    return have_ended && stop_->ended_by() == 0 ? "nobody has told them to end" : "";
  }

  std::mt19937_64 random_;
  std::uint32_t threads_ = 1;
  std::int64_t staleness_ = 0;
  std::int64_t iterations_ = 0;
  int wanted_at_ = 0;  ///< in steps
  std::unique_ptr<JointStop> stop_;
  std::deque<Process> processes_;
  std::vector<Worker> workers_;
  bool ends_at_once_ = false;
  std::string wrong_;
};

TEST(JointStopTest, AllEndAfterTheSameIterationWheneverWordsCome) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) ASSERT_EQ(SimulatedStop(seed).run(), "") << seed;
}

}  // namespace
}  // namespace verbena::apps
