// Which rows of a dynamic table lie on a node, and which of them its workers intend to use: one word per key,
// behind the server's slots, for the server and all workers of its node. What a worker must do for each key
// that it will use is done on these words: the words of a hundred thousand keys fit into a processor's cache,
// the slots do not.
//
//   bit  0      the slot owns the row; its header is what counts (in memory, inverted if it owned at first)
//   bits 1–6    how many workers of the node have said here that they intend to use the row
//   bit  7      a worker of another node intends to use it, too, and must be told when none are left here
//   bits 8–31   the lower bits of the epoch at which the slot came to own the row
//
// Who changes what: whoever has made the slot own the row writes "here" next. The server that has made the
// slot no longer own the row writes "elsewhere" next, before anybody else can bring the row back. In between,
// all may count intents and set the mark. So the word is right except for moments. If a worker counts its
// intent at the moment in which the row leaves, the row is elsewhere for that intent, as if it had left a
// moment later.
//
// Thread safety: everything is thread-safe, in memory that processes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/prefetch.hpp"
#include "protocol/slot.hpp"

namespace verbena::protocol {

class Presence {
 public:
  static constexpr std::uint32_t kMaxIntents = 63;

  constexpr Presence() = default;  ///< elsewhere
  constexpr explicit Presence(std::uint32_t bits) : bits_(bits) {}
  /// REQUIRES: intents ≤ kMaxIntents.
  static constexpr Presence here(std::uint64_t epoch, std::uint32_t intents) {
    return Presence(static_cast<std::uint32_t>(epoch) << 8 | intents * kOneIntent | kHere);
  }

  [[nodiscard]] constexpr bool is_here() const { return (bits_ & kHere) != 0; }
  [[nodiscard]] constexpr std::uint32_t intents() const { return (bits_ & kIntents) / kOneIntent; }
  [[nodiscard]] constexpr bool is_wanted() const { return (bits_ & kWanted) != 0; }
  /// Distinguishes one stay of the row here from the next 2²⁴ − 1 stays.
  [[nodiscard]] constexpr std::uint32_t since() const { return bits_ >> 8; }
  [[nodiscard]] constexpr Presence with_intents(std::uint32_t count) const {
    return Presence((bits_ & ~kIntents) | count * kOneIntent);
  }
  [[nodiscard]] constexpr Presence wanted() const { return Presence(bits_ | kWanted); }
  [[nodiscard]] constexpr Presence without_intents() const { return Presence(bits_ & ~(kIntents | kWanted)); }
  [[nodiscard]] constexpr std::uint32_t bits() const { return bits_; }
  friend constexpr bool operator==(Presence, Presence) = default;

 private:
  static constexpr std::uint32_t kHere = 1;
  static constexpr std::uint32_t kOneIntent = 2;
  static constexpr std::uint32_t kIntents = kMaxIntents * kOneIntent;
  static constexpr std::uint32_t kWanted = 1U << 7;
  std::uint32_t bits_ = 0;
};

/// Where the words begin, behind the slots of all keys.
constexpr std::size_t presence_offset(std::uint64_t rows, std::size_t slot_bytes) {
  return (all_slots_bytes(rows, slot_bytes) + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}
/// The size of the slots and the words.
constexpr std::size_t slot_region_bytes(std::uint64_t rows, std::size_t slot_bytes) {
  return presence_offset(rows, slot_bytes) + rows * sizeof(Presence);
}

/// The words of a node's server, from presence_offset() on.
class PresenceMap {
 public:
  PresenceMap() = default;
  /// Zeros are the initial state: the server's `home_keys` are here.
  PresenceMap(std::byte* words, KeyRange home_keys)
      : words_(reinterpret_cast<std::uint32_t*>(words)), home_keys_(home_keys) {}

  [[nodiscard]] Presence load(std::uint64_t key) const {
    return Presence(__atomic_load_n(&words_[key], __ATOMIC_ACQUIRE) ^ first_bits(key));
  }
  /// The row has come, or left.
  void store(std::uint64_t key, Presence presence) const {
    __atomic_store_n(&words_[key], presence.bits() ^ first_bits(key), __ATOMIC_RELEASE);
  }
  /// Changes the word from `from` to `to`, unless somebody has changed it meanwhile.
  [[nodiscard]] bool change(std::uint64_t key, Presence from, Presence to) const {
    std::uint32_t expected = from.bits() ^ first_bits(key);
    return __atomic_compare_exchange_n(&words_[key], &expected, to.bits() ^ first_bits(key), /*weak=*/false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  }
  void prefetch(std::uint64_t key) const { base::prefetch_to_read(&words_[key]); }

  /// Counts one more worker of the node that intends to use the row; returns since when the row is here.
  /// nullopt if it is not here, or if no more can be counted.
  [[nodiscard]] std::optional<std::uint32_t> begin_intent(std::uint64_t key) const {
    for (;;) {
      const Presence now = load(key);
      if (!now.is_here() || now.intents() == Presence::kMaxIntents) return std::nullopt;
      if (change(key, now, now.with_intents(now.intents() + 1))) return now.since();
    }
  }
  /// Ends an intent that begin_intent() has counted, with the `since` that it returned; there is nothing to
  /// end if the row has left meanwhile. True if no worker of the node intends to use the row any more and
  /// somebody else wants it: then the row's home must be told.
  [[nodiscard]] bool end_intent(std::uint64_t key, std::uint32_t since) const {
    for (;;) {
      const Presence now = load(key);
      if (!now.is_here() || now.since() != since || now.intents() == 0) return false;
      const bool is_last = now.intents() == 1;
      const Presence left = now.with_intents(now.intents() - 1);
      if (change(key, now, is_last ? left.without_intents() : left)) return is_last && now.is_wanted();
    }
  }
  /// Somebody else intends to use the row. True if workers of the node intend to use it: the last of them
  /// will find that it is wanted.
  [[nodiscard]] bool want(std::uint64_t key) const {
    for (;;) {
      const Presence now = load(key);
      if (now.intents() == 0) return false;
      if (now.is_wanted() || change(key, now, now.wanted())) return true;
    }
  }

 private:
  [[nodiscard]] std::uint32_t first_bits(std::uint64_t key) const {
    return home_keys_.contains(key) ? Presence::here(0, 0).bits() : 0;
  }

  std::uint32_t* words_ = nullptr;
  KeyRange home_keys_;
};

}  // namespace verbena::protocol
