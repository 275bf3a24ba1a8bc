// Is told what a worker does while it trains, mini-batch by mini-batch. An experiment uses it to slow workers
// down (apps/conditions/slowdown.hpp).
#pragma once

#include <cstdint>

namespace verbena::apps {

/// By default it does nothing. Thread safety: belongs to the worker's thread.
class TrainingWatch {
 public:
  virtual ~TrainingWatch() = default;
  /// Called around a mini-batch, or a part of one, of so many items: the items that the application's
  /// throughput counts. A beginning without an end, or an end without a beginning, is ignored.
  virtual void computing_begins() {}
  virtual void computing_ends(std::uint64_t /*items*/) {}
  /// Called before the worker's clock().
  virtual void clock_ends() {}
};

}  // namespace verbena::apps
