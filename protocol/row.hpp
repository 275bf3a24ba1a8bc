// Where a row lies in the part of a static table that a server has, or a worker sees.
#pragma once

#include <cstdint>

#include <verbena/keys.hpp>

namespace verbena::protocol {

/// A place in one part of a table, counted from 0. A key is the name of a row in the whole table. Arrays and
/// addresses are computed from rows, never from keys: where calls and messages enter a table, it turns their
/// keys into rows, once. So a table of sparse keys needs another way to find a row, and nothing else. A
/// worker, which knows no places of rows that are still to come, names the rows of a sparse part by their
/// keys: what it keeps by row is then no array (worker/fixed/row_index.hpp).
enum class Row : std::uint64_t {};

[[nodiscard]] constexpr std::uint64_t index_of(Row row) {
  return static_cast<std::uint64_t>(row);
}

/// The rows of consecutive keys: row 0 is that of the first key.
class RowRange {
 public:
  constexpr RowRange() = default;
  constexpr explicit RowRange(KeyRange keys) : keys_(keys) {}

  [[nodiscard]] constexpr KeyRange keys() const { return keys_; }
  [[nodiscard]] constexpr std::uint64_t size() const { return keys_.size(); }
  [[nodiscard]] constexpr bool has(Key key) const { return keys_.contains(key); }
  /// Of a key that has() is false for, a row beyond the last one; such a row may only be prefetched.
  [[nodiscard]] constexpr Row row_of(Key key) const { return Row{key - keys_.first}; }
  [[nodiscard]] constexpr Key key_of(Row row) const { return keys_.first + index_of(row); }

 private:
  KeyRange keys_;
};

}  // namespace verbena::protocol
