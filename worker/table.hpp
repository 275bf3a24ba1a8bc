// Pulling and pushing rows of one table.
//
// Shapes: `values` and `updates` are row-major [keys.size(), width] or [range.size(), width]. Keys need not
// be sorted; a key may come twice. A push is additive. A worker sees its own pushes in its next pull
// (read-my-writes), others' by the table's consistency model.
//
// Errors: INVALID_ARGUMENT for a key outside the table or a span of the wrong size, with nothing done;
// UNAVAILABLE for a dead peer, DEADLINE_EXCEEDED for one that does not answer, both with its name. After
// those two the session is broken, and every later call returns the same status.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "worker/session.hpp"

namespace verbena {

/// An operation under way. wait() drives the session until it has ended and returns how; dropping it is
/// allowed.
class Pending {
 public:
  absl::Status wait();
  [[nodiscard]] bool done() const;
};

template <class Value>
class Table {
 public:
  absl::Status pull(std::span<const Key> keys, std::span<Value> values);
  absl::Status pull(KeyRange range, std::span<Value> values);  ///< one transfer per server
  absl::Status push(std::span<const Key> keys, std::span<const Value> updates);
  absl::Status push(KeyRange range, std::span<const Value> updates);

  /// As above. `keys` are copied; `values` must live until the operation has ended.
  Pending pull_async(std::span<const Key> keys, std::span<Value> values);
  Pending pull_async(KeyRange range, std::span<Value> values);
  /// `updates` are taken over before the call returns; the operation ends when all servers concerned have
  /// received them.
  Pending push_async(std::span<const Key> keys, std::span<const Value> updates);
  Pending push_async(KeyRange range, std::span<const Value> updates);

  [[nodiscard]] std::uint64_t rows() const;
  [[nodiscard]] std::uint32_t width() const;
  [[nodiscard]] const StalenessHistogram& staleness() const;
};

}  // namespace verbena
