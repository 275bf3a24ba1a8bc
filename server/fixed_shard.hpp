// This server's part of a static table: rows in registered memory that workers may read and only this server
// writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/prefetch.hpp"
#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include "protocol/partition.hpp"
#include "protocol/update_rule.hpp"
#include "server/table_shard.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

/// Constant once it is made, but for the rows, each of which is written by its lane only.
class FixedShard : public TableShard {
 public:
  using TableShard::TableShard;

  [[nodiscard]] std::size_t row_message_bytes() const override {
    return protocol::record_bytes(stride_bytes);
  }
  [[nodiscard]] absl::StatusOr<transport::RemoteDescriptor> grant(transport::Connection& connection,
                                                                  bool is_own_node) const override;
  [[nodiscard]] const FixedShard* for_lanes() const override { return this; }
  absl::Status on_bulk(const Sender& sender, const protocol::BulkMessage& message, InboxMessage& inbox,
                       ShardHost& host) override;
  absl::Status on_key_requests(const Sender& sender, const protocol::KeyRequests& requests,
                               ShardHost& host) override;

  consistency::Rules rules;
  protocol::UpdateRule rule{ValueType::kFloat, 0};
  std::size_t stride_bytes = 0;
  KeyRange range;                  ///< the keys of this server
  protocol::RangePartition lanes;  ///< of [0, range.size())
  std::span<std::byte> rows;       ///< in key order, stride_bytes apart
  const transport::MemoryRegion* region = nullptr;

  /// Of an eager table: for each row a bit a worker, in whole words of 64; and, under a push budget, how much
  /// it has changed (lane.hpp). Over shared memory, pages that nobody writes cost nothing. Each lane reads
  /// and writes those of its own rows.
  std::uint64_t* subscribed = nullptr;
  std::uint64_t* dirty = nullptr;
  double* changes = nullptr;
  /// Memory of this server alone, for these.
  std::unique_ptr<transport::MemoryRegion> books;
  /// Likewise, for what the rule keeps of each row; nullptr where that is nothing.
  std::unique_ptr<transport::MemoryRegion> states;
  /// Of all of them, for `rows` rows.
  static std::size_t books_bytes(std::uint64_t rows, std::uint32_t workers, bool has_budget);
  /// REQUIRES: `memory` is zeroed, aligned to 8 bytes, and has as many bytes, for range.size() rows.
  void keep_books_in(std::span<std::byte> memory, std::uint32_t workers, bool has_budget);

  [[nodiscard]] std::byte* row(Key key) const { return rows.data() + (key - range.first) * stride_bytes; }
  [[nodiscard]] std::byte* state(Key key) const {
    return states == nullptr ? nullptr : states->bytes().data() + (key - range.first) * rule.state_bytes();
  }
  /// The row will be written. Any key will do.
  void prefetch(Key key) const {
    const auto first = reinterpret_cast<std::uintptr_t>(rows.data());
    base::prefetch_to_write(reinterpret_cast<const void*>(first + (key - range.first) * stride_bytes));
  }
  [[nodiscard]] KeyRange lane_range(std::uint32_t lane) const {
    const KeyRange local = lanes.range(lane);
    return {range.first + local.first, range.first + local.last};
  }
};

}  // namespace verbena::server
