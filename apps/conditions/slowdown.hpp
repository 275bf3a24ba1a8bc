// A worker that is made slower on purpose, in the same way in each run. Experiments with stragglers use it.
//
// A slowed worker computes as fast as it can and then sleeps, so that it leaves its processor to the others,
// as a machine of its own would. What is stretched is the *processor time* of a mini-batch, not the time on
// the clock: with factor 3 a mini-batch that needs 2 ms of a processor lasts 6 ms. Waiting for a processor
// that another process uses is part of the 6 ms and is not itself stretched. So if all workers of a host are
// slowed so far that they need less than its cores (worker=all,factor=4: four workers need one core), each
// runs as if it had its own core, whatever the host's scheduler does. If they need more, a slow worker is
// less slow, compared with the others, than its factor says.
//
// Processor time differs from run to run: caches are colder beside a busier server, and the host of a virtual
// machine has other work. When stretched, these differences are larger than what is to be compared. So a rule
// may say how long an item takes (item=1us), whatever time it needs on this host.
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
  std::optional<std::uint32_t> worker;  ///< its rank among all workers; nullopt: all workers
  double factor = 1;  ///< a mini-batch lasts this many times its processor time, or its items' time
  std::chrono::nanoseconds item{0};   ///< for each item that the application's throughput counts; 0: not set
  std::chrono::nanoseconds pause{0};  ///< a pause of this length before one clock() in `every`
  std::int64_t every = 0;             ///< 0: no pauses
  std::uint32_t competitors = 0;      ///< busy threads on its core (apps/conditions/competitors.hpp)
  std::optional<std::uint32_t> core;  ///< that core; nullopt: any
};

/// "worker=1,factor=3"; "worker=all,item=1us"; "worker=all,pause=200ms,every=20";
/// "worker=1,competitors=1,core=0". INVALID_ARGUMENT says what was expected.
absl::StatusOr<SlowRule> parse_slow(std::string_view text);

/// Where a slowdown gets the time, and how it sleeps.
struct SlowdownClock {
  using Duration = std::chrono::nanoseconds;
  std::function<Duration()> now;             ///< time since any fixed moment
  std::function<Duration()> processor_time;  ///< used by the calling thread
  std::function<void(Duration)> sleep;
};
SlowdownClock system_slowdown_clock();

/// Slows one worker. By default it slows nothing. Thread safety: belongs to the worker's thread.
class Slowdown final : public TrainingWatch {
 public:
  Slowdown() = default;
  /// Of all rules for `worker`, the factors are multiplied, the item times are added up, and all pauses are
  /// made. Pauses that one rule gives to several workers are spread: worker w pauses before each k-th clock()
  /// where k + ⌊0.618 · w · every⌋ is a multiple of `every`.
  Slowdown(const std::vector<SlowRule>& rules, std::uint32_t worker,
           SlowdownClock clock = system_slowdown_clock());

  /// Stretches the processor time between these two calls, or fills it up to the items' time.
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
  Duration owed_{0};  ///< sleep that is due; negative if the last sleep was too long
  std::int64_t clocks_ = 0;
};

}  // namespace verbena::apps
