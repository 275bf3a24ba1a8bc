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
#include "protocol/row.hpp"
#include "protocol/update_rule.hpp"
#include "server/table_shard.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

/// Constant once it is made, except for the rows. Each row is written only by its lane.
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
  protocol::RowRange range;     ///< this server's
  std::vector<KeyRange> lanes;  ///< the keys of each lane
  std::span<std::byte> rows;    ///< stride_bytes apart
  const transport::MemoryRegion* region = nullptr;

  /// For an eager table: for each row one bit per worker, in whole words of 64 bits, and, under a push
  /// budget, how much the row has changed (lane.hpp). Over shared memory, pages that nobody writes cost
  /// nothing. Each lane reads and writes the entries of its own rows.
  std::uint64_t* subscribed = nullptr;
  std::uint64_t* dirty = nullptr;
  double* changes = nullptr;
  /// The memory of these arrays; only this server uses it.
  std::unique_ptr<transport::MemoryRegion> books;
  /// The same for the state that the rule keeps for each row; nullptr if it keeps none.
  std::unique_ptr<transport::MemoryRegion> states;
  /// For each row, the step that its lane is about to take; see lane.hpp. nullptr: it takes each worker's
  /// steps by themselves.
  std::uint32_t* step_of = nullptr;
  std::unique_ptr<transport::MemoryRegion> steps;
  /// The size of all these arrays, for `rows` rows.
  static std::size_t books_bytes(std::uint64_t rows, std::uint32_t workers, bool has_budget);
  /// REQUIRES: `memory` is zeroed, aligned to 8 bytes, and as large as books_bytes() says for range.size()
  /// rows.
  void keep_books_in(std::span<std::byte> memory, std::uint32_t workers, bool has_budget);

  [[nodiscard]] std::byte* values(protocol::Row row) const {
    return rows.data() + index_of(row) * stride_bytes;
  }
  [[nodiscard]] std::byte* state(protocol::Row row) const {
    return states == nullptr ? nullptr : states->bytes().data() + index_of(row) * rule.state_bytes();
  }
  /// The row, and what the rule keeps of it, will be written soon. Any row is allowed, even one that does not
  /// exist.
  void prefetch(protocol::Row row) const {
    const auto first = reinterpret_cast<std::uintptr_t>(rows.data());
    base::prefetch_to_write(reinterpret_cast<const void*>(first + index_of(row) * stride_bytes));
    if (states == nullptr) return;
    const auto states_first = reinterpret_cast<std::uintptr_t>(states->bytes().data());
    base::prefetch_to_write(reinterpret_cast<const void*>(states_first + index_of(row) * rule.state_bytes()));
  }
};

}  // namespace verbena::server
