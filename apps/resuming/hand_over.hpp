// When the workers of a process step aside for another one that waits to be them, in a job over several hosts
// (docs/elasticity.md): all after the same iteration. That is the largest that any of them has begun when
// they find that they are to: so none of them waits for another one of them that has stepped aside already.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace verbena::apps {

/// Thread safety: any thread may call; each worker belongs to a thread.
class HandOver {
 public:
  /// `is_wanted`: it is asked at the end of each iteration. `may_begin`: asked once it is wanted, with the
  /// iteration after which they would step aside; from the moment that it says so, they do.
  HandOver(std::uint32_t workers, std::function<bool()> is_wanted,
           std::function<bool(std::int64_t after)> may_begin)
      : is_wanted_(std::move(is_wanted)), may_begin_(std::move(may_begin)), begun_(workers) {}

  enum class Turn : std::uint8_t {
    kStays,       ///< nobody steps aside
    kGoesOn,      ///< they do, after a later iteration
    kStepsAside,  ///< and this worker does now
  };
  /// The worker, by its number in the process, has finished that iteration, and is not catching up.
  Turn ask(std::uint32_t worker, std::int64_t iteration, bool is_last);

  /// All of them have.
  [[nodiscard]] bool is_over() const;

 private:
  const std::function<bool()> is_wanted_;
  const std::function<bool(std::int64_t after)> may_begin_;
  mutable std::mutex mutex_;  ///< of all that follows; not Abseil's, which the thread sanitizer does not see
  /// By worker; nullopt: it has finished none yet, and may be where the one before it was.
  std::vector<std::optional<std::int64_t>> begun_;
  bool is_too_late_ = false;           ///< one of them has trained to the end
  std::optional<std::int64_t> after_;  ///< this iteration they step aside
  std::uint32_t stepped_aside_ = 0;
};

}  // namespace verbena::apps
