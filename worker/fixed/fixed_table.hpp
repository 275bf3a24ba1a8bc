// A static table: its rows stay on the servers that the placement gives them to. It has one part for each
// lane of each server, with what is cached, buffered and under way there. What is particular to sparse tables
// is in sparse_table.hpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "consistency/in_transit_bound.hpp"
#include "consistency/rules.hpp"
#include "worker/fixed/function_call.hpp"
#include "worker/fixed/part.hpp"
#include "worker/fixed/shipping.hpp"
#include "worker/table_core.hpp"

namespace verbena::worker {

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
  void on_lost_server(const ServerLink& /*link*/) override { begins_anew_ = true; }

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
    std::uint64_t shipped = 0;     ///< `shipped` of the part's updates before the read
  };

  FixedTable& table_;
  std::byte* const out_;
  std::size_t next_;  ///< first key not read and not in a run
  std::vector<Run> runs_;
  std::optional<LocalSpan> staging_;
  bool begins_anew_ = false;  ///< some reads have brought nothing
};

class FixedTable : public TableCore {
 public:
  /// Of a pull, or a piece of a scan: scratch for what it reads.
  static constexpr std::size_t kStagingBytes = std::size_t{256} << 10;

  FixedTable(SessionCore& session, std::uint32_t number, const TableOptions& options, ValueType type);

  absl::Status pull(std::span<const Key> keys, std::byte* out, std::size_t values) override;
  absl::Status pull(KeyRange range, std::byte* out, std::size_t values) override;

