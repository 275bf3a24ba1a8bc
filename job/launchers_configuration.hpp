// Where a process learns which copies its job's servers have, from the process that has started it: on one
// host from the launcher, which decides about them (docs/elasticity.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cluster/stored_configuration.hpp"
#include "transport/secret.hpp"

namespace verbena::job {

/// The number that a launcher shares with the processes that it starts: see
/// cluster::ConfigurationSource::decided().
using Decided = std::shared_ptr<const std::atomic<std::uint64_t>>;

/// `descriptor`: of the SharedWord that the launcher's letter names (LaunchLetter::decided). Takes ownership
/// of it. Errors: SharedWord::map().
absl::StatusOr<Decided> map_decided(int descriptor);

/// For one thread of a process that a launcher has started whose store is at `store`.
std::shared_ptr<cluster::StoredConfiguration> launchers_configuration(
    const std::string& store, const std::shared_ptr<const transport::Secret>& secret, Decided decided,
    cluster::Decider decider = {});

}  // namespace verbena::job
