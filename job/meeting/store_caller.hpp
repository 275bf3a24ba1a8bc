// Asks a store, and waits for its answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "cluster/store.hpp"

namespace verbena::job {

/// Until a descriptor of the store is ready, the store has something to do, or `until`; not for long.
void wait_for(const cluster::Store& store, cluster::TimePoint until);
/// One step of the store; threads that it starts take no signals.
void step(cluster::Store& store);

/// Thread safety: one thread at a time.
class StoreCaller {
 public:
  /// How long an answer is waited for.
  static constexpr auto kLimit = std::chrono::seconds(2);

  explicit StoreCaller(std::unique_ptr<cluster::Store> store) : store_(std::move(store)) {}

  /// Called now and then while it waits; true ends the wait, with CANCELLED.
  void stop_if(std::function<bool()> stopped) { stopped_ = std::move(stopped); }

  // As the store's.
  absl::StatusOr<cluster::Snapshot> get(const std::string& key);
  absl::StatusOr<cluster::TransactionResult> transact(cluster::Transaction transaction);
  absl::StatusOr<cluster::Lease> grant(cluster::Duration ttl);
  absl::StatusOr<cluster::Lease> keep_alive(cluster::LeaseId lease);
  /// Waits for `limit` at most.
  void revoke(cluster::LeaseId lease, cluster::Duration limit);

 private:
  template <class Result, class Ask>
  absl::StatusOr<Result> wait_for_answer(const Ask& ask);

  const std::unique_ptr<cluster::Store> store_;
  std::function<bool()> stopped_ = [] { return false; };
};

}  // namespace verbena::job
