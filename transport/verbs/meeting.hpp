// How a connection comes about: the connector's attempts to reach a listener, and the acceptor's answer
// (introduction.hpp has what they say to each other).
//
// A connector asks for an address and a route, asks the listener, and answers its challenge; where it gets no
// further it begins anew after a pause, until its deadline. Whoever owns the connection makes the queue pair
// when ask() or answer() comes up, and opens the connection when the meeting has succeeded. An error that a
// function returns is the end of the connection. For the transport's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/verbs/hub.hpp"
#include "transport/verbs/introduction.hpp"
#include "transport/verbs/manager_event.hpp"
#include "transport/verbs/queue_pair.hpp"

namespace verbena::transport::verbs {

class Meeting {
 public:
  enum class Role : std::uint8_t { kConnector, kAcceptor };

  /// `user` gets the events of the identifier. All references outlive it.
  Meeting(const Hub& hub, QueuePair& queue_pair, ManagerUser& user, Role role);

  [[nodiscard]] bool connects() const { return role_ == Role::kConnector; }
  /// The connector's; at the connector: of the last attempt.
  [[nodiscard]] const Opening& opening() const { return opening_; }
  /// Since when this side has waited for the answer of a listener that is there.
  [[nodiscard]] std::optional<TimePoint> asked_at() const { return asked_at_; }
  /// The connection is open.
  void end() { asked_at_.reset(); }

  // The connector.
  /// Begins with the first attempt. `address` is the listener's, for errors.
  absl::Status seek(std::string address, const sockaddr_storage& destination, TimePoint deadline);
  [[nodiscard]] const std::string& address() const { return address_; }
  /// The address is resolved: asks for the route.
  absl::Status seek_route();
  /// There is a route, and a queue pair: asks the listener.
  absl::Status ask();
  /// Checks what the listener has said.
  absl::StatusOr<Welcome> take_answer(const ManagerEvent& event, const std::string& peer) const;
  /// The listener has rejected the request: begins anew, maybe with the answer to a challenge.
  absl::Status take_refusal(const ManagerEvent& event);
  /// The attempt has come to nothing: destroys the queue pair, and begins anew after a pause.
  void abandon(std::string obstacle);

  // The acceptor.
  /// The connector must be there by the deadline.
  void expect(const Opening& opening, TimePoint deadline);
  /// There is a queue pair: tells the connector that it is accepted.
  absl::Status answer(const ManagerEvent& request, const std::string& peer);

  /// Call it at intervals while the connection is connecting. DEADLINE_EXCEEDED says what stood in the way.
  absl::Status tick(TimePoint now, const std::string& peer);

 private:
  absl::Status start_attempt();
  void prepare_opening();
  absl::Status take_challenge(const Refusal& challenge);

  const Hub& hub_;
  QueuePair& queue_pair_;
  ManagerUser& user_;
  const Role role_;
  std::string address_;  ///< of the listener
  sockaddr_storage destination_{};
  TimePoint deadline_;
  TimePoint next_attempt_;
  Duration attempt_pause_;
  std::optional<TimePoint> asked_at_;
  std::string obstacle_;     ///< why the last attempt failed
  bool is_refused_ = false;  ///< its host has answered then
  Opening opening_;
  bool answers_ = false;  ///< the next attempt answers a challenge, which is in opening_
};

}  // namespace verbena::transport::verbs
