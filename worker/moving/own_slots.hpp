// The slots of a worker's own node, where it can map them: rows that lie here are read and changed in place.
//
// A number that is read here was the row's at some time during the read. The header said "owned" when it was
// loaded (acquire), and the values are loaded after it. As long as the slot owns the row, they are the row's
// values. After that they are what the row was when the slot ceased to own it, which is after the header was
// loaded. If the row comes back meanwhile, they are what is being installed: the row's values of that moment,
// which no push changes before the slot owns the row again.
//
// Thread safety: one owner. Other processes use the slots at the same time, by the rules of
// protocol/slot.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/presence.hpp"
#include "protocol/slot.hpp"
#include "worker/row_copy.hpp"
#include "worker/row_layout.hpp"

namespace verbena::worker {

/// Reads the row if the slot owns it. `slot`: on this host, of any node.
inline bool pull_in_place(protocol::SlotAt<const std::byte> slot, const RowLayout& layout, std::byte* out) {
  if (!protocol::load_header(slot).is_owned()) return false;
  copy_shared_row(layout.type, out, protocol::slot_values(slot), layout.row_bytes);
  return true;
}

class OwnSlots {
 public:
  /// `holder`: this worker, as the holder of a row's lock. `is_only_node`: rows can lie nowhere else.
  OwnSlots(const RowLayout& layout, std::uint32_t holder, bool is_only_node)
      : layout_(layout), holder_(holder), is_only_node_(is_only_node) {}
  /// The slots of all keys of the table, and their words of presence. `home_keys`: of this node's server.
  void map(std::byte* slots, std::uint64_t rows, KeyRange home_keys);

  /// All functions below require it.
  [[nodiscard]] bool is_mapped() const { return slots_ != nullptr; }
  [[nodiscard]] protocol::Slot slot(Key key) const {
    return protocol::slot_at(slots_, layout_.slot_bytes, key, home_keys_);
  }
  /// slot() for a loop that writes rows. What it needs is in registers; in memory, as far as the compiler
  /// knows, a copied row might change it.
  [[nodiscard]] auto slot_function() const {
    return [slots = slots_, bytes = layout_.slot_bytes, first = home_keys_.first,
            last = home_keys_.last](Key key) {
      return protocol::slot_at(slots, bytes, key, {first, last});
    };
  }
  [[nodiscard]] const protocol::PresenceMap& presence() const { return presence_; }
  /// The row is on this node, where this worker can change it in place.
  [[nodiscard]] bool is_here(Key key) const {
    return is_only_node_ || protocol::load_header(slot(key)).is_owned();
  }
  /// False if the row is not here.
  bool pull(Key key, std::byte* out) const {
    const protocol::Slot from = slot(key);
    return pull_in_place({from.bytes, from.first_bits}, layout_, out);
  }
  /// Tries once. If kLocked, storing `header` with protocol::store_header() gives the lock back.
  protocol::LockResult try_lock(protocol::Slot slot, protocol::SlotHeader& header) const {
    return protocol::try_lock(slot, holder_, header);
  }
  void apply_and_unlock(protocol::Slot slot, protocol::SlotHeader header, const std::byte* update) const {
    layout_.rule.apply(protocol::slot_values(slot), nullptr, update);
    protocol::store_header(slot, header);
  }
  /// kBusy if somebody holds the row.
  protocol::LockResult try_push(Key key, const std::byte* update) const {
    const protocol::Slot to = slot(key);
    protocol::SlotHeader header;
    const protocol::LockResult result = try_lock(to, header);
    if (result == protocol::LockResult::kLocked) apply_and_unlock(to, header, update);
    return result;
  }
  /// Tries for some microseconds: kBusy if somebody holds the row for longer.
  protocol::LockResult push(Key key, const std::byte* update) const;
  /// The row is here from now on. `values`: nullptr if the slot has them. `intents`: how many intents of
  /// workers of this node are counted. REQUIRES: the slot does not own the row, and the home has given this
  /// worker the row's move, so nobody else changes the slot.
  void install(Key key, const std::byte* values, std::uint64_t epoch, std::uint32_t intents) const;

 private:
  const RowLayout layout_;
  const std::uint32_t holder_;
  const bool is_only_node_;
  std::byte* slots_ = nullptr;
  KeyRange home_keys_;
  protocol::PresenceMap presence_;
};

}  // namespace verbena::worker
