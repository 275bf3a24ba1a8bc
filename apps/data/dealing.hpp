// Which worker has which examples: mini-batches are dealt to the workers in turn.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::apps {

/// One of the workers, or the only process.
struct Member {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;

  /// `example`: its number among all that are dealt, from 0. `batch`: examples of a mini-batch.
  [[nodiscard]] bool has(std::uint64_t example, std::uint64_t batch) const {
    return example / batch % workers == rank;
  }
  /// Mini-batches of the worker that has the most of so many examples.
  [[nodiscard]] std::uint64_t most_batches(std::uint64_t examples, std::uint64_t batch) const {
    const std::uint64_t batches = (examples + batch - 1) / batch;
    return (batches + workers - 1) / workers;
  }
};

/// How many examples are dealt at a time, in a mini-batch: `most`, or fewer where a worker would have fewer
/// mini-batches than `batches` in a pass, but at least `least`. So the workers' shares of few examples are
/// even, and none has all that it does behind a single step.
struct BatchSize {
  std::uint64_t most = 1;
  std::uint64_t least = 1;
  std::uint64_t batches = 1;

  /// Of so many examples of so many workers.
  [[nodiscard]] std::uint64_t of(std::uint64_t examples, std::uint32_t workers) const {
    return std::clamp(examples / workers / batches, least, most);
  }
  /// With so many examples or more it is `most`.
  [[nodiscard]] std::uint64_t examples_that_decide(std::uint32_t workers) const {
    return most * batches * workers;
  }
};

}  // namespace verbena::apps
