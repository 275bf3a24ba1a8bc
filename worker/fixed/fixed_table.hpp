// A static table: its rows stay on the servers that the partition gives them to. It has one part for each
// lane of each server, with what is cached, buffered and under way there.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "consistency/in_transit_bound.hpp"
#include "consistency/rules.hpp"
#include "worker/fixed/row_cache.hpp"
#include "worker/fixed/update_buffer.hpp"
#include "worker/table_core.hpp"

namespace verbena::worker {

/// The rows of one lane.
struct Part {
  ServerLink* link = nullptr;
  std::uint32_t lane = 0;
  KeyRange keys;
  LaneView* view = nullptr;
  transport::RemoteDescriptor rows;   ///< the server's memory, row keys.first at its start
  const std::byte* mapped = nullptr;  ///< the same memory, if it is mapped
  std::unique_ptr<UpdateBuffer> current;
  std::deque<std::unique_ptr<UpdateBuffer>> outstanding;  ///< shipped, not known to be applied; oldest first
  std::vector<std::unique_ptr<UpdateBuffer>> spare;
  std::unique_ptr<RowCache> cache;  ///< nullptr: each read is of the server's row, in place if it is mapped
  /// If the table pushes eagerly: rows that have entered or left the cache since the last clock.
  std::vector<Key> changed;
  /// If rows may leave the cache. `subscribed`: by row, whether the server believes that this worker caches
  /// it. `awaiting`: for rows that have entered the cache since, the number of the message that says so. What
  /// was pushed before that message is not what the subscription promises.
  std::vector<bool> subscribed;
  absl::flat_hash_map<Key, std::uint64_t> awaiting;

  /// What a read must know, computed once for the many reads between two changes of the session's epoch.
  struct Reading {
    std::uint64_t epoch = 0;
    consistency::Clock needed = 0;     ///< a cached row must be as good as this clock
    consistency::Clock min_clock = 0;  ///< what the server's rows and live ones are as good as
    bool allowed = false;              ///< to read here and now
    bool has_outstanding = false;
    std::uint64_t* counter = nullptr;  ///< of reads at min_clock, in the staleness histogram
  };
  Reading reading;
};

class FixedTable;

class FixedPull final : public Operation {
 public:
  /// Pulls the keys from the index `next` on.
  FixedPull(FixedTable& table, const Keys& keys, std::size_t next, std::byte* out);

  /// It must end in its clock, so that it reads what that clock promises. A barrier ends a clock, too, and
  /// nobody reads what is left at the session's end.
  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone == Milestone::kClock;
  }
  [[nodiscard]] std::string other_wait() const override;

 private:
  friend class FixedTable;
  bool advance() override;

  /// Consecutive rows that one read brings.
  struct Run {
    Part* part = nullptr;
    std::size_t first = 0;  ///< index in `keys`
    std::size_t count = 0;
    std::span<std::byte> staging;
    consistency::Clock clock = 0;  ///< the part's min clock before the read
    std::uint64_t shipped = 0;     ///< LaneView::shipped of the part before the read
  };

  FixedTable& table_;
  std::byte* const out_;
  std::size_t next_;  ///< first key not read and not in a run
  std::vector<Run> runs_;
  std::optional<LocalSpan> staging_;
};

class FixedTable : public TableCore {
 public:
  FixedTable(SessionCore& session, std::uint32_t number, const TableOptions& options, ValueType type);

  absl::Status pull(std::span<const Key> keys, std::byte* out, std::size_t values) override;
  absl::Status pull(KeyRange range, std::byte* out, std::size_t values) override;

  absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& shard) override;
  [[nodiscard]] bool follows_clocks() const override { return true; }
  /// Sends the subscriptions and this clock's updates. The buffers of the updates become outstanding.
  absl::Status ship() override;
  /// For VAP.
  absl::Status bound_in_transit() override;
  [[nodiscard]] std::size_t most_outstanding() const override;
  absl::Status on_rows(ServerLink& link, const protocol::BulkMessage& message) override;
  void on_applied(ServerLink& link, std::uint32_t lane) override;

 protected:
  /// The part that holds the key. REQUIRES: key < rows.
  [[nodiscard]] Part& part_of(Key key) {
    Part* part = last_part_;
    if (key - part->keys.first < part->keys.size()) return *part;
    return *(last_part_ = &find_part(key));
  }
  [[nodiscard]] Part& part(std::uint32_t server, std::uint32_t lane);

  std::shared_ptr<Operation> make_pull(const Keys& keys, std::size_t next, std::byte* out) override;
  /// The rest of a push, if ships_in_a_clock_; its updates are in the update buffers.
  absl::Status ship_in_a_clock(const Keys& keys, bool wait);
  /// The counter of reads as good as `clock`.
  [[nodiscard]] std::uint64_t& reads_at(consistency::Clock clock);
  /// The min clock that a read needs, and what a cached row must be as good as.
  [[nodiscard]] consistency::Clock needed_min_clock() const;
  [[nodiscard]] consistency::Clock needed_row_clock() const;
  void refresh(Part& part);
  [[nodiscard]] static bool is_unapplied(const Part& part, const UpdateBuffer& shipped, Key key) {
    return shipped.find(key) != nullptr && shipped.chunk_of(key).sequence >= part.view->applied;
  }
  /// Whether some of this worker's shipped updates of the row may be missing in the server's row.
  [[nodiscard]] static bool has_unapplied(const Part& part, Key key);
  /// The place where a fetched row is cached; nullptr if the cache is full.
  RowCache::Row* cache_row(Part& part, Key key);
  void predict_own(const Part& part, Key key, std::byte* row) const {
    if (const std::byte* const own = part.current->find(key)) rule_.predict(row, own);
  }
  /// Puts a row that has just been read from the server, at `min_clock`, into the cache and into `out`, with
  /// this worker's updates.
  void take_fetched(Part& part, Key key, const std::byte* values, consistency::Clock min_clock,
                    std::byte* out);
  /// The sum of the absolute values of this worker's updates that may not be applied, in the coordinate of
  /// the row where it is largest. Absolute values, since updates of one sign may be applied before those of
  /// the other.
  [[nodiscard]] virtual double in_transit(const Part& part, Key key) const = 0;

  const consistency::Clock read_bound_;
  const bool ships_ahead_;       ///< within a clock, as the update budget allows
  const bool ships_in_a_clock_;  ///< for this reason or another
  /// Wherever the row is read, a read is the server's row plus the sum of this worker's updates of the clock,
  /// as the server will add them. Sums of floats depend on their order, so cached rows contain none of these
  /// updates.
  const bool keeps_own_apart_;
  std::vector<std::unique_ptr<Part>> parts_;  ///< by keys: server by server, lane by lane
  std::vector<std::size_t> first_part_;       ///< of each server
  std::size_t last_ahead_ = 0;                ///< the part that shipped ahead last
  Part* last_part_ = nullptr;

 private:
  friend class FixedPull;

  absl::StatusOr<std::unique_ptr<UpdateBuffer>> make_buffer(const Part& part);
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> take_buffer(Part& part);
  absl::Status make_cache(Part& part) const;
  void note_change(Part& part, Key key);
  absl::Status send_subscriptions();
  absl::Status send_subscriptions(Part& part, protocol::BulkKind kind, std::span<const Key> keys);
  absl::Status ship_updates();
  absl::Status push_at_once(bool wait);
  UpdateBuffer& add_outstanding(Part& part, std::unique_ptr<UpdateBuffer> updates);
  absl::Status send(Part& part, UpdateBuffer& updates, protocol::BulkKind kind);
  absl::Status ship_ahead();
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> take_most_important(Part& part, std::size_t bytes);
  [[nodiscard]] double importance(const Part& part, Key key, std::span<std::byte> scratch) const;
  [[nodiscard]] double in_transit_bound() const;
  absl::Status wait_for_value_bound(const std::function<bool()>& is_kept);
  [[nodiscard]] absl::Status no_memory(const Part& part) const;
  [[nodiscard]] Part& find_part(Key key);
  /// One step of a pull. Returns true when the pull has ended.
  bool advance(FixedPull& pull);
  bool add_run(FixedPull& pull, std::size_t& staged_bytes);
  void finish_runs(FixedPull& pull);
  /// Reads rows from `from` on until one cannot be read at once; returns its index, or keys.size(). Defined
  /// in pull_now.hpp, like the functions that it calls.
  template <class Keys>
  std::size_t pull_now(const Keys& keys, std::size_t from, std::byte* out);
  template <class Keys>
  absl::Status pull_rows(Keys keys, std::byte* out, std::size_t values);
  template <class Keys>
  std::size_t pull_in_place(Part& part, const Keys& keys, std::size_t i, std::byte* out);
  template <class Keys>
  std::size_t pull_fresh(const Part& part, const Keys& keys, std::size_t i, std::byte* out);
  template <class Keys>
  std::size_t pull_cached(Part& part, const Keys& keys, std::size_t i, std::byte* out);
  bool fetch_mapped(Part& part, Key key, std::byte* out);
  [[nodiscard]] const std::byte* mapped_row(const Part& part, Key key) const {
    return part.mapped + (key - part.keys.first) * stride_bytes_;
  }
  /// Copies between the server's memory, where others write, and this worker's.
  void copy_mapped(std::byte* to, const std::byte* from, std::size_t bytes) const;
  static bool is_subscribed(Part& part, Key key, std::uint64_t subscriptions);
};

std::unique_ptr<TableCore> make_fixed_table(SessionCore& session, std::uint32_t number,
                                            const TableOptions& options, ValueType type);

}  // namespace verbena::worker
