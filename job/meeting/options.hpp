// How a process comes to a rendezvous over a network, and what it does there when others are gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "job/meeting/etcd_place.hpp"
#include "transport/host_port.hpp"
#include "transport/secret.hpp"

namespace verbena::job {

struct MeetingOptions {
  /// Where rank 0 can be reached. It listens at all addresses of its host, unless this is one of the
  /// loopback interface ("localhost", 127.0.0.1, ::1).
  transport::HostPort place;
  /// Instead: rank 0 listens at all addresses of its host, at any port, and says in etcd where it is.
  std::optional<EtcdPlace> etcd = std::nullopt;
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
  /// Of any other rank: a rank 0 that shows no sign of life for so long is as one that is gone. 0: it may
  /// show none as long as its connections last.
  std::chrono::milliseconds leader_silence{0};
  /// Ends this process, because another one has died or has asked for it. Empty: SIGTERM, and
  /// SIGKILL if that does not help. Called by the
  /// rendezvous' own thread, at most once; must not use the rendezvous.
  std::function<void(const std::string& why)> end = {};
  /// Shows the user a line, without its end: why this process ends. Empty: on standard error. Called as
  /// `end` is.
  std::function<void(const std::string& line)> show = {};
};

}  // namespace verbena::job
