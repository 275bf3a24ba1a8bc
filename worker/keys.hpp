// The keys of one call: a list or a range. KeySequence is either; KeyList and KeyRun are one kind each, for
// what is done for each row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "protocol/partition.hpp"

namespace verbena::worker {

struct KeyList {
  std::span<const protocol::Key> keys;
  [[nodiscard]] std::size_t size() const { return keys.size(); }
  [[nodiscard]] static constexpr bool is_range() { return false; }
  protocol::Key operator[](std::size_t i) const { return keys[i]; }
  [[nodiscard]] bool all_below(std::uint64_t rows) const {
    protocol::Key greatest = 0;
    for (const protocol::Key key : keys) greatest = std::max(greatest, key);
    return greatest < rows;
  }
};

struct KeyRun {
  protocol::KeyRange range;
  [[nodiscard]] std::size_t size() const { return range.size(); }
  [[nodiscard]] static constexpr bool is_range() { return true; }
  protocol::Key operator[](std::size_t i) const { return range.first + i; }
  [[nodiscard]] bool all_below(std::uint64_t rows) const {
    return range.first <= range.last && range.last <= rows;
  }
};

/// Of a list it is a view.
class KeySequence {
 public:
  explicit KeySequence(std::span<const protocol::Key> keys) : keys_(keys), size_(keys.size()) {}
  explicit KeySequence(protocol::KeyRange range) : first_(range.first), size_(range.size()) {}
  explicit KeySequence(KeyList list) : KeySequence(list.keys) {}
  explicit KeySequence(KeyRun run) : KeySequence(run.range) {}
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool is_range() const { return keys_.data() == nullptr; }
  [[nodiscard]] protocol::Key operator[](std::size_t i) const {
    return keys_.data() == nullptr ? first_ + i : keys_[i];
  }
  /// REQUIRES: is_range()
  [[nodiscard]] protocol::KeyRange range() const { return {first_, first_ + size_}; }
  /// REQUIRES: not is_range()
  [[nodiscard]] std::span<const protocol::Key> list() const { return keys_; }

 private:
  std::span<const protocol::Key> keys_;
  protocol::Key first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace verbena::worker
