// The secret of a run on this host, in a file that only its user can read, for `verbena table` and `verbena
// cluster`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/secret.hpp"

namespace verbena::job {

/// The file goes with the object. That of a run that was killed goes when the next one makes its own.
class RunSecret {
 public:
  /// A new secret for the run that process `run` has started. Errors: there is no folder that only this user
  /// can write to, or no room.
  static absl::StatusOr<RunSecret> make(std::int64_t run);
  /// Where that of a run is, or would be. Empty: there is no such folder.
  static std::string path_of(std::int64_t run);
  /// Those of which there is a secret, and the process is there still.
  static std::vector<std::int64_t> runs();

  RunSecret(RunSecret&& other) noexcept;
  RunSecret& operator=(RunSecret&& other) noexcept = delete;
  RunSecret(const RunSecret&) = delete;
  RunSecret& operator=(const RunSecret&) = delete;
  ~RunSecret();

  [[nodiscard]] const std::shared_ptr<const transport::Secret>& secret() const { return secret_; }

 private:
  RunSecret(std::string path, std::shared_ptr<const transport::Secret> secret)
      : path_(std::move(path)), secret_(std::move(secret)) {}

  std::string path_;  ///< empty: it belongs to another object
  std::shared_ptr<const transport::Secret> secret_;
};

}  // namespace verbena::job
