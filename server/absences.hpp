// Workers that are gone without a goodbye, or show no sign of life: whether their server waits for them, for
// how long, and when it goes on without them.
//
//  - Another process may take the place of one that has died (ServerOptions::replaces_workers): whoever
//    starts processes knows for how long it is worth waiting, and ends one that is silent. One that gives up
//    is as good as dead, and ends nothing: it may be one whose place another one is about to take.
//  - One whose connection has broken may live, and come back over another one
//    (Transport::connections_may_break()): it is waited for as long as silence may last.
//  - It may have left for the copy that has this server's place (Mending), before this server has heard that.
//  - Of one that is silent, its own host has not answered for as long. Otherwise, that is the end.
//
// Nobody is waited for while rows move: a worker changes them without their server, and what was on its way
// cannot be said again.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/peer.hpp"
#include "transport/transport.hpp"
#include <verbena/server.hpp>

namespace verbena::server {

/// Thread safety: belongs to the transport's thread.
class Absences {
 public:
  /// What it asks of its server.
  class Host {
   public:
    virtual ~Host() = default;
    [[nodiscard]] virtual bool has_failed() const = 0;
    [[nodiscard]] virtual bool has_rows_that_move() const = 0;
    virtual void fail(const absl::Status& because) = 0;
    /// What workers say does not count yet: one that is back has to wait for that.
    [[nodiscard]] virtual bool waits_for_workers() const = 0;
    /// Nobody comes back, or takes its place.
    virtual void go_on_without(Peer& worker, const absl::Status& why) = 0;
  };
  /// `workers`: by rank; nullptr before hello. All must outlive it.
  Absences(const transport::Transport& transport, const ServerOptions& options,
           const std::vector<Peer*>& workers, Host& host)
      : transport_(transport), options_(options), workers_(workers), host_(host) {}

  /// See Server::set_suspect().
  void set_suspect(std::function<void(std::uint32_t worker, const absl::Status& why)> suspect) {
    suspect_ = std::move(suspect);
  }
  /// A worker whose connection breaks may come back.
  [[nodiscard]] bool waits_for_connections() const;
  /// Another process may take the place of a worker that is gone.
  [[nodiscard]] bool waits_for_others() const;

  /// Its connection has ended without a goodbye. May be said again.
  void begin(Peer& worker, const absl::Status& why);
  /// Called in each poll. `is_idle`: nothing has happened; else the clock is read now and then only.
  void poll(bool is_idle);
  /// When poll() has something to do.
  [[nodiscard]] transport::TimePoint next_poll() const;

 private:
  [[nodiscard]] bool may_be_left_out() const;
  void give_up_waiting();
  void watch();

  const transport::Transport& transport_;
  const ServerOptions& options_;
  const std::vector<Peer*>& workers_;
  Host& host_;
  std::function<void(std::uint32_t, const absl::Status&)> suspect_;
  /// The first of workers' Peer::Absence::until that may pass.
  transport::TimePoint first_end_ = transport::TimePoint::max();
  transport::TimePoint next_watch_;       ///< when heartbeats are looked at
  std::uint32_t polls_before_watch_ = 1;  ///< polls with events, before the clock is read
};

}  // namespace verbena::server
