// A worker made slower on purpose, alike in each run: what experiments with stragglers are made of.
//
// A slowed worker computes as fast as it can and then sleeps, so that it leaves its processor to the others,
// as a machine of its own would. What is stretched is the *processor time* of a mini-batch, not the time on
// the clock: with factor 3 a mini-batch that needs 2 ms of a processor lasts 6 ms. Waiting for a processor
// that another process has is part of the 6 ms and is not stretched in its turn. So where all workers of a
// host are slowed so far that they need less than its cores (worker=all,factor=4: four workers need one
// core), each goes as if it had a core of its own, whatever the host's scheduler does; where they need more,
// a slow worker is less slow, compared with the others, than its factor says.
//
// Processor time is not the same twice: caches are colder beside a busier server, and a virtual machine's
// host has other work. Stretched, that is more than what is to be compared. So a rule may say how long an
// item takes (item=1us), whatever it takes here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/training_watch.hpp"

namespace verbena::apps {

/// One --slow.
struct SlowRule {
  std::optional<std::uint32_t> worker;  ///< its rank among all workers; nothing: each of them
  double factor = 1;  ///< a mini-batch lasts so many times its processor time, or its items' time
  std::chrono::nanoseconds item{0};   ///< of each item: what the application's throughput counts. 0: not said
  std::chrono::nanoseconds pause{0};  ///< before one clock() in `every`
  std::int64_t every = 0;             ///< 0: no pauses
  std::uint32_t competitors = 0;      ///< busy threads on its core (apps/conditions/competitors.hpp)
  std::optional<std::uint32_t> core;  ///< that core; nothing: any
};

/// "worker=1,factor=3"; "worker=all,item=1us"; "worker=all,pause=200ms,every=20";
/// "worker=1,competitors=1,core=0". INVALID_ARGUMENT says what was expected.
absl::StatusOr<SlowRule> parse_slow(std::string_view text);

/// Where a slowdown has its time from, and what it does with it.
struct SlowdownClock {
  using Duration = std::chrono::nanoseconds;
  std::function<Duration()> now;             ///< since any fixed moment
  std::function<Duration()> processor_time;  ///< of the calling thread
  std::function<void(Duration)> sleep;
};
SlowdownClock system_slowdown_clock();

/// Of one worker. By default it slows nothing. Thread safety: belongs to the worker's thread.
class Slowdown final : public TrainingWatch {
 public:
  Slowdown() = default;
  /// The factors of all rules that are about `worker` are multiplied, their items' times added up, all their
  /// pauses made. Pauses that several workers have from one rule are spread: worker w's are before each k-th
  /// clock() where k + ⌊0.618 · w · every⌋ is a multiple of `every`.
  Slowdown(const std::vector<SlowRule>& rules, std::uint32_t worker,
           SlowdownClock clock = system_slowdown_clock());

  /// The processor time in between is stretched, or filled up to the items' time.
  void computing_begins() override;
  void computing_ends(std::uint64_t items) override;
  void clock_ends() override;

 private:
  using Duration = SlowdownClock::Duration;
  struct Pause {
    Duration length;
    std::int64_t every;
    std::int64_t shift;
  };

  double factor_ = 1;
  Duration item_{0};
  std::vector<Pause> pauses_;
  SlowdownClock clock_;
  bool computing_ = false;
  Duration began_{0};
  Duration processor_time_began_{0};
  Duration owed_{0};  ///< sleep that is due; negative where the last one was too long
  std::int64_t clocks_ = 0;
};

}  // namespace verbena::apps
