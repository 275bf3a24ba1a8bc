// Where a process of a job on one host learns which copies servers have: its launcher decides about them
// (docs/elasticity.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "cluster/stored_configuration.hpp"
#include "transport/secret.hpp"

namespace verbena::job {

/// The number that a launcher shares with its job's processes: see cluster::ConfigurationSource::decided().
using Decided = std::shared_ptr<const std::atomic<std::uint64_t>>;

/// `descriptor`: of the SharedWord that the launcher's letter names (LaunchLetter::decided). Takes ownership
/// of it. Errors: SharedWord::map().
absl::StatusOr<Decided> map_decided(int descriptor);

/// The configuration of the job that process `launcher` has started, for one thread of one of its processes.
std::shared_ptr<cluster::StoredConfiguration> launchers_configuration(
    std::int64_t launcher, const std::shared_ptr<const transport::Secret>& secret, Decided decided);

}  // namespace verbena::job
