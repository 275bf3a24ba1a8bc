// Which rows of one part of an eagerly pushed table this worker caches, as the server knows it. The server
// pushes a row to those who have subscribed to it; what enters or leaves the cache is told at a clock's end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "protocol/row.hpp"
#include "worker/fixed/row_index.hpp"

namespace verbena::worker {

/// Thread safety: none; one owner.
class Subscriptions {
 public:
  /// `rows`: how many there are, as RowIndex takes it; `may_leave`: whether rows may leave the cache. Throws
  /// std::bad_alloc.
  void start(std::uint64_t rows, bool may_leave) {
    rows_ = rows;
    if (may_leave) subscribed_.emplace(rows);
  }

  /// The row has entered the cache, or left it.
  void note(protocol::Row row);

  /// The row is gone, and the server has ended its subscription.
  void forget(protocol::Row row) {
    if (subscribed_) subscribed_->erase(row);
    awaiting_.erase(row);
  }

  struct Changes {
    std::vector<protocol::Row> begin;
    std::vector<protocol::Row> end;
  };
  /// What the server must be told about the rows that were noted since the last call. `begin` may contain
  /// rows that are live already if no row may leave. `is_cached` and `is_live`: whether the row is cached,
  /// and whether eager pushes keep it fresh, now.
  [[nodiscard]] Changes take(absl::FunctionRef<bool(protocol::Row)> is_cached,
                             absl::FunctionRef<bool(protocol::Row)> is_live);
  /// The row's subscription begins or ends with this message, by its number among those to the lane.
  void told(protocol::Row row, bool begins, std::uint64_t message);
  /// Whether a pushed row counts, when the lane had processed so many messages: only if it was pushed after
  /// this worker's latest subscription to it.
  [[nodiscard]] bool covers(protocol::Row row, std::uint64_t messages_processed);

 private:
  std::uint64_t rows_ = 0;
  std::vector<protocol::Row> changed_;
  // If rows may leave the cache:
  std::optional<RowIndex> subscribed_;  ///< 1: the server believes that this worker caches it
  /// For rows that have entered the cache since: the number of the message that says so. What was pushed
  /// before that message is not what the subscription promises.
  absl::flat_hash_map<protocol::Row, std::uint64_t> awaiting_;
};

}  // namespace verbena::worker
