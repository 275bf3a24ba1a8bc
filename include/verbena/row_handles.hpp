// Keys of a sparse table with the places of their rows: for data that is read again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <verbena/keys.hpp>

namespace verbena {

namespace worker {
class SparseTable;
}  // namespace worker

/// Made by Table::locate(), for Table::pull(). A pull by handles is a pull of the keys, but where this worker
/// reads in place, each row is read where it was found before, without the index. A place that is not known,
/// or no longer right since the row has gone, is looked for by the pull, and noted. 16 bytes a key. Copies
/// are independent of each other. Only for the table that has made it, in the thread that has the session.
class RowHandles {
 public:
  /// Of no keys.
  RowHandles() = default;
  [[nodiscard]] std::span<const Key> keys() const { return keys_; }
  [[nodiscard]] std::size_t size() const { return keys_.size(); }

 private:
  friend class worker::SparseTable;
  std::uint64_t table_ = 0;  ///< a number of the table, unlike that of any other; 0: there are no keys
  std::vector<Key> keys_;
  std::vector<std::uint64_t> places_;  ///< of each key's row (worker/fixed/sparse_table.cpp)
};

}  // namespace verbena
