// What the processes of a job have to agree on before they can train: the transport, the servers' addresses.
//
// At the rendezvous the servers come first: ranks 0 … servers − 1, then the worker processes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/options/transport_options.hpp"
#include "apps/rendezvous/rendezvous.hpp"

namespace verbena::apps {

/// Processes of a job do not all start at once, and a device may be slow to open.
constexpr auto kMeetingPatience = std::chrono::seconds(60);

/// Where a server listens that shall tell its address to the others: nobody else's.
std::string fresh_address(const TransportOptions& options);

/// Collective: a server tells where it listens; a process that is no server gives an empty `own`. Returns the
/// servers' addresses, by rank.
absl::StatusOr<std::vector<std::string>> exchange_addresses(Rendezvous& rendezvous, std::uint32_t servers,
                                                            const std::string& own,
                                                            const std::atomic<bool>& stop);

}  // namespace verbena::apps
