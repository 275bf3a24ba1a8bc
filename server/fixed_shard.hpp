// This server's part of a static table, of either key space: rows in registered memory that workers may read
// and only this server writes. dense_shard.hpp and sparse_shard.hpp have the two kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include "protocol/row_stride.hpp"
#include "protocol/server_function.hpp"
#include "protocol/update_rule.hpp"
#include "server/key_lists.hpp"
#include "server/lane_part.hpp"
#include "server/table_shard.hpp"

namespace verbena::server {

class ImageReader;
class ImageWriter;

class FixedShard : public TableShard {
 public:
  FixedShard(protocol::OpenTable open, const consistency::Rules& of_model,
             const protocol::UpdateRule& of_updates)
      : TableShard(std::move(open)),
        rules(of_model),
        rule(of_updates),
        stride_bytes(protocol::row_stride_bytes(table.value_type, table.width)) {}

  [[nodiscard]] std::size_t row_message_bytes() const override {
    return protocol::record_bytes(stride_bytes);
  }
  [[nodiscard]] const FixedShard* for_lanes() const override { return this; }
  absl::Status on_bulk(const Sender& sender, const protocol::BulkMessage& message, InboxMessage& inbox,
                       ShardHost& host) override;
  void on_goodbye(const Homes::Worker& worker, ShardHost& host) override;
  void on_lost(const Homes::Worker& worker, ShardHost& host) override { on_goodbye(worker, host); }
  absl::Status on_key_requests(const Sender& sender, const protocol::KeyRequests& requests,
                               ShardHost& host) override;

  /// FAILED_PRECONDITION: the function cannot be called. That is no break of the rules: this process may not
  /// know it.
  [[nodiscard]] absl::StatusOr<protocol::BoundFunction> find_function(std::string_view text,
                                                                      std::uint32_t numbers_a_key) const;

  /// The lane is the only one that uses it.
  [[nodiscard]] virtual LanePart part(std::uint32_t lane) const = 0;

  // For images (image.hpp).
  /// What of its memory there is to know of the lane's part: rows, the states of rules, indexes. In an order
  /// of their own. REQUIRES: the lane, or that it does not use the shard.
  virtual void add_memory(std::uint32_t lane, std::vector<std::span<std::byte>>& extents) const = 0;
  void write_key_lists(ImageWriter& out) const;
  absl::Status read_key_lists(ImageReader& in);
  /// What a lane has written of its part (SparsePart::write_image()), so that add_memory() has the same
  /// extents. No lane uses the shard. INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
  virtual absl::Status read_part(std::uint32_t lane, std::string_view part);

  const consistency::Rules rules;
  const protocol::UpdateRule rule;
  const std::size_t stride_bytes;  ///< of a row in messages

 private:
  absl::Status on_call(const Sender& sender, const protocol::BulkMessage& message, InboxMessage& inbox,
                       ShardHost& host);
  /// The updates of the task, and the list of keys that they name, or are to name; nullptr: none.
  absl::StatusOr<KeyList> check_updates(const Sender& sender, const LaneTask& task, ShardHost& host);
  absl::StatusOr<KeyList> check_packed(const Sender& sender, const LaneTask& task, ShardHost& host);
  /// The keys of the message are all of the lane.
  [[nodiscard]] virtual absl::Status check_keys_of(std::uint32_t lane,
                                                   const protocol::BulkMessage& message) const = 0;
  [[nodiscard]] virtual absl::Status check_key_of(std::uint32_t lane, Key key) const = 0;
  /// Rows of the lane's part have smaller numbers.
  [[nodiscard]] virtual std::uint64_t most_rows_of(std::uint32_t lane) const = 0;

  /// By worker and lane. Only the transport's thread uses them.
  std::map<std::pair<std::uint32_t, std::uint32_t>, KeyLists> key_lists_;
};

}  // namespace verbena::server
