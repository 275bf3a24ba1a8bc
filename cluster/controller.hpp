// Decides which process is which server: makes the next configuration when one has ended. On one host, where
// this process has the store in its own memory and is the parent of all others: who has ended is known, and
// nobody else decides.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/configuration.hpp"
#include "cluster/store_state.hpp"

namespace verbena::cluster {

/// Copies are known by the places that they had in the first configuration. Thread safety: belongs to one
/// thread.
class Controller {
 public:
  struct Copy {
    std::uint32_t server = 0;
    std::uint32_t copy = 0;
  };
  struct Suspect {
    Copy who;
    std::string why;
  };

  /// REQUIRES: `state` outlives it.
  explicit Controller(StoreState& state, std::string prefix = "")
      : state_(state), prefix_(std::move(prefix)) {}

  /// Its process has ended, and has been reaped. Returns the next configuration. FAILED_PRECONDITION: there
  /// is none yet: the processes had not met. DATA_LOSS: it was the last copy of its server.
  absl::StatusOr<Configuration> remove(const Copy& ended, TimePoint now);
  /// Those that others suspect, each told once, and of these those that another copy could replace.
  std::vector<Suspect> take_suspects(TimePoint now);

 private:
  struct Known {
    Configuration configuration;
    Revision modified = 0;
  };
  [[nodiscard]] std::optional<Known> read(TimePoint now);

  StoreState& state_;
  const std::string prefix_;
  Configuration first_;
  std::set<std::string> told_;  ///< addresses of suspects
};

}  // namespace verbena::cluster
