// A node's transport over a simulated network.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/simulation/network.hpp"
#include "transport/transport.hpp"

namespace verbena::simulation {

/// Hears what a node does: a model of the work of the node's processor. The calls come in the node's own
/// task, which may spend time in them.
class Meter {
 public:
  virtual ~Meter() = default;
  /// Called before the card takes the request.
  virtual void posts(const transport::WorkRequest& request) = 0;
  /// Called before the poll returns the events.
  virtual void polled(std::span<const transport::Event> events) = 0;
};

class SimulatedTransport final : public transport::Transport {
 public:
  ~SimulatedTransport() override;

  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> allocate_region(std::size_t bytes,
                                                                           transport::Access access) override;
  /// Addresses are "sim:NAME".
  absl::Status listen(const std::string& address) override;
  [[nodiscard]] std::string listening_address() const override { return listening_address_; }
  absl::StatusOr<std::unique_ptr<transport::Connection>> connect(const std::string& address,
                                                                 TimePoint deadline) override;
  std::unique_ptr<transport::Connection> take_accepted() override;
  [[nodiscard]] std::size_t poll(std::span<transport::Event> events) override;
  void wait(TimePoint deadline) override;
  void interrupt() override;
  /// The ticker ticks in the network's time, and not while the node is stopped or dead.
  absl::StatusOr<std::unique_ptr<transport::Ticker>> start_ticker(Duration interval,
                                                                  std::function<void()> tick) override;
  [[nodiscard]] TimePoint now() const override { return network_.pacer_.now(); }
  [[nodiscard]] std::size_t max_message_bytes() const override;
  [[nodiscard]] std::string_view name() const override { return "simulated"; }
  [[nodiscard]] bool connections_may_break() const override {
    return network_.options_.connections_may_break;
  }

  /// The node's card, if the network has cards.
  [[nodiscard]] std::uint32_t card() const { return card_; }
  /// By default there is no meter. `meter` must outlive the transport.
  void set_meter(Meter* meter) { meter_ = meter; }
  /// After `regions` more regions there is no memory left, and `told` is called each time.
  void refuse_regions_after(std::uint64_t regions, std::function<void()> told) {
    regions_left_ = regions;
    told_of_refusal_ = std::move(told);
  }
  /// One-sided reads posted so far.
  [[nodiscard]] std::uint64_t reads() const { return reads_; }

 private:
  friend class Network;
  friend class SimulatedConnection;
  friend class SimulatedTicker;

  struct Pending {
    transport::Event event;
    std::string message;
    Link* link = nullptr;  ///< nullptr: kAccepted
    std::uint8_t side = 0;
  };
  struct Incoming {
    std::shared_ptr<Link> link;
    bool announced = false;
  };

  SimulatedTransport(Network& network, TaskId task, std::string name)
      : network_(network), task_(task), name_(std::move(name)) {}

  std::size_t take_events(std::span<transport::Event> events);

  Network& network_;
  const TaskId task_;
  const std::string name_;
  std::string listening_address_;
  std::deque<Pending> pending_;
  std::deque<Incoming> incoming_;
  /// The links of this node to which something has happened since the last poll().
  std::vector<std::pair<std::shared_ptr<Link>, std::uint8_t>> touched_;
  std::vector<std::string> messages_;  ///< messages of the events that the last poll() returned
  std::atomic<bool> interrupted_ = false;
  bool unblocked_ = false;   ///< a connection that has refused requests has room again
  std::uint64_t polls_ = 0;  ///< guarded by the network
  bool dead_ = false;
  TimePoint stopped_until_;
  std::optional<std::uint64_t> regions_left_;  ///< nullopt: any number
  std::function<void()> told_of_refusal_;
  std::uint32_t card_ = 0;
  Meter* meter_ = nullptr;
  std::uint64_t reads_ = 0;
};

}  // namespace verbena::simulation
