// A number for some of the rows of a part, for what is kept only for these rows. The rows of a dense part are
// numbered from 0, so that an array will do. A worker names the rows of a sparse part by their keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "base/prefetch.hpp"
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
    return found == map_.end() || found->second.generation != generation_ ? 0 : found->second.number;
  }
  /// The numbers by row; nullptr: of a sparse part.
  [[nodiscard]] std::uint32_t* array() const { return array_.get(); }
  /// find() or set() will be called soon.
  void prefetch(protocol::Row row) const {
    if (!is_sparse_) [[likely]] {
      base::prefetch_to_write(&array_[index_of(row)]);
    } else {
      map_.prefetch(index_of(row));
    }
  }
  /// `number`: not 0. Throws std::bad_alloc.
  void set(protocol::Row row, std::uint32_t number) {
    if (!is_sparse_) [[likely]] {
      array_[index_of(row)] = number;
    } else {
      map_[index_of(row)] = {number, generation_};
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
    const auto [found, is_new] = map_.try_emplace(index_of(row), Number{number, generation_});
    if (is_new) return 0;
    Number& there = found->second;
    if (there.generation == generation_) return there.number;
    there = {number, generation_};
    return 0;
  }
  void erase(protocol::Row row) {
    if (!is_sparse_) [[likely]] {
      array_[index_of(row)] = 0;
    } else {
      map_.erase(index_of(row));
    }
  }
  /// From now on none has one. `rows`: those that have.
  void clear(std::span<const protocol::Row> rows) {
    if (!is_sparse_) [[likely]] {
      for (const protocol::Row row : rows) array_[index_of(row)] = 0;
      return;
    }
    ++generation_;
    // Rows that have numbers again and again keep their places, until there are too many of others.
    const std::size_t places = map_.size();
    const std::size_t most = kMostPlaces + 4 * rows.size();
    if (places <= most && generation_ != 0) return;
    map_.clear();
    try {
      map_.reserve(std::min(places, most + rows.size()));  // it will grow so large again
    } catch (const std::bad_alloc&) {                      // then it grows as it is used
    }
  }

 private:
  static constexpr std::size_t kMostPlaces = 1024;
  struct Number {
    std::uint32_t number = 0;
    std::uint32_t generation = 0;  ///< of an earlier one: the row has no number
  };
  base::ZeroedArray<std::uint32_t> array_;
  absl::flat_hash_map<std::uint64_t, Number> map_;
  std::uint32_t generation_ = 0;
  bool is_sparse_;
};

}  // namespace verbena::worker
