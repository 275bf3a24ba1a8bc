// A short training with checkpoints, as a user runs it, on a disk that may fail (failing_disk.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {

/// What a process of the job meets; failing_disk.cpp says what may be chosen.
struct DiskFault {
  std::string process;
  std::string what;
};

/// A call that a process has made on the disk.
struct DiskCall {
  std::string process;  ///< "server-0"
  std::string kind;     ///< "fsync"
  int number = 0;       ///< among those of the process and kind, from 1
  std::string result;   ///< "ok", or the name of an errno
  std::string path;     ///< of a rename the new name
};

/// Those of a folder, the newest first.
struct SavedCheckpoints {
  std::vector<std::uint64_t> whole;  ///< their clocks
  std::vector<std::string> damaged;  ///< "ckpt-20: what is wrong with it"

  [[nodiscard]] std::uint64_t newest() const { return whole.empty() ? 0 : whole.front(); }
};

/// Two workers under BSP, so that its model has the same bytes whatever comes between. A checkpoint after
/// each iteration.
class SavedTraining {
 public:
  SavedTraining(int iterations, int keep);

  /// Starts it, with `more` options: from the newest checkpoint if there is one.
  [[nodiscard]] std::unique_ptr<Program> start(int servers, const DiskFault& fault = {},
                                               const std::vector<std::string>& more = {}) const;
  /// Runs it to its end.
  [[nodiscard]] Ended run(int servers, const DiskFault& fault = {},
                          const std::vector<std::string>& more = {}) const;

  /// What it has trained, byte for byte; empty: it has not come so far.
  [[nodiscard]] std::string model() const;
  /// The folder of the checkpoints.
  [[nodiscard]] std::string saved() const { return disk_ + "/saved"; }
  [[nodiscard]] std::string path_of(std::uint64_t clock) const;
  /// All calls of all processes on the disk, as they ended.
  [[nodiscard]] std::vector<DiskCall> calls() const;
  /// Removes the model and the log, so that a later run's can be told from it.
  void forget() const;
  /// Also all that is saved.
  void clear() const;

  /// What counts as a checkpoint, read to its last byte.
  [[nodiscard]] SavedCheckpoints look() const;
  /// Files that belong to runs, though none is running.
  [[nodiscard]] std::vector<std::string> left_behind() const;

 private:
  verbena::testing::TemporaryFolder folder_;
  std::string disk_;
  int iterations_;
  int keep_;
};

/// The clocks of the checkpoints that worker 0 has brought to the disk, by what it did, the newest first;
/// without those that it has begun to remove when a newer one was there.
std::vector<std::uint64_t> promised(const std::vector<DiskCall>& calls);

/// The clock in "…/ckpt-20"; 0: the path is no whole checkpoint's.
std::uint64_t clock_of(const std::string& path);

}  // namespace verbena::process_test
