// Which worker has which examples: mini-batches are dealt to the workers in turn.
#pragma once

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

}  // namespace verbena::apps
