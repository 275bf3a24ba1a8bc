// A table as a session sees it: its parts (a lane of a server each), what is cached, buffered and under way.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include "transport/transport.hpp"
#include "worker/row_cache.hpp"
#include "worker/session.hpp"
#include "worker/update_buffer.hpp"

namespace verbena::worker {

class MovingRows;
class SessionCore;
struct ServerLink;

/// What a lane has told this worker, and what this worker has told the lane.
struct LaneView {
  consistency::Clock min_clock = 0;           ///< all updates of clocks < min_clock are applied there
  consistency::Clock min_clock_at_start = 0;  ///< of this worker's clock
  std::uint64_t applied = 0;                  ///< of this worker's update messages
  std::uint64_t shipped = 0;                  ///< of this worker's update messages
  std::uint64_t subscriptions = 0;            ///< messages of subscription that this worker has sent
};

/// The rows of one lane.
struct Part {
  ServerLink* link = nullptr;
  std::uint32_t lane = 0;
  protocol::KeyRange keys;
  LaneView* view = nullptr;
  transport::RemoteDescriptor rows;   ///< the server's memory, row keys.first at its start
  const std::byte* mapped = nullptr;  ///< the same, where it is mapped
  std::unique_ptr<UpdateBuffer> current;
  std::deque<std::unique_ptr<UpdateBuffer>> outstanding;  ///< shipped, not known to be applied; oldest first
  std::vector<std::unique_ptr<UpdateBuffer>> spare;
  std::unique_ptr<RowCache>
      cache;  ///< nullptr: each read is of the server's row, in place where it is mapped
  /// Of an eager table: rows that have come into the cache or left it since the last clock.
  std::vector<protocol::Key> changed;
  /// Where rows may leave the cache: which the server believes this worker to cache, by row; and for those that
  /// have come since, the number of the message that says so. What was pushed before that message is not what
  /// the subscription promises.
  std::vector<bool> subscribed;
  absl::flat_hash_map<protocol::Key, std::uint64_t> awaiting;

  /// What a read must know, worked out once for the many between two changes of the session's epoch.
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

/// Keys of one operation: a set or a range.
class KeySequence {
 public:
  explicit KeySequence(std::span<const protocol::Key> keys) : keys_(keys), size_(keys.size()) {}
  explicit KeySequence(protocol::KeyRange range) : first_(range.first), size_(range.size()) {}
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool is_range() const { return keys_.data() == nullptr; }
  [[nodiscard]] protocol::Key operator[](std::size_t i) const {
    return keys_.data() == nullptr ? first_ + i : keys_[i];
  }

 private:
  std::span<const protocol::Key> keys_;
  protocol::Key first_ = 0;
  std::size_t size_ = 0;
};

/// A pull under way. Lives in the session until it has ended.
struct PullOperation {
  struct Read {
    ServerLink* link = nullptr;
    transport::WorkRequest request;
  };
  /// Consecutive rows that one read brings.
  struct Run {
    Part* part = nullptr;
    std::size_t first = 0;  ///< index in `keys`
    std::size_t count = 0;
    std::span<std::byte> staging;
    consistency::Clock clock = 0;  ///< the part's min clock before the read
    std::uint64_t shipped = 0;     ///< of the part, before the read
  };
  std::vector<protocol::Key> key_copy;
  KeySequence keys{protocol::KeyRange{}};
  std::byte* out = nullptr;
  std::size_t next = 0;  ///< first key not read and not in a run
  std::vector<Run> runs;
  std::deque<Read> unposted;
  std::vector<std::shared_ptr<PullOperation>> after;  ///< must have ended before this one begins
  std::size_t reading = 0;                            ///< counted requests that have not ended
  std::optional<LocalSpan> staging;
  /// Whose answer to a request the pull waits for; nullptr where it waits for other workers' clocks.
  const ServerLink* awaited = nullptr;
  bool waits_for_moves = false;  ///< else for clocks, where `awaited` is nullptr
  const char* what = "pull";     ///< for messages
  bool spins = false;            ///< waits for what no event tells of: to be stepped again at once
  bool ended = false;
  absl::Status status;

