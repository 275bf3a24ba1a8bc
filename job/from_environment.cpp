// Session::from_environment(): finds out from what has started a process to which job it belongs.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_split.h"
#include "base/cores.hpp"
#include "base/return_if_error.hpp"
#include "base/signals_blocked.hpp"
#include "job/address_exchange.hpp"
#include "job/child_message.hpp"
#include "job/embedded_rendezvous.hpp"
#include "job/environment.hpp"
#include "job/launch_letter.hpp"
#include "job/launchers_configuration.hpp"
#include "job/line_stream.hpp"
#include "job/peers.hpp"
#include "job/secret_handover.hpp"
#include "job/server_place.hpp"
#include "server/driver.hpp"
#include "server/server.hpp"
#include "transport/backends.hpp"
#include "worker/surroundings.hpp"
#include <verbena/server.hpp>
#include <verbena/session.hpp>

namespace verbena {
namespace job {
namespace {

/// A worker of a job, before it connects.
struct Place {
  SessionOptions options;
  std::unique_ptr<worker::Surroundings> surroundings;
  /// Where all processes agree that all of them connect, or none; owned by the surroundings. nullptr: there
  /// is nobody to ask.
  Rendezvous* rendezvous = nullptr;
};

/// `verbena run` listens to this process.
class Launched : public worker::Surroundings {
 public:
  Launched(int report_to, std::uint32_t rank) : report_to_(report_to), rank_(rank) {}

  void on_iteration(const IterationReport& report,
                    absl::FunctionRef<SessionStatistics()> statistics) override {
    if (timer_.is_due()) send(StatisticsMessage{rank_, seconds(), statistics()});
    send(IterationMessage{rank_, report});
  }
  void on_given_up(const absl::Status& why, bool is_cause) override {
    send(FailedMessage{why, is_cause ? std::optional(Cause::kOwnError) : std::nullopt});
  }
  void on_end(const absl::Status& status, const SessionStatistics& statistics) override {
    // Also if the user's program does not report the failure.
    if (!status.ok()) return send(FailedMessage{status});
    send(FinishedMessage{rank_, seconds(), statistics});
  }

 private:
  /// If the launcher is gone, this process is about to end, too.
  void send(const ChildMessage& message) const { write_all(report_to_, encode(message)).IgnoreError(); }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  const int report_to_;
  const std::uint32_t rank_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  StatisticsTimer timer_;
};

/// A server in threads of this process, until all workers have left.
class OwnServer {
 public:
  /// Starts to listen. `options`: all but the address.
  static absl::StatusOr<std::unique_ptr<OwnServer>> start(const transport::Backend& backend,
                                                          const transport::BackendOptions& how,
                                                          ServerOptions options) {
    auto transport = backend.make(how);
    if (!transport.ok()) return transport.status();
    absl::StatusOr<std::string> own =
        backend.fresh_address(ServerPlace::fresh(::getpid(), options.rank).text());
    if (backend.reach == transport::Reach::kHosts) own = backend.fresh_address_for_hosts();
    if (!own.ok()) return own.status();
    options.address = *std::move(own);
    auto server = server::Server::create(**transport, options);
    if (!server.ok()) return server.status();
    std::string address = (*transport)->listening_address();
    RETURN_IF_ERROR(check_can_be_found(address));
    return std::unique_ptr<OwnServer>(
        new OwnServer(*std::move(transport), *std::move(server), std::move(address)));
  }
  ~OwnServer() { thread_.join(); }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }
  /// For a process without a session: the server ends in a moment.
  void stop() { stop_ = true; }

 private:
  OwnServer(std::unique_ptr<transport::Transport> transport, std::unique_ptr<server::Server> server,
            std::string address)
      : address_(std::move(address)) {
    const base::SignalsBlocked blocked;
    thread_ = std::thread([this, transport = std::move(transport), server = std::move(server)]() mutable {
      serve(*server, *transport);
      // Workers that still wait for the server must see its connections close.
      server.reset();
      transport.reset();
    });
  }
  /// The workers hear from the server how it ends, or see it.
  void serve(server::Server& server, transport::Transport& transport) const {
    try {
      server::drive(server, transport, stop_).IgnoreError();
    } catch (const std::exception& thrown) {
      spdlog::error("the server in this process: {}", thrown.what());
    }
  }

