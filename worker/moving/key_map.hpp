// What a worker knows of some keys of a table, in arrays by key: a look-up is a bit and an index, without a
// hash. For what is asked of each row that is used; memory is needed for the pages of keys that were ever in
// it, and for no others.
//
// As absl::flat_hash_map and flat_hash_set, as far as they go here. Thread safety: none; one owner.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/prefetch.hpp"
#include "base/zeroed_array.hpp"
#include <verbena/keys.hpp>

namespace verbena::worker {

class KeySet {
 public:
  /// For keys below `rows`; throws std::bad_alloc.
  void allocate(std::uint64_t rows) { bits_ = base::make_zeroed_array<std::uint64_t>(rows / kBits + 1); }

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool contains(Key key) const { return (bits_[key / kBits] >> (key % kBits) & 1) != 0; }
  /// False if it was there.
  bool insert(Key key) {
    if (contains(key)) return false;
    bits_[key / kBits] |= std::uint64_t{1} << (key % kBits);
    ++size_;
    return true;
  }
  /// False if it was not there.
  bool erase(Key key) {
    if (!contains(key)) return false;
    bits_[key / kBits] &= ~(std::uint64_t{1} << (key % kBits));
    --size_;
    return true;
  }
  /// In their order.
  [[nodiscard]] std::vector<Key> keys() const {
    std::vector<Key> keys;
    for (Key word = 0; keys.size() < size_; ++word) {
      for (std::uint64_t left = bits_[word]; left != 0; left &= left - 1)
        keys.push_back(word * kBits + static_cast<Key>(std::countr_zero(left)));
    }
    return keys;
  }

 private:
  static constexpr std::uint64_t kBits = 64;
  base::ZeroedArray<std::uint64_t> bits_;
  std::uint64_t size_ = 0;
};

/// Value: can be copied as bytes.
template <class Value>
class KeyMap {
  static_assert(std::is_trivially_copyable_v<Value> && std::is_trivially_destructible_v<Value>);

 public:
  struct Entry {
    Value second;
  };

  /// For keys below `rows`; throws std::bad_alloc.
  void allocate(std::uint64_t rows) {
    keys_.allocate(rows);
    entries_ = base::make_zeroed_array<Entry>(rows);
  }

  [[nodiscard]] bool empty() const { return keys_.empty(); }
  [[nodiscard]] bool contains(Key key) const { return keys_.contains(key); }
  [[nodiscard]] std::vector<Key> keys() const { return keys_.keys(); }
  /// Of a key that will be asked for soon.
  void prefetch(Key key) const { base::prefetch_to_write(&entries_[key]); }
  /// Stays where it is as long as the map.
  [[nodiscard]] Entry* find(Key key) { return contains(key) ? &entries_[key] : end(); }
  [[nodiscard]] const Entry* find(Key key) const { return contains(key) ? &entries_[key] : end(); }
  [[nodiscard]] static constexpr Entry* end() { return nullptr; }
  std::pair<Entry*, bool> try_emplace(Key key, const Value& value) {
    const bool is_fresh = keys_.insert(key);
    if (is_fresh) entries_[key].second = value;
    return {&entries_[key], is_fresh};
  }
  Value& operator[](Key key) { return try_emplace(key, Value{}).first->second; }
  /// False if it was not there.
  bool erase(Key key) { return keys_.erase(key); }
  void erase(const Entry* entry) { keys_.erase(static_cast<Key>(entry - entries_.get())); }

 private:
  KeySet keys_;
  base::ZeroedArray<Entry> entries_;
};

}  // namespace verbena::worker
