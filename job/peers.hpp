// How a process finds the others that something else than Verbena has started with it: by PMIx, if it was
// mpirun or srun; else at the address of rank 0, which torchrun and Kubernetes say in variables, and people
// on the command line, or by a name in etcd.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/environment.hpp"
#include "job/meeting/etcd_place.hpp"
#include "job/rendezvous.hpp"
#include "transport/host_port.hpp"

namespace verbena::job {

/// What was said otherwise than by variables.
struct PeerOptions {
  /// As parse_meeting_place() takes it. Empty: VERBENA_RENDEZVOUS; MASTER_ADDR, and the port after
  /// MASTER_PORT, at which torch's own store is.
  std::string rendezvous;
  std::optional<std::uint32_t> rank = std::nullopt;
  std::optional<std::uint32_t> processes = std::nullopt;
  /// It is added to a job that runs: to one of `processes` at its beginning. `rank`: the place that rank 0
  /// keeps for it; nullopt: rank 0 finds one, whatever variables say.
  bool joins = false;
  std::string secret_file;  ///< empty: VERBENA_SECRET_FILE
  bool no_secret = false;   ///< or VERBENA_NO_SECRET=1
  bool tls = false;         ///< they meet encrypted, so that there has to be a secret
  /// NetworkRendezvous::Options::leader_silence
  std::chrono::milliseconds leader_silence{0};
  /// NetworkRendezvous::Options::show
  std::function<void(const std::string& line)> show = {};
};

struct MeetingPlace {
  transport::HostPort address = {};              ///< of rank 0
  std::optional<EtcdPlace> etcd = std::nullopt;  ///< instead: where that is said
};
/// "HOST:PORT", both of them, or what parse_etcd_place() takes. INVALID_ARGUMENT.
absl::StatusOr<MeetingPlace> parse_meeting_place(std::string_view text);

struct Meeting {
  enum class Way : std::uint8_t { kNone, kPmix, kNetwork };
  Way way = Way::kNone;  ///< kNone: this process is the only one
  // kNetwork:
  transport::HostPort place = {};                ///< of rank 0
  std::optional<EtcdPlace> etcd = std::nullopt;  ///< instead: where that is said
  std::uint32_t rank = 0;
  bool joins = false;  ///< rank 0 says which rank it has
  std::uint32_t processes = 1;
};
/// INVALID_ARGUMENT names what is missing, or cannot be.
absl::StatusOr<Meeting> find_meeting(const PeerOptions& options, const Environment& variable);

/// nullptr: this process is the only one. Errors as of the two rendezvous; also INVALID_ARGUMENT if the
/// processes meet over a network, and no secret was given. `meeting`: as find_meeting() has found it.
absl::StatusOr<std::unique_ptr<PeerRendezvous>> meet_peers(const Meeting& meeting, const PeerOptions& options,
                                                           const Environment& variable,
                                                           std::chrono::milliseconds patience,
                                                           const Rendezvous::Stopped& stopped);

/// The number that a variable has; nullopt: it is not set. INVALID_ARGUMENT if it is none.
absl::StatusOr<std::optional<std::uint32_t>> number_in_variable(const Environment& variable,
                                                                const char* name);
/// Sets what VERBENA_SECRET_FILE and VERBENA_NO_SECRET say, if they are set. INVALID_ARGUMENT.
absl::Status take_secret_variables(const Environment& variable, std::string& secret_file, bool& no_secret);
/// How etcd is to be asked, by the variables that etcd's own etcdctl takes: ETCDCTL_CACERT, ETCDCTL_CERT,
/// ETCDCTL_KEY, ETCDCTL_USER (NAME or NAME:PASSWORD), ETCDCTL_PASSWORD.
void take_etcd_variables(const Environment& variable, cluster::EtcdOptions& etcd);
/// Sets it if VERBENA_TLS=1. INVALID_ARGUMENT if the variable is anything else.
absl::Status take_tls_variable(const Environment& variable, bool& tls);

}  // namespace verbena::job
