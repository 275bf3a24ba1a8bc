// This worker's examples, mini-batch by mini-batch. Where an iteration ends early, the cursor ends early, and
// an application trains under every consistency model with one loop:
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
// An iteration is a clock of the worker. It is over when it has handed out all examples once; under A-BSP (a
// table of the session has that model) also when another worker's is. The next iteration goes on where this
// one ended, and once around: what was left comes first.
//
// Each iteration hands out at least one mini-batch, so that a worker with B mini-batches sees every example
// at least once in B iterations, however slow it is. A worker without examples ends nobody's iteration.
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
    /// How many next() hands out at most: so many a worker still processes after the end of its iteration.
    /// Small ones end it soon; each costs a look at the connections, about a microsecond.
    std::uint64_t mini_batch = 1;
  };
  DataCursor(Session& session, const Options& options);

  /// The next mini-batch, always the same ones: examples 0 … mini_batch − 1 and so on. What has been handed
  /// out counts as processed and is to be pushed before the clock ends. Empty: the iteration is over, and
  /// stays so until the session's clock has advanced. Errors: INVALID_ARGUMENT for impossible options;
  /// FAILED_PRECONDITION where another cursor has begun in this clock; else the session's.
  absl::StatusOr<ExampleRange> next();

  /// Examples of the iteration that have not been handed out: more than 0 after its end where it ended early.
  [[nodiscard]] std::uint64_t left() const { return left_; }

 private:
  worker::SessionCore* session_;
  Options options_;
  std::int64_t clock_ = -1;  ///< of the iteration
  std::uint64_t left_ = 0;
  std::uint64_t next_ = 0;  ///< example
};

}  // namespace verbena
