// The rendezvous of processes that mpirun or srun has started: PMIx, which Open MPI and Slurm both speak. The
// library is loaded when it is wanted, so that the program starts on a host without it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "job/rendezvous.hpp"

namespace verbena::job {

/// One in a process. It starts threads: signals that the process handles must be blocked before.
class PmixRendezvous : public Rendezvous {
 public:
  /// UNAVAILABLE, with what to do about it, where the library or who started this process is missing. When
  /// the latter goes (mpirun was killed), nobody is left to end the job: this process gets a SIGTERM.
  static absl::StatusOr<std::unique_ptr<PmixRendezvous>> join();
  /// Says that this process ends on purpose: one that does not is taken for one that died.
  ~PmixRendezvous() override;

  absl::Status put(const std::string& key, const std::string& value) override;
  absl::Status fence(std::chrono::milliseconds patience, const Stopped& stopped) override;
  absl::StatusOr<std::string> get(std::uint32_t rank, const std::string& key) override;

  /// Has all processes of the job ended by who started them, this one included.
  void abort(int exit_status, const std::string& why);

 private:
  struct Library;
  PmixRendezvous(std::unique_ptr<const Library> library, std::string name_space, std::uint32_t rank,
                 std::uint32_t size, std::uint32_t local_rank);

  const std::unique_ptr<const Library> library_;
  const std::string name_space_;
};

}  // namespace verbena::job
