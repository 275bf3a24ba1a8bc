// Other programs on a worker's core, made on purpose: what a slow host does to a worker, and a factor does
// not.
//
// A worker with competitors is pinned to one core, together with busy threads that take all they are given of
// it. So it waits for its turn whenever it computes, for some milliseconds at a time, at moments that the
// scheduler chooses: no two runs are alike. Whoever else is on that core waits, too.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/conditions/slowdown.hpp"

namespace verbena::apps {

/// Of one worker. They are threads of its process, so that nothing ends it without ending them.
class Competitors {
 public:
  /// Those that the rules give to `worker`, which is the calling thread; often none, and then nothing is
  /// pinned. The core is the rules', else the worker's turn of those that the thread may use, around and
  /// around. INVALID_ARGUMENT: it may not use that core, or the rules name two; PERMISSION_DENIED and the
  /// like where the host does not let it be pinned.
  static absl::StatusOr<std::unique_ptr<Competitors>> start(const std::vector<SlowRule>& rules,
                                                            std::uint32_t worker);
  /// Ends them; the worker may use again what it could use before. To be called by its thread.
  ~Competitors();
  Competitors(const Competitors&) = delete;
  Competitors& operator=(const Competitors&) = delete;

  [[nodiscard]] std::size_t count() const { return threads_.size(); }
  /// REQUIRES: count() > 0.
  [[nodiscard]] std::uint32_t core() const { return core_; }

 private:
  Competitors() = default;
  absl::Status pin(const std::vector<SlowRule>& rules, std::uint32_t worker);
  absl::Status run(std::uint32_t count);

  bool pinned_ = false;
  cpu_set_t allowed_ = {};  ///< before
  std::uint32_t core_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace verbena::apps
