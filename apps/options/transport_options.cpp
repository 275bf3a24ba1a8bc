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
    transport::ShmOptions shared_memory;
    // Whoever looks for work there takes a core from those who have some.
    if (options.shares_cores) shared_memory.spin = {};
    absl::StatusOr<std::unique_ptr<transport::Transport>> shm = transport::make_shm_transport(shared_memory);
    if (!shm.ok() || options.network.empty()) return shm;
    const absl::StatusOr<JobNetwork> network = parse_job_network(options.network);
    if (!network.ok()) return network.status();
    if (network->hosts == Hosts::kProcesses) own_node.clear();
    return std::make_unique<DelayedTransport>(*std::move(shm), network->cost, std::move(own_node));
  }
  absl::StatusOr<std::unique_ptr<transport::VerbsTransport>> verbs = transport::make_verbs_transport(
      {.device = options.device, .port = static_cast<std::uint8_t>(options.device_port)});
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
