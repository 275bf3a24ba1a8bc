// The cost of a network on one host: a transport over shared memory in which bytes arrive when a network with
// a given latency and bandwidth would have brought them.
//
// Bytes move at once, but the other side learns of them late. Before each notification and message goes
// another message, the stamp. It says when the notification or message is to arrive, by the clock that the
// processes of a host share; the receiver's transport keeps it until then. So a sender that computes, and
// does not poll, sends as an adapter would. A one-sided read completes late. No memory of a peer is mapped. A
// process sends one thing after the other at its link's rate, and receives in the same way; the network in
// between is no bottleneck. Setting up a connection and granting memory cost nothing.
//
// Some processes may be on one host: connections to addresses that the transport is told are near work as
// over shared memory. Their memory is mapped where possible, and they use no time of the links. Only the side
// that connects knows the address; its first message tells the other side.
//
// All processes of a job must use it. Waiting for what is to arrive blocks and uses no processor; a latency
// below about 10 µs is smaller than the delay with which the host wakes a thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::apps {

struct NetworkCost {
  transport::Duration latency{0};  ///< in one direction
  double bits_per_second = 0;      ///< of each node's link, in each direction; 0: no bound
};

/// "latency=10us,bandwidth=1Gb/s", or one of them. INVALID_ARGUMENT says what was expected.
absl::StatusOr<NetworkCost> parse_network(std::string_view text);

/// Between which processes of a job the network lies.
enum class Hosts : std::uint8_t {
  kProcesses,  ///< each process is a host
  kNodes,      ///< a server and the workers of its node are one host
};
struct JobNetwork {
  NetworkCost cost;
  Hosts hosts = Hosts::kProcesses;
};
/// As parse_network(), optionally with hosts=nodes or hosts=processes.
absl::StatusOr<JobNetwork> parse_job_network(std::string_view text);

class DelayedConnection;

class DelayedTransport final : public transport::Transport {
 public:
  /// `near`: addresses on this process's own host.
  DelayedTransport(std::unique_ptr<transport::Transport> wrapped, const NetworkCost& cost,
                   std::vector<std::string> near = {});
  ~DelayedTransport() override;

  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> allocate_region(std::size_t bytes,
                                                                           transport::Access access) override;
  absl::Status listen(const std::string& address) override { return wrapped_->listen(address); }
  [[nodiscard]] std::string listening_address() const override { return wrapped_->listening_address(); }
  absl::StatusOr<std::unique_ptr<transport::Connection>> connect(const std::string& address,
                                                                 transport::TimePoint deadline) override;
  std::unique_ptr<transport::Connection> take_accepted() override;
  [[nodiscard]] std::size_t poll(std::span<transport::Event> events) override;
  void wait(transport::TimePoint deadline) override;
  void interrupt() override { wrapped_->interrupt(); }
  absl::StatusOr<std::unique_ptr<transport::Ticker>> start_ticker(transport::Duration interval,
                                                                  std::function<void()> tick) override {
    return wrapped_->start_ticker(interval, std::move(tick));
  }
  [[nodiscard]] transport::TimePoint now() const override { return wrapped_->now(); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return wrapped_->max_message_bytes(); }
  [[nodiscard]] std::string_view name() const override { return wrapped_->name(); }

 private:
  friend class DelayedConnection;

  struct Accepted {
    std::unique_ptr<DelayedConnection> connection;
    bool announced = false;
  };

  /// How long a link is busy with `bytes`.
  [[nodiscard]] transport::Duration on_the_link(std::size_t bytes) const;
  void poll_wrapped();
  std::size_t announce_accepted(std::span<transport::Event> events);

  std::unique_ptr<transport::Transport> wrapped_;
  const NetworkCost cost_;
  const std::vector<std::string> near_;
  transport::TimePoint sending_until_;    ///< until when our own link sends
  transport::TimePoint receiving_until_;  ///< until when it receives
  std::vector<DelayedConnection*> connections_;
  std::deque<Accepted> accepted_;
  std::vector<std::string> messages_;  ///< messages of the events that the last poll() returned
};

}  // namespace verbena::apps
