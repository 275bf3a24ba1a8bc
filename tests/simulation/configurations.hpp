// The configurations of a simulated job whose servers have copies, as the processes come to know them: each
// hears of a change some time after it was decided, and sooner or later than others.
//
// Whoever decides ends a process before its place is given to another, as a launcher does on one host.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "apps/simulation/scheduler.hpp"
#include "cluster/configuration.hpp"

namespace verbena::simulation {

/// Thread safety: none.
class Configurations {
 public:
  /// `slowest`: until a process has heard. `now`: the virtual time.
  Configurations(std::uint64_t seed, Duration slowest, std::function<TimePoint()> now)
      : random_(seed), slowest_(slowest), now_(std::move(now)) {}

  void begin(std::vector<cluster::Configuration::Chain> servers);
  /// The process at that address has ended.
  void remove(const std::string& address);
  /// The process at that address wants to become a copy of the server: as soon as nobody else is joining it.
  void join(std::uint32_t server, const std::string& address);
  /// It has all that the other copies have.
  void has_joined(const std::string& address);
  [[nodiscard]] const cluster::Configuration& newest() const { return all_.back().configuration; }
  /// How many have joined.
  [[nodiscard]] std::uint64_t joins() const { return joins_; }

  /// For one process. The configurations must outlive it.
  std::unique_ptr<cluster::ConfigurationSource> source();

 private:
  class Source;
  void decide(cluster::Configuration next);
  struct Decided {
    TimePoint at;
    cluster::Configuration configuration;
  };

  std::mt19937_64 random_;
  const Duration slowest_;
  const std::function<TimePoint()> now_;
  std::vector<Decided> all_;
  std::vector<std::deque<std::string>> waiting_;  ///< to join, by server
  std::uint64_t joins_ = 0;
};

}  // namespace verbena::simulation