  absl::StatusOr<std::shared_ptr<Operation>> start_call(std::string_view function, const Keys& keys,
                                                        std::span<const double> numbers, bool wait) override;
  absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& shard) override;
  [[nodiscard]] bool follows_clocks() const override { return true; }
  /// Sends the subscriptions and this clock's updates. The buffers of the updates become outstanding.
  absl::Status ship() override;
  /// What the filter has kept back goes with the next ship().
  bool settle() override {
    ships_all_ = true;
    return true;
  }
  /// For VAP.
  absl::Status bound_in_transit() override;
  [[nodiscard]] std::size_t most_outstanding() const override;
  absl::Status on_rows(ServerLink& link, const protocol::BulkMessage& message) override;
  absl::Status on_result(ServerLink& link, const protocol::BulkMessage& message) override;
  absl::Status on_server_back(ServerLink& link, const transport::RemoteDescriptor& shard) override;
  void on_applied(ServerLink& link, std::uint32_t lane) override;

 protected:
  using Row = protocol::Row;

  /// The part that holds the key. REQUIRES: key < rows.
  [[nodiscard]] Part& part_of(Key key) {
    if (is_sparse_) return parts_.size() == 1 ? *parts_.front() : part_of(protocol::KeyHash(key));
    Part* part = last_part_;
    if (part->range.has(key)) return *part;
    return *(last_part_ = &find_part(key));
  }
  /// Of a sparse table.
  [[nodiscard]] Part& part_of(const protocol::KeyHash& hash) { return *parts_[part_of_hash_[hash.part()]]; }
  [[nodiscard]] Part& part(std::uint32_t server, std::uint32_t lane);
  /// In parts_.
  [[nodiscard]] std::size_t place_of(const Part& part) const {
    return first_part_[part.link->server] + part.lane;
  }

  std::shared_ptr<Operation> make_pull(const Keys& keys, std::size_t next, std::byte* out) override;
  /// The rest of a push, if ships_in_a_clock_; its updates are in the update buffers.
  absl::Status ship_in_a_clock(const Keys& keys, bool wait);
  /// The counter of reads as good as `clock`.
  [[nodiscard]] std::uint64_t& reads_at(consistency::Clock clock);
  /// The min clock that a read needs, and what a cached row must be as good as.
  [[nodiscard]] consistency::Clock needed_min_clock() const;
  [[nodiscard]] consistency::Clock needed_row_clock() const;
  void refresh(Part& part);
  /// The place where a fetched row is cached; nullptr if the cache is full.
  CachedRow* cache_row(Part& part, Row row) const;
  void predict_own(const Part& part, Row row, std::byte* values) const {
    if (!layout_.rule.predicts()) return;
    if (part.kept != nullptr) {
      if (const std::byte* const own = part.kept->find(row)) layout_.rule.predict(values, own);
    }
    if (part.current->empty()) return;
    if (const std::byte* const own = part.current->find(row)) layout_.rule.predict(values, own);
  }
  /// Puts a row that has just been read from the server, at `min_clock`, into the cache and into `out`, with
  /// this worker's updates.
  void take_fetched(Part& part, Row row, const std::byte* values, consistency::Clock min_clock,
                    std::byte* out);
  /// The sum of the absolute values of this worker's updates that may not be applied, in the coordinate of
  /// the row where it is largest. Absolute values, since updates of one sign may be applied before those of
  /// the other.
  [[nodiscard]] virtual double in_transit(const Part& part, Row row) const = 0;

  /// Called by each read before it looks whether rows may be read.
  void heed_decisions() {
    if (reads_only_what_serves_) session_.heed_decisions();
  }
  /// What the part's server holds is all that anybody can have been told of.
  [[nodiscard]] bool serves(const Part& part) const {
    return !reads_only_what_serves_ || session_.serves(*part.link);
  }

  /// Adds a part that knows its range and the way to the server's rows. `is_mapped`: these are mapped.
  absl::Status add_part(std::unique_ptr<Part> part, bool is_mapped);
  /// What was cached of rows that the server was to keep fresh is gone.
  absl::Status cache_anew(Part& part) const;
  [[nodiscard]] bool caches() const;
  [[nodiscard]] bool reads_in_place(bool is_mapped) const;

  const bool is_sparse_;
  const consistency::Clock read_bound_;
  /// A read must find what others were told of, and servers have copies, which may have told it.
  const bool reads_only_what_serves_;
  const bool ships_ahead_;       ///< within a clock, as the update budget allows; without a filter
  const bool ships_in_a_clock_;  ///< for this reason or another
  /// Wherever the row is read, a read is the server's row plus the sum of this worker's updates of the clock,
  /// as the server will add them. Sums of floats depend on their order, so cached rows contain none of these
  /// updates.
  const bool keeps_own_apart_;
  std::vector<std::unique_ptr<Part>> parts_;  ///< by keys: server by server, lane by lane
  std::vector<std::size_t> first_part_;       ///< of each server
  /// Places in parts_, by KeyHash::part(), if the table is sparse. Small, for each key of a pull looks here.
  std::vector<std::uint16_t> part_of_hash_;
  Part* last_part_ = nullptr;
  bool ships_all_ = false;  ///< the next ship() keeps nothing back
  Shipping shipping_;
  AwaitedCalls awaited_calls_;

 private:
  friend class FixedPull;
  friend class FunctionCallOperation;

  void place(Part& part, const KeyRange& keys, const transport::RemoteDescriptor& shard,
             const std::byte* mapped) const;
  absl::StatusOr<const std::byte*> map_shard(const ServerLink& link,
                                             const transport::RemoteDescriptor& shard) const;
  absl::Status failing(absl::Status shipped);
  [[nodiscard]] absl::Status check_call(const Keys& keys, std::span<const double> numbers);
  absl::Status make_cache(Part& part) const;
  absl::Status push_at_once(bool wait);
  [[nodiscard]] double in_transit_bound() const;
  absl::Status wait_for_value_bound(const std::function<bool()>& is_kept);
  [[nodiscard]] Part& find_part(Key key);
  /// One step of a pull. Returns true when the pull has ended.
  bool advance(FixedPull& pull);
  bool add_run(FixedPull& pull, std::size_t& staged_bytes);
  void finish_runs(FixedPull& pull);
  /// A pull of one row, if that takes nothing but a look whether it may be read, and a copy. False: nothing
  /// was done.
  [[nodiscard]] bool pull_at_once(Key key, std::byte* out, std::size_t values);
  absl::Status pull_list(std::span<const Key> keys, std::byte* out, std::size_t values);
  [[nodiscard]] Part::AtOnce at_once(const Part& part) const;
  /// Reads rows from `from` on until one cannot be read at once; returns its index, or keys.size(). Defined
  /// in pull_now.hpp, like the functions that it calls.
  template <class Keys>
  std::size_t pull_now(const Keys& keys, std::size_t from, std::byte* out);
  template <class Keys>
  std::size_t pull_in_place(Part& part, const Keys& keys, std::size_t i, std::byte* out);
  template <class Keys>
  std::size_t pull_fresh(const Part& part, const Keys& keys, std::size_t i, std::byte* out);
  template <class Keys>
  std::size_t pull_cached(Part& part, const Keys& keys, std::size_t i, std::byte* out);
  template <class Keys>
  static void fetch_ahead(const Part& part, const RowCache::Places& places, const Keys& keys, std::size_t i);
  bool fetch_mapped(Part& part, Row row, std::byte* out);
  /// Copies between the server's memory, where others write, and this worker's.
  void copy_mapped(std::byte* to, const std::byte* from, std::size_t bytes) const;
};

std::unique_ptr<TableCore> make_fixed_table(SessionCore& session, std::uint32_t number,
                                            const TableOptions& options, ValueType type);

}  // namespace verbena::worker
