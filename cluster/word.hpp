// What a process says to whoever decides about configurations, where there is no store that it could put it
// into (stored_configuration.hpp). order.hpp has what it is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace verbena::cluster {

/// The process at an address shows no sign of life.
struct Suspicion {
  std::string address;
  std::string why;

  bool operator==(const Suspicion&) const = default;
};
/// This process has come while the job runs: in the place of one that has died, or as another one.
struct Arrival {
  std::uint32_t pid = 0;
  std::string host;     ///< its name, for people
  std::string machine;  ///< which host that is; equal for two processes if they share one
  /// Of one that nobody has asked for: so many servers its host is to take; nullopt: its share.
  std::optional<std::uint32_t> takes = std::nullopt;
  std::optional<std::uint32_t> takes_workers = std::nullopt;  ///< the same of processes with workers

  bool operator==(const Arrival&) const = default;
};
/// It listens there, and wants to become a copy of a server.
struct WantsToJoin {
  std::string address;

  bool operator==(const WantsToJoin&) const = default;
};
/// The copy there, this process, has all that the others have.
struct HasJoined {
  std::string address;

  bool operator==(const HasJoined&) const = default;
};
/// This process, a server or a copy of one, is to end, and may if another copy has all that it has; or one
/// with workers, in whose place another one may be.
struct WantsToLeave {
  bool operator==(const WantsToLeave&) const = default;
};
/// This process has read all that it needs to be workers in the place of others.
struct HasRead {
  bool operator==(const HasRead&) const = default;
};
using Word = std::variant<Suspicion, Arrival, WantsToJoin, HasJoined, WantsToLeave, HasRead>;

/// JSON, in one line. Bytes that are not UTF-8 are replaced.
std::string encode(const Word& word);
/// INVALID_ARGUMENT: it is none.
absl::StatusOr<Word> decode_word(std::string_view text);

}  // namespace verbena::cluster
