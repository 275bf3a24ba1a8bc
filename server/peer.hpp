// A connection of a server: a worker's once it has said hello, or an observer's, or another copy's; a
// stranger's before that. A copy that follows another one has peers of all workers, without connections: what
// they have said comes through the log.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "consistency/rules.hpp"
#include "server/answer_queue.hpp"
#include "server/function_run.hpp"
#include "server/lane.hpp"
#include "server/log.hpp"
#include "server/push_channel.hpp"
#include "server/server_place.hpp"
#include "server/table_shard.hpp"
#include "transport/heartbeat.hpp"
#include "transport/message_outbox.hpp"
#include "transport/message_ring.hpp"
#include "transport/refusals.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

/// What a worker is granted and told when it has taken all that it was granted before.
struct Announcement {
  const TableShard* shard = nullptr;
  std::optional<std::size_t> region;  ///< of the shard; nullopt: its rows, and that the table is open
};

struct Peer {
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  /// The connection ends first: what it has under way may be in the memory of the rings.
  ~Peer() { connection.reset(); }

  std::unique_ptr<transport::HeartbeatWatch> watch;  ///< of a worker; outlives the connection
  std::unique_ptr<transport::Connection> connection;
  std::uint32_t worker = kNoWorker;  ///< rank, once it is admitted
  transport::TimePoint due;          ///< before it is a worker: when it is closed
  std::uint32_t node = 0;            ///< the server that is its own
  bool left = false;                 ///< said goodbye, or was let go
  bool closed = false;               ///< to be dropped
  bool refused = false;              ///< broke the rules: what it says or writes from now on is ignored
  bool owes_credit = false;
  bool listed = false;  ///< in a PeerList
  transport::MessageOutbox control;
  std::deque<Announcement> announcements;  ///< that it has not been told of yet, oldest first
  std::uint32_t incarnation = 0;           ///< how many processes have been this worker before
  consistency::Clock clock = 0;
  consistency::Clock ended = -1;  ///< the newest clock whose iteration it has ended
  bool has_welcome = false;       ///< it has said something since its hello
  /// That it was told of; where it has no connection, as on a copy that follows, that it has asked for.
  std::uint32_t tables_opened = 0;
  bool waits_for_table = false;   ///< it has asked for the next one
  std::uint32_t moves_ended = 0;  ///< MovesEnded::gone, as it has said last
  consistency::Clock saved = 0;   ///< the newest checkpoint of which it has said how its part is
  /// Clocks below it were finished by processes that were this worker before.
  consistency::Clock former_clock = 0;
  std::unique_ptr<transport::RingReceiver> inbox;
  std::deque<InboxMessage> in_inbox;  ///< messages that the lanes still use, oldest first
  std::unique_ptr<PushChannel> pushes;
  AnswerQueue answers;
  std::uint64_t messages = 0;          ///< of a worker: is_logged() bulk ones that are in the log, or count
  std::uint64_t messages_counted = 0;  ///< of these, that count
  /// It was a worker before: of another copy of this server, or over another connection; or it takes the
  /// place of another process.
  bool has_come_back = false;
  std::uint32_t times_back = 0;  ///< how often: lanes count that, too
  bool has_adopted = false;      ///< and may be told of rows and clocks again
  /// It waits: it goes by a configuration that this server has not heard of yet, or not all of its messages
  /// here count, or those of the process whose place it takes.
  std::optional<protocol::Hello> hello;
  std::optional<protocol::Welcome> welcome;  ///< that it is to be sent
  std::uint32_t pid = 0;                     ///< of a worker, once it has connected to this copy
  std::uint32_t comes_as = 0;                ///< the incarnation of the connection, which may not count yet
  /// Of a worker that is gone without a goodbye, or silent (absences.hpp).
  struct Absence {
    bool is_missed = false;  ///< it is expected to come back, or another process is to take its place
    transport::TimePoint until = transport::TimePoint::max();  ///< then nobody waits any more
    std::string because;
    bool is_suspected = false;  ///< it is silent, and somebody was told to end it
  };
  Absence absence;
  // Or it is another copy of this server:
  bool is_predecessor = false;     ///< this server follows it
  std::unique_ptr<LogSender> log;  ///< it follows this server
  // Or it is another server (backup.hpp):
  bool sends_images = false;              ///< of its rows, which this server keeps
  std::unique_ptr<LogSender> takes_them;  ///< it keeps images of this server's rows
  bool is_observer = false;
  std::shared_ptr<FunctionRun> inspection;  ///< what an observer has asked for; a lane has it until it ends
  bool has_inspected = false;               ///< it has ended, and the observer is to be told

