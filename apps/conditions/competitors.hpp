// Other programs on a worker's core, added on purpose. They do to a worker what a slow host does and a factor
// does not.
//
// A worker with competitors is pinned to one core, together with busy threads that use all the time they get
// on it. So the worker waits for its turn whenever it computes, for some milliseconds at a time, at moments
// that the scheduler chooses: no two runs are alike. All others on that core wait, too.
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

/// The competitors of one worker. They are threads of its process, so that whatever ends the process ends
/// them, too.
class Competitors {
 public:
  /// Starts the competitors that the rules give to `worker`, which is the calling thread. Often there are
  /// none, and then nothing is pinned. The core is the one that the rules name; otherwise workers take the
  /// cores that the thread may use in turn. INVALID_ARGUMENT if the thread may not use that core, or if the
  /// rules name two cores; PERMISSION_DENIED and similar errors if the host does not let the thread be
  /// pinned.
  static absl::StatusOr<std::unique_ptr<Competitors>> start(const std::vector<SlowRule>& rules,
                                                            std::uint32_t worker);
  /// Ends the competitors; the worker may again use the cores that it could use before. The worker's thread
  /// must call it.
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
  cpu_set_t allowed_ = {};  ///< the worker's cores before it was pinned
  std::uint32_t core_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace verbena::apps
