#include "job/address_exchange.hpp"

#include <fmt/format.h>

#include "base/return_if_error.hpp"
#include "transport/backends.hpp"

namespace verbena::job {
namespace {

constexpr const char* kAddress = "verbena.address";
constexpr const char* kGivenUp = "none";
constexpr auto kFarewellPatience = std::chrono::milliseconds(500);  // less than a job has time to end

}  // namespace

absl::Status check_can_be_found(std::string_view address) {
  const absl::StatusOr<const transport::Backend*> backend = transport::backend_of(address);
  if (!backend.ok()) return backend.status();
  if ((*backend)->reach != transport::Reach::kHosts || !transport::host_of(address).empty())
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      "workers cannot find this server: its RDMA device has no network interface with an address; "
      "InfiniBand needs IPoIB (ip address add ADDRESS/LENGTH dev ib0)");
}

absl::StatusOr<std::vector<std::string>> AddressExchange::addresses(const std::string& own,
                                                                    const std::atomic<bool>& stop) {
  const std::lock_guard lock(mutex_);
  if (!result_) result_ = meet(own, kMeetingPatience, [&] { return stop.load(); });
  return *result_;
}

void AddressExchange::pass_on(const std::vector<std::string>& addresses, RendezvousHost& host) {
  for (std::uint32_t server = 0; server < addresses.size(); ++server)
    host.tell(server, kAddress, addresses[server]);
}

void AddressExchange::give_up() {
  const std::lock_guard lock(mutex_);
  if (!result_) result_ = meet(kGivenUp, kFarewellPatience, [] { return false; });
}

absl::StatusOr<std::vector<std::string>> AddressExchange::meet(const std::string& own,
                                                               std::chrono::milliseconds patience,
                                                               const Rendezvous::Stopped& stopped) {
  if (!own.empty()) {
    RETURN_IF_ERROR(rendezvous_.put(kAddress, own));
  }
  const absl::Status met = rendezvous_.fence(patience, stopped);
  if (!met.ok()) return met;
  std::vector<std::string> addresses;
  for (std::uint32_t server = 0; server < servers_; ++server) {
    absl::StatusOr<std::string> address = rendezvous_.get(server, kAddress);
    if (!address.ok()) return address.status();
    if (*address == kGivenUp) return absl::CancelledError("a server has given up, and says why itself");
    addresses.push_back(*std::move(address));
  }
  return addresses;
}

}  // namespace verbena::job
