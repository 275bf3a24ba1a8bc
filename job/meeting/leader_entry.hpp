// What a job's entry in etcd says: where rank 0 listens. It is a hint: whoever is found there has to prove
// the job's secret as everywhere, and to have made the entry.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/host_port.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

struct LeaderEntry {
  transport::HostPort place;
  /// Of the process that has made it, by chance: another process that listens there, as one of another job
  /// with the same secret, or of a later run, has another one.
  std::string mark;
};

/// As JSON.
std::string encode(const LeaderEntry& entry);
/// nullopt: it is none. Anybody who can write to etcd may have written it.
std::optional<LeaderEntry> decode_leader_entry(std::string_view value);

/// Connects to the process that has made the entry. Blocks; `transport` has no other connections that live,
/// and does not listen. DEADLINE_EXCEEDED: nobody listens there, or does not answer; PERMISSION_DENIED,
/// FAILED_PRECONDITION: as Transport::connect(); NOT_FOUND: another process listens there.
absl::StatusOr<std::unique_ptr<transport::Connection>> connect_to(const LeaderEntry& entry,
                                                                  transport::Transport& transport,
                                                                  transport::TimePoint deadline);

}  // namespace verbena::job
