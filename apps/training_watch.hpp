// Who is told what a worker does while it trains, mini-batch by mini-batch. An experiment slows workers by it
// (apps/conditions/slowdown.hpp).
#pragma once

#include <cstdint>

namespace verbena::apps {

/// By default nothing comes of it. Thread safety: belongs to the worker's thread.
class TrainingWatch {
 public:
  virtual ~TrainingWatch() = default;
  /// Around a mini-batch, or a part of one, of so many items: what the application's throughput counts. A
  /// beginning without an end, or an end without a beginning, counts for nothing.
  virtual void computing_begins() {}
  virtual void computing_ends(std::uint64_t /*items*/) {}
  /// Before the worker's clock().
  virtual void clock_ends() {}
};

}  // namespace verbena::apps
