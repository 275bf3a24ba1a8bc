// A worker's own copies of rows that several nodes use at the same time (docs/allocation.md). They are read
// and updated in place; the updates are also collected beside them until they are sent to the row's owner.
//
// The values of a copy are what was read from the owner's row, which contains all of this worker's earlier
// updates, plus those of its updates that are not sent. So from before the row is read until the result is
// put here, nothing may be sent (`is_refreshing`), and what was sent before must be known to be applied.
//
// No I/O. Thread safety: none; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "consistency/rules.hpp"
#include "worker/row_layout.hpp"
#include <verbena/keys.hpp>

namespace verbena::worker {

struct Replica {
  /// A value of `read_at`: there are no values, or none that count.
  static constexpr consistency::Clock kNever = std::numeric_limits<consistency::Clock>::min() / 2;

  std::unique_ptr<std::byte[]> memory;   ///< the values, then the updates that are not sent; a stride each
  consistency::Clock read_at = kNever;   ///< the worker's clock before the owner's row was read
  consistency::Clock after_barrier = 0;  ///< the clock of the worker's last barrier before that
  bool is_dirty = false;                 ///< has updates that are not sent
  bool is_refreshing = false;            ///< is about to be read: nothing may be sent

  [[nodiscard]] const std::byte* values() const { return memory.get(); }
};

class Replicas {
 public:
  using Keys = std::vector<Key>;

  explicit Replicas(const RowLayout& layout) : layout_(layout) {}

  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] Replica* find(Key key) {
    const auto found = rows_.find(key);
    return found == rows_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const Replica* find(Key key) const {
    const auto found = rows_.find(key);
    return found == rows_.end() ? nullptr : &found->second;
  }
  /// Makes a replica without values. nullptr if there is one already.
  Replica* make(Key key);
  void erase(Key key) { rows_.erase(key); }

  void push(Key key, Replica& replica, const std::byte* update);
  /// Takes over the owner's row as it was read.
  void put(Replica& replica, const std::byte* row);
  /// Appends the updates that are not sent; from now on they count as sent. REQUIRES: is_dirty, not
  /// is_refreshing.
  void take_updates(Replica& replica, std::vector<std::byte>& to);

  /// Keys of replicas that may have become dirty since the last call. Some replicas may be gone, and a key
  /// may occur twice.
  Keys take_dirty() { return std::exchange(dirty_, {}); }
  void put_back_dirty(Key key) { dirty_.push_back(key); }

 private:
  const RowLayout layout_;
  absl::flat_hash_map<Key, Replica> rows_;
  Keys dirty_;
};

}  // namespace verbena::worker
