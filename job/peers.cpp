#include "job/peers.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/decimal.hpp"
#include "base/return_if_error.hpp"
#include "base/signals_blocked.hpp"
#include "job/network_rendezvous.hpp"
#include "job/pmix_rendezvous.hpp"
#include "job/starters.hpp"
#include "transport/secret.hpp"

namespace verbena::job {
namespace {

constexpr const char* kPlaceVariable = "VERBENA_RENDEZVOUS";
constexpr const char* kHostVariable = "MASTER_ADDR";
constexpr const char* kPortVariable = "MASTER_PORT";
constexpr const char* kRankVariable = "RANK";
constexpr const char* kSizeVariable = "WORLD_SIZE";

/// What was said of the place alone, and by whom.
struct SaidPlace {
  std::string text;  ///< empty: nothing
  const char* by;
};
SaidPlace said_place(const PeerOptions& options, const Environment& variable) {
  if (!options.rendezvous.empty()) return {options.rendezvous, "--rendezvous"};
  const char* const place = variable(kPlaceVariable);
  return {place == nullptr ? "" : place, kPlaceVariable};
}

/// Where rank 0 is. nullopt: nobody says.
absl::StatusOr<std::optional<MeetingPlace>> place_of(const SaidPlace& said, const Environment& variable) {
  std::string text = said.text;
  std::string_view said_by = said.by;
  if (text.empty()) {
    const char* const host = variable(kHostVariable);
    const char* const port = variable(kPortVariable);
    if (host == nullptr || port == nullptr) return std::nullopt;
    const bool is_ipv6 = std::string_view(host).find(':') != std::string_view::npos;
    text = fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
    said_by = "MASTER_ADDR and MASTER_PORT";
  }
  absl::StatusOr<MeetingPlace> place = parse_meeting_place(text);
  if (place.ok() && place->etcd) take_etcd_variables(variable, place->etcd->etcd);
  if (place.ok() && said.text.empty()) {
    // torchrun, or torch in this very process, listens at MASTER_PORT.
    if (place->address.port < UINT16_MAX) {
      ++place->address.port;
    } else {
      place = absl::InvalidArgumentError(fmt::format("\"{}\": there is no port after that one", text));
    }
  }
  if (place.ok()) return *std::move(place);
  return absl::InvalidArgumentError(fmt::format("{}: {}", said_by, std::string(place.status().message())));
}

/// Somebody has set some of torchrun's variables, and not all.
absl::Status check_complete(const Environment& variable) {
  const auto is_set = [&](const char* name) { return variable(name) != nullptr; };
  const auto lacks = [](const char* missing, std::string_view what, const char* one, const char* other) {
    return absl::InvalidArgumentError(
        fmt::format("{} and {} are set, and {}, {}, is not", one, other, missing, what));
  };
  if (is_set(kHostVariable) && is_set(kRankVariable) != is_set(kSizeVariable)) {
    return is_set(kSizeVariable)
               ? lacks(kRankVariable, "which of the processes this is", kHostVariable, kSizeVariable)
               : lacks(kSizeVariable, "how many processes there are", kHostVariable, kRankVariable);
  }
  // A single process needs no place to meet others.
  const bool is_one_of_many = is_set(kRankVariable) && started_as(variable).has_value();
  if (!is_one_of_many || is_set(kHostVariable) == is_set(kPortVariable)) return absl::OkStatus();
  return is_set(kHostVariable)
             ? lacks(kPortVariable, "the port before that where rank 0 listens", kHostVariable, kSizeVariable)
             : lacks(kHostVariable, "the host of rank 0", kPortVariable, kSizeVariable);
}

absl::StatusOr<std::uint32_t> required(std::optional<std::uint32_t> said,
                                       std::optional<std::uint32_t> by_variables, std::string_view question,
                                       std::string_view option, std::string_view variables) {
  if (said) return *said;
  if (by_variables) return *by_variables;
  return absl::InvalidArgumentError(
      fmt::format("{}? Expected {}, or a variable that says it, as {} do", question, option, variables));
}

absl::StatusOr<std::shared_ptr<const transport::Secret>> secret_of(PeerOptions options,
                                                                   const Environment& variable) {
  if (options.secret_file.empty() && !options.no_secret)
    RETURN_IF_ERROR(take_secret_variables(variable, options.secret_file, options.no_secret));
  if (!options.secret_file.empty() && options.no_secret)
    return absl::InvalidArgumentError("a secret file and no secret: the two exclude each other");
  if (!options.secret_file.empty()) return transport::Secret::read_file(options.secret_file);
  if (options.no_secret && options.tls)
    return absl::InvalidArgumentError("TLS needs a secret, from which its keys follow; found no secret");
  if (options.no_secret) return std::shared_ptr<const transport::Secret>();
  return absl::InvalidArgumentError(
      "the processes of a job that meet over a network need a secret, or others could take part: "
      "--secret-file "
      "or VERBENA_SECRET_FILE with the same file everywhere, as (umask 077; head -c 32 /dev/urandom | base64 "
      "> "
      "FILE) makes one; --no-secret or VERBENA_NO_SECRET=1 if nobody else is on the network");
}

}  // namespace

absl::StatusOr<std::optional<std::uint32_t>> number_in_variable(const Environment& variable,
                                                                const char* name) {
  const char* const written = variable(name);
  if (written == nullptr) return std::nullopt;
  if (const auto number = base::parse_decimal<std::uint32_t>(written)) return number;
  return absl::InvalidArgumentError(fmt::format("{}={}: a number is expected", name, written));
}

absl::Status take_secret_variables(const Environment& variable, std::string& secret_file, bool& no_secret) {
  if (const char* const file = variable("VERBENA_SECRET_FILE")) secret_file = file;
  if (const char* const none = variable("VERBENA_NO_SECRET")) {
    if (std::string_view(none) != "1")
      return absl::InvalidArgumentError(fmt::format("VERBENA_NO_SECRET={}: 1 is expected, or nothing", none));
    no_secret = true;
  }
  return absl::OkStatus();
}

absl::Status take_tls_variable(const Environment& variable, bool& tls) {
  const char* const given = variable("VERBENA_TLS");
  if (given == nullptr) return absl::OkStatus();
  if (std::string_view(given) != "1")
    return absl::InvalidArgumentError(fmt::format("VERBENA_TLS={}: 1 is expected, or nothing", given));
  tls = true;
  return absl::OkStatus();
}

void take_etcd_variables(const Environment& variable, cluster::EtcdOptions& etcd) {
  const auto value_of = [&](const char* name) {
    const char* const value = variable(name);
    return std::string(value == nullptr ? "" : value);
  };
  etcd.ca_file = value_of("ETCDCTL_CACERT");
  etcd.certificate_file = value_of("ETCDCTL_CERT");
  etcd.key_file = value_of("ETCDCTL_KEY");
  etcd.user = value_of("ETCDCTL_USER");
  etcd.password = value_of("ETCDCTL_PASSWORD");
  if (const std::size_t colon = etcd.user.find(':'); etcd.password.empty() && colon != std::string::npos) {
    etcd.password = etcd.user.substr(colon + 1);
    etcd.user.resize(colon);
  }
}

absl::StatusOr<MeetingPlace> parse_meeting_place(std::string_view text) {
  if (has_scheme(text)) {
    absl::StatusOr<EtcdPlace> etcd = parse_etcd_place(text);
    if (!etcd.ok()) return etcd.status();
    return MeetingPlace{.etcd = *std::move(etcd)};
  }
  absl::StatusOr<transport::HostPort> address = transport::parse_host_port(text);
  if (address.ok() && !address->host.empty() && address->port != 0)
    return MeetingPlace{.address = *std::move(address)};
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is no place where rank 0 can be found; expected its host and a port, or "
                  "etcd://HOST:PORT/JOB, where etcd says it",
                  text));
}

