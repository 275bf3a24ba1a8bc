// Which of the rows that a RowReader returns count: of an increment a row may come several times, the newest
// first, and one that is there no more comes from the checkpoints that still had it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "checkpoint/reader.hpp"

namespace verbena::checkpoint {

/// Of one RowReader, or several of the same rows. Memory: of an increment some 20 bytes for each key that was
/// asked for; otherwise none. Thread safety: none.
class NewestRows {
 public:
  explicit NewestRows(const Reader& reader) : is_increment_(reader.layers().size() > 1) {}

  /// Whether the row of this key is the newest, and is there. To be asked once for each row, as they come.
  bool takes(std::uint64_t key) { return !is_increment_ || seen_.insert(key).second; }
  /// REQUIRES: rows.are_removed. True for these keys only that `is_wanted`.
  template <class IsWanted>
  void remove(const Rows& rows, const IsWanted& is_wanted) {
    for (std::uint64_t i = 0; i < rows.count; ++i) {
      std::uint64_t key = 0;
      std::memcpy(&key, rows.columns[0].bytes.data() + i * sizeof key, sizeof key);
      if (is_wanted(key)) seen_.insert(key);
    }
  }

 private:
  bool is_increment_;
  absl::flat_hash_set<std::uint64_t> seen_;  ///< rows that came, or are there no more
};

}  // namespace verbena::checkpoint
