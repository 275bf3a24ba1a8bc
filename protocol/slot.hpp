// A row of a dynamic table where it lies. Each server has a slot for every key of the table, at a place
// computed from the key; one of them owns the row at a time.
//
//   slot = header, 8 bytes, and the values, one stride; then, for long rows, padding to a whole number of
//   cache lines
//
//   bits 0–15   who holds the row's lock: 0 nobody, a worker's rank + 1, or kServer
//   bit  16     this server owns the row; in memory, 1 means the opposite of what it was at first
//   bit  17     it may have changed since the server has last made an image of it for another server, if it
//               does (server/backup.hpp): whoever gives the lock back sets it
//   bits 24–63  the epoch: how often the row had moved when this server came to own it
//
// At first the home owns each of its keys, at epoch 0, and other servers' slots have never owned theirs. Both
// states are zeros in memory, so that a table costs only the pages that are used, and no time when it is
// opened. Who changes what: values change only under the lock; the lock is taken only in a slot that owns its
// row; a slot ceases to own only when its own server says so, while nobody holds the lock; only the one
// worker to which the home has given the move (or its server on that worker's behalf) makes a slot own the
// row, and it has written the values before. So the values of a slot that has ceased to own stay as they were
// until it owns again.
//
// The server and all workers of its node do this at the same time, in memory that they share.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbena/keys.hpp>

namespace verbena::protocol {

class SlotHeader {
 public:
  static constexpr std::uint64_t kOwned = std::uint64_t{1} << 16;
  static constexpr std::uint32_t kServer = 0xffff;  ///< as a holder
  static constexpr std::uint64_t kMaxEpoch = (std::uint64_t{1} << 40) - 1;

  constexpr SlotHeader() = default;
  constexpr explicit SlotHeader(std::uint64_t bits) : bits_(bits) {}
  /// REQUIRES: epoch ≤ kMaxEpoch.
  static constexpr SlotHeader owned(std::uint64_t epoch) { return SlotHeader(epoch << 24 | kOwned); }
  static constexpr SlotHeader moved(std::uint64_t epoch) { return SlotHeader(epoch << 24); }

  [[nodiscard]] constexpr bool is_owned() const { return (bits_ & kOwned) != 0; }
  [[nodiscard]] constexpr bool is_owned_at(std::uint64_t epoch) const {
    return is_owned() && this->epoch() == epoch;
  }
  [[nodiscard]] constexpr std::uint32_t holder() const { return static_cast<std::uint32_t>(bits_ & kHolder); }
  [[nodiscard]] constexpr std::uint64_t epoch() const { return bits_ >> 24; }
  [[nodiscard]] constexpr SlotHeader held_by(std::uint32_t holder) const {
    return SlotHeader((bits_ & ~kHolder) | holder);
  }
  [[nodiscard]] constexpr bool is_changed() const { return (bits_ & kChanged) != 0; }
  [[nodiscard]] constexpr SlotHeader changed() const { return SlotHeader(bits_ | kChanged); }
  [[nodiscard]] constexpr SlotHeader unchanged() const { return SlotHeader(bits_ & ~kChanged); }
  [[nodiscard]] constexpr std::uint64_t bits() const { return bits_; }
  friend constexpr bool operator==(SlotHeader, SlotHeader) = default;

