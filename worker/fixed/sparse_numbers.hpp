// Numbers of keys, for tables of any keys: set and found for each row of each push, and forgotten together.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "base/prefetch.hpp"

namespace verbena::worker {

/// A hash table of 16 bytes a place, at most half of which are taken, so that a key is mostly found in the
/// first line of memory that is looked at. A place that was taken before the last clear() is free: so that
/// costs nothing, and keys that come again and again leave nothing behind. Thread safety: none; one owner.
class SparseNumbers {
 public:
  /// 0: it has none.
  [[nodiscard]] std::uint32_t find(std::uint64_t key) const {
    if (taken_ == 0) return 0;
    const Place& place = places_[place_of(key)];
    return place.generation == generation_ ? place.number : 0;
  }
  /// The others will be called soon with this key.
  void prefetch(std::uint64_t key) const {
    if (!places_.empty()) base::prefetch_to_write(&places_[home(key)]);
  }
  /// `number`: not 0. Throws std::bad_alloc, if the key has none yet.
  void set(std::uint64_t key, std::uint32_t number) {
    if (find_or_set(key, number) != 0) places_[place_of(key)].number = number;
  }
  /// find() in one step with set(), if it has none. Returns what find() would have. Throws std::bad_alloc.
  std::uint32_t find_or_set(std::uint64_t key, std::uint32_t number) {
    if (places_.empty()) [[unlikely]]
      move_to(kFewestPlaces);
    std::size_t at = place_of(key);
    if (places_[at].generation == generation_) return places_[at].number;
    if (2 * (taken_ + 1) > places_.size()) [[unlikely]] {
      move_to(2 * places_.size());
      at = place_of(key);
    }
    places_[at] = {key, number, generation_};
    ++taken_;
    return 0;
  }
  void erase(std::uint64_t key) {
    if (taken_ == 0) return;
    std::size_t hole = place_of(key);
    if (!is_taken(hole)) return;
    // Whoever is behind the hole, and would be looked for from there or before it, is found no more: it moves
    // there.
    for (std::size_t at = next(hole); is_taken(at); at = next(at)) {
      const std::size_t way = (at - home(places_[at].key)) & mask();
      if (way < ((at - hole) & mask())) continue;
      places_[hole] = places_[at];
      hole = at;
    }
    places_[hole].generation = kNever;
    --taken_;
  }
  /// From now on none has one.
  void clear() {
    const std::size_t taken = taken_;
    taken_ = 0;
    if (++generation_ == kNever) {
      std::ranges::fill(places_, Place());
      generation_ = kNever + 1;
    }
    // Few keys all over much memory would each have to be waited for.
    if (places_.size() <= kFewestPlaces || places_.size() / kSparse < taken) return;
    try {
      move_to(std::max(kFewestPlaces, std::bit_ceil(4 * taken)));
    } catch (const std::bad_alloc&) {  // then it stays as large as it is
    }
  }

 private:
  static constexpr std::size_t kFewestPlaces = 1024;
  /// A table with so many places for each key that it had is too large.
  static constexpr std::size_t kSparse = 32;
  static constexpr std::uint32_t kNever = 0;
  struct Place {
    std::uint64_t key = 0;
    std::uint32_t number = 0;
    std::uint32_t generation = kNever;  ///< taken, if it is that of now
  };

  [[nodiscard]] std::size_t mask() const { return places_.size() - 1; }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & mask(); }
  [[nodiscard]] bool is_taken(std::size_t at) const { return places_[at].generation == generation_; }
  /// Where a key is looked for first. Both halves of the product depend on all of its bits.
  [[nodiscard]] std::size_t home(std::uint64_t key) const {
    __extension__ using Wide = unsigned __int128;
    constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;
    const Wide product = static_cast<Wide>(key ^ key >> 32) * kOdd;
    return (static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product)) & mask();
  }
  /// The key's place, or the free one that it would get.
  [[nodiscard]] std::size_t place_of(std::uint64_t key) const {
    std::size_t at = home(key);
    while (is_taken(at) && places_[at].key != key) at = next(at);
    return at;
  }
  void move_to(std::size_t size) {
    std::vector<Place> old(size);
    old.swap(places_);
    for (const Place& place : old) {
      if (place.generation == generation_) places_[place_of(place.key)] = place;
    }
  }

  std::vector<Place> places_;  ///< none, or a power of two
  std::size_t taken_ = 0;
  std::uint32_t generation_ = kNever + 1;
};

}  // namespace verbena::worker
