// This worker's examples, mini-batch by mini-batch. If an iteration ends early, the cursor ends early, so
// that an application trains under every consistency model with one loop:
//
//   verbena::DataCursor cursor(*session, {.examples = mine.size(), .mini_batch = 1000});
//   for (int iteration = 0; iteration < iterations; ++iteration) {
//     for (;;) {
//       const absl::StatusOr<verbena::ExampleRange> batch = cursor.next();
//       if (!batch.ok()) return batch.status();
//       if (batch->empty()) break;              // the iteration is over
//       …                                       // pull, compute on mine[first … last), push
//     }
//     if (absl::Status status = session->clock(); !status.ok()) return status;
//   }
//
// An iteration is a clock of the worker. It is over when the cursor has handed out all examples once; under
// A-BSP (if a table of the session has that model) also when another worker's iteration is over. The next
// iteration continues where this one ended and goes once around: the examples that were left come first.
//
// Each iteration hands out at least one mini-batch, so that a worker with B mini-batches sees every example
// at least once in B iterations, however slow it is. A worker without examples does not end the other
// workers' iterations.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include <verbena/session.hpp>

namespace verbena {

/// Examples [first, last), counted from 0.
struct ExampleRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  ///< not included
  [[nodiscard]] std::uint64_t size() const { return last - first; }
  [[nodiscard]] bool empty() const { return first == last; }
  friend bool operator==(const ExampleRange&, const ExampleRange&) = default;
};

/// Thread safety: none; belongs to the session's thread, and must not outlive the session.
class DataCursor {
 public:
  struct Options {
    std::uint64_t examples = 0;  ///< of this worker
    /// How many examples next() hands out at most. A worker may still process this many after the end of its
    /// iteration. With small mini-batches it ends soon; each one costs a look at the connections, about a
    /// microsecond.
    std::uint64_t mini_batch = 1;
    /// The first iteration begins with this example and goes once around: what next_example() has returned,
    /// for a run that goes on from a checkpoint. Less than `examples`, or 0.
    std::uint64_t first = 0;
  };
  DataCursor(Session& session, const Options& options);

  /// Returns the next mini-batch. The mini-batches are always the same: examples 0 … mini_batch − 1 and so
  /// on. Examples that were handed out count as processed; the caller must push their updates before the
  /// clock ends. An empty range means that the iteration is over; it stays over until the session's clock has
  /// advanced. Errors: INVALID_ARGUMENT for impossible options; FAILED_PRECONDITION if another cursor has
  /// begun in this clock; otherwise the session's errors.
  absl::StatusOr<ExampleRange> next();

  /// How many examples of the iteration have not been handed out. After its end: more than 0 if it ended
  /// early.
  [[nodiscard]] std::uint64_t left() const { return left_; }
  /// The example with which the next mini-batch begins, if there is another one.
  [[nodiscard]] std::uint64_t next_example() const { return next_; }

 private:
  worker::SessionCore* session_;
  Options options_;
  std::int64_t clock_ = -1;  ///< of the iteration
  std::uint64_t left_ = 0;
  std::uint64_t next_ = 0;  ///< example
};

}  // namespace verbena