  /// Of a request's id, which else is the operation's address: its end is that of those before it, too.
  static constexpr std::uint64_t kIsCounted = 1;

  /// To be posted: a one-sided read into `to`, part of `memory`; with the last one where it goes on at both ends.
  void add_read(ServerLink& link, const transport::RemoteDescriptor& from, std::span<std::byte> to,
                const LocalSpan& memory);
  /// As far as the connections take them; a dead server is asked for nothing. True when all are posted and have ended.
  bool post_reads();
};

class TableCore {
 public:
  TableCore(SessionCore& session, std::uint32_t number, const TableOptions& options,
            protocol::ValueType type);
  virtual ~TableCore();

  /// Called once every server has opened its shard, server by server.
  absl::Status add_parts(ServerLink& link, const transport::RemoteDescriptor& shard, protocol::KeyRange keys);
  /// Of a dynamic table, which has no parts; else nullptr.
  [[nodiscard]] MovingRows* moving() const { return moving_.get(); }

  [[nodiscard]] const TableOptions& options() const { return options_; }
  /// Numbers of a row of a static table. Of a dynamic one more than any span has, so that pulls and pushes of static
  /// tables ask one question, whether the span fits, and not which kind of table it is, too.
  [[nodiscard]] std::size_t static_width() const { return static_width_; }
  [[nodiscard]] const consistency::Rules& rules() const { return rules_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] protocol::ValueType value_type() const { return type_; }
  [[nodiscard]] const StalenessHistogram& staleness() const { return staleness_; }

  /// The part that holds the key. REQUIRES: key < rows.
  [[nodiscard]] Part& part_of(protocol::Key key) {
    Part* part = last_part_;
    if (key - part->keys.first < part->keys.size()) return *part;
    return *(last_part_ = &find_part(key));
  }
  [[nodiscard]] Part& part(std::uint32_t server, std::uint32_t lane);

  absl::Status check(const KeySequence& keys, std::size_t values) const;

  /// Reads rows from `from` on until one cannot be read at once; returns its index, or keys.size(). Keys: a
  /// KeySequence or what has its functions. Defined in pull_now.hpp. REQUIRES: a static table.
  template <class Keys>
  std::size_t pull_now(const Keys& keys, std::size_t from, std::byte* out);
  /// Where the model makes a push wait for its updates to be applied, `wait` says whether it does.
  absl::Status push(const KeySequence& keys, const std::byte* updates, bool wait);

  /// One step of a pull: true when it has ended.
  bool step(PullOperation& operation);

  // --- the session's part of the work
  /// Sends this clock's updates. The buffers go on as outstanding.
  absl::Status ship();
  absl::Status send_subscriptions();
  /// Rows that a server pushed.
  absl::Status on_rows(Part& part, const protocol::BulkMessage& message);
  /// The lane has told how many updates it has applied.
  void forget_applied(Part& part);
  [[nodiscard]] std::size_t most_outstanding() const;
  /// VAP: waits until what this worker has in transit is allowed at its clock.
  absl::Status bound_in_transit();

 protected:
  /// The counter of reads as good as `clock`.
  [[nodiscard]] std::uint64_t& reads_at(consistency::Clock clock);
  /// The min clock that a read needs, and what a cached row must be as good as.
  [[nodiscard]] consistency::Clock needed_min_clock() const;
  [[nodiscard]] consistency::Clock needed_row_clock() const;
  void refresh(Part& part);
  [[nodiscard]] static bool is_unapplied(const Part& part, const UpdateBuffer& shipped, protocol::Key key) {
    return shipped.find(key) != nullptr && shipped.chunk_of(key).sequence >= part.view->applied;
  }
  /// Some of this worker's shipped updates of the row may be missing in the server's row.
  [[nodiscard]] static bool has_unapplied(const Part& part, protocol::Key key);
  /// Where a fetched row goes to stay; nullptr where the cache is full.
  RowCache::Row* cache_row(Part& part, protocol::Key key);
  virtual void add_values(std::byte* to, const std::byte* update) const = 0;
  void add_own(const Part& part, protocol::Key key, std::byte* row) const {
    if (const std::byte* const own = part.current->find(key)) add_values(row, own);
  }
  virtual void push_now(const KeySequence& keys, const std::byte* updates, absl::Status& status) = 0;
  /// A row that has just been read from the server, at that min clock: into the cache, with this worker's
  /// updates, and out.
  void take_fetched(Part& part, protocol::Key key, const std::byte* values, consistency::Clock min_clock,
                    std::byte* out);
  /// The largest sum, in one coordinate of the row, of this worker's updates that may not be applied: of their
  /// absolute values, since those of one sign may be applied before those of the other.
  [[nodiscard]] virtual double in_transit(const Part& part, protocol::Key key) const = 0;

