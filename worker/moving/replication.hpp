// When a worker's replicas of a table's rows are made, read, sent and dropped (docs/allocation.md).
//
// A replica holds all of this worker's updates at any time, whatever is under way, by three rules. Updates of
// a row that has a replica go into it, and from there to the owner as any push. While the owner's row is
// read, none are sent. And it is read only when those that were sent have been applied, which MovingPull sees
// to.
//
// Thread safety: none; belongs to its table's session.
#pragma once

#include <cstddef>
#include <vector>

#include "consistency/rules.hpp"
#include "worker/moving/replicas.hpp"
#include "worker/moving/row_layout.hpp"
#include <verbena/consistency.hpp>
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
  /// False if there is none.
  bool push(Key key, const std::byte* update);

  /// Makes one, if there is none. `is_used_next`: by the next clock, so that it is to be read at once.
  void make(Key key, bool is_used_next);
  /// To be read, at the next begin_refreshes().
  void ask_for_refresh(Key key, Replica& replica);
  void begin_refreshes();
  [[nodiscard]] bool is_refreshing(Key key) const;
  /// The owner's row, as a refresh has read it that began at that clock. REQUIRES: is_refreshing(key)
  void put(Key key, const std::byte* row, consistency::Clock read_at, consistency::Clock after_barrier);

  /// The row lies here now: its replica, if any, is needed no more.
  void note_arrived(Key key);
  /// Nobody intends to use them any more. REQUIRES: none of them is_refreshing().
  void on_intents_over(const Keys& keys);
  void drop_lost(Key key);

  /// Sends updates if it is time or this is a barrier, and refreshes those of `used`, which are used next.
  void on_clock_begins(bool is_barrier, consistency::Clock lead_clocks, const Keys& used);
  /// Sends all updates, but of those that are being read. True if there are none of these.
  bool settle();

 private:
  /// Those of `waiting` that may be dropped; of the others it is asked again.
  template <class IsToBeDropped>
  void drop_some(Keys& waiting, const IsToBeDropped& is_to_be_dropped);
  void drop(const Keys& keys);
  void send_updates_of(const Keys& keys);

  MovingRows& rows_;
  Replicas replicas_;
  Keys to_refresh_;
  Keys arrived_;                    ///< rows that have come, with a replica
  Keys outlived_;                   ///< rows that nobody intends to use, with updates to be sent
  consistency::Clock sent_at_ = 0;  ///< the clock in which updates were sent last
};

}  // namespace verbena::worker
