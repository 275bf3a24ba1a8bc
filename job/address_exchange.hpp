// What the processes of a job have to agree on before they can train: the transport, the servers' addresses.
//
// At the rendezvous the servers come first: ranks 0 … servers − 1, then the worker processes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/embedded_rendezvous.hpp"
#include "job/rendezvous.hpp"

namespace verbena::job {

/// Processes of a job do not all start at once, and a device may be slow to open.
constexpr auto kMeetingPatience = std::chrono::seconds(60);

/// FAILED_PRECONDITION if other hosts must find a server at `address` and cannot.
absl::Status check_can_be_found(std::string_view address);

/// The servers' addresses, which all processes learn from each other at one fence. Thread safety: any thread.
class AddressExchange {
 public:
  AddressExchange(Rendezvous& rendezvous, std::uint32_t servers)
      : rendezvous_(rendezvous), servers_(servers) {}

  /// Collective: a server tells where it listens; a process that is no server gives an empty `own`. Returns
  /// the servers' addresses, by rank; later calls return what the first call returned. CANCELLED when a
  /// server has given up.
  absl::StatusOr<std::vector<std::string>> addresses(const std::string& own, const std::atomic<bool>& stop);

  /// Passes on what addresses() has returned, to processes for which this one hosts a rendezvous.
  static void pass_on(const std::vector<std::string>& addresses, RendezvousHost& host);

  /// For a process that fails: comes to the fence without an address if it has not been there yet, so that
  /// the others do not wait for it.
  void give_up();

 private:
  absl::StatusOr<std::vector<std::string>> meet(const std::string& own, std::chrono::milliseconds patience,
                                                const Rendezvous::Stopped& stopped);

  Rendezvous& rendezvous_;
  const std::uint32_t servers_;
  std::mutex mutex_;
  std::optional<absl::StatusOr<std::vector<std::string>>> result_;
};

}  // namespace verbena::job
