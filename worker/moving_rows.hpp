// The rows of a dynamic table as a session sees them (docs/allocation.md): where it believes each to be, how it
// reads and changes those of its own node in place, and reaches the others. How rows move to its node is in
// moving_localize.cpp; what it does because of intents, and with replicas, in moving_intents.cpp; what it does without
// a node that has died in moving_losses.cpp.
//
// Step-driven like all of a session: step() does what can be done of an operation and never waits.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "protocol/messages.hpp"
#include "protocol/presence.hpp"
#include "protocol/zeroed_array.hpp"
#include "worker/intents.hpp"
#include "worker/key_map.hpp"
#include "worker/replicas.hpp"
#include "worker/table_core.hpp"

namespace verbena::worker {

/// A pull, push or localize of rows of a dynamic table. What is known to be done is in none of its lists.
struct MovingOperation final : PullOperation {
  enum class Kind : std::uint8_t { kPull, kPush, kLocalize };
  /// Of a row's way to this node, in this order but for the last two; those in -ing are for others to end.
  enum class Phase : std::uint8_t {
    kAsk,
    kAsking,
    kTake,
    kTaking,
    kTaken,
    kCopying,
    kInstalled,
    kDone,
    kNotThere,  ///< the home is to be told that the row is not where it said; then kAsking
    kKept,      ///< the home is to be told that the row stays where it is; then kDone
  };
  static constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::kKept) + 1;

  struct Reading {
    std::size_t index = 0;  ///< in `keys`
    std::uint32_t node = 0;
    std::uint64_t epoch = 0;  ///< at which the node was known to own the row, before it was read
    const std::byte* slot = nullptr;
  };
  /// A push to one server, from its making to its answer.
  struct Message {
    std::uint32_t node = 0;
    std::uint64_t number = 0;
    LocalSpan memory;
    std::size_t bytes = 0;
    bool sent = false;
    std::vector<std::size_t> indices;   ///< in `keys`, by record
    std::vector<std::uint64_t> epochs;  ///< at which the server was believed to own the row, by record
    std::vector<std::size_t> moved;     ///< records that the server did not own
  };
  struct Move {
    protocol::Key key = 0;
    Phase phase = Phase::kAsk;
    std::uint32_t from = 0;
    std::uint64_t epoch = 0;  ///< at which `from` owned it
  };
  /// Rows that are being copied, as an install message: records of a key and its slot.
  struct Batch {
    LocalSpan memory;
    std::vector<std::size_t> moves;  ///< in `moves`
    std::uint64_t number = 0;        ///< of the install, where there is one
    bool sent = false;
  };

  Kind kind = Kind::kPull;
  const std::byte* updates = nullptr;
  std::vector<std::byte> update_copy;  ///< of a push that nobody waits for; else empty
  std::vector<std::size_t> todo;       ///< indices in `keys`, of rows neither done nor being read or pushed
  std::vector<std::size_t> coming;     ///< a pull: of those that wait for a move of this session
  std::vector<Reading> reads;
  std::deque<Message> messages;
  std::vector<Move> moves;                      ///< add_move(), enter()
  std::array<std::size_t, kPhases> moves_in{};  ///< by phase, how many
  std::vector<protocol::Key> awaited_moves;     ///< of other localizes of this session
  /// Rows on which this session has just told an intent: they come, or they do not.
  std::vector<protocol::Key> awaited_intents;
  std::optional<Batch> batch;
  std::uint64_t seen_news = 0;  ///< nothing to do until there is more
  /// A push: since when a row of this node is in another's hands; else nothing.
  std::optional<transport::TimePoint> busy_since;

  bool intends = false;              ///< a localize: because of intents, so that rows may stay where they are
  bool fetches = false;              ///< a localize: of a row that this session has chased in vain
  transport::TimePoint asked_at{};   ///< when such a one began, or a localize
  bool brings = false;               ///< a row has come
  bool is_of_replicas = false;       ///< a pull: into replicas; a push: of their updates
  std::vector<std::byte> refreshed;  ///< where it reads a row of this node to, one at a time
  /// Nobody waits for its end but clocks, a little, and a barrier.
  bool is_background = false;
  consistency::Clock begun_at = 0;             ///< the session's clock
  consistency::Clock begun_after_barrier = 0;  ///< the clock of the session's last barrier

