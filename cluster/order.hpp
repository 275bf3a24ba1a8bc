// What whoever decides about configurations says to processes of a job on several hosts (word.hpp has what
// processes say to it).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace verbena::cluster {

/// To one that has come while the job runs: it becomes a copy of that server.
struct BecomesCopy {
  std::uint32_t server = 0;

  bool operator==(const BecomesCopy&) const = default;
};
/// To one that has come while the job runs: there is nothing for it to do.
struct IsNotNeeded {
  std::string why;

  bool operator==(const IsNotNeeded&) const = default;
};
/// It starts another process like itself, on its host; a place is kept for it.
struct StartsAnother {
  std::uint32_t rank = 0;  ///< the other one's

  bool operator==(const StartsAnother&) const = default;
};
/// Another process has all that this one has, and the next configuration lacks this one. To one with workers:
/// another one waits to be them, and this one ends as soon as nothing is lost by it.
struct StepsAside {
  bool operator==(const StepsAside&) const = default;
};
/// To one with workers: the other one is gone, and this one goes on.
struct Stays {
  bool operator==(const Stays&) const = default;
};
/// To one that has come while the job runs: it is to be the workers of the process of that rank, reads what
/// it needs for that, and says when it has. It hears of its place at the rendezvous (PeerNews::give_place()).
struct BecomesWorkers {
  std::uint32_t rank = 0;

  bool operator==(const BecomesWorkers&) const = default;
};
/// To all that were there before: another process leads the run.
struct HasLeader {
  std::string address;  ///< where it listens to its members
  std::string machine;  ///< which host it is on; equal for two processes if they share one

  bool operator==(const HasLeader&) const = default;
};
using Order =
    std::variant<BecomesCopy, BecomesWorkers, IsNotNeeded, StartsAnother, StepsAside, Stays, HasLeader>;

/// JSON, in one line. Bytes that are not UTF-8 are replaced.
std::string encode(const Order& order);
/// INVALID_ARGUMENT: it is none.
absl::StatusOr<Order> decode_order(std::string_view text);

}  // namespace verbena::cluster
