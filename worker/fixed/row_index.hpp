// A number for some of the rows of a part, for what is kept only for these rows. The rows of a dense part are
// numbered from 0, so that an array will do. A worker names the rows of a sparse part by their keys.
#pragma once

#include <cstdint>
#include <span>

#include "base/prefetch.hpp"
#include "base/zeroed_array.hpp"
#include "protocol/row.hpp"
#include "worker/fixed/sparse_numbers.hpp"

namespace verbena::worker {

/// Thread safety: none; one owner.
class RowIndex {
 public:
  /// How many rows there are; of a sparse part, nobody knows.
  static constexpr std::uint64_t kSparse = UINT64_MAX;

  /// Throws std::bad_alloc.
  explicit RowIndex(std::uint64_t rows)
      : array_(rows == kSparse ? nullptr : base::make_zeroed_array<std::uint32_t>(rows)),
        is_sparse_(rows == kSparse) {}

  /// 0: it has none.
  [[nodiscard]] std::uint32_t find(protocol::Row row) const {
    if (!is_sparse_) [[likely]]
      return array_[index_of(row)];
    return sparse_.find(index_of(row));
  }
  /// The numbers by row; nullptr: of a sparse part.
  [[nodiscard]] std::uint32_t* array() const { return array_.get(); }
  /// find() or set() will be called soon.
  void prefetch(protocol::Row row) const {
    if (!is_sparse_) [[likely]] {
      base::prefetch_to_write(&array_[index_of(row)]);
    } else {
      sparse_.prefetch(index_of(row));
    }
  }
  /// `number`: not 0. Throws std::bad_alloc.
  void set(protocol::Row row, std::uint32_t number) {
    if (!is_sparse_) [[likely]] {
      array_[index_of(row)] = number;
    } else {
      sparse_.set(index_of(row), number);
    }
  }
  /// find() in one step with set(), if it has none. Returns what find() would have.
  std::uint32_t find_or_set(protocol::Row row, std::uint32_t number) {
    if (!is_sparse_) [[likely]] {
      std::uint32_t& there = array_[index_of(row)];
      if (there != 0) return there;
      there = number;
      return 0;
    }
    return sparse_.find_or_set(index_of(row), number);
  }
  void erase(protocol::Row row) {
    if (!is_sparse_) [[likely]] {
      array_[index_of(row)] = 0;
    } else {
      sparse_.erase(index_of(row));
    }
  }
  /// From now on none has one. `rows`: those that have.
  void clear(std::span<const protocol::Row> rows) {
    if (!is_sparse_) [[likely]] {
      for (const protocol::Row row : rows) array_[index_of(row)] = 0;
    } else {
      sparse_.clear();
    }
  }

 private:
  base::ZeroedArray<std::uint32_t> array_;
  SparseNumbers sparse_;
  bool is_sparse_;
};

}  // namespace verbena::worker
