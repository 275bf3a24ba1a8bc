// What a worker knows of a table's rows that move, shared by the table and its operations: where each is
// believed to be, which of them lie here, are on their way here, or are lost; and what it has to say of them.
// Each of these is a class of its own; this one is what they have to do with one another.
//
// Thread safety: none; belongs to its table's session.
#pragma once

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "protocol/messages.hpp"
#include "worker/moving/directory.hpp"
#include "worker/moving/intent_keeper.hpp"
#include "worker/moving/key_map.hpp"
#include "worker/moving/localize.hpp"
#include "worker/moving/moving_pull.hpp"
#include "worker/moving/moving_push.hpp"
#include "worker/moving/own_slots.hpp"
#include "worker/moving/push_log.hpp"
#include "worker/moving/replication.hpp"
#include "worker/moving/request_queue.hpp"
#include "worker/moving/row_layout.hpp"
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

/// A row that this session moves: by which operation, and which of its moves that is.
struct Mover {
  Localize* operation = nullptr;
  std::size_t index = 0;
};

class MovingRows {
 public:
  /// `table`: its number. `of`: outlives it. `is_asynchronous`: the table's model is.
  MovingRows(SessionCore& of_session, std::uint32_t table, const TableOptions& of,
             const protocol::UpdateRule& rule, bool is_asynchronous);
  MovingRows(const MovingRows&) = delete;  // its parts know one another
  MovingRows& operator=(const MovingRows&) = delete;
  absl::Status add_server(ServerLink& link, const transport::RemoteDescriptor& slots);

  // ---- where a row is

  /// It lies on this node, where this worker can change it in place.
  [[nodiscard]] bool is_here(Key key) const { return own.is_mapped() && own.is_here(key); }
  /// It lies on this node, as far as this worker can know.
  [[nodiscard]] bool is_near(Key key) const {
    return own.is_mapped() ? own.is_here(key) : directory.location(key).node == node;
  }
  /// The same but for moments, without a look at the slot, which is in no cache where it has not been used
  /// lately.
  [[nodiscard]] bool seems_near(Key key) const {
    return own.is_mapped() ? own.presence().load(key).is_here() : is_near(key);
  }
  /// A pull of the row needs nobody else, but for moments: it lies here, or has a replica.
  [[nodiscard]] bool is_cheap(Key key) const {
    if (!marked.contains(key)) return seems_near(key);
    const Replica* const replica = replication.find(key);
    return replica != nullptr && replication.is_usable(*replica);
  }
  /// seems_near() will be asked soon. REQUIRES: the key is one of the table's.
  void prefetch_presence(Key key) const {
    if (own.is_mapped()) own.presence().prefetch(key);
  }
  /// This session's request for the row is with its home or its owner, or the row on its way: it will be
  /// here, or known where else, before a home would say where it is.
  [[nodiscard]] bool is_coming(Key key) const;
  /// Its home has been asked where it is, and has not answered; and it is not one that has been fetched,
  /// which does not leave before those of this session are served who have chased it in vain.
  [[nodiscard]] bool waits_for_home(Key key) const;
  /// The row was not where it was believed to be; `is_sure`: where directory.location() says, at that very
  /// epoch.
  void ask_where(Key key, bool is_sure);
  /// The row was where it was believed to be.
  void reached(Key key);
  /// It has no mark any more, if there is no reason for one.
  void unmark_if_plain(Key key);

  // ---- rows that this worker cannot have any more

  /// A row that it was told to be lost stays so for it, and has a mark: should the row turn up again, from
  /// the last messages of the dead, what this worker has pushed in vain would be missing there.
  void lose(Key key, const absl::Status& why);
  /// Why; nullptr if it is not. Valid until the next lose().
  [[nodiscard]] const absl::Status* lost(Key key) const;
  /// Its home is dead.
  [[nodiscard]] bool is_homeless(Key key) const { return nodes[directory.home(key)].is_dead; }
  [[nodiscard]] absl::Status homeless(Key key) const;
  void on_dead_server(std::uint32_t server);

  // ---- messages

  /// Those that wait, as many as go now.
  void send_requests();
  /// Nothing waits that others must hear before this worker's clock.
  [[nodiscard]] bool has_told_all() const;
  /// RequestQueue::send_some()
  std::size_t send_some(std::uint32_t server, protocol::KeyRequests::Kind kind,
                        std::span<const protocol::KeyRequests::Row> rows);
  std::optional<LocalSpan> take_staging(std::size_t bytes);
  /// As many as one message takes, and a server does at a time.
  [[nodiscard]] std::size_t records_a_message(const ServerLink& link, std::size_t record_bytes) const;
  /// To be posted: a read of the row's slot on that node.
  void add_slot_read(MovingOperation& operation, std::uint32_t of_node, Key key, std::span<std::byte> to,
                     const LocalSpan& memory);
  /// Of a message whose answer is for the operation, until end_message().
  protocol::Tag tag_message(MovingPush& push);
  protocol::Tag tag_message(Localize& localize);
  void end_message(protocol::Tag tag);
  absl::Status on_answers(ServerLink& link, const protocol::KeyAnswers& answers);
  absl::Status on_push_answer(ServerLink& link, const protocol::PushAnswer& answer);
  absl::Status on_install_answer(ServerLink& link, const protocol::InstallAnswer& answer);

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
  /// There is a replica, or there are updates that are not known to be applied, or it is lost: not as any
  /// row.
  KeySet marked;
  KeyMap<Mover> moving;
  IntentKeeper intents;
  Replication replication;

  std::size_t pushes_under_way = 0;  ///< for which their callers do not wait
  bool is_leaving = false;
  bool has_dead = false;         ///< servers
  std::uint64_t generation = 1;  ///< counts whatever may give an operation something to do

 private:
  void fetch(Key key);
  void prefetch_move(Key key) const;
  [[nodiscard]] absl::Status lost_with(Key key, std::uint32_t node) const;
  absl::Status on_answer(ServerLink& link, const protocol::KeyAnswers::Answer& answer);
  void on_news();
  absl::Status on_lost(const protocol::KeyAnswers::Answer& answer);
  absl::Status on_owned(const protocol::KeyAnswers::Answer& answer);

  absl::flat_hash_map<Key, absl::Status> lost_;
  // Messages without an answer.
  absl::flat_hash_map<protocol::Tag, MovingPush*> pushes_;
  absl::flat_hash_map<protocol::Tag, Localize*> installs_;
  protocol::Tag last_tag_ = 0;
};

}  // namespace verbena::worker