 private:
  static constexpr std::uint64_t kHolder = 0xffff;
  static constexpr std::uint64_t kChanged = std::uint64_t{1} << 17;
  std::uint64_t bits_ = 0;
};
static_assert(sizeof(SlotHeader) == 8);

/// A row that comes back from an image of the epoch e has the epoch e + kRestoredAhead before it is moved:
/// more than any slot can have had, since the row has not moved so often between its image and its node's
/// death.
constexpr std::uint64_t kRestoredAhead = std::uint64_t{1} << 20;

constexpr std::size_t kCacheLineBytes = 64;
/// Rows of this many bytes or more begin on a cache line of their own, so that each vector is loaded from one
/// line. Shorter rows are packed closely.
constexpr std::size_t kLongRowBytes = 256;

/// The distance from one slot to the next.
constexpr std::size_t slot_bytes(std::size_t stride_bytes) {
  const std::size_t bytes = sizeof(SlotHeader) + stride_bytes;
  if (stride_bytes < kLongRowBytes) return bytes;
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

/// The offset of a key's slot among all slots. The slots begin with padding that aligns the first slot's
/// values.
constexpr std::size_t slot_offset(std::uint64_t key, std::size_t slot_bytes) {
  return kCacheLineBytes - sizeof(SlotHeader) + key * slot_bytes;
}
/// The size of the slots of `rows` keys.
constexpr std::size_t all_slots_bytes(std::uint64_t rows, std::size_t slot_bytes) {
  return slot_offset(rows, slot_bytes);
}

/// What a slot's header in memory is exclusive-or'ed with: it depends on whether the slot's server is the
/// home of the key.
constexpr std::uint64_t first_header_bits(Key key, KeyRange home_keys) {
  return home_keys.contains(key) ? SlotHeader::kOwned : 0;
}

/// Where a slot is. Byte: std::byte, or const where it is only read.
template <class Byte>
struct SlotAt {
  Byte* bytes = nullptr;
  std::uint64_t first_bits = 0;  ///< first_header_bits()
};
using Slot = SlotAt<std::byte>;

/// The slot of a key among all slots of the server with the home keys `home_keys`.
template <class Byte>
constexpr SlotAt<Byte> slot_at(Byte* slots, std::size_t slot_bytes, Key key, KeyRange home_keys) {
  return {slots + slot_offset(key, slot_bytes), first_header_bits(key, home_keys)};
}

template <class Byte>
Byte* slot_values(SlotAt<Byte> slot) {
  return slot.bytes + sizeof(SlotHeader);
}
/// The values of a slot that was copied.
inline const std::byte* slot_values(const std::byte* slot) {
  return slot + sizeof(SlotHeader);
}

/// Acquire: what is read of the values afterwards is as new as the header, or newer.
template <class Byte>
SlotHeader load_header(SlotAt<Byte> slot) {
  return SlotHeader(__atomic_load_n(reinterpret_cast<const std::uint64_t*>(slot.bytes), __ATOMIC_ACQUIRE) ^
                    slot.first_bits);
}
/// Release: whoever sees the header sees the values that were written before. Also gives the lock back.
inline void store_header(Slot slot, SlotHeader header) {
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(slot.bytes), header.bits() ^ slot.first_bits,
                   __ATOMIC_RELEASE);
}
/// Changes the header from `from` to `to`, unless somebody has changed it meanwhile.
inline bool change_header(Slot slot, SlotHeader from, SlotHeader to) {
  std::uint64_t expected = from.bits() ^ slot.first_bits;
  return __atomic_compare_exchange_n(reinterpret_cast<std::uint64_t*>(slot.bytes), &expected,
                                     to.bits() ^ slot.first_bits,
                                     /*weak=*/false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

enum class LockResult : std::uint8_t { kLocked, kBusy, kNotOwned };

/// Tries once. kLocked: storing `header` with store_header() gives the lock back, and says that the row has
/// changed.
inline LockResult try_lock(Slot slot, std::uint32_t holder, SlotHeader& header) {
  const SlotHeader now = load_header(slot);
  if (!now.is_owned()) return LockResult::kNotOwned;
  if (now.holder() != 0 || !change_header(slot, now, now.held_by(holder))) return LockResult::kBusy;
  header = now.changed();
  return LockResult::kLocked;
}

/// The slot ceases to own its row, if it owns the row at this epoch. Tries once.
inline LockResult try_hand_over(Slot slot, std::uint64_t epoch) {
  const SlotHeader header = load_header(slot);
  if (!header.is_owned_at(epoch)) return LockResult::kNotOwned;
  return header.holder() == 0 && change_header(slot, header, SlotHeader::moved(epoch)) ? LockResult::kLocked
                                                                                       : LockResult::kBusy;
}

}  // namespace verbena::protocol
