// A transport for tests. It wraps another one and keeps the contract, but nothing beyond it: requests and
// events are delayed, the cache lines of a transfer move in random order, a post() takes only some requests,
// connections break.
//
// Delays are counted in polls of the transport, so that a run in one thread is determined by the seed. A
// process may have several FaultyTransports, each used by one thread. A delayed request is carried out when
// its own transport is polled, or else when the connection is destroyed. So a test that polls one side only
// needs request_delay_probability = 0 and max_lines_per_poll = 0.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace verbena::transport {

/// By default the only random thing is the order of events for which the contract promises none.
struct FaultOptions {
  std::uint64_t seed = 0;

  // --- what the contract allows
  double request_delay_probability = 0;  ///< of a request: it is carried out some polls later
  double event_delay_probability = 0;    ///< of an event: it is seen some polls later
  std::uint32_t max_delay_polls = 8;
  /// Of a read or write: its cache lines move in random order, over several polls. The lines of a write mix
  /// with those of writes posted after it, if they do not overlap. A request that is refused in the end may
  /// have moved in part.
  double split_probability = 0;
  std::uint32_t max_lines_per_poll = 16;  ///< 0: all lines at once, without waiting for a poll
  /// Of a post(): it takes fewer requests than it could.
  double partial_post_probability = 0;
  bool mapped = true;  ///< false: no peer's memory is mapped, so that all reads are requests

  // --- failures
  std::optional<std::uint64_t> fail_at_request;  ///< the request, from 0, that breaks its connection
  double failure_probability = 0;                ///< of each connection to break at a poll
  std::uint64_t most_failures = UINT64_MAX;      ///< by that; then they stay
  OperationResult failure = OperationResult::kDeviceError;
  bool connections_may_break = false;  ///< what the transport says of itself
};

class FaultyConnection;

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> wrapped, const FaultOptions& options);
  ~FaultyTransport() override;

  /// Breaks a connection of this transport now.
  void fail(Connection& connection, OperationResult result);

  absl::StatusOr<std::unique_ptr<MemoryRegion>> allocate_region(std::size_t bytes, Access access) override;
  absl::Status listen(const std::string& address) override;
  [[nodiscard]] std::string listening_address() const override { return wrapped_->listening_address(); }
  absl::StatusOr<std::unique_ptr<Connection>> connect(const std::string& address,
                                                      TimePoint deadline) override;
  std::unique_ptr<Connection> take_accepted() override;
  [[nodiscard]] std::size_t poll(std::span<Event> events) override;
  void wait(TimePoint deadline) override;
  void interrupt() override { wrapped_->interrupt(); }
  absl::StatusOr<std::unique_ptr<Ticker>> start_ticker(Duration interval,
                                                       std::function<void()> tick) override {
    return wrapped_->start_ticker(interval, std::move(tick));
  }
  [[nodiscard]] TimePoint now() const override { return wrapped_->now(); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return wrapped_->max_message_bytes(); }
  [[nodiscard]] std::string_view name() const override { return wrapped_->name(); }
  [[nodiscard]] bool connections_may_break() const override {
    return options_.connections_may_break || wrapped_->connections_may_break();
  }

 private:
  friend class FaultyConnection;

  struct Accepted {
    std::unique_ptr<FaultyConnection> connection;
    std::uint64_t due = 0;
    bool announced = false;
  };

  [[nodiscard]] bool chance(double probability);
  [[nodiscard]] std::size_t below(std::size_t bound);  ///< 0 … bound − 1
  [[nodiscard]] std::uint64_t due_after(double delay_probability);
  [[nodiscard]] std::vector<FaultyConnection*> shuffled_connections();
  void poll_wrapped();
  std::size_t announce_accepted(std::span<Event> events);

  std::unique_ptr<Transport> wrapped_;
  const FaultOptions options_;
  std::mt19937_64 random_;
  std::uint64_t poll_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t failures_ = 0;
  std::vector<FaultyConnection*> connections_;  ///< in the order of their creation
  std::deque<Accepted> accepted_;
  std::vector<std::string> messages_;  ///< of the events that the last poll() returned
};

}  // namespace verbena::transport