  void add_move(protocol::Key key) {
    moves.push_back({.key = key});
    ++moves_in[static_cast<std::size_t>(Phase::kAsk)];
  }
  /// REQUIRES: `move` is one of `moves`.
  void enter(Move& move, Phase phase) {
    --moves_in[static_cast<std::size_t>(move.phase)];
    ++moves_in[static_cast<std::size_t>(phase)];
    move.phase = phase;
  }
  [[nodiscard]] bool has_moves_in(Phase phase) const { return moves_in[static_cast<std::size_t>(phase)] > 0; }
  [[nodiscard]] bool has_moves_left() const {
    return moves_in[static_cast<std::size_t>(Phase::kDone)] < moves.size();
  }
};

class MovingRows {
 public:
  /// A replica that is being read anew has been so for no more clocks.
  static constexpr consistency::Clock kMostClocksRefreshing = 5;

  /// REQUIRES: session and table outlive it.
  MovingRows(SessionCore& session, TableCore& table);

  /// Server by server, in the order of ranks.
  absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& slots);

  /// Reads rows of this node in place, from index `from` on, until one is not here; returns its index.
  /// Keys: a KeySequence or what has its functions.
  template <class Keys>
  std::size_t pull_now(const Keys& keys, std::size_t from, std::byte* out);
  /// Adds to rows of this node in place, until one is not here; returns its index.
  template <class Keys>
  std::size_t push_now(const Keys& keys, const std::byte* updates);
  /// Takes the locks of rows of this node that are free: use(i, where the values of keys[i] are, or nullptr).
  /// REQUIRES: nothing is held.
  void hold(std::span<const protocol::Key> keys, absl::FunctionRef<void(std::size_t, std::byte*)> use);
  /// hold() would take it, were it in nobody's hands.
  [[nodiscard]] bool is_free_here(protocol::Key key) const { return is_here(key) && !is_marked(key); }
  /// Gives back what hold() took.
  void release();
  /// The push of the rows in `todo` comes after those that have begun before.
  void begin_push(MovingOperation& operation);
  /// `keys` are to come here: those of the operation's rows that are not here become its moves.
  void begin_localize(MovingOperation& operation);
  /// The worker will use `keys` in its clocks from … to − 1.
  void intend(const KeySequence& keys, consistency::Clock from, consistency::Clock to);
  /// A clock is about to end, and nobody has been told: acts on intents. So the home of a row hears that this worker
  /// has done with it before another one can have waited for this clock and want the row.
  void on_clock_ends();
  /// A clock has begun: sends the updates of replicas if it is time or this is a barrier, and refreshes those that are
  /// used next.
  void on_clock(bool is_barrier);
  /// Sends the updates of replicas, as far as nothing forbids it now; true if there are none left.
  bool send_updates();
  /// Tells homes of intents that have ended, as far as it goes now; true if nothing of it is left here.
  bool send_done();
  /// The session is about to leave: no more of that.
  void stop_intents();
  /// Ends those that are counted on this node: nobody else could. After stop_intents(), and what it has begun.
  void end_counted_intents();
  /// Pushes return before they are applied, and rows may be replicated.
  [[nodiscard]] bool is_asynchronous() const { return is_asynchronous_; }
  /// Pushes that nobody waits for and that may not be applied yet.
  [[nodiscard]] std::size_t pushes_under_way() const { return pushes_under_way_; }

  /// One step of an operation: true when it has ended. REQUIRES: what it comes after has ended.
  bool step(MovingOperation& operation);
  absl::Status on_answers(ServerLink& link, const protocol::KeyAnswers& answers);
  /// The session goes on without it: rows that lie there, or that only it could tell the place of, are lost.
  void on_dead_server(std::uint32_t server);
  /// Updates on their way to a dead server may or may not be applied.
  void forget_messages(MovingOperation& operation, std::uint32_t server);
  /// A pull of the row needs nobody else, but for moments: it lies here, or has a replica.
  [[nodiscard]] bool is_cheap(protocol::Key key) const {
    if (!is_marked(key)) return seems_near(key);
    const Replica* const replica = replicas_.find(key);
    return replica != nullptr && is_usable(*replica);
  }
  /// is_cheap() will be asked soon. REQUIRES: the key is one of the table's.
  void prefetch_presence(protocol::Key key) const {
    if (own_ != nullptr) presence_.prefetch(key);
  }
  /// is_here() will be asked soon.
  void prefetch(protocol::Key key) const {
    if (own_ != nullptr && nodes_.size() > 1) __builtin_prefetch(own_slot(key).bytes);
  }
  /// The row lies on this node, where this worker can change it in place. With one server it can lie nowhere else.
  [[nodiscard]] bool is_here(protocol::Key key) const {
    return own_ != nullptr && (nodes_.size() == 1 || protocol::load_header(own_slot(key)).is_owned());
  }

 private:
  using Move = MovingOperation::Move;
  using Message = MovingOperation::Message;
  using Phase = MovingOperation::Phase;
  struct Node {
    ServerLink* link = nullptr;
    transport::RemoteDescriptor slots;
    const std::byte* mapped = nullptr;
    protocol::KeyRange home_keys;
    bool is_dead = false;
    /// Rows that this server is to be asked about, as their home.
    std::vector<protocol::KeyRequests::Row> to_locate;
    /// Rows on which this worker's intents have ended, which their home does not know yet.
    std::vector<protocol::KeyRequests::Row> done;
    /// Rows that this node has kept from others, and that nobody here intends to use any more; as above.
    std::vector<protocol::KeyRequests::Row> released;
  };
  struct Location {
    std::uint32_t node = 0;
    std::uint64_t epoch = 0;
  };
  /// What this worker has said of a key that it will use.
  struct Intended {
    enum class State : std::uint8_t {
      kAsking,   ///< to its home, which has not answered
      kHere,     ///< to its home: the row was here
      kShared,   ///< to its home: others intend to use it, too
      kCounted,  ///< on this node, where the row is: the home knows nothing of it
    };
    State state = State::kAsking;
    std::uint32_t since = 0;  ///< when it is counted (protocol::Presence)
  };

  [[nodiscard]] protocol::Slot own_slot(protocol::Key key) const {
    return protocol::slot_at(own_, slot_bytes_, key, own_home_keys_);
  }
  [[nodiscard]] std::uint32_t home(protocol::Key key) const { return homes_.part_of(key); }
  /// The row lies on this node, as far as this worker can know.
  [[nodiscard]] bool is_near(protocol::Key key) const {
    return own_ != nullptr ? is_here(key) : location(key).node == node_;
  }
  /// The same but for moments, without a look at the slot, which is in no cache where it has not been used lately.
  [[nodiscard]] bool seems_near(protocol::Key key) const {
    return own_ != nullptr ? presence_.load(key).is_here() : is_near(key);
  }
  /// There is a replica, or there are updates that are not known to be applied, or it is lost: not as any row.
  [[nodiscard]] bool is_marked(protocol::Key key) const { return (marks_[key / 64] >> (key % 64) & 1) != 0; }
  void mark(protocol::Key key);
  void unmark_if_plain(protocol::Key key);
  template <class Keys>
  std::size_t pull_among_marked(const Keys& keys, std::size_t from, std::byte* out);
  /// False if there is none.
  bool push_to_replica(protocol::Key key, const std::byte* update);
  template <class Keys>
  std::size_t push_among_marked(const Keys& keys, const std::byte* updates);
  /// Fresh enough to be read.
  [[nodiscard]] bool is_usable(const Replica& replica) const;
  void read_replica(const Replica& replica, std::byte* out);
  [[nodiscard]] consistency::Clock clocks_between_sends() const;
  void act_on_intents(consistency::Clock clock);
  void begin_intents(const std::vector<protocol::Key>& keys);
  void end_intents(consistency::Clock clock);
  void give_up_rows();
  bool begin_counted_intent(protocol::Key key);
  void end_counted_intent(protocol::Key key, const Intended& intended);
  void end_shared(MovingOperation& operation, Move& move);
  void on_alone(protocol::Key key);
  void drop_replicas(const std::vector<protocol::Key>& keys);
  void drop_outlived_replicas();
  void send_updates_of(const std::vector<protocol::Key>& keys);
  void ask_for_refresh(protocol::Key key, Replica& replica);
  void begin_refreshes();
  /// Where a row that is read in place goes.
  [[nodiscard]] std::byte* out_of(MovingOperation& operation, std::size_t index) const {
    return operation.is_of_replicas ? operation.refreshed.data() : operation.out + index * row_bytes_;
  }
  /// A pull of the session has its row, or a refresh: `row`.
  void is_read(const MovingOperation& operation, std::size_t index, const std::byte* row,
               std::uint64_t& counter);
  [[nodiscard]] Location location(protocol::Key key) const;
  /// The row was not where it was believed to be; `is_sure`: where location() says, at that very epoch.
  void ask_where(protocol::Key key, bool is_sure);
  /// This session's request for the row is with its home or its owner, or the row on its way: it will be here, or known
  /// where else, before a home would say where it is.
  [[nodiscard]] bool is_coming(protocol::Key key) const;
  void prefetch_move(protocol::Key key) const;
  /// The row was where it was believed to be.
  void reached(protocol::Key key);
  void fetch(protocol::Key key);
  /// The home has said, of this worker's own node, what cannot be.
  [[nodiscard]] bool is_not_here(const protocol::KeyAnswers::Answer& here) const;
  void lose_row(protocol::Key key, const absl::Status& why);
  [[nodiscard]] absl::Status lost_with(protocol::Key key, std::uint32_t node) const;
  [[nodiscard]] absl::Status homeless(protocol::Key key) const;
  /// True if the row is lost, which is how the operation ends then.
  bool note_if_lost(MovingOperation& operation, protocol::Key key) const;
  void give_up_move(MovingOperation& operation, Move& move, const absl::Status& why);
  void do_without_dead(MovingOperation& operation);
  void arrive(MovingOperation& operation, Move& move);
  void drop_lost_replica(protocol::Key key);
  /// The row has come here, and does not leave before those of this session are served who have chased it in vain.
  [[nodiscard]] bool is_held(protocol::Key key) const;
  /// From shared memory, where others write, to this worker's.
  void copy_out(std::byte* to, const std::byte* values) const;
  bool pull_in_place(protocol::SlotAt<const std::byte> slot, std::byte* out) const;
  bool pull_own_in_place(protocol::Key key, std::byte* out) const {
    const protocol::Slot slot = own_slot(key);
    return pull_in_place({slot.bytes, slot.first_bits}, out);
  }
  protocol::LockResult push_in_place(protocol::Key key, const std::byte* update);
  void add_and_unlock(protocol::Slot slot, protocol::SlotHeader owned, const std::byte* update);

  bool step_pull(MovingOperation& operation);
  void begin_reads(MovingOperation& operation);
  void end_reads(MovingOperation& operation);
  bool step_push(MovingOperation& operation);
  void make_message(MovingOperation& operation, std::uint32_t node, std::vector<std::size_t>& indices);
  void send_message(Message& message);
  bool step_localize(MovingOperation& operation);
  void begin_copying(MovingOperation& operation);
  [[nodiscard]] std::byte* copied_slot(const LocalSpan& memory, std::size_t i) const;
  void end_copying(MovingOperation& operation);
  void install(MovingOperation& operation, Move& move, const std::byte* values);
  void is_installed(MovingOperation& operation, Move& move);
  void send_requests(MovingOperation& operation, Phase from, Phase to, protocol::KeyRequests::Kind kind);
  [[nodiscard]] bool counts_intents(const MovingOperation& operation) const;
  [[nodiscard]] bool yields(const MovingOperation& operation, const Move& move) const;
  void end_move(MovingOperation& operation, Move& move, std::uint64_t epoch);
  /// The first of `rows`, as many as one message takes. How many have gone: none if it cannot go now.
  std::size_t send_some(const Node& node, protocol::KeyRequests::Kind kind,
                        std::span<const protocol::KeyRequests::Row> rows);
  /// As many messages as go now; what has gone is taken out.
  void send_all(const Node& node, protocol::KeyRequests::Kind kind,
                std::vector<protocol::KeyRequests::Row>& rows);
  void send_to_locate();
  /// To be posted: a read of the row's slot on that node.
  void add_slot_read(MovingOperation& operation, std::uint32_t node, protocol::Key key,
                     std::span<std::byte> to, const LocalSpan& memory);
  std::optional<LocalSpan> take_staging(std::size_t bytes);
  [[nodiscard]] std::size_t records_a_message(const ServerLink& link, std::size_t record_bytes) const;
  [[nodiscard]] bool may_push(const MovingOperation& operation, std::size_t index) const;
  void end_push(const MovingOperation& operation, std::size_t index);
  absl::Status on_answer(ServerLink& link, const protocol::KeyAnswers::Answer& answer);
  absl::Status on_lost(const protocol::KeyAnswers::Answer& answer);
  absl::Status on_move_answer(const protocol::KeyAnswers::Answer& answer);
  absl::Status on_message_answer(ServerLink& link, const protocol::KeyAnswers::Answer& answer);

  SessionCore& session_;
  TableCore& table_;
  const std::uint32_t number_;
  const TableOptions options_;
  const protocol::ValueType type_;
  const std::size_t stride_bytes_;
  const std::size_t row_bytes_;
  const std::size_t slot_bytes_;
  const protocol::RangePartition homes_;
  const std::uint32_t holder_;  ///< this worker, as the holder of a row's lock
  const std::uint32_t node_;    ///< this worker's
  const bool is_asynchronous_;
  std::vector<Node> nodes_;   ///< by server
  std::byte* own_ = nullptr;  ///< this node's slots, where this worker can map them
  const protocol::KeyRange own_home_keys_;
  protocol::PresenceMap presence_;  ///< of this node, where there is own_
  /// What this worker has heard of rows that were not, or not always, where they were at first: at most all.
  KeyMap<Location> locations_;
  absl::flat_hash_set<protocol::Key> locating_;  ///< asked, or about to be
  /// Rows that this session moves: by which operation, and where in its list.
  struct Mover {
    MovingOperation* operation = nullptr;
    std::size_t index = 0;
  };
  KeyMap<Mover> moving_;
  /// How often in a row each row was not where it was believed to be, and where it was not for sure; and those of which
  /// that was too often.
  struct Chase {
    std::uint32_t attempts = 0;
    std::optional<Location> not_at;
  };
  absl::flat_hash_map<protocol::Key, Chase> chased_;
  absl::flat_hash_set<protocol::Key> fetched_;
  /// Rows that this worker cannot have any more, and why. A row that it was told to be lost stays so for it, and has a
  /// mark: should the row turn up again, from the last messages of the dead, what this worker has pushed in vain would
  /// be missing there.
  absl::flat_hash_map<protocol::Key, absl::Status> lost_;
  absl::flat_hash_map<std::uint64_t, MovingOperation*> messages_;  ///< without an answer, by number
  std::uint64_t messages_made_ = 0;
  /// Updates that are not known to be applied, of each row in the order in which they were pushed. The first one
  /// goes; so a reader who sees one has seen those before.
  struct Pushed {
    const MovingOperation* operation = nullptr;
    std::size_t index = 0;
  };
  absl::flat_hash_map<protocol::Key, std::vector<Pushed>> pushed_;
  std::size_t pushes_under_way_ = 0;
  struct HeldRow {
    protocol::Slot slot;
    protocol::SlotHeader header;  ///< that gives it back
  };
  std::vector<HeldRow> held_;
  protocol::ZeroedArray<std::uint64_t> marks_;  ///< is_marked(), a bit a key
  std::size_t marked_ = 0;

  Replicas replicas_;
  Intents intents_;
  LeadTime lead_;
  transport::TimePoint clock_began_{};
  consistency::Clock sent_at_ = 0;  ///< the clock in which updates of replicas were sent last
  KeyMap<Intended> intended_;
  std::vector<protocol::Key> to_intend_;  ///< at the next clock: they are being localized
  std::vector<protocol::Key> alone_;      ///< to be asked for once more
  /// Whose intents are over, and that cannot be given up yet; in the order of coming, and those that still are.
  std::vector<protocol::Key> ending_order_;
  KeySet ending_;
  std::vector<protocol::Key> to_refresh_;
  std::vector<protocol::Key> arrived_;   ///< with a replica that is needed no more
  std::vector<protocol::Key> outlived_;  ///< with a replica of which nobody intends to use the row any more
  bool is_leaving_ = false;
  bool has_dead_ = false;   ///< servers
  std::uint64_t news_ = 1;  ///< counts whatever may give an operation something to do
};

}  // namespace verbena::worker
