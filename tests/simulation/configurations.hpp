// The configurations of a simulated job whose servers have copies, as the processes come to know them: each
// hears of a change some time after it was decided, and sooner or later than others.
//
// Whoever decides ends a process before its place is given to another, as a launcher does on one host; or
// cannot, where it is on another one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "apps/simulation/scheduler.hpp"
#include "cluster/configuration.hpp"
#include "cluster/controller.hpp"
#include "cluster/store_state.hpp"

namespace verbena::simulation {

/// Thread safety: none.
class Configurations {
 public:
  /// `slowest`: until a process has heard. `now`: the virtual time. `sleep`: lets it pass.
  Configurations(std::uint64_t seed, Duration slowest, std::function<TimePoint()> now,
                 std::function<void(Duration)> sleep)
      : random_(seed), slowest_(slowest), now_(std::move(now)), sleep_(std::move(sleep)) {}

  /// Those who are left out may go on. `on_suspicion`: a process says that the one at that address shows no
  /// sign of life.
  void let_them_go_on(std::function<void(const std::string& address)> on_suspicion) {
    ends_who_is_left_out_ = false;
    on_suspicion_ = std::move(on_suspicion);
  }
  void begin(std::vector<cluster::Configuration::Chain> servers);
  /// The process has ended. Returns when others may hear of it. REQUIRES: it joins, or the server has another
  /// copy
  void remove(const cluster::Controller::Copy& ended);
  /// The process at that address wants to become a copy of a server, with a number that none had before.
  void join(const cluster::Controller::Copy& copy, const std::string& address);
  /// It has all that the other copies have.
  void has_joined(const std::string& address);
  [[nodiscard]] const cluster::Configuration& newest();
  /// How many have joined.
  [[nodiscard]] std::uint64_t joins() const { return joins_; }

  /// For one process, which hears nothing and is not heard as long as `is_cut_off`, if there is one. Both
  /// must outlive it.
  std::unique_ptr<cluster::ConfigurationSource> source(const bool* is_cut_off = nullptr);

 private:
  class Source;
  struct Known {
    TimePoint at;
    cluster::Configuration configuration;
  };

  void look();
  void put(const std::string& key, const std::string& value);
  void admit();
  void decide(std::uint64_t number);
  [[nodiscard]] Duration some_time();
  Duration time_of_news();

  std::mt19937_64 random_;
  const Duration slowest_;
  const std::function<TimePoint()> now_;
  const std::function<void(Duration)> sleep_;
  cluster::StoreState state_;
  cluster::Controller controller_{state_, [this](std::uint64_t number) { decide(number); }};
  bool ends_who_is_left_out_ = true;
  std::function<void(const std::string& address)> on_suspicion_;
  bool is_deciding_ = false;
  std::uint64_t decided_ = 0;
  std::uint64_t joins_ = 0;
  cluster::Revision seen_ = 0;  ///< of the store
  std::vector<Known> all_;      ///< since they could be found in the store
};

}  // namespace verbena::simulation
