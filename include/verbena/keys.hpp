// Keys of a table's rows, and the keys of one call: a list or a range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace verbena {

using Key = std::uint64_t;

/// No row has this key.
inline constexpr Key kNoKey = UINT64_MAX;

/// Which keys a table has.
enum class KeySpace : std::uint32_t {
  kDense = 0,   ///< 0 … rows − 1, all of which have a row
  kSparse = 1,  ///< all but kNoKey; a row takes memory once somebody has pushed to it
};

constexpr const char* name_of(KeySpace keys) {
  switch (keys) {
    case KeySpace::kDense:
      return "dense";
    case KeySpace::kSparse:
      return "sparse";
  }
  return "no key space";
}

/// Keys [first, last).
struct KeyRange {
  Key first = 0;
  Key last = 0;  ///< not included
  [[nodiscard]] constexpr std::uint64_t size() const { return last - first; }
  [[nodiscard]] constexpr bool contains(Key key) const { return key - first < size(); }
  friend constexpr bool operator==(KeyRange, KeyRange) = default;
};

/// For Table::call() and the like: all keys of a table.
inline constexpr KeyRange kAllKeys{0, kNoKey};

/// A view: a list must live as long as the call that it is passed to. Vectors, arrays, spans and KeyRange
/// convert to it implicitly.
class Keys {
 public:
  template <class List, class = std::enable_if_t<std::is_convertible_v<const List&, std::span<const Key>>>>
  Keys(const List& list) : list_(list), size_(list_.size()) {}
  Keys(KeyRange range) : first_(range.first), size_(range.size()), is_range_(true) {}

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool is_range() const { return is_range_; }
  /// REQUIRES: i < size()
  [[nodiscard]] Key operator[](std::size_t i) const { return is_range_ ? first_ + i : list_[i]; }
  /// REQUIRES: is_range()
  [[nodiscard]] KeyRange range() const { return {first_, first_ + size_}; }
  /// REQUIRES: not is_range()
  [[nodiscard]] std::span<const Key> list() const { return list_; }

 private:
  std::span<const Key> list_;
  Key first_ = 0;
  std::size_t size_ = 0;
  bool is_range_ = false;
};

}  // namespace verbena
