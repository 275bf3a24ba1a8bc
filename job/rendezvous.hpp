// Where the processes of a job meet before they can talk: who they are, and what each has to tell the others
// (above all the servers' addresses).
//
// Thread safety: belongs to one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::job {

class Rendezvous {
 public:
  /// Called now and then while waiting; true ends the wait.
  using Stopped = std::function<bool()>;

  virtual ~Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  [[nodiscard]] std::uint32_t rank() const { return rank_; }  ///< of this process, 0 ≤ rank() < size()
  [[nodiscard]] std::uint32_t size() const { return size_; }
  /// The rank among the processes that were started on this host.
  [[nodiscard]] std::uint32_t local_rank() const { return local_rank_; }

  /// Tells the others `value` at the next fence().
  virtual absl::Status put(const std::string& key, const std::string& value) = 0;

  /// Collective: returns when all processes are here and get() can return what they had put before.
  /// DEADLINE_EXCEEDED, CANCELLED when stopped, UNAVAILABLE when the others cannot be reached any more.
  virtual absl::Status fence(std::chrono::milliseconds patience, const Stopped& stopped) = 0;

  /// What `rank` had put. NOT_FOUND names the rank.
  virtual absl::StatusOr<std::string> get(std::uint32_t rank, const std::string& key) = 0;

 protected:
  Rendezvous(std::uint32_t rank, std::uint32_t size, std::uint32_t local_rank)
      : rank_(rank), size_(size), local_rank_(local_rank) {}

 private:
  const std::uint32_t rank_;
  const std::uint32_t size_;
  const std::uint32_t local_rank_;
};

/// Equal in two processes if they can share memory: same running kernel, user and network namespace (that is
/// where the shared-memory transport's sockets live).
std::string host_identity();

}  // namespace verbena::job
