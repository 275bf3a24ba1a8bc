// What a process of a job does: serve, or train. The same wherever it was started from.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/launcher/outlet.hpp"
#include "apps/launcher/process_jobs.hpp"
#include "job/address_exchange.hpp"

namespace verbena::apps {

struct Role {
  JobOptions job;          ///< the transport decided
  std::uint32_t rank = 0;  ///< of this process among its kind
  /// Of a worker process: the server whose node it belongs to. nullopt: its rank modulo the number of
  /// servers.
  std::optional<std::uint32_t> own_server = std::nullopt;
  /// Where the servers' addresses are told; nullptr: `job` has them.
  job::AddressExchange* addresses = nullptr;
};

/// The jobs for run_jobs(). What they refer to must outlive them; `stop` is the one that run_jobs() sets.
/// UNAVAILABLE and the like where this host lacks what the transport needs.
absl::StatusOr<ProcessJobs> server_jobs(const Role& role, const std::atomic<bool>& stop);
ProcessJobs worker_jobs(const Role& role, Application& application, Outlet& outlet,
                        const std::atomic<bool>& stop);
ProcessJobs baseline_jobs(Application& application, Outlet& outlet, const std::atomic<bool>& stop);

}  // namespace verbena::apps