  const std::string address_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// Nobody listens. There may be a server in this process, and a program that has started the process.
class Hosting : public worker::Surroundings {
 public:
  explicit Hosting(std::unique_ptr<Rendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {}
  ~Hosting() override {
    if (server_ != nullptr && !had_session_) server_->stop();
  }
  void on_iteration(const IterationReport& /*report*/,
                    absl::FunctionRef<SessionStatistics()> /*statistics*/) override {}
  void on_given_up(const absl::Status& /*why*/, bool /*is_cause*/) override {}
  void on_end(const absl::Status& /*status*/, const SessionStatistics& /*statistics*/) override {
    had_session_ = true;
  }

  [[nodiscard]] Rendezvous& rendezvous() const { return *rendezvous_; }
  void set_server(std::unique_ptr<OwnServer> server) { server_ = std::move(server); }
  [[nodiscard]] const std::string& server_address() const { return server_->address(); }

 private:
  std::unique_ptr<Rendezvous> rendezvous_;  ///< nullptr: nobody
  std::unique_ptr<OwnServer> server_;       ///< nullptr: none here
  bool had_session_ = false;                ///< so that the server ends by itself
};

absl::Status place_by_letter(const LaunchLetter& letter, Place& place) {
  if (!letter.program) return absl::InvalidArgumentError("the launcher's letter is none to a program");
  const ProgramRole& role = *letter.program;
  if (role.node >= role.servers)
    return absl::InvalidArgumentError("the launcher's letter names no server of this worker's own");
  place.surroundings = std::make_unique<Launched>(letter.report_to, role.rank);
  const absl::StatusOr<std::unique_ptr<EmbeddedRendezvous>> rendezvous =
      EmbeddedRendezvous::join(letter.rendezvous);
  if (!rendezvous.ok()) return rendezvous.status();
  const std::atomic<bool> stop = false;  // the launcher ends this process itself
  absl::StatusOr<std::vector<std::string>> addresses =
      AddressExchange(**rendezvous, role.servers * (1 + role.copies)).addresses("", stop);
  if (!addresses.ok()) return addresses.status();
  addresses->resize(role.servers);  // the copies follow these
  const absl::StatusOr<const transport::Backend*> backend = transport::find_backend(role.scheme);
  if (!backend.ok()) return backend.status();
  if (place.options.network.tls && !role.tls && (*backend)->reach == transport::Reach::kHosts)
    return absl::InvalidArgumentError(
        "this program wants TLS, and the job does not encrypt: verbena run --tls");
  absl::StatusOr<std::unique_ptr<transport::Transport>> transport =
      (*backend)->make({.secret = (*rendezvous)->secret(),
                        .tls = role.tls,
                        .device = role.device,
                        .device_port = static_cast<std::uint8_t>(role.device_port),
                        .shares_cores = role.shares_cores});
  if (!transport.ok()) return transport.status();
  SessionOptions& options = place.options;
  if (role.copies > 0) {
    absl::StatusOr<Decided> decided = map_decided(letter.decided);
    if (!decided.ok()) return decided.status();
    options.configuration =
        launchers_configuration(role.store, (*rendezvous)->secret(), *std::move(decided),
                                {.ends_who_is_left_out = role.ends_who_is_left_out,
                                 .longest_absence = std::chrono::milliseconds(role.longest_absence_ms)});
    // While nobody leads the run, no copy takes the place of a server that is gone.
    options.timeout_ms +=
        std::min(role.longest_absence_ms, std::numeric_limits<std::uint32_t>::max() - options.timeout_ms);
  }
  options.servers = *std::move(addresses);
  options.rank = role.rank;
  options.workers = role.workers;
  options.node = role.node;
  options.read_path = role.read_path;
  options.silence_timeout_ms = role.silence_timeout_ms;
  options.update_budget_mb_per_s = role.update_budget_mb_per_s;
  options.transport = *std::move(transport);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> addresses_of(std::string_view servers) {
  std::vector<std::string> addresses = absl::StrSplit(absl::string_view(servers.data(), servers.size()), ',');
  for (auto one = addresses.begin(); one != addresses.end(); ++one) {
    const bool is_address = !one->empty() && one->find(' ') == std::string::npos;
    if (is_address && std::find(addresses.begin(), one, *one) == one) continue;
    return absl::InvalidArgumentError(fmt::format(
        "VERBENA_SERVERS={}: an address for each server is expected, with commas between them; \"{}\" is {}",
        servers, *one, is_address ? "there twice" : "none"));
  }
  return addresses;
}

absl::Status place_by_variables(std::string_view servers, const Environment& variable, Place& place) {
  SessionOptions& options = place.options;
  absl::StatusOr<std::vector<std::string>> addresses = addresses_of(servers);
  if (!addresses.ok()) return addresses.status();
  options.servers = *std::move(addresses);
  const auto rank = number_in_variable(variable, "VERBENA_RANK");
  if (!rank.ok()) return rank.status();
  const auto workers = number_in_variable(variable, "VERBENA_WORKERS");
  if (!workers.ok()) return workers.status();
  options.rank = rank->value_or(0);
  options.workers = workers->value_or(1);
  return take_secret_variables(variable, options.network.secret_file, options.network.no_secret);
}

/// A user who says which worker this is means a job.
absl::Status check_servers_named(const Environment& variable) {
  for (const char* const name : {"VERBENA_RANK", "VERBENA_WORKERS"}) {
    if (variable(name) == nullptr) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} is set, and VERBENA_SERVERS, where the servers are, is not", name));
  }
  return absl::OkStatus();
}

transport::BackendOptions how_of(const NetworkOptions& network,
                                 std::shared_ptr<const transport::Secret> secret, std::size_t threads_here) {
  return {.secret = std::move(secret),
          .tls = network.tls,
          .device = network.device,
          .device_port = network.device_port,
          .shares_cores = network.shares_cores || threads_here > base::cores_at_hand()};
}

/// What processes tell each other that something else than Verbena has started.
constexpr const char* kServer = "verbena.server";
constexpr const char* kVerdict = "verbena.verdict";

/// Whether the program wants to wait no longer.
Rendezvous::Stopped stop_of(const SessionOptions& options) {
  return [on_wait = options.on_wait] { return on_wait != nullptr && !on_wait().ok(); };
}

/// One process of many. All meet three times: before they find out what they need, when each has it, and when
/// each is connected, so that nobody waits for a process that has failed.
class Member {
 public:
  Member(Hosting& hosting, SessionOptions& options)
      : hosting_(hosting), rendezvous_(hosting.rendezvous()), options_(options) {}

