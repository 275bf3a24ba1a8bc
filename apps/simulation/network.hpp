// The network between many nodes in one process. It keeps the transport's contract and nothing beyond it:
// every transfer takes its time, its lines become visible in random order before its notification or
// completion, connections overtake each other, queues fill, links break, nodes die.
//
// Everything that happens is a function of the seed and of the order of calls. Time comes from a Pacer: the
// scheduler's virtual time for simulations (scheduler.hpp), the wall clock for the contract tests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "apps/simulation/network_cards.hpp"
#include "transport/transport.hpp"

namespace verbena::simulation {

using transport::Duration;
using transport::TimePoint;

using TaskId = std::uint32_t;

/// Where time comes from, and what a task does while it waits.
class Pacer {
 public:
  virtual ~Pacer() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
  /// The task has called the network: other tasks may run first.
  virtual void step(TaskId task) = 0;
  /// Returns after wake(task), at `until`, or earlier without a reason.
  virtual void block(TaskId task, TimePoint until) = 0;
  /// May be called from any thread and from signal handlers. Does not call back.
  virtual void wake(TaskId task) = 0;
};

/// Real time, for tests with real threads.
class WallClock final : public Pacer {
 public:
  [[nodiscard]] TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void step(TaskId /*task*/) override {}
  void block(TaskId task, TimePoint until) override;
  void wake(TaskId /*task*/) override {}
};

struct NetworkOptions {
  std::uint64_t seed = 0;
  Duration min_latency = std::chrono::microseconds(1);
  Duration max_latency = std::chrono::microseconds(30);
  double bytes_per_ns = 4;
  double split_probability = 0.5;  ///< for each transfer: its lines move in several lots
  std::size_t line_bytes = 64;     ///< that move at once, a power of two from 8 to 64
  double partial_post_probability = 0;
  std::size_t queue_depth = 64;  ///< requests that a connection takes; messages find room beyond
  /// Grants that wait for a peer to poll, of each connection; more are put off (ABORTED).
  std::uint32_t most_untaken_grants = UINT32_MAX;
  bool mapped = true;                               ///< false: no peer's memory can be addressed
  bool connections_may_break = false;               ///< what transports say of themselves
  std::size_t memory_bytes = std::size_t{1} << 36;  ///< the largest region
  /// The cards decide, instead of chance, how long each transfer takes; a transfer then moves as a whole.
  /// Must outlive the network.
  NetworkCards* cards = nullptr;
};

class SimulatedTransport;
class SimulatedConnection;
class SimulatedTicker;
struct End;
struct Link;
struct Request;

/// All nodes' connections and what is under way between them. Thread-safe.
class Network {
 public:
  Network(Pacer& pacer, const NetworkOptions& options);
  ~Network();

  /// A node's transport; `task` is the one that waits in it. The network must outlive it.
  std::unique_ptr<SimulatedTransport> make_transport(TaskId task, std::string name);

  /// Kills the node: its connections fail at once, its peers learn of it some time later, and what was under
  /// way is lost.
  void kill(SimulatedTransport& node);
  /// Stops the node's process, as SIGSTOP does: its tickers do not tick. (The pacer decides what its tasks
  /// do.)
  void stop(SimulatedTransport& node, TimePoint until);
  /// Cuts a random connection of the node, or one with `peer` if that is given; false if there is none.
  bool cut_a_link(const SimulatedTransport& node, const SimulatedTransport* peer = nullptr);

  /// The time of the next action; TimePoint::max() if nothing is under way.
  [[nodiscard]] TimePoint next() const;
  /// Runs all actions that are due.
  void run_due();

 private:
  friend class SimulatedTransport;
  friend class SimulatedConnection;
  friend class SimulatedRegion;
  friend class SimulatedTicker;

  /// An action at a time: a step of a request, or of a side of a link.
  struct Action {
    enum class Kind : std::uint8_t {
      kBegin,
      kLot,
      kLeave,
      kArrive,
      kReach,    ///< with cards, from here on: a request has reached the peer's card
      kDeliver,  ///< the peer's card has taken in a write or a message
      kServe,    ///< it has taken in a read: the data is sent back
      kReturn,   ///< a read's data has reached the card of the reader
      kFinish,   ///< that card has taken the data in
      kAnnounce,
      kDisconnect
    };
    TimePoint at;
    std::uint64_t sequence = 0;
    Kind kind = Kind::kBegin;
    std::uint8_t side = 0;
    std::uint32_t lot = 0;
    std::uint64_t request = 0;
    std::shared_ptr<Link> link;
  };
  struct Later {
    bool operator()(const Action& a, const Action& b) const {
      return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
    }
  };

  void run_due_locked();
  void tick(TimePoint now);
  void run(const Action& action);
  void at(TimePoint time, Action::Kind kind, const std::shared_ptr<Link>& link, std::uint8_t side,
          std::uint64_t request = 0, std::uint32_t lot = 0);
  std::size_t post(const std::shared_ptr<Link>& link, std::uint8_t side,
                   std::span<const transport::WorkRequest> requests);
  void schedule(const std::shared_ptr<Link>& link, std::uint8_t side, const transport::WorkRequest& work);
  void draw_times(const std::shared_ptr<Link>& link, std::uint8_t side, Request& request);
  void begin(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number);
  void move_lot(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number,
                std::uint32_t lot);
  void reach(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number);
  void deliver(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number);
  void serve(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number);
  void come_back(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number);
  void finish(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number);
  void complete(const std::shared_ptr<Link>& link, std::uint8_t side, Request& request);
  void leave(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number);
  void arrive(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number);
  void announce(const std::shared_ptr<Link>& link);
  void raise(Link& link, std::uint8_t side, transport::Event event, std::string message = {});
  void fail(const std::shared_ptr<Link>& link, std::uint8_t side, transport::OperationResult result,
            const char* reason);
  void close(const std::shared_ptr<Link>& link, std::uint8_t side);
  void break_link(const std::shared_ptr<Link>& link);
  [[nodiscard]] bool is_cut(const Link& link) const;
  void touch(const std::shared_ptr<Link>& link, std::uint8_t side);
  void tell_of_room(End& end);
  void forget_ended_links();

  [[nodiscard]] Duration latency();
  [[nodiscard]] TimePoint between(TimePoint first, TimePoint last);
  [[nodiscard]] bool chance(double probability);
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);

  Pacer& pacer_;
  const NetworkOptions options_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::uint64_t sequence_ = 0;
  std::uint64_t keys_ = 0;
  std::vector<Action> actions_;  ///< a heap, the next one first
  std::map<std::string, SimulatedTransport*> listeners_;
  std::vector<SimulatedTicker*> tickers_;
  TimePoint next_tick_ = TimePoint::max();
  std::vector<std::shared_ptr<Link>> links_;
  std::size_t links_to_look_at_ = 64;  ///< at this many links, those that have ended are forgotten
};

}  // namespace verbena::simulation
