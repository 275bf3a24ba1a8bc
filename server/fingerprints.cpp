#include "server/fingerprints.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "checkpoint/checksum.hpp"
#include "checkpoint/rows.hpp"
#include "server/saved_rows.hpp"

namespace verbena::server {

namespace {

/// What a checksum of rows is of, at least: it takes 8 bytes itself.
constexpr std::size_t kLeastBytes = 64;

/// Of `count` rows from `first` on, in all columns.
std::uint64_t fingerprint(std::span<const checkpoint::Column> columns, std::uint64_t first,
                          std::uint64_t count) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::uint64_t sum = 0;
  for (const checkpoint::Column& column : columns) {
    sum = sum * kOdd +
          checkpoint::checksum_of(column.bytes.subspan(first * column.row_bytes, count * column.row_bytes));
  }
  return sum;
}

}  // namespace

void Fingerprints::remember(const SavedRows& rows) {
  clear();
  rows.are_scattered ? update_by_key(rows, nullptr) : update_in_order(rows, nullptr);
}

Fingerprints::Changes Fingerprints::update(const SavedRows& rows) {
  Changes changes;
  rows.are_scattered ? update_by_key(rows, &changes) : update_in_order(rows, &changes);
  return changes;
}

void Fingerprints::update_in_order(const SavedRows& rows, Changes* changes) {
  const std::vector<checkpoint::Column> columns = rows.columns(0, rows.rows);
  const std::uint64_t group = (kLeastBytes + rows.row_bytes() - 1) / rows.row_bytes();
  const std::uint64_t groups = (rows.rows + group - 1) / group;
  const bool is_known = in_order_.size() == groups;
  in_order_.resize(groups);
  for (std::uint64_t i = 0; i < groups; ++i) {
    const std::uint64_t first = i * group;
    const std::uint64_t end = std::min(first + group, rows.rows);
    const std::uint64_t now = fingerprint(columns, first, end - first);
    if (changes != nullptr && (!is_known || in_order_[i] != now)) {
      for (std::uint64_t row = first; row < end; ++row) changes->rows.push_back(row);
    }
    in_order_[i] = now;
  }
}

void Fingerprints::update_by_key(const SavedRows& rows, Changes* changes) {
  constexpr std::uint64_t kLastBit = 1;
  const std::vector<checkpoint::Column> columns = rows.columns(0, rows.rows);
  is_odd_ = !is_odd_;
  const std::uint64_t last_bit = is_odd_ ? kLastBit : 0;
  by_key_.reserve(rows.rows);
  for (std::uint64_t row = 0; row < rows.rows; ++row) {
    const Key key = rows.key(row);
    const std::uint64_t now = (fingerprint(columns, row, 1) & ~kLastBit) | last_bit;
    const auto [known, is_new] = by_key_.try_emplace(key, now);
    if (changes != nullptr && (is_new || (known->second | kLastBit) != (now | kLastBit)))
      changes->rows.push_back(row);
    known->second = now;
  }
  absl::erase_if(by_key_, [&](const auto& known) {
    if ((known.second & kLastBit) == last_bit) return false;
    if (changes != nullptr) changes->removed.push_back(known.first);
    return true;
  });
}

}  // namespace verbena::server
