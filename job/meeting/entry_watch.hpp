// Follows a job's entry in etcd, for a process that looks for rank 0.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/store.hpp"
#include "job/meeting/etcd_place.hpp"
#include "job/meeting/leader_entry.hpp"

namespace verbena::job {

/// It asks etcd, in a thread of its own, as long as it lives. Thread safety: one owner.
class EntryWatch {
 public:
  /// Errors as of EtcdStore::create().
  static absl::StatusOr<std::unique_ptr<EntryWatch>> begin(const EtcdPlace& place);
  ~EntryWatch();
  EntryWatch(const EntryWatch&) = delete;
  EntryWatch& operator=(const EntryWatch&) = delete;

  /// The entry as far as it is known; waits for one until the deadline. DEADLINE_EXCEEDED: there is none, or
  /// it says nothing; UNAVAILABLE: etcd has not answered yet; UNAUTHENTICATED: it lets this process read
  /// nothing.
  absl::StatusOr<LeaderEntry> find(cluster::TimePoint deadline);

 private:
  EntryWatch(EtcdPlace place, std::unique_ptr<cluster::Store> store);
  void run();
  [[nodiscard]] std::optional<LeaderEntry> entry() const;

  const EtcdPlace place_;
  const std::unique_ptr<cluster::Store> store_;  ///< of the thread

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  bool is_known_ = false;             ///< etcd has answered
  std::optional<std::string> value_;  ///< of the entry; nullopt: there is none
  absl::Status trouble_;              ///< with the last question
  std::thread thread_;
};

}  // namespace verbena::job
