// What a process of a job on several hosts tells of itself to another one that takes the place of whoever
// decides about configurations, and has to find out how things stand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cluster/configuration.hpp"

namespace verbena::cluster {

struct Account {
  std::uint32_t pid = 0;
  std::string host;             ///< its name, for people
  std::string machine;          ///< which host that is; equal for two processes if they share one
  std::string address;          ///< where it listens, if it is a server or a copy
  Configuration configuration;  ///< the newest that it knows

  bool operator==(const Account&) const = default;
};

/// JSON. Bytes that are not UTF-8 are replaced.
std::string encode(const Account& account);
/// INVALID_ARGUMENT: it is none.
absl::StatusOr<Account> decode_account(std::string_view text);

}  // namespace verbena::cluster
