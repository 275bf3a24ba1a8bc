// A network's cost on one host: a transport over shared memory through which bytes arrive when a network of a
// given latency and bandwidth would have brought them.
//
// Bytes are moved at once; what is late is that the other side learns of them. Each notification and message
// is preceded by one that says when it is to arrive, by the clock that the processes of a host share; the
// receiver's transport keeps it until then. So a sender that computes, and does not poll, sends as an adapter
// would. A one-sided read completes late. No memory of a peer is mapped. A process sends one thing after the
// other at its link's rate, and receives so; what is in between is no bottleneck. Setting a connection up
// costs nothing, nor do memory grants.
//
// Some processes may be on one host: connections to addresses that the transport is told to be near are as
// they are over shared memory, their memory mapped where it can be, and take nothing of the links. Only the
// side that connects knows the address; its first message tells the other side.
//
// All processes of a job must use it. Waiting for what is to arrive blocks and uses no processor; a latency
// below some 10 µs is lost in how late the host wakes a thread.
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
  transport::Duration latency{0};  ///< of one direction
  double bits_per_second = 0;      ///< of each node's link, in each direction; 0: no bound
};

/// "latency=10us,bandwidth=1Gb/s", or one of them. INVALID_ARGUMENT says what was expected.
absl::StatusOr<NetworkCost> parse_network(std::string_view text);

/// Between which processes of a job the network lies.
enum class Hosts : std::uint8_t {
  kProcesses,  ///< each is a host
  kNodes,      ///< a server and the workers whose node it is are one host
};
struct JobNetwork {
  NetworkCost cost;
  Hosts hosts = Hosts::kProcesses;
};
/// As parse_network(), and maybe hosts=nodes or hosts=processes.
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

  /// How long a link is busy with so many bytes.
  [[nodiscard]] transport::Duration on_the_link(std::size_t bytes) const;
  void poll_wrapped();
  std::size_t announce_accepted(std::span<transport::Event> events);

  std::unique_ptr<transport::Transport> wrapped_;
  const NetworkCost cost_;
  const std::vector<std::string> near_;
  transport::TimePoint sending_until_;    ///< the own link, outwards
  transport::TimePoint receiving_until_;  ///< and inwards
  std::vector<DelayedConnection*> connections_;
  std::deque<Accepted> accepted_;
  std::vector<std::string> messages_;  ///< of the events that the last poll() returned
};

}  // namespace verbena::apps
