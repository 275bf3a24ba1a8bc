// The rendezvous of processes that find each other by an address alone: torchrun, Kubernetes, a shell on each
// host. Rank 0 listens there, over TCP; the others connect, and stay connected until they end, so that all
// notice when one dies. They speak as fence_board.hpp has it, and:
//
//   a process   {"rank": r, "size": n}  first
//               {"back": r, "size": n, "incarnation": i, "job": id, "led_by": l, "roster": …, "word": text}
//                                       first, of one whose rank 0 is gone: it looks for another one
//               {"knows": n}            that roster
//               {"joins": true, "size": n}  first, of one that is added while the job runs
//               {"abort": why}          all are to end
//               {"word": text}          to rank 0 (peer_news.hpp)
//               {"bye": true}           it ends on purpose
//   rank 0      {"job": id}             at first: which job it is of all that meet at this address
//               {"roster": …}           the job's processes (roster.hpp)
//               {"recall": true}        to one that is back: it is to say what was told at fences
//               {"leads": l}            to those who are back: from now on this is rank 0, after l others
//               {"place": r}            to a process that is added: its rank
//               {"late": n}             to the n-th process that comes in the place of the first one of its
//                                       rank; 1 to one that is added
//               {"missing": ranks}      now and then, while a fence lacks some
//               {"refused": why}        to a process that cannot be of this job
//               {"end": why}            all are to end
//               {"news": text}          to all (peer_news.hpp)
//               {"dismissed": why}      to a process that is to end, and whose end does not matter
//               {"bye": true}           it ends on purpose, and nobody watches any more
//
// When rank 0 is gone, the others may wait for another process in its place (PeerNews::outlive_leader()).
// What it has to know they know.
//
// The connections are those of the tcp transport: both ends have proved that they have the secret, and with
// TLS what they say is encrypted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/errand.hpp"
#include "job/peer_news.hpp"
#include "job/rendezvous.hpp"
#include "transport/host_port.hpp"
#include "transport/secret.hpp"

namespace verbena::job {

/// It has two threads, which take no signals: its own, and the transport's. Most of the time both sleep. One
/// more looks at first whether others can find rank 0.
class NetworkRendezvous final : public PeerRendezvous, private PeerNews {
 public:
  struct Options {
    /// Where rank 0 can be reached. It listens at all addresses of its host, unless this is one of the
    /// loopback interface ("localhost", 127.0.0.1, ::1).
    transport::HostPort place;
    /// Ranks from `size` on are those of processes that are added while the job runs.
    std::uint32_t rank = 0;
    std::uint32_t size = 1;  ///< of the job at its beginning
    /// It is added while the job runs, and rank 0 says which rank it has.
    bool joins = false;
    std::shared_ptr<const transport::Secret> secret = nullptr;  ///< nullptr: whoever comes may take part
    bool tls = false;  ///< what they say is encrypted; the same for all, and it needs a secret
    /// Those who lose one that has not said that it ends do not end at once: each may find out for itself,
    /// and say what that means.
    std::chrono::milliseconds grace{3000};
    /// How long one waits for the place of another one that is there: longer than it takes to find out that
    /// it is gone, with its host.
    std::chrono::milliseconds before_place_is_free{10'000};
    /// How long a rank 0 to which more than half have come back waits for the rest.
    std::chrono::milliseconds for_stragglers{5000};
    /// How long a rank 0 goes on that does not hear of half of the others: longer than it takes to answer.
    std::chrono::milliseconds before_giving_up{10'000};
    /// Ends this process, because another one has died or has asked for it. Empty: SIGTERM, and
    /// SIGKILL if that does not help. Called by the
    /// rendezvous' own thread, at most once; must not use the rendezvous.
    std::function<void(const std::string& why)> end = {};
    /// Shows the user a line, without its end: why this process ends. Empty: on standard error. Called as
    /// `end` is.
    std::function<void(const std::string& line)> show = {};
  };

  /// Waits for rank 0. DEADLINE_EXCEEDED, or NOT_FOUND if its host was never known; CANCELLED when stopped;
  /// ALREADY_EXISTS if someone else listens at rank 0's place; PERMISSION_DENIED if the secrets differ;
  /// FAILED_PRECONDITION if only one of the two encrypts. If rank 0 says that this process cannot be of its
  /// job, the first fence() returns INVALID_ARGUMENT; so it does after a while if it is to take the place of
  /// one that is still there.
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
  void say(const std::string& word) override;
  void dismiss(std::uint32_t rank, const std::string& why) override;
  void release(std::uint32_t rank) override;

  class Wire;
  class Talk;
  class Host;
  class Guest;
  NetworkRendezvous(const Options& options, std::uint32_t rank, std::unique_ptr<Talk> talk);

  const std::shared_ptr<const transport::Secret> secret_;
  const std::unique_ptr<Talk> talk_;
  base::Errand doubting_;  ///< of rank 0: whether the others can find it
};

}  // namespace verbena::job
