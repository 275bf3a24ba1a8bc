// What a worker, or the plain loop, has for its run.
#pragma once

#include <atomic>

#include "apps/application.hpp"
#include "apps/ctr/options.hpp"
#include "apps/data/dealing.hpp"

namespace verbena::apps::ctr {

struct WorkerRun {
  const Options& options;
  Member member;
  Reporter& reporter;
  const std::atomic<bool>& stop;
  Checkpoints& checkpoints;

  /// The worker that reports and saves what all have trained together.
  [[nodiscard]] bool is_first() const { return member.rank == 0; }
};

}  // namespace verbena::apps::ctr
