// What a worker knows about some keys of a table, in arrays by key: a lookup takes a bit and an index, and no
// hash. Meant for what is looked up for each row that is used. Memory is needed only for the pages of keys
// that were ever in it.
//
// A part of the interface of absl::flat_hash_map and flat_hash_set. Thread safety: none; one owner.
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
  /// In ascending order.
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

/// `Value` can be copied as bytes.
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
  /// For a key that will be looked up soon.
  void prefetch(Key key) const { base::prefetch_to_write(&entries_[key]); }
  /// The entry stays where it is as long as the map exists.
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
