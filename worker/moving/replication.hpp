// When a worker's replicas of a table's rows are made, read, sent and dropped (docs/allocation.md).
//
// Because of three rules, a replica contains all of this worker's updates at any time, whatever is under way.
// Updates of a row that has a replica go into the replica, and from there to the owner like any push. While
// the owner's row is read, no updates are sent. The owner's row is read only when all updates that were sent
// have been applied; MovingPull makes sure of this.
//
// Thread safety: none; belongs to its table's session.
#pragma once

#include <cstddef>
#include <vector>

#include "consistency/rules.hpp"
#include "worker/moving/replicas.hpp"
#include "worker/row_layout.hpp"
#include <verbena/keys.hpp>

namespace verbena::worker {

class MovingRows;

class Replication {
 public:
  using Keys = std::vector<Key>;

  explicit Replication(MovingRows& rows);

  [[nodiscard]] bool empty() const { return replicas_.empty(); }
  [[nodiscard]] Replica* find(Key key) { return replicas_.find(key); }
  [[nodiscard]] const Replica* find(Key key) const { return replicas_.find(key); }
  /// Fresh enough to be read.
  [[nodiscard]] bool is_usable(const Replica& replica) const;
  void pull(const Replica& replica, std::byte* out) const;
  /// Returns false if there is no replica.
  bool push(Key key, const std::byte* update);

  /// Makes a replica if there is none. `is_used_next`: the next clock uses it, so it must be read at once.
  void make(Key key, bool is_used_next);
  /// The replica will be read at the next begin_refreshes().
  void ask_for_refresh(Key key, Replica& replica);
  void begin_refreshes();
  [[nodiscard]] bool is_refreshing(Key key) const;
  /// Takes over the owner's row as a refresh has read it that began at clock `read_at`. REQUIRES:
  /// is_refreshing(key)
  void put(Key key, const std::byte* row, consistency::Clock read_at, consistency::Clock after_barrier);

  /// The row is here now: its replica, if there is one, is no longer needed.
  void note_arrived(Key key);
  /// Nobody intends to use them any more. REQUIRES: none of them is_refreshing().
  void on_intents_over(const Keys& keys);
  void drop_lost(Key key);

  /// Sends updates if it is time or this is a barrier, and refreshes those of `used`, which are used next.
  void on_clock_begins(bool is_barrier, consistency::Clock lead_clocks, const Keys& used);
  /// Sends all updates except those of replicas that are being read. Returns true if there are none of these.
  bool settle();

 private:
  /// Drops those of `waiting` that may be dropped, except those that are being read: these stay in `waiting`.
  template <class IsToBeDropped>
  void drop_some(Keys& waiting, const IsToBeDropped& is_to_be_dropped);
  void drop(const Keys& keys);
  void send_updates_of(const Keys& keys);

  MovingRows& rows_;
  Replicas replicas_;
  Keys to_refresh_;
  Keys arrived_;                    ///< rows that have come here and have a replica
  Keys outlived_;                   ///< rows that nobody intends to use, with unsent updates
  consistency::Clock sent_at_ = 0;  ///< the clock in which updates were sent last
};

}  // namespace verbena::worker
