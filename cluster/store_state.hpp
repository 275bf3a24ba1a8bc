// What a store of our own holds, as a state machine: entries, leases, and what has changed lately. No
// sockets, no clock: time is what advance() was told.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/store.hpp"

namespace verbena::cluster {

struct StoreStateOptions {
  std::size_t most_bytes = 16 << 20;  ///< keys and values of all entries
  std::size_t most_leases = 4096;
  std::size_t most_history_bytes = 4 << 20;  ///< of changes that watches may begin with, besides the last one
};

/// Thread safety: belongs to one thread.
class StoreState {
 public:
  /// Whoever is told of a lease's end so much later has been stopped meanwhile, and with it all who would
  /// have kept leases alive.
  static constexpr Duration kLate = std::chrono::seconds(1);

  explicit StoreState(const StoreStateOptions& options = {}) : options_(options) {}

  /// Ends the leases whose time is up. After a stop longer than kLate all leases begin anew instead.
  void advance(TimePoint now);
  /// When advance() will have something to do; TimePoint::max(): never.
  [[nodiscard]] TimePoint next_expiry() const;
  /// All leases begin anew.
  void renew_leases(TimePoint now);

  /// Carries out a request at `now`, after advance(now). RESOURCE_EXHAUSTED: it has no room.
  absl::StatusOr<Answer> execute(const Request& request, TimePoint now);

  [[nodiscard]] Revision revision() const { return revision_; }
  struct Events {
    std::vector<Event> events;
    Revision next = 0;  ///< where to go on
  };
  /// What happened to keys that begin with `prefix`, from revision `from` on; whole revisions, and no further
  /// one when there are `enough_bytes`. OUT_OF_RANGE: `from` is forgotten.
  absl::StatusOr<Events> events(std::string_view prefix, Revision from, std::size_t enough_bytes) const;
  /// Forgets the changes before `first`.
  void compact(Revision first);

 private:
  struct LeaseState {
    Duration ttl = Duration::zero();
    TimePoint expiry;
    std::set<std::string> keys;
  };
  /// All that happened in one revision.
  struct Change {
    std::vector<Event> events;
    std::size_t bytes = 0;
  };

  Snapshot get(const KeyRange& range) const;
  absl::StatusOr<TransactionResult> transact(const Transaction& transaction);
  absl::StatusOr<Lease> grant(Duration ttl, TimePoint now);
  absl::StatusOr<Lease> keep_alive(LeaseId id, TimePoint now);
  void end(LeaseId id);

  [[nodiscard]] bool holds(const Condition& condition) const;
  void put(const Put& put, Change& change);
  void remove(const std::string& key, Change& change);
  void attach(const std::string& key, LeaseId from, LeaseId to);
  void set_expiry(LeaseId id, LeaseState& lease, TimePoint expiry);
  /// The changes of the next revision, if there are any.
  void commit(Change change);

  const StoreStateOptions options_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::size_t bytes_ = 0;
  std::map<LeaseId, LeaseState> leases_;
  std::set<std::pair<TimePoint, LeaseId>> expiries_;
  LeaseId next_lease_ = 1;
  Revision revision_ = 1;       ///< of the empty store
  std::deque<Change> history_;  ///< of the revisions up to revision_
  std::size_t history_bytes_ = 0;
};

}  // namespace verbena::cluster
