// Which of a job's processes are copies of which server, in a job on several hosts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace verbena::apps {

/// By server: the ranks, among all processes of the job, of those that are its copies; the first one serves.
using RankChains = std::vector<std::vector<std::uint32_t>>;

struct FormedChains {
  RankChains ranks;
  /// Each copy of a server is on a host of its own.
  bool are_apart = true;
};
/// The processes of the first ranks are the servers, each with `replicas` copies: rank r < servers is server
/// r, and the next ones are copies, of whichever servers let each copy be on a host without another one of
/// its server, if that can be. `hosts`: identities, by rank. All processes get the same answer.
FormedChains form_chains(std::span<const std::string> hosts, std::uint32_t servers, std::uint32_t replicas);

}  // namespace verbena::apps
