// Packed updates (protocol/packed_updates.hpp) become records again, some at a time: in memory of the lane's
// own, which no peer can change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/compression.hpp"
#include "protocol/messages.hpp"
#include "protocol/packed_updates.hpp"
#include "server/lane_part.hpp"
#include <verbena/keys.hpp>
#include <verbena/value_type.hpp>

namespace verbena::server {

/// Thread safety: none; belongs to its lane.
class Unpacking {
 public:
  /// Some records; the first word of each is its key, or, if `is_by_row`, a row of a sparse part, which has
  /// that row.
  struct Piece {
    std::size_t records = 0;  ///< 0: there are no more
    bool is_by_row = false;
    std::span<std::byte> bytes;
  };

  /// `message`: was checked when it came. `keys`: the list that it names, or is; nullptr: none. Both outlive
  /// the pieces. False: its sender has changed it since, and nobody knows what it means.
  bool begin(const LanePart& part, ValueType type, std::uint32_t width, const protocol::BulkMessage& message,
             const std::vector<Key>* keys);
  /// The message's header, with the kind that it has as records.
  [[nodiscard]] const protocol::BulkHeader& header() const { return header_; }
  /// Overwrites the piece before.
  Piece next();

 private:
  Piece next_some();

  protocol::BulkHeader header_;
  base::Decompressor decompressor_;
  protocol::PackedUpdates updates_;
  LanePart part_;
  const std::vector<Key>* keys_ = nullptr;
  std::size_t record_bytes_ = 0;
  std::uint32_t done_ = 0;
  std::vector<std::uint64_t> memory_;
};

}  // namespace verbena::server
