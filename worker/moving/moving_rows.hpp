// What a worker knows about the rows of a dynamic table, shared by the table and its operations: where each
// row is believed to be; which rows are here, on their way here, or lost; and what the worker has to tell
// servers about them. Each of these is a class of its own; this class connects them.
//
// Thread safety: none; belongs to its table's session.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "protocol/messages.hpp"
#include "worker/moving/directory.hpp"
#include "worker/moving/home_census.hpp"
#include "worker/moving/intent_keeper.hpp"
#include "worker/moving/key_map.hpp"
#include "worker/moving/localize.hpp"
#include "worker/moving/moving_pull.hpp"
#include "worker/moving/moving_push.hpp"
#include "worker/moving/own_slots.hpp"
#include "worker/moving/push_log.hpp"
#include "worker/moving/replication.hpp"
#include "worker/moving/request_queue.hpp"
#include "worker/row_layout.hpp"
#include "worker/session_core.hpp"
#include <verbena/session.hpp>

namespace verbena::worker {

/// A server as a place of rows.
struct NodeView {
  ServerLink* link = nullptr;
  transport::RemoteDescriptor slots;
  const std::byte* mapped = nullptr;  ///< its slots, where rows are read in place
  KeyRange home_keys;
  bool is_dead = false;
};

/// For a row that this session moves: the operation that moves it, and the number of the move in it.
struct Mover {
  Localize* operation = nullptr;
  std::size_t index = 0;
};

class MovingRows {
 public:
  /// `table`: its number. `of`: must outlive this object. `is_asynchronous`: whether the table's model is.
  MovingRows(SessionCore& of_session, std::uint32_t table, const TableOptions& of,
             const RowLayout& layout_of_table, bool is_asynchronous);
  MovingRows(const MovingRows&) = delete;  // its parts refer to one another
  MovingRows& operator=(const MovingRows&) = delete;
  absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& slots);

  // ---- where a row is

  /// The row is on this node, and this worker can change it in place.
  [[nodiscard]] bool is_here(Key key) const { return own.is_mapped() && own.is_here(key); }
  /// The row is on this node, as far as this worker can know.
  [[nodiscard]] bool is_near(Key key) const {
    return own.is_mapped() ? own.is_here(key) : directory.location(key).node == node;
  }
  /// The same, except that it may be wrong for moments. It does not look at the slot, which is in no
  /// processor cache if it has not been used lately.
  [[nodiscard]] bool seems_near(Key key) const {
    return own.is_mapped() ? own.presence().load(key).is_here() : is_near(key);
  }
  /// A pull of the row needs nobody else: the row is here, or has a replica. May be wrong for moments.
  [[nodiscard]] bool is_cheap(Key key) const {
    if (!marked.contains(key)) return seems_near(key);
    const Replica* const replica = replication.find(key);
    return replica != nullptr && replication.is_usable(*replica);
  }
  /// seems_near() will be called soon. REQUIRES: the key is one of the table's.
  void prefetch_presence(Key key) const {
    if (own.is_mapped()) own.presence().prefetch(key);
  }
  /// This session has requested the row from its home or its owner, or the row is on its way. It will be
  /// here, or this session will know where else it is, before a home would say where it is.
  [[nodiscard]] bool is_coming(Key key) const;
  /// The row's home has been asked where the row is, and has not answered. False if the row has been fetched
  /// and is here: it does not leave before the operations of this session that have chased it in vain have
  /// been served.
  [[nodiscard]] bool waits_for_home(Key key) const;
  /// The row was not where it was believed to be. `is_sure`: it certainly was not at directory.location(), at
  /// exactly that epoch.
  void ask_where(Key key, bool is_sure);
  /// The row was where it was believed to be.
  void reached(Key key);
  /// Removes the row's mark if there is no reason for one any more.
  void unmark_if_plain(Key key);

  // ---- rows that this worker cannot have any more

  /// A row that was reported lost to this worker stays lost for it, and is marked. If the row turned up
  /// again, through the last messages of a dead process, the updates that this worker has pushed in vain
  /// would be missing there.
  void lose(Key key, const absl::Status& why);
  /// Why the row is lost; nullptr if it is not. Valid until the next lose().
  [[nodiscard]] const absl::Status* lost(Key key) const;
  /// There is no other node, and no row is lost.
  [[nodiscard]] bool are_always_here() const { return own.is_mapped() && nodes.size() == 1 && lost_.empty(); }
  void on_dead_server(std::uint32_t server);

  // ---- messages

  /// Sends the requests that wait, as many as can be sent now.
  void send_requests();
  /// Nothing waits that others must be told before this worker's clock.
  [[nodiscard]] bool has_told_all() const;
  /// RequestQueue::send_some()
  std::size_t send_some(std::uint32_t server, protocol::KeyRequests::Kind kind,
                        std::span<const protocol::KeyRequests::Row> rows);
  std::optional<LocalSpan> take_staging(std::size_t bytes);
  /// How many records fit into one message, and are not too many for a server at a time.
  [[nodiscard]] std::size_t records_a_message(const ServerLink& link, std::size_t record_bytes) const;
  /// Adds a read of the row's slot on node `of_node`, to be posted.
  void add_slot_read(MovingOperation& operation, std::uint32_t of_node, Key key, std::span<std::byte> to,
                     const LocalSpan& memory);
  /// The tag of a message. The answer to it is for the operation, until end_message().
  protocol::Tag tag_message(MovingPush& push);
  protocol::Tag tag_message(Localize& localize);
  void end_message(protocol::Tag tag);
  absl::Status on_answers(ServerLink& link, const protocol::KeyAnswers& answers);
  absl::Status on_push_answer(ServerLink& link, const protocol::PushAnswer& answer);
  absl::Status on_install_answer(ServerLink& link, const protocol::InstallAnswer& answer);
  absl::Status on_census(ServerLink& link, const protocol::Census& census);

  SessionCore& session;
  const std::uint32_t table;
  const TableOptions& options;
  const RowLayout layout;
  const std::uint32_t node;  ///< this worker's
  const bool is_asynchronous;

  std::vector<NodeView> nodes;  ///< by server
  OwnSlots own;
  Directory directory;
  RequestQueue requests;
  PushLog pushed;
  /// Rows that differ from others: they have a replica, or updates that are not known to be applied, or are
  /// lost.
  KeySet marked;
  KeyMap<Mover> moving;
  IntentKeeper intents;
  Replication replication;
  std::deque<HomeCensus*> censuses;  ///< that have not ended, in the order of coming

  std::size_t pushes_under_way = 0;  ///< pushes for which callers do not wait
  bool is_leaving = false;
  bool has_dead = false;         ///< there are dead servers
  std::uint64_t generation = 1;  ///< counts whatever may give an operation something to do

 private:
  void fetch(Key key);
  void prefetch_move(Key key) const;
  [[nodiscard]] absl::Status lost_with(Key key, std::uint32_t node) const;
  absl::Status on_answer(ServerLink& link, const protocol::KeyAnswers::Answer& answer);
  void on_news();
  absl::Status on_lost(const protocol::KeyAnswers::Answer& answer);
  absl::Status on_owned(const ServerLink& home, const protocol::KeyAnswers::Answer& answer);
  void bring_back();

  absl::flat_hash_map<Key, absl::Status> lost_;
  std::vector<Key> to_bring_back_;  ///< filled and emptied within a message
  // Messages that have not been answered yet.
  absl::flat_hash_map<protocol::Tag, MovingPush*> pushes_;
  absl::flat_hash_map<protocol::Tag, Localize*> installs_;
  protocol::Tag last_tag_ = 0;
};

}  // namespace verbena::worker