  SessionCore& session_;
  const std::uint32_t number_;
  const TableOptions options_;
  const protocol::ValueType type_;
  const std::size_t stride_bytes_;
  const std::size_t row_bytes_;
  const consistency::Rules rules_;
  const consistency::Clock read_bound_;
  const bool ships_ahead_;       ///< within a clock, as the update budget allows
  const bool ships_in_a_clock_;  ///< for this reason or another
  /// A read is the server's row plus the sum of this worker's updates of the clock, wherever the row is read: as the
  /// server will add them. Sums of floats depend on their order, so cached rows hold none of these updates.
  const bool keeps_own_apart_;
  std::vector<std::unique_ptr<Part>> parts_;  ///< by keys: server by server, lane by lane
  std::vector<std::size_t> first_part_;       ///< of each server
  std::size_t last_ahead_ = 0;                ///< the part that has last shipped ahead
  std::unique_ptr<MovingRows> moving_;
  const std::size_t static_width_;  ///< beside what else each pull looks at
  Part* last_part_ = nullptr;
  StalenessHistogram staleness_;  ///< of the reads so far

 private:
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> make_buffer(const Part& part);
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> take_buffer(Part& part);
  absl::Status make_cache(Part& part) const;
  void note_change(Part& part, protocol::Key key);
  absl::Status send_subscriptions(Part& part, protocol::BulkKind kind, std::span<const protocol::Key> keys);
  absl::Status push_at_once(bool wait);
  UpdateBuffer& add_outstanding(Part& part, std::unique_ptr<UpdateBuffer> updates);
  absl::Status send(Part& part, UpdateBuffer& updates, protocol::BulkKind kind);
  absl::Status ship_ahead();
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> take_most_important(Part& part, std::size_t bytes);
  [[nodiscard]] double importance(const Part& part, protocol::Key key, std::span<std::byte> scratch) const;
  [[nodiscard]] double in_transit_bound() const;
  absl::Status wait_for_value_bound(const std::function<bool()>& is_kept);
  [[nodiscard]] absl::Status no_memory(const Part& part) const;
  [[nodiscard]] Part& find_part(protocol::Key key);
  bool add_run(PullOperation& operation, std::size_t& staged_bytes);
  template <class Keys>
  std::size_t pull_in_place(Part& part, const Keys& keys, std::size_t i, std::byte* out);
  template <class Keys>
  std::size_t pull_fresh(const Part& part, const Keys& keys, std::size_t i, std::byte* out);
  template <class Keys>
  std::size_t pull_cached(Part& part, const Keys& keys, std::size_t i, std::byte* out);
  bool fetch_mapped(Part& part, protocol::Key key, std::byte* out);
  [[nodiscard]] const std::byte* mapped_row(const Part& part, protocol::Key key) const {
    return part.mapped + (key - part.keys.first) * stride_bytes_;
  }
  /// Between the server's memory, where others write, and this worker's.
  void copy_mapped(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void finish_runs(PullOperation& operation);
  static bool is_subscribed(Part& part, protocol::Key key, std::uint64_t subscriptions);
};

std::unique_ptr<TableCore> make_table_core(SessionCore& session, std::uint32_t number,
                                           const TableOptions& options, protocol::ValueType type);

}  // namespace verbena::worker