  absl::Status take_place() {
    RETURN_IF_ERROR(rendezvous_.put(kToldHost, host_identity()));
    RETURN_IF_ERROR(rendezvous_.put(
        kToldTransports,
        transport::usable_schemes(transport::Reach::kHosts, how_of(options_.network, nullptr, 1))));
    if (rendezvous_.rank() == 0) RETURN_IF_ERROR(put_secret(rendezvous_));
    RETURN_IF_ERROR(rendezvous_.fence(kMeetingPatience, stop_of(options_)));
    RETURN_IF_ERROR(meet(rendezvous_, prepare(), "prepared", stop_of(options_)));
    options_.servers.clear();
    for (const std::uint32_t rank : with_server_) {
      absl::StatusOr<std::string> address = rendezvous_.get(rank, kServer);
      if (!address.ok()) return address.status();
      options_.servers.push_back(*std::move(address));
    }
    return absl::OkStatus();
  }

  /// `own`: how it went here. If it went well here and not in another process: CANCELLED.
  static absl::Status meet(Rendezvous& rendezvous, const absl::Status& own, std::string_view what,
                           const Rendezvous::Stopped& stopped) {
    const std::string key = fmt::format("{}.{}", kVerdict, what);
    const absl::Status told = rendezvous.put(key, own.ok() ? "well" : "failed");
    const absl::Status met = rendezvous.fence(kMeetingPatience, stopped);
    RETURN_IF_ERROR(own);
    RETURN_IF_ERROR(told);
    RETURN_IF_ERROR(met);
    for (std::uint32_t rank = 0; rank < rendezvous.size(); ++rank) {
      const absl::StatusOr<std::string> verdict = rendezvous.get(rank, key);
      if (!verdict.ok()) return verdict.status();
      if (*verdict != "well")
        return absl::CancelledError(fmt::format("rank {} cannot take part, and says why itself", rank));
    }
    return absl::OkStatus();
  }

