// What becomes of a link whose server is gone, if the server has copies (cluster/configuration.hpp): it waits
// for a configuration in which another copy serves, connects to that one, and says again what not all copies
// had. Nothing is lost, and nothing counts twice.
//
//  1. Lost. Nothing is sent to the server; its memory, where it is mapped, is read as before: what it holds
//     is as good as the clocks say that it has told, and it tells no newer ones.
//  2. Joining. The copy says how many of this worker's messages it has. Those after that are sent again, in
//     their order, and only then anything new. It tells again where the tables are.
//  3. Up. What was cached is worth the clock that was told last; operations that were reading begin anew.
//
// What the former server was told with, and its memory, stays until the worker's clock ends: somebody may be
// reading there.
#pragma once

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
  /// `source`: nullptr, servers have no copies.
  Mending(SessionCore& session, std::shared_ptr<cluster::ConfigurationSource> source)
      : session_(session), source_(std::move(source)) {}

  [[nodiscard]] bool is_possible() const { return source_ != nullptr; }
  /// Waits for a configuration. OK at once if servers have no copies.
  absl::Status begin(transport::TimePoint deadline);
  /// The first connection to the server, wherever it is by then. Errors: as Transport::connect(). REQUIRES:
  /// is_possible()
  absl::StatusOr<std::unique_ptr<transport::Connection>> connect_to(std::uint32_t server,
                                                                    transport::TimePoint deadline);
  [[nodiscard]] std::uint64_t configuration() const { return source_ == nullptr ? 1 : number_; }

  /// The connection has ended. REQUIRES: is_possible()
  void lose(ServerLink& link);
  /// The server shows no sign of life.
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

  void take_newest();
  bool reconnect(ServerLink& link);
  void say_again(ServerLink& link);
  void end(ServerLink& link);

  SessionCore& session_;
  const std::shared_ptr<cluster::ConfigurationSource> source_;
  std::uint64_t number_ = 0;            ///< of the configuration that the links go by
  std::vector<std::string> addresses_;  ///< of the servers, in it
  std::vector<Former> former_;
  bool suspects_ = false;  ///< somebody, and the source is to tell others
};

}  // namespace verbena::worker
