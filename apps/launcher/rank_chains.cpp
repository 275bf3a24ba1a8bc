#include "apps/launcher/rank_chains.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>

namespace verbena::apps {
namespace {

/// Gives servers copies on hosts on which they have none, as many as can be: a maximum matching by augmenting
/// paths (Kuhn, 1955) of places in chains and processes.
class Matching {
 public:
  Matching(std::span<const std::string> hosts, std::uint32_t servers, std::uint32_t replicas)
      : hosts_(hosts), servers_(servers), taken_by_(hosts.size()) {
    for (std::uint32_t place = 0; place < servers * replicas; ++place) {
      std::set<std::uint32_t> seen;
      if (!give(place % servers, seen)) lacks_.push_back(place % servers);
    }
  }
  /// By rank: the server whose copy it is; nullopt: none yet.
  [[nodiscard]] const std::vector<std::optional<std::uint32_t>>& taken_by() const { return taken_by_; }
  /// Servers for which no place was found, once for each that is missing.
  [[nodiscard]] const std::vector<std::uint32_t>& lacks() const { return lacks_; }

 private:
  [[nodiscard]] bool is_on(std::uint32_t server, const std::string& host) const {
    if (hosts_[server] == host) return true;
    for (std::uint32_t rank = servers_; rank < hosts_.size(); ++rank) {
      if (taken_by_[rank] == server && hosts_[rank] == host) return true;
    }
    return false;
  }
  /// One of a host's processes stands for all of them: which it is makes no difference.
  bool give(std::uint32_t server, std::set<std::uint32_t>& seen) {
    for (std::uint32_t rank = servers_; rank < hosts_.size(); ++rank) {
      if (seen.contains(rank) || taken_by_[rank] == server || is_on(server, hosts_[rank])) continue;
      seen.insert(rank);
      const std::optional<std::uint32_t> before = taken_by_[rank];
      taken_by_[rank] = server;
      if (!before || give(*before, seen)) return true;
      taken_by_[rank] = before;
    }
    return false;
  }

  const std::span<const std::string> hosts_;
  const std::uint32_t servers_;
  std::vector<std::optional<std::uint32_t>> taken_by_;
  std::vector<std::uint32_t> lacks_;
};

}  // namespace

FormedChains form_chains(std::span<const std::string> hosts, std::uint32_t servers, std::uint32_t replicas) {
  const std::span<const std::string> of_servers = hosts.first(std::size_t{servers} * (1 + replicas));
  const Matching matching(of_servers, servers, replicas);
  std::vector<std::optional<std::uint32_t>> taken_by = matching.taken_by();
  for (const std::uint32_t server : matching.lacks())
    *std::find(taken_by.begin() + servers, taken_by.end(), std::nullopt) = server;
  FormedChains formed{.ranks = RankChains(servers), .are_apart = matching.lacks().empty()};
  for (std::uint32_t server = 0; server < servers; ++server) formed.ranks[server].push_back(server);
  for (std::uint32_t rank = servers; rank < of_servers.size(); ++rank)
    formed.ranks[*taken_by[rank]].push_back(rank);
  return formed;
}

}  // namespace verbena::apps