 private:
  /// Finds out who is where and what this process needs; starts a server in the first process of each host.
  absl::Status prepare() {
    RETURN_IF_ERROR(learn_hosts());
    const absl::StatusOr<std::shared_ptr<const transport::Secret>> secret = get_secret(rendezvous_);
    if (!secret.ok()) return secret.status();
    const std::uint32_t rank = rendezvous_.rank();
    const std::string& host = hosts_[rank];
    const auto own =
        std::ranges::find(with_server_, host, [&](std::uint32_t other) { return hosts_[other]; });
    const auto node = static_cast<std::uint32_t>(own - with_server_.begin());
    const bool one_host = with_server_.size() == 1;
    const absl::StatusOr<const transport::Backend*> between_hosts =
        transport::common_backend(transport::Reach::kHosts, usable_);
    if (!one_host && !between_hosts.ok()) return between_hosts.status();
    const transport::Backend& backend =
        one_host ? transport::default_backend(transport::Reach::kHost) : **between_hosts;
    const transport::BackendOptions how =
        how_of(options_.network, *secret, static_cast<std::size_t>(std::ranges::count(hosts_, host)) + 1);
    if (*own == rank) RETURN_IF_ERROR(start_server(backend, how, node));
    absl::StatusOr<std::unique_ptr<transport::Transport>> transport = backend.make(how);
    if (!transport.ok()) return transport.status();
    options_.rank = rank;
    options_.workers = rendezvous_.size();
    options_.node = node;
    options_.transport = *std::move(transport);
    return absl::OkStatus();
  }

  absl::Status learn_hosts() {
    for (std::uint32_t rank = 0; rank < rendezvous_.size(); ++rank) {
      absl::StatusOr<std::string> host = rendezvous_.get(rank, kToldHost);
      if (!host.ok()) return host.status();
      if (std::ranges::find(hosts_, *host) == hosts_.end()) with_server_.push_back(rank);
      hosts_.push_back(*std::move(host));
      absl::StatusOr<std::string> usable = rendezvous_.get(rank, kToldTransports);
      if (!usable.ok()) return usable.status();
      usable_.push_back(*std::move(usable));
    }
    return absl::OkStatus();
  }

  absl::Status start_server(const transport::Backend& backend, const transport::BackendOptions& how,
                            std::uint32_t node) {
    auto server = OwnServer::start(backend, how,
                                   {.rank = node,
                                    .servers = static_cast<std::uint32_t>(with_server_.size()),
                                    .workers = rendezvous_.size(),
                                    .silence_timeout_ms = options_.silence_timeout_ms});
    if (!server.ok()) return server.status();
    RETURN_IF_ERROR(rendezvous_.put(kServer, (*server)->address()));
    hosting_.set_server(*std::move(server));
    return absl::OkStatus();
  }

