// How a static table's updates and subscriptions get to the servers, from the parts that have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/messages.hpp"
#include "protocol/row.hpp"
#include "worker/fixed/part.hpp"
#include "worker/fixed/push_filter.hpp"
#include "worker/fixed/update_buffer.hpp"
#include "worker/fixed/update_packing.hpp"
#include "worker/row_layout.hpp"
#include "worker/session_core.hpp"

namespace verbena::worker {

/// Thread safety: none; belongs to its table. Sending may wait for room, and poll the session meanwhile.
class Shipping {
 public:
  using Parts = std::span<const std::unique_ptr<Part>>;

  /// `number` and `name`: the table's.
  Shipping(SessionCore& session, std::uint32_t number, std::string name, const RowLayout& layout,
           PushFilter filter, UpdatePacking packing)
      : session_(session),
        number_(number),
        name_(std::move(name)),
        layout_(layout),
        filter_(std::move(filter)),
        packing_(std::move(packing)) {}

  /// An empty buffer for the part. INVALID_ARGUMENT: the server's inbox is too small for a row;
  /// RESOURCE_EXHAUSTED.
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> make_buffer(const Part& part) const;
  /// Sends what the buffers hold. The buffers become outstanding. In a clock that goes on, with
  /// kUpdatesAhead: reads in it may have to wait until the updates are applied.
  absl::Status ship_updates(Parts parts, protocol::BulkKind kind = protocol::BulkKind::kUpdates);
  /// Whether parts have `kept`.
  [[nodiscard]] bool filters() const { return !filter_.sends_all(); }
  /// As ship_updates(), at the end of a clock: keeps back what the filter says, unless `all`.
  absl::Status ship_clock(Parts parts, bool all);
  /// Sends the most important updates of the running clock, as the links' update budgets allow.
  absl::Status ship_ahead(Parts parts);
  /// Tells the servers which rows have entered and left the caches.
  absl::Status ship_subscriptions(Parts parts);
  [[nodiscard]] absl::Status no_memory(const Part& part) const;
  /// UpdatePacking::pays()
  [[nodiscard]] bool packs(const Part& part) const { return packing_.pays(part); }

 private:
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> take_buffer(Part& part) const;
  /// Takes the part's updates, as far as they travel; maybe none do.
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> take_current(Part& part, bool filtered);
  absl::Status ship_updates(Parts parts, protocol::BulkKind kind, bool filtered);
  UpdateBuffer& add_outstanding(Part& part, std::unique_ptr<UpdateBuffer> updates);
  /// Adds what it sends to the statistics.
  absl::Status send(Part& part, UpdateBuffer& updates, protocol::BulkKind kind);
  absl::Status send(Part& part, std::span<const protocol::Row> rows, protocol::BulkKind kind);
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> take_most_important(Part& part, std::size_t bytes) const;
  [[nodiscard]] double importance(const Part& part, protocol::Row row, std::span<std::byte> scratch) const;

  SessionCore& session_;
  const std::uint32_t number_;
  const std::string name_;
  const RowLayout layout_;
  PushFilter filter_;
  UpdatePacking packing_;
  std::size_t last_ahead_ = 0;  ///< the part that shipped ahead last
};

}  // namespace verbena::worker
