// How workers come to a server: the Hello of a connection that has said nothing before, and the Welcome. The
// connection becomes that of a worker that was not known, of one that was a worker of another copy of this
// server, or of this one over another connection (Hello::is_back), or of a process that takes the place of a
// worker that is gone (Hello::incarnation).
//
// For the last one all copies of the server must know from which message on it is the worker: its Hello is a
// record of the log. What the process before it has said comes before that record, and counts or does not as
// always; its connection has ended when the record is made, so that nothing comes after it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/clock_board.hpp"
#include "protocol/messages.hpp"
#include "server/chain.hpp"
#include "server/lane.hpp"
#include "server/log.hpp"
#include "server/peer.hpp"
#include "transport/heartbeat.hpp"
#include "transport/transport.hpp"
#include <verbena/server.hpp>

namespace verbena::server {

/// Thread safety: belongs to the transport's thread.
class Reception {
 public:
  /// What it asks of its server.
  class Host {
   public:
    virtual ~Host() = default;
    virtual void reply(Peer& peer, const protocol::ControlMessage& message) = 0;
    virtual void reject(Peer& peer, const absl::Status& because) = 0;
    virtual void give_back(std::uint32_t lane, PushBuffer* buffer) = 0;
    /// A connection was taken from its peer, which is nobody any more.
    virtual void forget_nobodies() = 0;
    /// A worker whose connection breaks may come back.
    [[nodiscard]] virtual bool waits_for_connections() const = 0;
    /// The worker is on another connection than the one that is known, which is to end.
    virtual void break_with(Peer& worker) = 0;
    /// The rows of all tables that the worker has opened are here.
    [[nodiscard]] virtual bool has_loaded_tables_of(const Peer& worker) const = 0;
    /// The worker has its welcome. `is_back`: it had tables of another copy of this server, or of this one.
    virtual absl::Status welcomed(Peer& worker, bool is_back) = 0;
    /// As all copies hear at this place of the log, another process is the worker.
    virtual void replaced(Peer& worker) = 0;
  };
  struct Job {
    transport::Transport& transport;
    const ServerOptions& options;
    std::uint32_t lanes = 1;
    Chain& chain;
    transport::Heartbeat& heartbeat;
    const transport::MemoryRegion* clock_board;  ///< nullptr: this server has none
    std::vector<Peer*>& workers;                 ///< by rank; nullptr before hello
  };
  /// All must outlive it.
  Reception(const Job& job, Host& host) : job_(job), host_(host) {}

  /// Errors: it is refused. REQUIRES: the job has not failed.
  absl::Status on_hello(Peer& peer, const protocol::Hello& hello);
  /// Goes on with those that had to wait.
  void take_waiting();
  [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }
  void forget_dropped() {
    std::erase_if(waiting_, [](const Peer* peer) { return !peer->connection; });
  }
  /// The Hello of a process that takes a worker's place counts.
  absl::Status replace(const WorkerMessage& record, const protocol::Hello& hello);

 private:
  [[nodiscard]] bool must_wait(const protocol::Hello& hello);
  [[nodiscard]] bool may_be_back(const protocol::Hello& hello) const;
  [[nodiscard]] bool replaces(const protocol::Hello& hello) const;
  [[nodiscard]] std::uint32_t newest_incarnation(std::uint32_t worker) const;
  [[nodiscard]] absl::Status check_claims(const protocol::Hello& hello) const;
  [[nodiscard]] absl::Status check(const protocol::Hello& hello) const;
  absl::StatusOr<Peer*> connect(Peer& newcomer, const protocol::Hello& hello);
  Peer& place_of(Peer& newcomer, std::uint32_t worker);
  absl::Status welcome(Peer& peer, bool is_back);
  absl::StatusOr<protocol::Descriptor> grant_clock_board(Peer& peer) const;

  const Job job_;
  Host& host_;
  std::vector<Peer*> waiting_;  ///< those that have Peer::hello
};

}  // namespace verbena::server