  /// From now on another process is this worker, and has said nothing yet. What is known of the connection
  /// stays, and what the server has heard of clocks.
  void begin_anew(std::uint32_t its_incarnation) {
    incarnation = its_incarnation;
    former_clock = clock;
    ended = -1;
    waits_for_table = false;
    come_back();
    tables_opened = 0;
    messages = messages_counted = 0;
  }
  /// It is there again, and has forgotten what it was told.
  void come_back() {
    has_welcome = has_adopted = false;
    absence = {};
    has_come_back = true;
    ++times_back;
    announcements.clear();
    answers.clear();
  }
  [[nodiscard]] bool is_worker() const { return worker != kNoWorker; }
  /// It can be told something.
  [[nodiscard]] bool is_there() const { return connection != nullptr && !left && !closed && !welcome; }
  [[nodiscard]] bool is_copy() const { return is_predecessor || log != nullptr; }
  [[nodiscard]] bool is_other_server() const { return sends_images || takes_them != nullptr; }
  /// There is something to do that no event will announce.
  [[nodiscard]] bool is_busy() const {
    const bool waits = !control.empty() || !announcements.empty() || !answers.empty() || !in_inbox.empty() ||
                       has_inspected || (pushes && pushes->is_busy());
    return connection && (waits || owes_credit || closed);
  }
};

/// The peers for which there is something to do: few at a time, of thousands.
class PeerList {
 public:
  void add(Peer& peer) {
    if (!std::exchange(peer.listed, true)) peers_.push_back(&peer);
  }
  /// Takes all off the list and calls `look_after` for each; may be called while peers are added. What is
  /// done for one may give others something to do, so those are for the next time.
  template <class LookAfter>
  void for_each_once(const LookAfter& look_after) {
    std::swap(peers_, taken_);
    for (Peer* const peer : taken_) peer->listed = false;
    for (Peer* const peer : taken_) look_after(*peer);
    taken_.clear();
  }
  /// Forgets those without a connection.
  void forget_dropped() {
    std::erase_if(peers_, [](Peer* peer) {
      if (!peer->connection) peer->listed = false;
      return !peer->connection;
    });
  }

 private:
  std::vector<Peer*> peers_;
  std::vector<Peer*> taken_;
};

/// Peers that are neither workers nor observers: those that have just connected, and those that were refused.
/// They are given little time, and there may be few of them.
class Strangers {
 public:
  /// `workers`: of the job. So many more may be connected at the same time.
  explicit Strangers(std::size_t workers);

  void add(Peer& peer, transport::TimePoint now);
  /// It was refused; it has a moment to read why.
  void refuse(Peer& peer, const std::string& why, transport::TimePoint now);
  /// Marks as closed those that are past their time and, if there are too many, the oldest ones; calls
  /// `close` for each.
  template <class Clock, class Close>
  void part(const Clock& clock, const Close& close) {
    if (peers_.empty()) return;  // as it is nearly always: the clock, a transport, is not read
    const transport::TimePoint now = clock.now();
    std::size_t too_many = peers_.size() - std::min(peers_.size(), most_);
    for (Peer* const peer : peers_) {
      if (!is_one(peer) || (now < peer->due && too_many == 0)) continue;
      too_many -= std::min<std::size_t>(too_many, 1);
      note_silent(*peer, now);
      peer->closed = true;
      close(*peer);
    }
    std::erase_if(peers_, [](const Peer* peer) { return !is_one(peer); });
  }
  /// Forgets those without a connection.
  void forget_dropped() {
    std::erase_if(peers_, [](const Peer* peer) { return !peer->connection; });
  }

 private:
  /// Without a connection it is none: that has become another peer's, which has come back, or has ended.
  static bool is_one(const Peer* peer) {
    return peer->connection != nullptr && !peer->is_worker() && !peer->is_observer && !peer->is_copy() &&
           !peer->is_other_server() && !peer->closed;
  }
  void note_silent(const Peer& peer, transport::TimePoint now);

  const std::size_t most_;
  std::deque<Peer*> peers_;  ///< in the order in which they came
  transport::Refusals refusals_;
};

}  // namespace verbena::server
