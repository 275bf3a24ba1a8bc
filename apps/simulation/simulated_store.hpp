// A coordination store in virtual time, with all that a real one may do to those who use it: it answers late
// or not at all, carries out a transaction and loses the answer, tells of changes late, cuts watches or
// misses changes without a word, lets leases live too long, and goes away. Its entries, leases and revisions
// are those of cluster/store_state.hpp.
//
// Everything that happens is a function of the seed and of the order and times of calls.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "cluster/store.hpp"
#include "cluster/store_state.hpp"

namespace verbena::simulation {

struct StoreFaults {
  std::uint64_t seed = 0;
  transport::Duration min_latency = std::chrono::microseconds(200);  ///< each way
  transport::Duration max_latency = std::chrono::milliseconds(5);
  // Probabilities, of each request:
  double lost_request = 0;  ///< it does not arrive; whoever asks notices at once
  double lost_answer = 0;   ///< it is carried out; the connection breaks before the answer
  double silence = 0;       ///< it is carried out or not, and there is no answer
  // Of each time that a watch is told something:
  double late_events = 0;  ///< by up to max_event_delay
  double cut_watch = 0;    ///< it ends instead
  double lost_events = 0;  ///< it is not told, and goes on
  transport::Duration max_event_delay = std::chrono::seconds(3);
  /// The store's clock is slower by this share: leases live longer.
  double lease_drift = 0;
};

/// What all stores of one job share.
class SimulatedStoreService {
 public:
  explicit SimulatedStoreService(const StoreFaults& faults, const cluster::StoreStateOptions& options = {})
      : faults_(faults), state_(options), random_(faults.seed) {}

  /// Away: nobody is answered, watches end, and leases live on until it comes back and a little longer.
  void set_available(bool available, transport::TimePoint now);
  [[nodiscard]] bool is_available() const { return is_available_; }
  /// As a new leader does: watches end, leases begin anew.
  void change_leader(transport::TimePoint now);

  cluster::StoreState& state() { return state_; }

 private:
  friend class SimulatedStore;

  [[nodiscard]] transport::TimePoint own_time(transport::TimePoint now) const;
  [[nodiscard]] transport::TimePoint next_expiry() const;
  bool happens(double probability) { return std::bernoulli_distribution(probability)(random_); }
  transport::Duration draw(transport::Duration least, transport::Duration most);

  const StoreFaults faults_;
  cluster::StoreState state_;
  std::mt19937_64 random_;
  bool is_available_ = true;
  std::uint64_t term_ = 1;  ///< watches of earlier terms have been cut
};

/// One process's. Whoever drives several asks each for next_poll() after any of them was polled: what one has
/// changed another is told. REQUIRES: `service` outlives it.
class SimulatedStore final : public cluster::Store {
 public:
  explicit SimulatedStore(SimulatedStoreService& service) : service_(service) {}

  void add_descriptors(std::vector<pollfd>& /*wanted*/) const override {}

 private:
  struct Action {
    enum class Kind : std::uint8_t { kArrive, kAnswer, kBreak, kRefuse, kBeginWatch, kTellWatch };
    Kind kind = Kind::kArrive;
    std::uint64_t id = 0;  ///< of a request or watch
    cluster::Request request;
    absl::StatusOr<cluster::Answer> answer = absl::UnknownError("");
  };

  void step(transport::TimePoint now) override;
  [[nodiscard]] transport::TimePoint next_step() const override;
  void on_unwatched(WatchId watch) override { terms_.erase(watch); }

  void begin(transport::TimePoint now);
  void act(Action action, transport::TimePoint now);
  void arrive(Action action, transport::TimePoint now);
  void begin_watch(WatchId id);
  void tell_watch(WatchId id);
  void cut(WatchId id, std::string_view why);
  void schedule(transport::TimePoint when, Action action) { actions_.emplace(when, std::move(action)); }
  transport::TimePoint after_latency(transport::TimePoint now);
  [[nodiscard]] bool has_something_to_begin() const;

  SimulatedStoreService& service_;
  std::multimap<transport::TimePoint, Action> actions_;
  /// Of watches that have begun: when, and whether they are about to be told something.
  struct Term {
    std::uint64_t term = 0;
    bool is_being_told = false;
  };
  std::map<WatchId, Term> terms_;
};

}  // namespace verbena::simulation