absl::StatusOr<Meeting> find_meeting(const PeerOptions& options, const Environment& variable) {
  const SaidPlace said = said_place(options, variable);
  const bool is_said = !said.text.empty();
  const bool is_numbered = options.rank || options.processes;
  // Who exports MASTER_ADDR in a script for srun still means srun; but srun may have started torchrun.
  const bool is_torchrun = variable("TORCHELASTIC_RUN_ID") != nullptr;
  const absl::Status joins_nobody =
      options.joins
          ? absl::InvalidArgumentError("--join: expected --rendezvous HOST:PORT, where rank 0 of the job is")
          : absl::OkStatus();
  if (!is_said && !is_numbered && !is_torchrun && variable("PMIX_RANK") != nullptr) {
    RETURN_IF_ERROR(joins_nobody);
    return Meeting{.way = Meeting::Way::kPmix};
  }
  const absl::StatusOr<std::optional<MeetingPlace>> place = place_of(said, variable);
  if (!place.ok()) return place.status();
  const std::optional<StartedAs> started = started_as(variable);
  if (!*place) {
    RETURN_IF_ERROR(joins_nobody);
    if (is_numbered)
      return absl::InvalidArgumentError(
          "--process and --processes are for --rendezvous HOST:PORT, where rank 0 is");
    RETURN_IF_ERROR(check_complete(variable));
    RETURN_IF_ERROR(check_started_apart(variable));
    return Meeting{};
  }
  if (!is_said) {
    RETURN_IF_ERROR(check_complete(variable));
    for (const char* const name : {kRankVariable, kSizeVariable}) {
      const auto number = number_in_variable(variable, name);
      if (!number.ok()) return number.status();
    }
    if (!is_numbered && !started && !options.joins) return Meeting{};
  }
  const absl::StatusOr<std::uint32_t> processes =
      required(options.processes, started ? std::optional(started->processes) : std::nullopt,
               "how many processes has the job", "--processes N", "torchrun (WORLD_SIZE), srun and mpiexec");
  if (!processes.ok()) return processes.status();
  if (options.joins && (!options.rank || *options.rank >= *processes)) {
    return Meeting{.way = Meeting::Way::kNetwork,
                   .place = (*place)->address,
                   .etcd = (*place)->etcd,
                   .rank = options.rank.value_or(0),
                   .joins = !options.rank,
                   .processes = *processes};
  }
  if (options.joins) {
    return absl::InvalidArgumentError(
        fmt::format("--join and --process {}: rank 0 finds a rank for a process that joins, and {} processes "
                    "have the first ones",
                    *options.rank, *processes));
  }
  if (*processes == 1 && options.rank.value_or(0) == 0) return Meeting{};
  const absl::StatusOr<std::uint32_t> rank =
      required(options.rank, started ? started->rank : std::nullopt, "which of the processes is this",
               "--process R", "torchrun (RANK), srun and mpiexec");
  if (!rank.ok()) return rank.status();
  if (*rank < *processes)
    return Meeting{.way = Meeting::Way::kNetwork,
                   .place = (*place)->address,
                   .etcd = (*place)->etcd,
                   .rank = *rank,
                   .processes = *processes};
  return absl::InvalidArgumentError(
      fmt::format("rank {} of {} processes: ranks are counted from 0", *rank, *processes));
}

