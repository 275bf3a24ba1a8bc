// Which rows have changed from one checkpoint to the next, for those that hold only such rows
// (checkpoint/layers.hpp). A checksum of each row is kept from when it was written; rows are compared when
// they are written, in the thread that writes. So pushes cost nothing more, and there is no bit of a row that
// some way to change it could forget to set. Two different rows have the same checksum of 64 bits in one of
// 2^64 cases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include <verbena/keys.hpp>

namespace verbena::server {

struct SavedRows;

/// Of one lane's rows of a table, or a server's. Thread safety: none.
class Fingerprints {
 public:
  /// What an increment has of the rows.
  struct Changes {
    std::vector<std::uint64_t> rows;  ///< by their places in the copy, ascending
    std::vector<Key> removed;         ///< keys that had rows the last time, and have none
  };

  /// Remembers these rows, and nothing else.
  void remember(const SavedRows& rows);
  /// Compares with the last time, and remembers these rows. REQUIRES: the rows are of the same part.
  Changes update(const SavedRows& rows);
  /// Nothing is remembered: all rows will have changed. Gives the memory back.
  void clear() { *this = {}; }

 private:
  void update_in_order(const SavedRows& rows, Changes* changes);
  void update_by_key(const SavedRows& rows, Changes* changes);

  /// One for so many rows that their bytes outweigh it.
  std::vector<std::uint64_t> in_order_;
  /// The last bit says in which of two updates, one after the other, the key was there.
  absl::flat_hash_map<Key, std::uint64_t> by_key_;
  bool is_odd_ = false;  ///< the last bit of this update's
};

}  // namespace verbena::server
