// A copy of rows as they are at one moment, on its way into a checkpoint: what a lane has of a table, or a
// server of a dynamic one. docs/checkpoints.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/zeroed_array.hpp"
#include "checkpoint/rows.hpp"
#include "server/fingerprints.hpp"
#include "server/fixed_shard.hpp"

namespace verbena::server {

/// Bytes of rows, one after the other. Keeps its memory, so that a copy costs no new pages the next time.
class SavedColumn {
 public:
  /// Empty, with room for so many rows of so many bytes. Throws std::bad_alloc.
  void begin(std::size_t row_bytes, std::uint64_t most_rows);
  /// REQUIRES: there is room.
  void append(const void* rows, std::uint64_t count);
  /// Rows first … first + count − 1.
  [[nodiscard]] checkpoint::Column column(std::uint64_t first, std::uint64_t count) const {
    return {{memory_.get() + first * row_bytes_, count * row_bytes_}, static_cast<std::uint32_t>(row_bytes_)};
  }
  [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }

 private:
  std::unique_ptr<std::byte[], base::FreeMemory> memory_;
  std::size_t capacity_bytes_ = 0;
  std::size_t row_bytes_ = 0;
  std::size_t used_bytes_ = 0;
};

struct SavedRows {
  bool are_scattered = false;  ///< their keys stand beside them, in any order; otherwise they are in order
  bool has_removed = false;    ///< a key that had a row may have none; otherwise the row is elsewhere
  /// What a row's number is one of: its key, in a sparse table its key's part (KeyHash::part()).
  checkpoint::NumberRange numbers;
  std::uint64_t rows = 0;
  // As protocol::SavedColumns describes them. Rows of 0 bytes: there is no such column.
  SavedColumn keys;
  SavedColumn values;
  SavedColumn states;
  SavedColumn uses;
  std::vector<std::byte> counts;  ///< of keys that have no rows yet (protocol::Admission)
  Fingerprints fingerprints;      ///< of the rows as they were written the last time; the writer's

  /// Of one row, in all columns.
  [[nodiscard]] std::size_t row_bytes() const {
    return keys.row_bytes() + values.row_bytes() + states.row_bytes() + uses.row_bytes();
  }
  /// Of the row at this place. REQUIRES: are_scattered
  [[nodiscard]] Key key(std::uint64_t row) const;
  /// Of rows first … first + count − 1, those columns that there are.
  [[nodiscard]] std::vector<checkpoint::Column> columns(std::uint64_t first, std::uint64_t count) const;
};

/// Throws std::bad_alloc. REQUIRES: the part's lane.
void copy_rows(const FixedShard& shard, const LanePart& part, SavedRows& to);

}  // namespace verbena::server
