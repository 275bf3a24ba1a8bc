// Records of the log that a copy which joins has, and goes by later: they have come while it got its image,
// and since, as long as its lanes have not caught up. Their places in the ring are free for others
// (chain.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "server/lane.hpp"

namespace verbena::server {

/// Thread safety: belongs to the transport's thread.
class Backlog {
 public:
  struct Record {
    std::span<const std::byte> bytes;
    InboxMessage* inbox = nullptr;  ///< counts who uses them
  };

  /// `record` lies in a ring, where `in_ring` counts its users. It is copied, so that its place in the ring
  /// is free; but not if there are more than `most_bytes` then: it stays in the ring, and whoever sends has
  /// to wait for it.
  void add(std::span<const std::byte> record, InboxMessage& in_ring, std::uint64_t most_bytes);
  /// The next one to go by. It stays until nobody uses it.
  std::optional<Record> take();
  /// Forgets those that were taken, and that nobody uses any more.
  void release();

  /// None is left, and none is used.
  [[nodiscard]] bool empty() const { return records_.empty(); }
  /// Those that were not taken.
  [[nodiscard]] std::uint64_t waiting() const { return records_.size() - taken_; }

 private:
  struct Entry {
    std::vector<std::byte> copy;
    InboxMessage users;  ///< of `copy`
    Record record;
  };
  std::deque<Entry> records_;
  std::size_t taken_ = 0;  ///< of these, the first
  std::uint64_t bytes_ = 0;
};

}  // namespace verbena::server
