#include "apps/verbena/meeting.hpp"

#include <fmt/format.h>

#include "apps/verbena/job_options.hpp"

namespace verbena::apps {
namespace {

constexpr const char* kAddress = "verbena.address";

}  // namespace

std::string fresh_address(const TransportOptions& options) {
  return options.transport == kShm ? server_address(random_job_name(), 0) : "verbs::0";
}

absl::StatusOr<std::vector<std::string>> exchange_addresses(Rendezvous& rendezvous, std::uint32_t servers,
                                                            const std::string& own,
                                                            const std::atomic<bool>& stop) {
  if (!own.empty()) {
    if (absl::Status status = rendezvous.put(kAddress, own); !status.ok()) return status;
  }
  const absl::Status met = rendezvous.fence(kMeetingPatience, [&] { return stop.load(); });
  if (!met.ok()) return met;
  std::vector<std::string> addresses;
  for (std::uint32_t server = 0; server < servers; ++server) {
    absl::StatusOr<std::string> address = rendezvous.get(server, kAddress);
    if (!address.ok()) return address.status();
    addresses.push_back(*std::move(address));
  }
  return addresses;
}

}  // namespace verbena::apps
