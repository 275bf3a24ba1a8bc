// Which servers move when hosts come to a job, or leave it: as few as make the load even. A host's load is
// the number of servers and copies on it, which are alike, since rows are spread over servers evenly.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace verbena::apps {

/// A process that is a server or a copy of one, or will be one when the moves have ended that are under way.
struct Holding {
  std::uint32_t server = 0;
  std::uint32_t rank = 0;
  std::string host;      ///< which one
  bool can_move = true;  ///< another process may take its place
  bool serves = false;
};

/// A process on the host that comes becomes a copy of that server.
struct Transfer {
  std::uint32_t server = 0;
  /// The rank of the process that then steps aside; nullopt: the server lacks a copy, and nobody does.
  std::optional<std::uint32_t> replaces;

  bool operator==(const Transfer&) const = default;
};

/// What a host is to take that has just come: copies that servers lack, and those of the most loaded hosts,
/// but none of a server that is on it already. `holdings`: of one server in the order of its chain;
/// `copies`: so many of each server there are to be. `at_most`: so many, also beyond an even share, as long
/// as there are any; nullopt: until it has an even share (all of them by the number of hosts, rounded up), or
/// no other host has two more than it has. So as few move as can be for that.
std::vector<Transfer> share_of(const std::string& host, std::span<const Holding> holdings,
                               std::uint32_t copies, std::optional<std::uint32_t> at_most);

/// Which host is to take a process's place: the least loaded one that has none of its server, and none that
/// leaves. nullopt: there is none.
std::optional<std::string> refuge_of(const Holding& leaving, std::span<const Holding> holdings,
                                     const std::set<std::string>& hosts_that_leave);

}  // namespace verbena::apps
