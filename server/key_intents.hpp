// Which workers have said that they will use which keys: what a home knows of intents.
//
// Nearly always one worker has an intent on a key: then it is four bytes in an array, whose pages cost
// nothing until they are written. Only keys that several workers want have a list.
//
// Pure rules: no I/O. Thread safety: none; one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "base/prefetch.hpp"
#include "base/zeroed_array.hpp"
#include "protocol/messages.hpp"

namespace verbena::server {

struct Worker {
  std::uint32_t rank = 0;
  std::uint32_t node = 0;
};

class KeyIntents {
 public:
  /// Throws std::bad_alloc.
  explicit KeyIntents(KeyRange keys)
      : keys_(keys), lone_(base::make_zeroed_array<std::uint32_t>(keys.size())) {}

  // REQUIRES: the key is one of `keys`.

  void prefetch(Key key) const { base::prefetch_to_write(&lone_[key - keys_.first]); }
  /// A worker has at most one intent on a key. A second one replaces it; then the worker counts as not told
  /// to be alone.
  void add(Key key, const Worker& worker) {
    if (worker.rank >= nodes_.size()) nodes_.resize(worker.rank + 1);
    nodes_[worker.rank] = worker.node;
    std::uint32_t& lone = lone_[key - keys_.first];
    if (lone == kNone) ++keys_with_any_;
    if (lone == kNone || (lone != kSeveral && rank_of(lone) == worker.rank)) {
      lone = lone_of(worker.rank);
      return;
    }
    List& list = several_[key];
    if (lone != kSeveral) list.push_back(std::exchange(lone, kSeveral));
    const auto own = find(list, worker.rank);
    if (own == list.end()) {
      list.push_back(lone_of(worker.rank));
    } else {
      *own = lone_of(worker.rank);
    }
  }

  /// False if it has none.
  bool remove(Key key, std::uint32_t rank) {
    std::uint32_t& lone = lone_[key - keys_.first];
    if (lone == kSeveral) {
      const auto found = several_.find(key);
      const auto own = find(found->second, rank);
      if (own == found->second.end()) return false;
      found->second.erase(own);
      if (!found->second.empty()) return true;
      several_.erase(found);
    } else if (lone == kNone || rank_of(lone) != rank) {
      return false;
    }
    lone = kNone;
    --keys_with_any_;
    return true;
  }

  [[nodiscard]] bool has_any(Key key) const { return lone_[key - keys_.first] != kNone; }

  [[nodiscard]] bool others_than(Key key, std::uint32_t node) const {
    const std::uint32_t lone = lone_[key - keys_.first];
    if (lone != kSeveral) return lone != kNone && node_of(lone) != node;
    const List& list = several_.at(key);
    return std::any_of(list.begin(), list.end(), [&](std::uint32_t one) { return node_of(one) != node; });
  }

  /// The worker knows what tell_alone() would tell it, or it does not matter. Does nothing if it has no
  /// intent.
  void mark_told(Key key, std::uint32_t rank) {
    for (std::uint32_t& one : all_of(key)) {
      if (rank_of(one) == rank) one |= kTold;
    }
  }
  /// What the workers were told is no longer true.
  void forget_told(Key key) {
    for (std::uint32_t& one : all_of(key)) one &= ~kTold;
  }

  /// If all workers with intents on the key are of one node, and that is not `node`: returns the first worker
  /// that has not been told so, and counts it as told from now on.
  std::optional<std::uint32_t> tell_alone(Key key, std::uint32_t node) {
    const std::span<std::uint32_t> all = all_of(key);
    if (all.empty() || node_of(all.front()) == node || others_than(key, node_of(all.front())))
      return std::nullopt;
    const auto next =
        std::find_if(all.begin(), all.end(), [](std::uint32_t one) { return (one & kTold) == 0; });
    if (next == all.end()) return std::nullopt;
    *next |= kTold;
    return rank_of(*next);
  }

  /// The keys that somebody has an intent on, in their order.
  [[nodiscard]] std::vector<Key> keys() const {
    std::vector<Key> keys;
    for (Key key = keys_.first; keys.size() < keys_with_any_; ++key) {
      if (has_any(key)) keys.push_back(key);
    }
    return keys;
  }
  /// Of these, those that this worker has one on.
  [[nodiscard]] std::vector<Key> keys_of(std::uint32_t rank) const {
    std::vector<Key> all = keys();
    std::erase_if(all, [&](Key key) {
      const std::uint32_t lone = lone_[key - keys_.first];
      return lone == kSeveral ? !contains(several_.at(key), rank) : rank_of(lone) != rank;
    });
    return all;
  }

  /// Keys that somebody has an intent on.
  [[nodiscard]] std::uint64_t size() const { return keys_with_any_; }

 private:
  static constexpr std::uint32_t kNone = 0;
  static constexpr std::uint32_t kSeveral = 1;
  static constexpr std::uint32_t kTold = 1;  ///< a flag of one worker, beside its rank
  static constexpr std::uint32_t lone_of(std::uint32_t rank) { return (rank + 1) * 2; }
  static constexpr std::uint32_t rank_of(std::uint32_t lone) { return lone / 2 - 1; }
  using List = absl::InlinedVector<std::uint32_t, 4>;

  [[nodiscard]] std::span<std::uint32_t> all_of(Key key) {
    std::uint32_t& lone = lone_[key - keys_.first];
    if (lone == kNone) return {};
    return lone == kSeveral ? std::span<std::uint32_t>(several_.at(key)) : std::span(&lone, 1);
  }
  template <class AnyList>
  static auto find(AnyList& list, std::uint32_t rank) -> decltype(list.begin()) {
    return std::find_if(list.begin(), list.end(), [&](std::uint32_t one) { return rank_of(one) == rank; });
  }
  static bool contains(const List& list, std::uint32_t rank) { return find(list, rank) != list.end(); }
  [[nodiscard]] std::uint32_t node_of(std::uint32_t lone) const { return nodes_[rank_of(lone)]; }

  KeyRange keys_;
  base::ZeroedArray<std::uint32_t> lone_;  ///< by key: kNone, kSeveral, or lone_of() the only worker
  absl::flat_hash_map<Key, List> several_;
  std::uint64_t keys_with_any_ = 0;
  std::vector<std::uint32_t> nodes_;  ///< by worker
};

}  // namespace verbena::server
