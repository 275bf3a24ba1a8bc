// One part of a static table, as a worker sees it: the rows of one lane of one server, with this worker's
// updates of them and what it caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "consistency/rules.hpp"
#include "protocol/row.hpp"
#include "transport/transport.hpp"
#include "worker/fixed/row_cache.hpp"
#include "worker/fixed/sent_key_lists.hpp"
#include "worker/fixed/sparse_view.hpp"
#include "worker/fixed/subscriptions.hpp"
#include "worker/fixed/update_buffer.hpp"
#include "worker/server_link.hpp"

namespace verbena::worker {

/// Thread safety: none; belongs to its table.
struct alignas(64) Part {
  /// What a read must know, computed once for the many reads between two changes of the session's epoch.
  struct Reading {
    std::uint64_t epoch = 0;
    consistency::Clock needed = 0;     ///< a cached row must be as good as this clock
    consistency::Clock min_clock = 0;  ///< what the server's rows and live ones are as good as
    bool allowed = false;              ///< to read here and now
    bool has_outstanding = false;
    std::uint64_t* counter = nullptr;  ///< of reads at min_clock, in the staleness histogram
  };

  /// How the rows of a sparse part are read in place, the same for all lookups of one call.
  struct InPlace {
    std::uint64_t call = 0;   ///< the table's number of the call
    bool is_allowed = false;  ///< but for rows with own updates that are under way
    SparseView::Snapshot view;
  };

  /// What a pull of one row must know, if it is one of the many that need nothing else: where the rows are,
  /// in the cache or in the server's memory. It has been found out with `reading`, and is as good for as
  /// long: the session is well, no read needs anything but rows of this clock, and what is cached lies in an
  /// array.
  struct AtOnce {
    std::uint64_t epoch = 0;           ///< the session's; 0: no row can be read so
    std::uintptr_t address = 0;        ///< where the row of key 0 would be; of a cached one, its clock
    consistency::Clock needed = 0;     ///< what the clock of a cached row must be
    std::uint64_t* counter = nullptr;  ///< as in Reading
  };

  // What each read needs first is in one cache line.
  protocol::RowRange range;
  AtOnce at_once;
  std::unique_ptr<RowCache> cache;    ///< nullptr: each read is of the server's row, in place if it is mapped
  const std::byte* mapped = nullptr;  ///< the server's memory, row 0 at its start; nullptr: it is not mapped
  Reading reading;
  std::unique_ptr<UpdateBuffer> current;
  std::unique_ptr<UpdateBuffer> kept;  ///< by the table's filter; nullptr: it has none
  bool awaits_own = true;              ///< a read must find all updates that this worker has sent
  LaneView* view = nullptr;
  LaneView::Updates* updates = nullptr;  ///< in `view`: those of this table's kind
  ServerLink* link = nullptr;
  std::uint32_t lane = 0;
  transport::RemoteDescriptor rows;                       ///< the server's memory, row 0 at its start
  std::deque<std::unique_ptr<UpdateBuffer>> outstanding;  ///< shipped, not known to be applied; oldest first
  std::vector<std::unique_ptr<UpdateBuffer>> spare;
  Subscriptions subscriptions;  ///< if the table pushes eagerly
  SentKeyLists lists;           ///< if its encoding has lists
  /// Where the rows of a sparse table are on the server; `mapped` and `rows` are unused, and each row is
  /// named by its key. nullptr if the table is dense.
  std::unique_ptr<SparseView> sparse;
  InPlace in_place;

  /// There are updates of this worker that have not been sent.
  [[nodiscard]] bool has_own() const { return !current->empty() || (kept != nullptr && !kept->empty()); }
  /// The key is one of the part's.
  [[nodiscard]] bool has(Key key) const {
    return sparse == nullptr ? range.has(key) : sparse->keys().has(key);
  }
  /// The error for a record of a key that is not.
  [[nodiscard]] absl::Status wrong_record(Key key) const {
    return sparse == nullptr ? protocol::wrong_record(key, range.keys())
                             : protocol::wrong_record(key, sparse->keys());
  }
  /// The cached row; nullptr if it is not cached.
  [[nodiscard]] CachedRow* cached(protocol::Row row) const {
    return cache == nullptr ? nullptr : cache->find(row);
  }
  /// The server's row. REQUIRES: mapped
  [[nodiscard]] const std::byte* mapped_row(protocol::Row row, std::size_t stride_bytes) const {
    return mapped + index_of(row) * stride_bytes;
  }
  /// A shipped update of the row may be missing in the server's row.
  [[nodiscard]] bool is_unapplied(const UpdateBuffer& shipped, protocol::Row row) const {
    return shipped.find(row) != nullptr && shipped.chunk_of(row).sequence >= updates->applied;
  }
  /// The same for all of this worker's shipped updates, if a read must find them.
  [[nodiscard]] bool has_unapplied(protocol::Row row) const {
    return awaits_own && std::any_of(outstanding.begin(), outstanding.end(),
                                     [&](const auto& buffer) { return is_unapplied(*buffer, row); });
  }
};

}  // namespace verbena::worker
