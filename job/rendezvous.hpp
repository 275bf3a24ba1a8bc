// Where the processes of a job meet before they can talk: who they are, and what each has to tell the others
// (above all the servers' addresses).
//
// Thread safety: belongs to one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/secret.hpp"

namespace verbena::job {

class PeerNews;

class Rendezvous {
 public:
  /// Called now and then while waiting; true ends the wait.
  using Stopped = std::function<bool()>;

  virtual ~Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Of this process: 0 ≤ rank() < size(), unless it is added (PeerRendezvous::is_late()).
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

  /// The secret that all processes have who can come here; nullptr: they have none in common, or it is not
  /// known here.
  [[nodiscard]] virtual std::shared_ptr<const transport::Secret> secret() const { return nullptr; }

  /// Tells the others `value` at the next fence().
  virtual absl::Status put(const std::string& key, const std::string& value) = 0;

  /// Collective: returns when all processes are here and get() can return what they had put before.
  /// DEADLINE_EXCEEDED, CANCELLED when stopped, UNAVAILABLE when the others cannot be reached any more.
  virtual absl::Status fence(std::chrono::milliseconds patience, const Stopped& stopped) = 0;

  /// What `rank` had put. NOT_FOUND names the rank.
  virtual absl::StatusOr<std::string> get(std::uint32_t rank, const std::string& key) = 0;

 protected:
  Rendezvous(std::uint32_t rank, std::uint32_t size) : rank_(rank), size_(size) {}

 private:
  const std::uint32_t rank_;
  const std::uint32_t size_;
};

/// Of processes that something else than Verbena has started.
class PeerRendezvous : public Rendezvous {
 public:
  /// Makes all processes of the job end, this one included if that is possible. For what goes wrong in one
  /// process that the others would not notice. Thread safety: any thread.
  virtual void abort(int exit_status, const std::string& why) = 0;
  /// nullptr: when one of the processes dies, all end.
  virtual PeerNews* news() { return nullptr; }
  /// How many processes have had this rank before. More than 0: the job runs already, and this process has
  /// come in the place of one that has died, or is added, with a rank from size() on. Known after the first
  /// fence. That of rank 0 is more than 0, too, if it takes over a job that runs.
  [[nodiscard]] virtual std::uint32_t incarnation() const { return 0; }
  /// Then it meets nobody, and hears at each fence what those have told one another who have met.
  [[nodiscard]] bool is_late() const { return incarnation() > 0; }
  /// It has asked this process to end, by SIGTERM. Any thread may ask.
  [[nodiscard]] virtual bool ends_this_process() const { return false; }

 protected:
  using Rendezvous::Rendezvous;
};

/// What each process of a job tells at the first fence, so that all decide alike: host_identity(), and
/// transport::usable_schemes() between hosts.
inline constexpr const char* kToldHost = "verbena.host";
inline constexpr const char* kToldTransports = "verbena.transports";

/// Equal in two processes if they can share memory: same running kernel, user and network namespace (that is
/// where the shared-memory transport's sockets live).
std::string host_identity();

}  // namespace verbena::job
