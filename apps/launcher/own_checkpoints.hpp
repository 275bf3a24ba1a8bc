// The checkpoints that a run itself has written, among all in its folder: where it goes on when its processes
// have died.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/launcher/job_options.hpp"

namespace verbena::apps {

/// Where processes begin to train.
struct Beginning {
  std::string checkpoint;            ///< its folder; empty: at the beginning of the training
  std::int64_t after_iteration = 0;  ///< of the checkpoint
};

/// Of a run that was asked to stop, and was not saved before it ended: what there is instead in its folder,
/// for people. `why`: OK if nobody knows.
std::string words_of_unsaved_stop(const std::string& folder, const absl::Status& why);

class OwnCheckpoints {
 public:
  /// Call it before the run's first process is started: what is in the folder by then is not its own. Errors:
  /// the folder cannot be read.
  static absl::StatusOr<OwnCheckpoints> begin(const CheckpointSettings& settings);

  /// The newest whole one; if there is none, where the run itself has begun. Reads all of it, and says which
  /// newer ones are damaged. REQUIRES: no process of the run is left. Errors: the folder, or the checkpoint
  /// that the run went on from, cannot be read.
  [[nodiscard]] absl::StatusOr<Beginning> newest() const;

 private:
  explicit OwnCheckpoints(const CheckpointSettings& settings)
      : folder_(settings.folder), begun_from_(settings.resume_from) {}

  std::string folder_;
  std::string begun_from_;  ///< the folder of a checkpoint; empty: the run has begun at the beginning
  /// The checkpoints of others: clock, and the number that only those of one job have. A run replaces another
  /// run's of the same clock.
  std::set<std::pair<std::uint64_t, std::uint64_t>> others_;
};

}  // namespace verbena::apps
