// The rendezvous of processes that mpirun or srun has started: PMIx, which Open MPI and Slurm both speak. The
// library is loaded only when it is needed, so that the program starts on a host without it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "job/rendezvous.hpp"

namespace verbena::job {

/// At most one per process. It starts threads, so signals that the process handles must be blocked before.
class PmixRendezvous final : public PeerRendezvous {
 public:
  /// UNAVAILABLE, with what to do about it, if the library or the program that started this process is
  /// missing. If that program goes later (mpirun was killed), nobody is left to end the job: this process
  /// gets a SIGTERM.
  static absl::StatusOr<std::unique_ptr<PmixRendezvous>> join();
  /// Says that this process ends on purpose: a process that does not say so is taken for dead.
  ~PmixRendezvous() override;

  absl::Status put(const std::string& key, const std::string& value) override;
  absl::Status fence(std::chrono::milliseconds patience, const Stopped& stopped) override;
  absl::StatusOr<std::string> get(std::uint32_t rank, const std::string& key) override;

  /// The program that started the job's processes ends them.
  void abort(int exit_status, const std::string& why) override;

 private:
  struct Library;
  PmixRendezvous(std::unique_ptr<const Library> library, std::string name_space, std::uint32_t rank,
                 std::uint32_t size);

  const std::unique_ptr<const Library> library_;
  const std::string name_space_;
};

}  // namespace verbena::job
