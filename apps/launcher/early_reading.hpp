// What the workers of a process read before they have their places in the job, while others are these workers
// still (docs/elasticity.md).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/launcher/outlet.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {

/// Thread safety: any thread may call. It has a thread for each worker.
class EarlyReading {
 public:
  /// Begins. `first`, `count`: the process's workers, of `workers`. `application` must outlive it.
  EarlyReading(const Application& application, std::uint32_t first, std::uint32_t count,
               std::uint32_t workers);
  ~EarlyReading();  ///< waits until all has been read
  EarlyReading(const EarlyReading&) = delete;
  EarlyReading& operator=(const EarlyReading&) = delete;

  /// All has been read, or cannot be.
  [[nodiscard]] bool has_ended() const;
  /// OK as long as nothing has failed.
  [[nodiscard]] absl::Status status() const;
  /// Waits for what that worker has read, and tells the outlet what it has said meanwhile. To be called once
  /// for each.
  absl::StatusOr<std::unique_ptr<ReadAhead>> take(std::uint32_t worker, Outlet& outlet);

 private:
  struct Part {
    std::vector<job::ChildMessage> said;
    bool has_ended = false;
    absl::Status status;
    std::unique_ptr<ReadAhead> read;
  };
  void read(const Application& application, std::uint32_t worker, std::uint32_t workers);

  const std::uint32_t first_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Part> parts_;           ///< by worker, from the first one on
  std::vector<std::thread> threads_;  ///< the last member: they use the others
};

}  // namespace verbena::apps
