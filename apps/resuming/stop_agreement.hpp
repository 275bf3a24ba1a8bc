// After which iteration the workers of a job end that is asked to stop, so that all of them save the same
// one.
//
// Each worker sees the wish to stop at the end of one of its iterations, some sooner than others, and under
// models that let workers drift they may be iterations apart. All must end after the same iteration T, and
// none may have begun a later one: so T is the largest that any worker has begun.
//
// No worker may wait for that answer: another one may be in the middle of an iteration, in a clock() or a
// barrier() that needs this worker to go on. So whoever asks before all have asked begins its next iteration,
// and asks again at its end; the last one to ask decides. All of them then train up to T. A worker that has
// begun its last iteration to come, and ends it undecided, leaves the job as if nobody wanted to stop: then
// all do.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace verbena::apps {

/// One worker's view. Thread safety: belongs to one thread.
class StopAgreement {
 public:
  /// `word`: 0 at first; all workers of the job share it, and it outlives this. At most 2¹⁵ − 1 workers.
  StopAgreement(std::atomic<std::uint64_t>& word, std::uint32_t workers) : word_(word), workers_(workers) {}

  /// This worker wants to stop, and has finished `iteration`; `is_last`: it has none to come. Returns the
  /// iteration T ≥ `iteration` after which all stop. nullopt: not decided; the worker begins its next
  /// iteration, if there is one, and asks again when it has finished it.
  std::optional<std::int64_t> ask(std::int64_t iteration, bool is_last);
  /// This worker has finished its last iteration, and has never asked.
  void finish();

 private:
  std::atomic<std::uint64_t>& word_;
  const std::uint32_t workers_;
  bool has_asked_ = false;
};

}  // namespace verbena::apps
