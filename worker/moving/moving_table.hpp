// A table whose rows move (docs/allocation.md), as a session sees it: where it believes each row to be, how
// it reads and changes those of its own node in place, and reaches the others. How rows move to its node is
// in moving_localize.cpp; what it does because of intents, and with replicas, in moving_intents.cpp; what it
// does without a node that has died in moving_losses.cpp.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "protocol/messages.hpp"
#include "protocol/prefetch.hpp"
#include "protocol/presence.hpp"
#include "protocol/zeroed_array.hpp"
#include "worker/moving/intents.hpp"
#include "worker/moving/key_map.hpp"
#include "worker/moving/moving_operations.hpp"
#include "worker/moving/replicas.hpp"
#include "worker/table_core.hpp"

namespace verbena::worker {

class MovingTable final : public TableCore {
 public:
  MovingTable(SessionCore& session, std::uint32_t number, const TableOptions& options,
              protocol::ValueType type);

  absl::Status pull(std::span<const protocol::Key> keys, std::byte* out, std::size_t values) override;
  absl::Status pull(protocol::KeyRange range, std::byte* out, std::size_t values) override;
  absl::Status push(std::span<const protocol::Key> keys, const std::byte* updates, std::size_t values,
                    bool wait) override;
  absl::Status push(protocol::KeyRange range, const std::byte* updates, std::size_t values,
                    bool wait) override;
  [[nodiscard]] bool rows_move() const override { return true; }
  absl::StatusOr<std::shared_ptr<Operation>> start_localize(const KeySequence& keys,
                                                            const Operations& after) override;
  absl::Status intend(const KeySequence& keys, consistency::Clock from, consistency::Clock to) override;
  absl::Status hold(std::span<const protocol::Key> keys, std::size_t rows,
                    absl::FunctionRef<void(std::size_t, std::byte*)> use) override;
  void release() override;
  [[nodiscard]] bool is_free_here(protocol::Key key) const override {
    return is_here(key) && !is_marked(key);
  }
  void prefetch(protocol::Key key) const override {
    if (own_ != nullptr && nodes_.size() > 1) protocol::prefetch_to_read(own_slot(key).bytes);
  }
  std::size_t redraw(std::span<protocol::Key> keys, double preference, const KeyDistribution& distribution,
                     std::mt19937_64& random) const override;

  absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& slots) override;
  /// Clocks do not follow a row that moves.
  [[nodiscard]] bool follows_clocks() const override { return false; }
  /// Tells homes of intents that have ended.
  bool send_put_off() override;
  /// Acts on intents: before anybody is told of the clock's end, so that the home of a row hears that this
  /// worker has done with it before another one can have waited for this clock and want the row.
  void on_clock_ends() override;
  /// Sends the updates of replicas if it is time or this is a barrier, and refreshes those that are used
  /// next.
  void on_clock_begins(bool is_barrier) override;
  /// Sends the updates of replicas, but of those that are being read.
  bool settle() override;
  /// No more intents, and nothing is held.
  void on_leaving() override;
  /// Ends the intents that are counted on this node: nobody else could.
  void on_settled() override;
  absl::Status on_answers(ServerLink& link, const protocol::KeyAnswers& answers) override;
  /// Rows that lie there, or that only it could tell the place of, are lost.
  void on_dead_server(std::uint32_t server) override;

 private:
  friend class MovingOperation;
  friend class MovingPull;
  friend class MovingPush;
  friend class Localize;

  /// One step of an operation: true when it has ended.
  bool step(MovingOperation& operation);
  std::shared_ptr<Operation> make_pull(const KeySequence& keys, std::size_t next, std::byte* out) override;
  template <class Keys>
  absl::Status pull_rows(Keys keys, std::byte* out, std::size_t values);
  template <class Keys>
  absl::Status push_rows(Keys keys, const std::byte* updates, std::size_t values, bool wait);
  [[gnu::noinline]] absl::Status push_rest(const KeySequence& keys, const std::byte* updates,
                                           std::size_t next, bool wait);
  /// Reads rows of this node in place, from index `from` on, until one is not here; returns its index.
  template <class Keys>
  std::size_t pull_now(const Keys& keys, std::size_t from, std::byte* out);
  /// Adds to rows of this node in place, until one is not here; returns its index.
  template <class Keys>
  std::size_t push_now(const Keys& keys, const std::byte* updates);
  /// The push of the rows in `todo` comes after those that have begun before.
  void begin_push(MovingPush& push);
  /// Those of the operation's rows that are not here become its moves.
  void begin_localize(Localize& localize);
  /// Updates on their way to a dead server may or may not be applied.
  void forget_messages(MovingPush& push, std::uint32_t server);
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
  /// The row lies on this node, where this worker can change it in place. With one server it can lie nowhere
  /// else.
  [[nodiscard]] bool is_here(protocol::Key key) const {
    return own_ != nullptr && (nodes_.size() == 1 || protocol::load_header(own_slot(key)).is_owned());
  }

