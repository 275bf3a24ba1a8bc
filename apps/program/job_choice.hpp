// Which running job a command looks at, and how its processes are asked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/inspect/running_jobs.hpp"
#include "apps/options/transport_options.hpp"
#include <verbena/observer.hpp>

namespace verbena::apps {

struct JobChoice {
  TransportOptions transport;
  std::string job;
  std::vector<std::string> addresses;
};
/// --job, --addresses, and those of the transport and of the secret. `app` must not outlive `choice`.
void add_job_choice(CLI::App& app, JobChoice& choice);

struct ChosenJob {
  inspect::FoundJob found;
  TransportOptions transport;  ///< decided, with the job's secret
  /// Of the process that tells how the job is; nullptr: it needs none, or there is none.
  std::shared_ptr<const transport::Secret> teller_secret = nullptr;
};
enum class Among : std::uint8_t {
  kServers,  ///< jobs whose servers can be asked
  kRuns,     ///< also those of which a process on this host tells how they are
};
/// Errors: inspect::find_job(), take_secret(); impossible options.
absl::StatusOr<ChosenJob> choose_job(const JobChoice& choice, Among among = Among::kServers);
/// Errors: Observer::connect(), make_transport().
absl::StatusOr<std::unique_ptr<Observer>> observe(const ChosenJob& job, std::vector<std::string> servers,
                                                  std::uint32_t timeout_ms = ObserverOptions{}.timeout_ms);

}  // namespace verbena::apps
