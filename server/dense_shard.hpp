// This server's part of a static table of dense keys: all its rows, one after the other, since the table was
// opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "protocol/row.hpp"
#include "server/fixed_shard.hpp"
#include "server/row_books.hpp"
#include "server/stored_rows.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

/// Constant once it is made, except for the rows and what FixedShard keeps. Each row is written only by its
/// lane.
class DenseShard final : public FixedShard {
 public:
  using FixedShard::FixedShard;

  [[nodiscard]] absl::StatusOr<transport::RemoteDescriptor> grant(transport::Connection& connection,
                                                                  bool is_own_node) const override;
  [[nodiscard]] LanePart part(std::uint32_t lane) const override {
    return {.rows = &stored, .keys = lanes[lane], .range = range};
  }

  void add_memory(std::uint32_t lane, std::vector<std::span<std::byte>>& extents) const override {
    const KeyRange& keys = lanes[lane];
    if (keys.size() > 0)
      stored.add_memory(range.row_of(keys.first), keys.size(), /*before_bytes=*/0, extents);
  }

  protocol::RowRange range;     ///< this server's
  std::vector<KeyRange> lanes;  ///< the keys of each lane
  mutable StoredRows stored;    ///< in the memory below
  std::span<std::byte> rows;    ///< stride_bytes apart
  const transport::MemoryRegion* region = nullptr;

  RowBooks books;

 private:
  [[nodiscard]] absl::Status check_keys_of(std::uint32_t lane,
                                           const protocol::BulkMessage& message) const override {
    return protocol::check_keys(message, lanes[lane]);
  }
  [[nodiscard]] absl::Status check_key_of(std::uint32_t lane, Key key) const override {
    return lanes[lane].contains(key) ? absl::OkStatus() : protocol::wrong_record(key, lanes[lane]);
  }
  [[nodiscard]] std::uint64_t most_rows_of(std::uint32_t lane) const override { return lanes[lane].size(); }
};

}  // namespace verbena::server
