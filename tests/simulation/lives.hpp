// Jobs that end and go on: each life of a simulated job begins with the newest checkpoint of the lives
// before, on its own number of servers. What outlives a life is the disk, and what the ledgers knew at each
// cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consistency/rules.hpp"
#include "tests/checkpoint/simulated_disk.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/job.hpp"
#include "tests/simulation/scenario.hpp"

namespace verbena::simulation {

class Archive {
 public:
  checkpoint::SimulatedDisk disk;

  /// The power has failed, and this is what is on the disk.
  void found(checkpoint::SimulatedDisk survivor) {
    disk = std::move(survivor);
    all_is_on_disk_ = true;
  }
  /// What is known of a job at a cut.
  struct Cut {
    History history;
    std::vector<std::uint32_t> numbers;  ///< by worker: that of its process in the history
  };
  /// All workers are about to make a checkpoint of this clock, and none has gone on: what it must hold.
  void cut(consistency::Clock clock, Cut cut);
  /// Worker 0 was told that it is written. `fails`: the disk fails, and older ones may not have been removed.
  /// Returns what is wrong on the disk; nullopt if nothing is.
  std::optional<std::string> written(consistency::Clock clock, const Checkpoints& checkpoints, bool fails);
  /// All processes have ended, or the power has failed. Returns what is wrong on the disk.
  std::optional<std::string> look(std::uint64_t keep);

  /// The checkpoint that the next life begins with, as look() has found it; empty: it begins anew.
  [[nodiscard]] const std::string& newest() const { return newest_; }
  /// What the ledgers knew at its cut. REQUIRES: there is one
  [[nodiscard]] const Cut& newest_cut() const { return cuts_.rbegin()->second; }

 private:
  /// So many must be there, if so many are to be kept.
  [[nodiscard]] std::size_t least(std::uint64_t keep) const {
    return std::min<std::size_t>(keep, written_.size());
  }

  std::map<consistency::Clock, Cut> cuts_;
  /// Those that no failure of the power can take away: they are there, or were until newer ones came.
  std::set<consistency::Clock> written_;
  bool all_is_on_disk_ = false;  ///< nothing has changed since the power failed
  std::string newest_;
};

/// One life. The archive gets what it leaves.
JobResult run_life(const Scenario& scenario, const Life& life, Archive& archive,
                   const std::function<void(const std::string&)>& trace);
/// All of them. REQUIRES: scenario.checkpoints
JobResult run_lives(const Scenario& scenario, const std::function<void(const std::string&)>& trace);

}  // namespace verbena::simulation
