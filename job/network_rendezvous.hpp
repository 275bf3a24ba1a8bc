// The rendezvous of processes that find each other by an address alone, or by a name in etcd: torchrun,
// Kubernetes, a shell on each host. Rank 0 listens there, over TCP, or says in etcd where it listens; the
// others connect, and stay connected until they end, so that all notice when one dies. What they say is in
// meeting/messages.hpp.
//
// When rank 0 is gone, the others may wait for another process in its place (PeerNews::outlive_leader()).
// What it has to know they know.
//
// The connections are those of the tcp transport: both ends have proved that they have the secret, and with
// TLS what they say is encrypted.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/errand.hpp"
#include "job/meeting/options.hpp"
#include "job/peer_news.hpp"
#include "job/rendezvous.hpp"
#include "transport/secret.hpp"

namespace verbena::job {

/// It has two threads, which take no signals: its own, and the transport's. Most of the time both sleep. One
/// more looks at first whether others can find rank 0.
class NetworkRendezvous final : public PeerRendezvous, private PeerNews {
 public:
  using Options = MeetingOptions;

  /// Waits for rank 0. DEADLINE_EXCEEDED, or NOT_FOUND if its host was never known; CANCELLED when stopped;
  /// ALREADY_EXISTS if someone else listens at rank 0's place, or is rank 0 of a job of that name in etcd;
  /// PERMISSION_DENIED if the secrets differ; FAILED_PRECONDITION if only one of the two encrypts. By etcd,
  /// where an entry may be wrong, these two come at the end of the patience, as does UNAVAILABLE, if etcd
  /// does not answer; UNAUTHENTICATED: it does not let this process in. If rank 0 says that this process
  /// cannot be of its job, or speaks another version, the first fence() returns INVALID_ARGUMENT; so it does
  /// after a while if it is to take the place of one that is still there.
  static absl::StatusOr<std::unique_ptr<NetworkRendezvous>> join(const Options& options,
                                                                 std::chrono::milliseconds patience,
                                                                 const Stopped& stopped);
  /// Says that this process ends on purpose.
  ~NetworkRendezvous() override;

  [[nodiscard]] std::shared_ptr<const transport::Secret> secret() const override { return secret_; }
  absl::Status put(const std::string& key, const std::string& value) override;
  absl::Status fence(std::chrono::milliseconds patience, const Stopped& stopped) override;
  absl::StatusOr<std::string> get(std::uint32_t rank, const std::string& key) override;
  /// This process is to end by itself.
  void abort(int exit_status, const std::string& why) override;
  PeerNews* news() override { return this; }
  [[nodiscard]] std::uint32_t incarnation() const override;
  [[nodiscard]] bool ends_this_process() const override;

 private:
  void listen(Listener listener) override;
  void outlive(const std::vector<std::uint32_t>& ranks) override;
  void outlive_leader(std::chrono::milliseconds patience) override;
  std::vector<Returned> returned() override;
  void tell(const std::string& news) override;
  void tell_one(std::uint32_t rank, const std::string& news) override;
  std::uint32_t keep_place() override;
  Standing standing() override;
  void give_place(std::uint32_t added, std::uint32_t rank) override;
  void say(const std::string& word) override;
  void dismiss(std::uint32_t rank, const std::string& why) override;
  void release(std::uint32_t rank) override;

  struct Parts;
  NetworkRendezvous(const Options& options, std::uint32_t rank, std::unique_ptr<Parts> parts);

  const std::shared_ptr<const transport::Secret> secret_;
  const std::unique_ptr<Parts> parts_;
  base::Errand doubting_;  ///< of rank 0: whether the others can find it
};

}  // namespace verbena::job
