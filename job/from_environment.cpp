// Session::from_environment(): which job a process is of, found out from who has started it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"
#include "job/address_exchange.hpp"
#include "job/child_message.hpp"
#include "job/embedded_rendezvous.hpp"
#include "job/environment.hpp"
#include "job/launch_letter.hpp"
#include "job/line_stream.hpp"
#include "job/pmix_rendezvous.hpp"
#include "job/secret_handover.hpp"
#include "job/starters.hpp"
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
};

/// `verbena run` listens.
class Launched : public worker::Surroundings {
 public:
  Launched(int report_to, std::uint32_t rank) : report_to_(report_to), rank_(rank) {}

  void on_iteration(const IterationReport& report) override { send(IterationMessage{rank_, report}); }
  void on_given_up(const absl::Status& why) override { send(FailedMessage{why}); }
  void on_end(const SessionStatistics& statistics) override {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    send(FinishedMessage{rank_, passed.count(), statistics});
  }

 private:
  /// When the launcher is gone this process is about to be, too.
  void send(const ChildMessage& message) const { write_all(report_to_, encode(message)).IgnoreError(); }

  const int report_to_;
  const std::uint32_t rank_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A server in threads of this process, until all workers have left.
class OwnServer {
 public:
  /// Listens.
  static absl::StatusOr<std::unique_ptr<OwnServer>> start(const transport::Backend& backend,
                                                          const transport::BackendOptions& how,
                                                          ServerOptions options) {
    auto transport = backend.make(how);
    if (!transport.ok()) return transport.status();
    options.address = backend.fresh_address(random_job_name());
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
  /// There will be no session.
  void stop() {
    stop_ = true;
    transport_->interrupt();
  }

 private:
  OwnServer(std::unique_ptr<transport::Transport> transport, std::unique_ptr<server::Server> server,
            std::string address)
      : transport_(std::move(transport)), server_(std::move(server)), address_(std::move(address)) {
    // How it ends the workers hear from it.
    thread_ = std::thread([this] { server::drive(*server_, *transport_, stop_).IgnoreError(); });
  }

  const std::unique_ptr<transport::Transport> transport_;
  const std::unique_ptr<server::Server> server_;
  const std::string address_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// Nobody listens; there may be a server of this process, and who has started it.
class Hosting : public worker::Surroundings {
 public:
  explicit Hosting(std::unique_ptr<PmixRendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {}
  ~Hosting() override {
    if (server_ != nullptr && !connected_) server_->stop();
  }
  void on_iteration(const IterationReport& /*report*/) override {}
  void on_given_up(const absl::Status& /*why*/) override {}
  void on_end(const SessionStatistics& /*statistics*/) override { connected_ = true; }

  [[nodiscard]] Rendezvous& rendezvous() const { return *rendezvous_; }
  void set_server(std::unique_ptr<OwnServer> server) { server_ = std::move(server); }
  [[nodiscard]] const OwnServer* server() const { return server_.get(); }

 private:
  std::unique_ptr<PmixRendezvous> rendezvous_;  ///< nullptr: nobody
  std::unique_ptr<OwnServer> server_;           ///< nullptr: none here
  bool connected_ = false;                      ///< there is, or was, a session
};

absl::Status place_by_letter(const LaunchLetter& letter, Place& place) {
  if (!letter.program) return absl::InvalidArgumentError("the launcher's letter is none to a program");
  const ProgramRole& role = *letter.program;
  place.surroundings = std::make_unique<Launched>(letter.report_to, role.rank);
  const absl::StatusOr<std::unique_ptr<EmbeddedRendezvous>> rendezvous =
      EmbeddedRendezvous::join(letter.rendezvous);
  if (!rendezvous.ok()) return rendezvous.status();
  const std::atomic<bool> stop = false;  // the launcher ends this process itself
  absl::StatusOr<std::vector<std::string>> addresses =
      AddressExchange(**rendezvous, role.servers).addresses("", stop);
  if (!addresses.ok()) return addresses.status();
  const absl::StatusOr<const transport::Backend*> backend = transport::find_backend(role.scheme);
  if (!backend.ok()) return backend.status();
  absl::StatusOr<std::unique_ptr<transport::Transport>> transport =
      (*backend)->make({.secret = (*rendezvous)->secret(),
                        .device = role.device,
                        .device_port = static_cast<std::uint8_t>(role.device_port),
                        .shares_cores = role.shares_cores});
  if (!transport.ok()) return transport.status();
  SessionOptions& options = place.options;
  options.servers = *std::move(addresses);
  options.rank = role.rank;
  options.workers = role.workers;
  options.node = role.rank % role.servers;
  options.read_path = role.read_path;
  options.silence_timeout_ms = role.silence_timeout_ms;
  options.update_budget_mb_per_s = role.update_budget_mb_per_s;
  options.transport = *std::move(transport);
  return absl::OkStatus();
}

absl::StatusOr<std::uint32_t> number_of(const Environment& variable, const char* name,
                                        std::uint32_t otherwise) {
  const char* const written = variable(name);
  if (written == nullptr) return otherwise;
  if (const auto number = base::parse_decimal<std::uint32_t>(written)) return *number;
  return absl::InvalidArgumentError(fmt::format("{}={}: a number is expected", name, written));
}

absl::Status place_by_variables(std::string_view servers, const Environment& variable, Place& place) {
  SessionOptions& options = place.options;
  options.servers = absl::StrSplit(absl::string_view(servers.data(), servers.size()), ',');
  const absl::StatusOr<std::uint32_t> rank = number_of(variable, "VERBENA_RANK", 0);
  if (!rank.ok()) return rank.status();
  const absl::StatusOr<std::uint32_t> workers = number_of(variable, "VERBENA_WORKERS", 1);
  if (!workers.ok()) return workers.status();
  options.rank = *rank;
  options.workers = *workers;
  if (const char* const file = variable("VERBENA_SECRET_FILE")) options.network.secret_file = file;
  if (const char* const none = variable("VERBENA_NO_SECRET"))
    options.network.no_secret = std::string_view(none) == "1";
  return absl::OkStatus();
}

/// What the processes that mpirun or srun has started tell each other.
constexpr const char* kHost = "verbena.host";
constexpr const char* kServer = "verbena.server";
constexpr const char* kNoServer = "none";

struct Neighbours {
  std::vector<std::string> hosts;          ///< by rank
  std::vector<std::uint32_t> with_server;  ///< ranks, ascending: the first on each host
  std::shared_ptr<const transport::Secret> secret;

  [[nodiscard]] bool one_host() const { return with_server.size() == 1; }
  /// Which of the servers is on the host of `rank`.
  [[nodiscard]] std::uint32_t node_of(std::uint32_t rank) const {
    const auto own =
        std::ranges::find(with_server, hosts[rank], [&](std::uint32_t other) { return hosts[other]; });
    return static_cast<std::uint32_t>(own - with_server.begin());
  }
};

absl::StatusOr<Neighbours> meet(Rendezvous& rendezvous) {
  RETURN_IF_ERROR(rendezvous.put(kHost, host_identity()));
  if (rendezvous.rank() == 0) RETURN_IF_ERROR(put_secret(rendezvous));
  RETURN_IF_ERROR(rendezvous.fence(kMeetingPatience, [] { return false; }));
  Neighbours neighbours;
  for (std::uint32_t rank = 0; rank < rendezvous.size(); ++rank) {
    absl::StatusOr<std::string> host = rendezvous.get(rank, kHost);
    if (!host.ok()) return host.status();
    if (std::ranges::find(neighbours.hosts, *host) == neighbours.hosts.end())
      neighbours.with_server.push_back(rank);
    neighbours.hosts.push_back(*std::move(host));
  }
  absl::StatusOr<std::shared_ptr<const transport::Secret>> secret = get_secret(rendezvous);
  if (!secret.ok()) return secret.status();
  neighbours.secret = *std::move(secret);
  return neighbours;
}

transport::BackendOptions how_of(const NetworkOptions& network,
                                 std::shared_ptr<const transport::Secret> secret, std::size_t threads_here) {
  return {.secret = std::move(secret),
          .device = network.device,
          .device_port = network.device_port,
          .shares_cores = network.shares_cores || threads_here > std::thread::hardware_concurrency()};
}

absl::Status place_among(std::unique_ptr<PmixRendezvous> joined, Place& place) {
  auto hosting = std::make_unique<Hosting>(std::move(joined));
  Rendezvous& rendezvous = hosting->rendezvous();
  const absl::StatusOr<Neighbours> met = meet(rendezvous);
  if (!met.ok()) return met.status();
  const Neighbours& neighbours = *met;
  const std::uint32_t rank = rendezvous.rank();
  const std::uint32_t node = neighbours.node_of(rank);
  const auto here = static_cast<std::size_t>(std::ranges::count(neighbours.hosts, neighbours.hosts[rank]));
  const transport::Backend& backend =
      transport::default_backend(neighbours.one_host() ? transport::Reach::kHost : transport::Reach::kHosts);
  const transport::BackendOptions how = how_of(place.options.network, neighbours.secret, here + 1);
  absl::Status started;
  if (neighbours.with_server[node] == rank) {
    auto server = OwnServer::start(backend, how,
                                   {.rank = node,
                                    .servers = static_cast<std::uint32_t>(neighbours.with_server.size()),
                                    .workers = rendezvous.size(),
                                    .silence_timeout_ms = place.options.silence_timeout_ms});
    started = server.status();
    RETURN_IF_ERROR(rendezvous.put(kServer, started.ok() ? (*server)->address() : kNoServer));
    if (started.ok()) hosting->set_server(*std::move(server));
  }
  RETURN_IF_ERROR(rendezvous.fence(kMeetingPatience, [] { return false; }));
  RETURN_IF_ERROR(started);
  place.options.servers.clear();
  for (const std::uint32_t other : neighbours.with_server) {
    absl::StatusOr<std::string> address = rendezvous.get(other, kServer);
    if (!address.ok()) return address.status();
    if (*address == kNoServer)
      return absl::CancelledError(fmt::format("rank {} cannot have a server, and says why itself", other));
    place.options.servers.push_back(*std::move(address));
  }
  absl::StatusOr<std::unique_ptr<transport::Transport>> transport = backend.make(how);
  if (!transport.ok()) return transport.status();
  place.options.rank = rank;
  place.options.workers = rendezvous.size();
  place.options.node = node;
  place.options.transport = *std::move(transport);
  place.surroundings = std::move(hosting);
  return absl::OkStatus();
}

absl::Status place_alone(Place& place) {
  auto hosting = std::make_unique<Hosting>(nullptr);
  auto server = OwnServer::start(transport::default_backend(transport::Reach::kHost), {},
                                 {.silence_timeout_ms = place.options.silence_timeout_ms});
  if (!server.ok()) return server.status();
  place.options.servers = {(*server)->address()};
  place.options.rank = 0;
  place.options.workers = 1;
  place.options.node = 0;
  hosting->set_server(*std::move(server));
  place.surroundings = std::move(hosting);
  return absl::OkStatus();
}

absl::Status find_place(Place& place, const Environment& variable) {
  const absl::StatusOr<std::optional<LaunchLetter>> letter = take_letter_by_environment();
  if (!letter.ok()) return letter.status();
  if (letter->has_value()) return place_by_letter(**letter, place);
  if (const char* const servers = variable("VERBENA_SERVERS"))
    return place_by_variables(servers, variable, place);
  RETURN_IF_ERROR(check_started_apart(variable));
  if (variable("PMIX_RANK") == nullptr) return place_alone(place);
  absl::StatusOr<std::unique_ptr<PmixRendezvous>> joined = PmixRendezvous::join();
  if (!joined.ok()) return joined.status();
  return place_among(*std::move(joined), place);
}

}  // namespace
}  // namespace job

absl::StatusOr<std::unique_ptr<Session>> Session::from_environment(SessionOptions options) {
  static std::atomic<bool> taken = false;
  if (taken.exchange(true))
    return absl::FailedPreconditionError("this process has its place in a job already, which is one session");
  job::Place place{.options = std::move(options), .surroundings = nullptr};
  absl::Status found = job::find_place(place, job::own_environment);
  absl::StatusOr<std::unique_ptr<Session>> session = found.ok() ? connect(place.options) : std::move(found);
  if (session.ok()) {
    (*session)->surroundings_ = std::move(place.surroundings);
  } else if (place.surroundings != nullptr) {
    place.surroundings->on_given_up(session.status());
  }
  return session;
}

}  // namespace verbena