absl::StatusOr<std::unique_ptr<PeerRendezvous>> meet_peers(const Meeting& meeting, const PeerOptions& options,
                                                           const Environment& variable,
                                                           std::chrono::milliseconds patience,
                                                           const Rendezvous::Stopped& stopped) {
  switch (meeting.way) {
    case Meeting::Way::kNone:
      break;
    case Meeting::Way::kPmix: {
      const base::SignalsBlocked blocked;  // for PMIx's threads
      absl::StatusOr<std::unique_ptr<PmixRendezvous>> joined = PmixRendezvous::join();
      if (!joined.ok()) return joined.status();
      return *std::move(joined);
    }
    case Meeting::Way::kNetwork: {
      absl::StatusOr<std::shared_ptr<const transport::Secret>> secret = secret_of(options, variable);
      if (!secret.ok()) return secret.status();
      absl::StatusOr<std::unique_ptr<NetworkRendezvous>> joined =
          NetworkRendezvous::join({.place = meeting.place,
                                   .etcd = meeting.etcd,
                                   .rank = meeting.rank,
                                   .size = meeting.processes,
                                   .joins = meeting.joins,
                                   .secret = *std::move(secret),
                                   .tls = options.tls,
                                   .leader_silence = options.leader_silence,
                                   .show = options.show},
                                  patience, stopped);
      if (!joined.ok()) return joined.status();
      return *std::move(joined);
    }
  }
  return std::unique_ptr<PeerRendezvous>();
}

}  // namespace verbena::job
