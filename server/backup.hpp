// Rows of dynamic tables come back when a node dies: each server sends images of its node's rows to the next
// server that is left, by rank, and keeps those of the one before (docs/decisions/0075-rows-come-back.md).
//
// Workers change rows in place, and whoever gives a row's lock back marks its header (protocol/slot.hpp).
// Each `backup_every_ms` a server looks at all rows of its node, takes the lock of each that is marked,
// copies it, and removes the mark. So an image is whole. It says at which epoch the node has the row; when
// the row leaves, that is said, too. What is sent counts when the other server has processed it.
//
// A server connects to those that it backs up, whose addresses workers tell it: the next server by rank may
// be gone, and another one takes its place then, and begins with all rows. Until these have come, rows that
// were not sent are lost if their node dies.
//
// When a server is gone, and nobody uses its rows any more (succession.hpp), what it has sent stays as it is.
// The home of a row that was there lets a worker ask for its image then, and no other server has the row.
//
// Thread safety: belongs to the transport's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "protocol/heirs.hpp"
#include "protocol/messages.hpp"
#include "server/moving_shard.hpp"
#include "server/peer.hpp"
#include "server/shards.hpp"
#include "transport/attempt_limit.hpp"
#include "transport/transport.hpp"
#include <verbena/server.hpp>

namespace verbena::server {

class Backup {
 public:
  /// What it needs of its server.
  class Host {
   public:
    virtual ~Host() = default;
    virtual Peer& add_peer(std::unique_ptr<transport::Connection> connection) = 0;
    virtual void reply(Peer& peer, const protocol::ControlMessage& message) = 0;
    /// Its connection ends.
    virtual void drop(Peer& peer) = 0;
    /// It is owed credit.
    virtual void attend(Peer& peer) = 0;
  };

  /// All of them must outlive it.
  Backup(transport::Transport& transport, const ServerOptions& options, const Shards& shards,
         const protocol::Heirs& heirs, Host& host);

  /// A table is opened. UNIMPLEMENTED if its rows are too long for a message.
  absl::Status add(MovingShard& shard) const;
  /// Does a bounded piece of work; false if there was nothing to do.
  bool poll();
  /// When poll() has something to do although nothing has arrived.
  [[nodiscard]] transport::TimePoint next_poll() const;

  /// From a worker. INVALID_ARGUMENT.
  absl::Status on_address(const protocol::ServerAt& at);
  /// The server is gone, as all will know. May be called several times.
  void on_server_gone(std::uint32_t server);
  /// Nobody uses the nodes that are gone any more: what they have sent is all.
  void on_rest();
  // From other servers. Errors: the connection is to end.
  absl::Status on_back_up(Peer& peer, const protocol::BackUp& back_up);
  absl::Status on_backed_up(Peer& peer, const protocol::BackedUp& backed_up);
  absl::Status on_notification(Peer& peer, std::uint32_t notification);
  /// The connection has ended.
  void on_gone(Peer& peer);

 private:
  /// Another server, of which this one may keep images.
  struct Source {
    std::string address;   ///< empty: not known
    Peer* peer = nullptr;  ///< connected
    transport::AttemptLimit attempt;
    transport::TimePoint next_attempt;
    std::deque<std::span<const std::byte>> messages;  ///< that have come, in the ring
    bool has_all = false;                             ///< it has sent all rows once
    transport::TimePoint as_of;                       ///< what has changed there before that moment has come
    transport::TimePoint last_all_sent;
    transport::TimePoint gone_at = transport::TimePoint::max();
    bool is_closed = false;  ///< nothing that it says counts any more
  };
  [[nodiscard]] bool is_kept(std::uint32_t server) const;
  bool connect(std::uint32_t server, Source& source);
  void forget_images(std::uint32_t server);
  bool take_messages(std::uint32_t server, Source& source);
  absl::StatusOr<bool> take_message(std::uint32_t server, Source& source);
  void tell_what_comes_back(std::uint32_t server, const Source& source) const;
  void lose_keeper();
  bool send();
  bool flush();
  bool send_what_has_left();
  bool look_at_rows();
  void put(protocol::BulkKind kind, std::uint32_t table, std::uint32_t count,
           std::span<const std::byte> payload);

  transport::Transport& transport_;
  const ServerOptions& options_;
  const Shards& shards_;
  const protocol::Heirs& heirs_;
  Host& host_;
  std::map<std::uint32_t, Source> sources_;
  transport::TimePoint waits_for_keeper_until_;
  // The server that keeps images of this node's rows, and what it is sent.
  Peer* keeper_ = nullptr;
  std::uint32_t keeper_rank_ = 0;
  std::deque<std::vector<std::byte>> messages_;  ///< to be sent, in their order: few
  transport::TimePoint next_look_;
  bool is_looking_ = false;
  std::size_t table_ = 0;     ///< of Shards::outside_lanes(), at which it looks
  std::size_t tables_ = 0;    ///< how many there were when it began to look
  std::size_t sent_all_ = 0;  ///< of so many of them all rows were sent
  Key next_ = 0;              ///< of the table, to be looked at
};

}  // namespace verbena::server
