// What a lane says to a pull that gathers rows.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "protocol/row.hpp"

namespace verbena::worker {

/// What a lane says, as the function "gather" writes it.
class GatheredRows {
 public:
  struct Found {
    std::optional<protocol::Row> row;  ///< nullopt: it was not asked for
    const std::byte* values = nullptr;
  };

  /// `keys`: how many were asked for. `has_rows`: also where the rows are.
  GatheredRows(std::span<const std::uint64_t> words, std::size_t keys, std::size_t row_bytes, bool has_rows)
      : row_bytes_(row_bytes) {
    if (words.empty() || words.front() > words.size() - 1) return;
    has_row_ = words.subspan(1, words.front());
    words = words.subspan(1 + has_row_.size());
    const std::uint64_t last = has_row_.empty() ? 0 : has_row_.back();
    // Of a last word that is not needed, nothing would be set.
    const std::size_t end = has_row_.size() * kWordBits - static_cast<std::size_t>(std::countl_zero(last));
    if ((!has_row_.empty() && last == 0) || (!has_row_.empty() && end > keys)) return;
    std::size_t rows = 0;
    for (const std::uint64_t word : has_row_) rows += static_cast<std::size_t>(std::popcount(word));
    const std::size_t value_words = (rows * row_bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
    if (words.size() != value_words + (has_rows ? rows : 0)) return;
    if (has_rows) rows_ = words.first(rows);
    left_ = std::as_bytes(words.last(value_words));
    is_whole_ = true;
  }
  /// It is what it should be.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  /// The next key; nullopt: it has no row. REQUIRES: is_whole()
  std::optional<Found> next() {
    const std::size_t index = next_++;
    const bool has_row =
        index / kWordBits < has_row_.size() && (has_row_[index / kWordBits] >> index % kWordBits & 1) != 0;
    if (!has_row) return std::nullopt;
    Found found{.row = std::nullopt, .values = left_.data()};
    left_ = left_.subspan(row_bytes_);
    if (!rows_.empty()) {
      found.row = protocol::Row{rows_.front()};
      rows_ = rows_.subspan(1);
    }
    return found;
  }

 private:
  static constexpr std::size_t kWordBits = 64;
  const std::size_t row_bytes_;
  std::span<const std::uint64_t> has_row_;
  // What is left of them.
  std::span<const std::uint64_t> rows_;
  std::span<const std::byte> left_;
  std::size_t next_ = 0;
  bool is_whole_ = false;
};

}  // namespace verbena::worker
