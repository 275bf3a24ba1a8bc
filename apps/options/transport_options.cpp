#include "apps/options/transport_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "apps/conditions/delayed_transport.hpp"
#include "apps/options/numbers.hpp"
#include "apps/options/validators.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::apps {

void add_transport_options(CLI::App& command, TransportOptions& options, const std::string& group) {
  command
      .add_option("--transport", options.transport,
                  "How bytes move: shm is this host's shared memory, verbs is RDMA (InfiniBand, RoCE, iWARP) "
                  "between hosts; auto takes shm where all processes share a host.")
      ->type_name("auto|shm|verbs")
      ->check(one_of({kAuto, kShm, kVerbs}))
      ->group(group)
      ->capture_default_str();
  command
      .add_option("--device", options.device,
                  "The RDMA device, such as mlx5_0 or rxe0; by default the first that can be used.")
      ->type_name("NAME")
      ->group(group);
  add_number(command, "--device-port", options.device_port,
             "The port of the RDMA device; by default the first that can be used.", {1, UINT8_MAX})
      ->type_name("N")
      ->group(group);
}

void add_network_option(CLI::App& command, TransportOptions& options, const std::string& group) {
  command
      .add_option(
          "--network", options.network,
          "Over shm: let bytes take as long as over a network whose links have this latency, in each "
          "direction, and bandwidth, for instance latency=10us,bandwidth=10Gb/s. Rows are then read "
          "through the row cache. With hosts=nodes a server and its workers (those whose rank, modulo "
          "the number of servers, is the server's) are one host, without a network between them "
          "(docs/experiments.md).")
      ->type_name("latency=TIME,bandwidth=RATE[,hosts=nodes]")
      ->check(accepted_by([](const std::string& text) { return parse_job_network(text).status(); }))
      ->group(group);
}

void add_secret_options(CLI::App& command, TransportOptions& options, const std::string& group) {
  command
      .add_option(
          "--secret-file", options.secret_file,
          "What all processes of the job must prove to know, before they are told anything: a file of 16 to "
          "4096 bytes with the mode 600, the same for all. Required over verbs; over shm, where only this "
          "user's processes can connect, without it all of them may. "
          "(umask 077; head -c 32 /dev/urandom | base64 > FILE) makes one.")
      ->type_name("FILE")
      ->group(group);
  command
      .add_flag("--no-secret", options.no_secret,
                "Over verbs, instead of --secret-file: everybody who reaches these hosts may take part, read "
                "and change "
                "what is trained. For networks on which there is nobody else.")
      ->group(group);
}

absl::Status take_secret(TransportOptions& options) {
  if (!options.secret_file.empty() && options.no_secret) {
    return absl::InvalidArgumentError("--secret-file and --no-secret exclude each other");
  }
  if (!options.secret_file.empty()) {
    absl::StatusOr<std::shared_ptr<const transport::Secret>> secret =
        transport::Secret::read_file(options.secret_file);
    if (!secret.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--secret-file {}", std::string(secret.status().message())));
    }
    options.secret = *std::move(secret);
    return absl::OkStatus();
  }
  if (options.transport == kShm || options.no_secret) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "over verbs a job needs a secret, or whoever reaches these hosts could take part: --secret-file FILE, "
      "the same on "
      "all hosts ((umask 077; head -c 32 /dev/urandom | base64 > FILE) makes one), or --no-secret where "
      "there is "
      "nobody else on the network");
}

absl::Status check(const TransportOptions& options) {
  if (options.transport == kVerbs && !options.network.empty()) {
    return absl::InvalidArgumentError("--network is for --transport shm; over verbs there is a network");
  }
  if (options.transport != kShm) return absl::OkStatus();
  if (!options.device.empty()) {
    return absl::InvalidArgumentError("--device is for --transport verbs; shm needs no device");
  }
  if (options.device_port != 0) {
    return absl::InvalidArgumentError("--device-port is for --transport verbs; shm needs no device");
  }
  return absl::OkStatus();
}

TransportOptions decided(TransportOptions options, const std::string& transport) {
  if (options.transport == kAuto) options.transport = transport;
  return options;
}

absl::StatusOr<std::unique_ptr<transport::Transport>> make_transport(const TransportOptions& options,
                                                                     std::vector<std::string> own_node) {
  if (options.transport == kShm) {
    transport::ShmOptions shared_memory{.secret = options.secret};
    // Whoever looks for work there takes a core from those who have some.
    if (options.shares_cores) shared_memory.spin = {};
    absl::StatusOr<std::unique_ptr<transport::Transport>> shm = transport::make_shm_transport(shared_memory);
    if (!shm.ok() || options.network.empty()) return shm;
    const absl::StatusOr<JobNetwork> network = parse_job_network(options.network);
    if (!network.ok()) return network.status();
    if (network->hosts == Hosts::kProcesses) own_node.clear();
    return std::make_unique<DelayedTransport>(*std::move(shm), network->cost, std::move(own_node));
  }
  absl::StatusOr<std::unique_ptr<transport::VerbsTransport>> verbs =
      transport::make_verbs_transport({.secret = options.secret,
                                       .device = options.device,
                                       .port = static_cast<std::uint8_t>(options.device_port)});
  if (verbs.ok()) return *std::move(verbs);
  const std::string_view reason(verbs.status().message().data(), verbs.status().message().size());
  return absl::Status(verbs.status().code(),
                      fmt::format("{} (`verbena doctor` says what is missing and how to mend it)", reason));
}

std::string listening_address(const transport::Transport& transport, const std::string& asked) {
  const auto* verbs = dynamic_cast<const transport::VerbsTransport*>(&transport);
  return verbs == nullptr ? asked : verbs->listening_address();
}

}  // namespace verbena::apps