  Hosting& hosting_;
  Rendezvous& rendezvous_;
  SessionOptions& options_;
  std::vector<std::string> hosts_;          ///< by rank
  std::vector<std::string> usable_;         ///< transport::usable_schemes() between hosts, by rank
  std::vector<std::uint32_t> with_server_;  ///< ranks, ascending: the first on each host
};

absl::Status place_among(std::unique_ptr<Rendezvous> joined, Place& place) {
  auto hosting = std::make_unique<Hosting>(std::move(joined));
  place.rendezvous = &hosting->rendezvous();
  RETURN_IF_ERROR(Member(*hosting, place.options).take_place());
  place.surroundings = std::move(hosting);
  return absl::OkStatus();
}

absl::Status place_alone(Place& place) {
  auto hosting = std::make_unique<Hosting>(nullptr);
  const transport::Backend& backend = transport::default_backend(transport::Reach::kHost);
  const transport::BackendOptions how = how_of(place.options.network, nullptr, 2);
  auto server = OwnServer::start(backend, how, {.silence_timeout_ms = place.options.silence_timeout_ms});
  if (!server.ok()) return server.status();
  hosting->set_server(*std::move(server));
  absl::StatusOr<std::unique_ptr<transport::Transport>> transport = backend.make(how);
  if (!transport.ok()) return transport.status();
  place.options.servers = {hosting->server_address()};
  place.options.rank = 0;
  place.options.workers = 1;
  place.options.node = 0;
  place.options.transport = *std::move(transport);
  place.surroundings = std::move(hosting);
  return absl::OkStatus();
}

absl::Status find_place(Place& place, const Environment& variable) {
  RETURN_IF_ERROR(take_tls_variable(variable, place.options.network.tls));
  const absl::StatusOr<std::optional<LaunchLetter>> letter = take_letter_by_environment();
  if (!letter.ok()) return letter.status();
  if (letter->has_value()) return place_by_letter(**letter, place);
  if (const char* const servers = variable("VERBENA_SERVERS"))
    return place_by_variables(servers, variable, place);
  RETURN_IF_ERROR(check_servers_named(variable));
  const NetworkOptions& network = place.options.network;
  const PeerOptions options{.secret_file = network.secret_file,
                            .no_secret = network.no_secret,
                            .tls = network.tls,
                            .leader_silence = std::chrono::milliseconds(place.options.silence_timeout_ms)};
  const absl::StatusOr<Meeting> meeting = find_meeting(options, variable);
  if (!meeting.ok()) return meeting.status();
  absl::StatusOr<std::unique_ptr<PeerRendezvous>> peers =
      meet_peers(*meeting, options, variable, kMeetingPatience, stop_of(place.options));
  if (!peers.ok()) return peers.status();
  return *peers == nullptr ? place_alone(place) : place_among(*std::move(peers), place);
}

}  // namespace
}  // namespace job

absl::StatusOr<std::unique_ptr<Session>> Session::from_environment(SessionOptions options) {
  static std::atomic<bool> called = false;
  if (called.exchange(true))
    return absl::FailedPreconditionError("this process has asked for its place in a job already: it has one");
  try {
    job::Place place{.options = std::move(options)};
    absl::Status found = job::find_place(place, job::own_environment);
    absl::StatusOr<std::unique_ptr<Session>> session = found.ok() ? connect(place.options) : std::move(found);
    if (place.surroundings != nullptr && place.rendezvous != nullptr) {
      const absl::Status all =
          job::Member::meet(*place.rendezvous, session.status(), "connected", job::stop_of(place.options));
      if (session.ok() && !all.ok()) {
        (*session)->give_up(all).IgnoreError();
        session = all;
      }
    }
    if (session.ok()) {
      (*session)->surroundings_ = std::move(place.surroundings);
    } else if (place.surroundings != nullptr) {
      place.surroundings->on_given_up(session.status(), /*is_cause=*/false);
    }
    return session;
  } catch (const std::system_error& thrown) {
    return absl::ResourceExhaustedError(fmt::format("no thread for this worker: {}", thrown.what()));
  }
}

}  // namespace verbena
