// Decides which process is which server: makes the next configuration when one has ended, or joins. Its
// process has the store in its own memory, and nobody else decides.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/configuration.hpp"
#include "cluster/store_state.hpp"

namespace verbena::cluster {

/// Copies are known by their numbers: of the first configuration by their places in it, of those that join
/// later by what they say of themselves. Thread safety: belongs to one thread.
class Controller {
 public:
  struct Copy {
    std::uint32_t server = 0;
    std::uint32_t copy = 0;
    friend bool operator==(const Copy&, const Copy&) = default;
    friend bool operator<(const Copy& a, const Copy& b) {
      return std::pair(a.server, a.copy) < std::pair(b.server, b.copy);
    }
  };
  struct Suspect {
    Copy who;
    std::string why;
  };

  /// A configuration, with copies instead of addresses.
  struct Chains {
    std::uint64_t number = 0;
    std::vector<std::vector<Copy>> servers;  ///< by rank; without those that join
  };

  /// Makes a number what ConfigurationSource::decided() returns, with release order.
  using Decide = std::function<void(std::uint64_t number)>;

  /// REQUIRES: `state` outlives it.
  Controller(StoreState& state, Decide decide, std::string prefix = "")
      : state_(state), decide_(std::move(decide)), prefix_(std::move(prefix)) {}

  /// Its process has ended, and has been reaped. Returns the next configuration. FAILED_PRECONDITION: there
  /// is none yet: the processes had not met; or it was in none. DATA_LOSS: it was the last copy of its
  /// server. Who joins by following that copy is left out, too, and has to begin anew.
  absl::StatusOr<Configuration> remove(const Copy& ended, TimePoint now);
  /// Lets those join who want to, one at a time for each server. Returns those that have joined since the
  /// last call: that have all that the other copies have.
  std::vector<Copy> take_joined(TimePoint now);
  /// The newest configuration; nullopt: there is none yet.
  [[nodiscard]] std::optional<Configuration> newest(TimePoint now);
  [[nodiscard]] std::optional<Chains> chains(TimePoint now);
  /// Those that others suspect, each told once, and of these those that another copy could replace.
  std::vector<Suspect> take_suspects(TimePoint now);
  /// The copy at that address, if another one could replace it, or it joins.
  [[nodiscard]] std::optional<Copy> replaceable_at(const std::string& address, TimePoint now);
  /// Whether the run can go on without that copy, if it steps aside; nullopt: without the one that serves.
  /// Returns which that is. FAILED_PRECONDITION: no other one has all that it has; INVALID_ARGUMENT: there is
  /// no such copy.
  absl::StatusOr<Copy> may_leave(std::uint32_t server, std::optional<std::uint32_t> copy, TimePoint now);
  /// Somebody joins that server.
  [[nodiscard]] bool is_being_joined(std::uint32_t server, TimePoint now);
  /// A copy at that address is, or was, in a configuration.
  [[nodiscard]] bool knows(const std::string& address) const { return copy_at(address).has_value(); }

 private:
  struct Known {
    Configuration configuration;
    Revision modified = 0;
  };
  [[nodiscard]] std::optional<Known> read(TimePoint now);
  [[nodiscard]] std::vector<Entry> entries_below(const std::string& prefix, TimePoint now);
  /// The next configuration; the entry that was the reason for it goes.
  absl::Status put(const Known& known, const Configuration& next, const std::string& reason, TimePoint now);
  void admit(TimePoint now);
  void admit_joined(const Known& known, const Entry& entry, TimePoint now);
  void let_join(const Known& known, const Entry& entry, TimePoint now);
  void forget(const std::string& key, TimePoint now);
  [[nodiscard]] std::optional<Copy> copy_at(const std::string& address) const;

  StoreState& state_;
  const Decide decide_;
  const std::string prefix_;
  std::map<Copy, std::string> addresses_;  ///< of all that have been in a configuration
  std::set<Copy> ended_;                   ///< that remove() was told of
  std::vector<Copy> joined_;               ///< that take_joined() has not returned yet
  std::set<std::string> told_;             ///< addresses of suspects
};

}  // namespace verbena::cluster
