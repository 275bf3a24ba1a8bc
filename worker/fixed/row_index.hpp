// A number for some of the rows of a part, for what is kept only for these rows. The rows of a dense part are
// numbered from 0, so that an array will do. A worker names the rows of a sparse part by their keys.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "base/zeroed_array.hpp"
#include "protocol/row.hpp"

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
    const auto found = map_.find(index_of(row));
    return found == map_.end() ? 0 : found->second;
  }
  /// `number`: not 0. Throws std::bad_alloc.
  void set(protocol::Row row, std::uint32_t number) {
    if (!is_sparse_) [[likely]] {
      array_[index_of(row)] = number;
    } else {
      map_[index_of(row)] = number;
    }
  }
  void erase(protocol::Row row) {
    if (!is_sparse_) [[likely]] {
      array_[index_of(row)] = 0;
    } else {
      map_.erase(index_of(row));
    }
  }

 private:
  base::ZeroedArray<std::uint32_t> array_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> map_;
  bool is_sparse_;
};

}  // namespace verbena::worker
