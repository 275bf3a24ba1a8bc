// Which lists of keys a worker has sent to a lane of a table, and by which numbers (key caching: Li et al.,
// OSDI'14, section 3.3; protocol/packed_updates.hpp). A list is known by all of its keys in their order, and
// not by a hash of them, which two lists might share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "protocol/packed_updates.hpp"
#include <verbena/keys.hpp>

namespace verbena::worker {

/// Thread safety: none; belongs to its table.
class SentKeyLists {
 public:
  /// How the message names its keys, and the number of the list if it has one.
  struct Naming {
    protocol::PackedHeader::Names names = protocol::PackedHeader::Names::kRowsAndKeys;
    std::uint32_t number = 0;
  };

  /// For the next message, which is sent as this says. `most_keys`: of all lists. If there is no room, a list
  /// that is drawn gives up its number: of lists that come in turns, of which there is room for some, these
  /// then mostly stay.
  Naming find_or_add(std::span<const Key> keys, std::uint64_t most_keys);
  /// The message that was to bring this new list was not sent.
  void drop(std::uint32_t number);

 private:
  absl::flat_hash_map<std::size_t, std::uint32_t> numbers_;  ///< by a hash of the keys
  std::vector<std::vector<Key>> lists_;                      ///< by number
  std::vector<std::size_t> sizes_;  ///< by number, of what the server has, also of a list that was dropped
  std::uint64_t keys_ = 0;          ///< that the server has
  std::uint64_t draws_ = 0;
};

}  // namespace verbena::worker
