// What becomes of a link whose connection has ended without a goodbye. If the server has copies
// (cluster/configuration.hpp), it waits for a configuration in which another copy serves, connects to that
// one, and says again what not all copies had. If connections may break while both sides live, it connects to
// the same server again, too, which knows it, and says again what that has not heard. Nothing is lost, and
// nothing counts twice. "The copy" is whichever of these it has connected to.
//
// Where those who are left out of a configuration may go on (ConfigurationSource::ends_who_is_left_out()), a
// link is lost, too, as soon as this worker hears of such a configuration, whatever its connection says: what
// is under way over it has ended before there is another one.
//
//  1. Lost. Nothing is sent to the server; its memory, where it is mapped, is read as before: what it holds
//     is as good as the clocks say that it has told, and it tells no newer ones. If a read must find what
//     others were told of (sequential, vap), it is read as long as nobody serves in its place: on one host
//     see heed_decisions(); where those who are left out may go on, the copy waits for this worker
//     (server/chain.hpp).
//  2. Joining. The copy says how many of this worker's messages it has. Those after that are sent again, in
//     their order, and only then anything new. It tells again where the tables are.
//  3. Up. What was cached is worth the clock that was told last; operations that were reading begin anew.
//
// What the former server was told with, and its memory, stays until the worker's clock ends: somebody may be
// reading there.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cluster/configuration.hpp"
#include "protocol/messages.hpp"
#include "transport/heartbeat.hpp"
#include "transport/message_ring.hpp"
#include "transport/transport.hpp"
#include "worker/server_link.hpp"

namespace verbena::worker {

class SessionCore;

/// Thread safety: none; belongs to its session.
class Mending {
 public:
  /// `source`: nullptr, servers have no copies. `connections_may_break`: the transport's.
  Mending(SessionCore& session, std::shared_ptr<cluster::ConfigurationSource> source,
          bool connections_may_break)
      : session_(session), source_(std::move(source)), connections_may_break_(connections_may_break) {}

  [[nodiscard]] bool has_copies() const { return source_ != nullptr; }
  /// Another process, on another host, may become a server.
  [[nodiscard]] bool servers_may_move() const { return has_copies() && !source_->ends_who_is_left_out(); }
  /// Of links, as long as there is no table whose rows move: what is under way about those cannot be said
  /// again.
  [[nodiscard]] bool is_possible() const { return has_copies() || connections_may_break_; }
  /// Waits for a configuration. OK at once if servers have no copies.
  absl::Status begin(transport::TimePoint deadline);
  /// The first connection to the server, wherever it is by then. Errors: as Transport::connect(). REQUIRES:
  /// has_copies()
  absl::StatusOr<std::unique_ptr<transport::Connection>> connect_to(std::uint32_t server,
                                                                    transport::TimePoint deadline);
  [[nodiscard]] std::uint64_t configuration() const { return source_ == nullptr ? 1 : number_; }

  /// Called by each read that must find what others were told of before it began, and before it looks at
  /// serves(). If another configuration was decided, no server serves until it is known which those are.
  ///
  /// That this comes before the read, in the same operation, is enough. If the server has died since, its
  /// rows are what they were then, and all that anybody was told of until the next configuration: the read is
  /// right for a moment within its operation. If another server has told anybody of anything before the
  /// operation began, the number had been decided before that, and is found here.
  void heed_decisions() {
    if (source_ != nullptr && source_->decided() > number_) doubt();
  }
  /// The process that serves in the configuration that this worker goes by is the one that it reads, and no
  /// other configuration was decided, as far as was heeded.
  [[nodiscard]] bool serves(const ServerLink& link) const {
    return source_ == nullptr || (!is_in_doubt_ && read_[link.server] == serving_[link.server]);
  }

  /// The connection has ended. False: it cannot be mended.
  bool lose(ServerLink& link);
  /// The server shows no sign of life. REQUIRES: has_copies()
  void suspect(const ServerLink& link, const absl::Status& why);
  /// Called in each poll.
  void step();
  /// When there is something to do although nothing has arrived; max(): never.
  [[nodiscard]] transport::TimePoint next_step() const;
  /// The copy's welcome has been taken.
  absl::Status on_welcome(ServerLink& link, const protocol::Welcome& welcome);
  /// A table that this worker has opened is where the copy says.
  absl::Status on_table(ServerLink& link, const protocol::TableOpened& opened);

  /// Nobody is reading in memory of servers. What is left of those that are gone goes, but for those whose
  /// tables nobody has told anew yet.
  void forget_former();

 private:
  /// What is left of a connection. The connection ends first.
  struct Former {
    std::unique_ptr<transport::HeartbeatWatch> watch;
    std::unique_ptr<transport::RingSender> inbox;
    std::unique_ptr<transport::RingReceiver> push_ring;
    std::unique_ptr<transport::Connection> connection;
  };

  [[nodiscard]] bool all_are_up() const;
  bool lose(ServerLink& link, const std::string& why, bool has_ended);
  void leave_who_is_left_out();
  void leave(ServerLink& link);
  void doubt();
  void adopt_newest();
  void take_newest();
  [[nodiscard]] std::chrono::milliseconds patience() const;
  bool is_overdue(const ServerLink& link);
  [[nodiscard]] bool is_to_be_served_by_another(const ServerLink& link) const;
  void suspect_who_does_not_serve(const ServerLink& link);
  [[nodiscard]] std::string address_to_try(ServerLink& link);
  bool reconnect(ServerLink& link);
  void say_again(ServerLink& link);
  void end(ServerLink& link);

  SessionCore& session_;
  const std::shared_ptr<cluster::ConfigurationSource> source_;
  const bool connections_may_break_;
  std::uint64_t number_ = 0;            ///< of the configuration that this worker goes by
  std::vector<std::string> serving_;    ///< in it, by server; empty: none is left
  std::uint64_t has_left_for_ = 0;      ///< the configuration for which it has left those that have no place
  std::vector<std::string> addresses_;  ///< of those that the links are of, which may be gone
  std::vector<std::string> read_;       ///< of those in whose memory all tables are read
  std::vector<Former> former_;
  transport::TimePoint last_step_ = transport::TimePoint::max();  ///< in which a link was not up; max(): none
  bool suspects_ = false;     ///< somebody, and the source is to tell others
  bool is_in_doubt_ = false;  ///< a configuration was decided that is not known yet
};

}  // namespace verbena::worker
