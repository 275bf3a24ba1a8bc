// Keeps a job's entry in etcd, for rank 0.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/store.hpp"
#include "job/meeting/etcd_place.hpp"
#include "job/meeting/leader_entry.hpp"
#include "job/meeting/store_caller.hpp"
#include "job/rendezvous.hpp"

namespace verbena::job {

/// The entry is there as long as this is, and this process lives, and as etcd can be reached now and then; if
/// not, nothing happens but that the entry may go, and comes back. Thread safety: one owner.
class EntryKeeper {
 public:
  /// Whether the process that has made an entry is there, and answers. May wait for some seconds. Also called
  /// by the keeper's own thread.
  using Lives = std::function<bool(const LeaderEntry& entry)>;

  /// Makes the entry, in the place of one whose process is gone. Waits for etcd for `patience`; UNAVAILABLE:
  /// in vain. ALREADY_EXISTS: another process, which lives, is rank 0 of that job; CANCELLED when stopped;
  /// UNAUTHENTICATED: etcd lets this process write nothing; and as EtcdStore::create().
  static absl::StatusOr<std::unique_ptr<EntryKeeper>> make(const EtcdPlace& place, const LeaderEntry& entry,
                                                           Lives lives, std::chrono::milliseconds patience,
                                                           const Rendezvous::Stopped& stopped);
  /// Takes the entry away, if etcd answers at once.
  ~EntryKeeper();
  EntryKeeper(const EntryKeeper&) = delete;
  EntryKeeper& operator=(const EntryKeeper&) = delete;

 private:
  EntryKeeper(const EtcdPlace& place, const LeaderEntry& entry, Lives lives,
              std::unique_ptr<cluster::Store> store);
  absl::Status wait_until_made(std::chrono::milliseconds patience, const Rendezvous::Stopped& stopped);
  /// ALREADY_EXISTS: another process is rank 0, and lives. ABORTED: the entry has changed meanwhile. Others:
  /// etcd does not answer as it should.
  absl::Status renew();
  void keep();
  void note(const absl::Status& renewed);

  const std::chrono::milliseconds between_renewals_;
  const std::string name_;   ///< of the place, for people
  const std::string key_;    ///< of the entry
  const std::string value_;  ///< of the own one
  const Lives lives_;
  StoreCaller etcd_;
  cluster::LeaseId lease_ = cluster::kNoLease;
  cluster::TimePoint renewed_at_{};  ///< the last time that all was well
  bool is_warned_ = false;           ///< somebody knows that all is not well

  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_over_ = false;
  bool was_made_ = false;  ///< before the thread began
  std::thread thread_;
};

}  // namespace verbena::job