  using Move = Localize::Move;
  using Message = MovingPush::Message;
  using Phase = Localize::Phase;
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
  /// The same but for moments, without a look at the slot, which is in no cache where it has not been used
  /// lately.
  [[nodiscard]] bool seems_near(protocol::Key key) const {
    return own_ != nullptr ? presence_.load(key).is_here() : is_near(key);
  }
  /// There is a replica, or there are updates that are not known to be applied, or it is lost: not as any
  /// row.
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
  void end_shared(Localize& localize, Move& move);
  void on_alone(protocol::Key key);
  void drop_replicas(const std::vector<protocol::Key>& keys);
  void drop_outlived_replicas();
  void send_updates_of(const std::vector<protocol::Key>& keys);
  void ask_for_refresh(protocol::Key key, Replica& replica);
  void begin_refreshes();
  /// Where a row that is read in place goes.
  [[nodiscard]] std::byte* out_of(MovingPull& pull, std::size_t index) const {
    return pull.is_of_replicas ? pull.refreshed.data() : pull.out + index * row_bytes_;
  }
  /// A pull of the session has its row, or a refresh: `row`.
  void is_read(const MovingPull& pull, std::size_t index, const std::byte* row, std::uint64_t& counter);
  [[nodiscard]] Location location(protocol::Key key) const;
  /// The row was not where it was believed to be; `is_sure`: where location() says, at that very epoch.
  void ask_where(protocol::Key key, bool is_sure);
  /// This session's request for the row is with its home or its owner, or the row on its way: it will be
  /// here, or known where else, before a home would say where it is.
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
  void give_up_move(Localize& localize, Move& move, const absl::Status& why);
  void do_without_dead(Localize& localize);
  void arrive(Localize& localize, Move& move);
  void drop_lost_replica(protocol::Key key);
  /// The row has come here, and does not leave before those of this session are served who have chased it in
  /// vain.
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

  bool step_pull(MovingPull& pull);
  void begin_reads(MovingPull& pull);
  void end_reads(MovingPull& pull);
  bool step_push(MovingPush& push);
  void make_message(MovingPush& push, std::uint32_t node, std::vector<std::size_t>& indices);
  void send_message(Message& message);
  bool step_localize(Localize& localize);
  void begin_copying(Localize& localize);
  [[nodiscard]] std::byte* copied_slot(const LocalSpan& memory, std::size_t i) const;
  void end_copying(Localize& localize);
  void install(Localize& localize, Move& move, const std::byte* values);
  void is_installed(Localize& localize, Move& move);
  void send_requests(Localize& localize, Phase from, Phase to, protocol::KeyRequests::Kind kind);
  [[nodiscard]] bool counts_intents(const Localize& localize) const;
  [[nodiscard]] bool yields(const Localize& localize, const Move& move) const;
  void end_move(Localize& localize, Move& move, std::uint64_t epoch);
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
  [[nodiscard]] bool may_push(const MovingPush& push, std::size_t index) const;
  void end_push(const MovingPush& push, std::size_t index);
  absl::Status on_answer(ServerLink& link, const protocol::KeyAnswers::Answer& answer);
  absl::Status on_lost(const protocol::KeyAnswers::Answer& answer);
  absl::Status on_move_answer(const protocol::KeyAnswers::Answer& answer);
  absl::Status on_push_answer(ServerLink& link, const protocol::KeyAnswers::Answer& answer);
  absl::Status on_install_answer(ServerLink& link, const protocol::KeyAnswers::Answer& answer);

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
    Localize* operation = nullptr;
    std::size_t index = 0;
  };
  KeyMap<Mover> moving_;
  /// How often in a row each row was not where it was believed to be, and where it was not for sure; and
  /// those of which that was too often.
  struct Chase {
    std::uint32_t attempts = 0;
    std::optional<Location> not_at;
  };
  absl::flat_hash_map<protocol::Key, Chase> chased_;
  absl::flat_hash_set<protocol::Key> fetched_;
  /// Rows that this worker cannot have any more, and why. A row that it was told to be lost stays so for it,
  /// and has a mark: should the row turn up again, from the last messages of the dead, what this worker has
  /// pushed in vain would be missing there.
  absl::flat_hash_map<protocol::Key, absl::Status> lost_;
  // Messages without an answer, by number.
  absl::flat_hash_map<std::uint64_t, MovingPush*> pushes_;
  absl::flat_hash_map<std::uint64_t, Localize*> installs_;
  std::uint64_t messages_made_ = 0;
  /// Updates that are not known to be applied, of each row in the order in which they were pushed. The first
  /// one goes; so a reader who sees one has seen those before.
  struct Pushed {
    const MovingPush* operation = nullptr;
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
  /// Whose intents are over, and that cannot be given up yet; in the order of coming, and those that still
  /// are.
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
