// Images of the rows of a dynamic table that another node has: at most one of each row, the newest that has
// come. What is promised of them: docs/decisions/0075-rows-come-back.md.
//
// No I/O. Thread safety: none; one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/zeroed_array.hpp"
#include <verbena/keys.hpp>

namespace verbena::server {

class RowImages {
 public:
  /// Of no row. Pages of rows without an image cost nothing. Throws std::bad_alloc.
  RowImages(std::uint64_t rows, std::size_t stride_bytes)
      : stride_bytes_(stride_bytes),
        marks_(base::make_zeroed_array<std::uint64_t>(rows)),
        values_(base::make_zeroed_array<std::byte>(rows * stride_bytes)) {}

  // REQUIRES: the key is one of the table's.

  /// At which epoch the node had it; nullopt: there is none.
  [[nodiscard]] std::optional<std::uint64_t> epoch(Key key) const {
    if (marks_[key] == 0) return std::nullopt;
    return marks_[key] - 1;
  }
  [[nodiscard]] const std::byte* values(Key key) const { return values_.get() + key * stride_bytes_; }
  /// In place of the one that there is.
  void put(Key key, std::uint64_t epoch, const std::byte* values) {
    mark(key, epoch);
    std::memcpy(values_.get() + key * stride_bytes_, values, stride_bytes_);
  }
  /// Of zeros, at epoch 0.
  void put_blank(Key key) {
    mark(key, 0);
    std::byte* const values = values_.get() + key * stride_bytes_;
    // What was never written has no page, and is to get none.
    if (!std::all_of(values, values + stride_bytes_, [](std::byte byte) { return byte == std::byte{0}; }))
      std::memset(values, 0, stride_bytes_);
  }
  void drop(Key key) {
    if (marks_[key] == 0) return;
    marks_[key] = 0;
    --count_;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  void mark(Key key, std::uint64_t epoch) {
    if (marks_[key] == 0) ++count_;
    marks_[key] = epoch + 1;
  }

  std::size_t stride_bytes_;
  base::ZeroedArray<std::uint64_t> marks_;  ///< by key: the epoch + 1, or 0
  base::ZeroedArray<std::byte> values_;
  std::uint64_t count_ = 0;
};

}  // namespace verbena::server
