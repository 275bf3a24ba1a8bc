// A server's place among its copies: whom it follows, who follows it, and whether it is the one that serves
// (cluster/configuration.hpp). Without a source of configurations there is one copy, and it serves.
//
// Who follows hears nothing of workers but through the log. When a configuration makes it the first of the
// chain, it serves: workers come back to it, and say again what has not counted (Hello::is_back).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cluster/configuration.hpp"
#include "protocol/messages.hpp"
#include "server/log.hpp"
#include "server/peer.hpp"
#include "transport/transport.hpp"
#include <verbena/server.hpp>

namespace verbena::server {

/// Thread safety: belongs to the transport's thread.
class Chain {
 public:
  /// What the chain asks of its server.
  struct Host {
    std::function<void(Peer&, const protocol::ControlMessage&)> reply;
    std::function<Peer&(std::unique_ptr<transport::Connection>)> add_peer;
    std::function<void(Peer&)> drop;
    std::function<absl::StatusOr<transport::RemoteDescriptor>(transport::Connection&)> grant_heartbeat;
    /// A record counts.
    std::function<absl::Status(const WorkerMessage&)> go_by;
    std::function<void()> serve;  ///< from now on this copy serves
    std::function<void(const absl::Status&)> fail;
  };
  /// `workers`: by rank; each has a peer, if there is a source. All must outlive it.
  Chain(transport::Transport& transport, const ServerOptions& options, std::uint32_t lanes,
        const std::vector<Peer*>& workers, Host host);

  /// There may be other copies, now or later.
  [[nodiscard]] bool is_replicated() const { return source_ != nullptr; }
  [[nodiscard]] bool serves() const { return serves_; }
  /// The configuration that it goes by.
  [[nodiscard]] std::uint64_t configuration() const { return number_; }
  /// The first one of the chain has said that all is over.
  [[nodiscard]] bool is_dismissed() const { return is_dismissed_; }

  /// A worker has said something that changes what this server has, or has to keep its place in the order.
  /// Errors are those of the record, if it counts at once.
  absl::Status take(WorkerMessage record);
  /// Goes on with all of it; false: there was nothing to do.
  bool poll();
  [[nodiscard]] transport::TimePoint next_poll() const;
  /// The job is over, in one way or another.
  void dismiss_follower();
  void drop_log() { log_.drop(); }

  // Messages of those before and after this server.
  absl::Status on_follow(Peer& peer, const protocol::Follow& follow);
  absl::Status on_followed(Peer& peer, const protocol::Followed& followed);
  absl::Status on_record(Peer& predecessor, std::span<const std::byte> bytes);
  void on_goodbye(const Peer& peer);
  /// False: it has refused to be followed, and will be asked again.
  bool ends_with(const Peer& predecessor);
  /// The connection to one of them has ended.
  void on_gone(const Peer& peer);

 private:
  void follow_configuration();
  void adopt(const cluster::Configuration& newest);
  void connect();
  void watch_follower(transport::TimePoint now);

  transport::Transport& transport_;
  const ServerOptions& options_;
  const std::uint32_t lanes_;
  cluster::ConfigurationSource* const source_;
  const std::vector<Peer*>& workers_;
  const Host host_;
  Log log_;
  std::uint64_t number_ = 1;
  bool serves_ = true;
  bool is_dismissed_ = false;
  std::string predecessor_address_;  ///< empty: none
  std::string follower_address_;     ///< empty: none
  Peer* predecessor_ = nullptr;      ///< once it is connected
  Peer* follower_ = nullptr;         ///< once it has said so
  bool follower_knows_ = false;      ///< it has its answer
  bool follows_ = false;             ///< the predecessor has said that it does
  transport::TimePoint next_watch_ = transport::TimePoint::min();
  transport::TimePoint next_attempt_ = transport::TimePoint::min();
  /// Since when this server waits for a configuration, or for its neighbours; max(): it does not.
  transport::TimePoint waits_since_ = transport::TimePoint::max();
  std::string waits_for_;
};

}  // namespace verbena::server
