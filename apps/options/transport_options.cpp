#include "apps/options/transport_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_join.h"
#include "apps/conditions/delayed_transport.hpp"
#include "apps/options/numbers.hpp"
#include "apps/options/validators.hpp"

namespace verbena::apps {
namespace {

/// In the form of --transport: for messages.
template <class Is>
std::string schemes_of(const Is& is) {
  std::vector<std::string> schemes;
  for (const transport::Backend* backend : transport::backends()) {
    if (is(*backend)) schemes.push_back(backend->scheme);
  }
  return absl::StrJoin(schemes, "|");
}

std::string schemes_that_encrypt() {
  return schemes_of([](const transport::Backend& backend) { return backend.can_encrypt; });
}

}  // namespace

void add_transport_options(CLI::App& command, TransportOptions& options, const std::string& group) {
  std::vector<std::string> choices{kAutoTransport};
  std::vector<std::string> what_is_what;
  for (const transport::Backend* backend : transport::backends()) {
    choices.push_back(backend->scheme);
    what_is_what.push_back(fmt::format("{} is {}", backend->scheme, backend->summary));
  }
  command
      .add_option("--transport", options.transport,
                  fmt::format("How bytes move: {}; auto takes {} where all processes share a host, "
                              "else the first of the others that all hosts can use.",
                              absl::StrJoin(what_is_what, ", "), default_scheme(transport::Reach::kHost)))
      ->type_name(absl::StrJoin(choices, "|"))
      ->check(one_of(choices))
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
  add_number(
      command, "--streams", options.streams,
      "Over tcp: over how many streams what is long of a connection travels; by default 1 within a host, "
      "and 4 between hosts once there has been much of it. More help where the network limits each flow "
      "or loses of it.",
      {1, transport::kMostStreams})
      ->type_name("N")
      ->group(group);
  command
      .add_flag(
          "--tls", options.tls,
          fmt::format("Encrypt what travels between hosts, by TLS 1.3 with keys that follow from the job's "
                      "secret: over {}, which auto then takes. For all processes of a job, or none. Within "
                      "a host nothing is encrypted, for nothing leaves it.",
                      schemes_that_encrypt()))
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
          "4096 bytes with the mode 600, the same for all. Required between hosts; over shm, where only this "
          "user's processes can connect, without it all of them may. "
          "(umask 077; head -c 32 /dev/urandom | base64 > FILE) makes one.")
      ->type_name("FILE")
      ->group(group);
  command
      .add_flag(
          "--no-secret", options.no_secret,
          "Between hosts, instead of --secret-file: everybody who reaches these hosts may take part, read "
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
  if (options.no_secret || is_decided_for(options, transport::Reach::kHost)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "over {} a job needs a secret, or whoever reaches these hosts could take part: --secret-file FILE, "
      "the same on "
      "all hosts ((umask 077; head -c 32 /dev/urandom | base64 > FILE) makes one), or --no-secret where "
      "there is "
      "nobody else on the network",
      options.transport));
}

absl::Status check(const TransportOptions& options) {
  if (options.tls && options.no_secret)
    return absl::InvalidArgumentError("--tls needs a secret, from which its keys follow; found --no-secret");
  if (options.tls && !options.device.empty() && options.transport == kAutoTransport) {
    return absl::InvalidArgumentError(
        fmt::format("--tls is for --transport {}, and --device for {}: one of the two",
                    schemes_that_encrypt(), schemes_with_devices()));
  }
  if (options.transport == kAutoTransport) return absl::OkStatus();
  const absl::StatusOr<const transport::Backend*> backend = transport::find_backend(options.transport);
  if (!backend.ok()) return backend.status();
  if ((*backend)->reach == transport::Reach::kHosts && !options.network.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--network is for --transport {}; over {} there is a network",
                    default_scheme(transport::Reach::kHost), options.transport));
  }
  if (options.tls && !(*backend)->keeps_secrets()) {
    return absl::InvalidArgumentError(
        fmt::format("--tls is for --transport {}; {} does not encrypt what travels", schemes_that_encrypt(),
                    options.transport));
  }
  if ((*backend)->find_device) return absl::OkStatus();
  for (const auto& [option, is_given] : {std::pair{"--device", !options.device.empty()},
                                         std::pair{"--device-port", options.device_port != 0}}) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(fmt::format("{} is for --transport {}; {} needs no device", option,
                                                  schemes_with_devices(), options.transport));
  }
  return absl::OkStatus();
}

TransportOptions decided(TransportOptions options, transport::Reach reach) {
  if (options.transport != kAutoTransport) return options;
  options.transport = default_scheme(reach);
  for (const transport::Backend* backend : transport::backends()) {
    if (!options.tls || backend->reach != reach || !backend->keeps_secrets()) continue;
    options.transport = backend->scheme;
    break;
  }
  return options;
}

std::string usable_between_hosts(const TransportOptions& options) {
  return transport::usable_schemes(transport::Reach::kHosts,
                                   {.tls = options.tls,
                                    .device = options.device,
                                    .device_port = static_cast<std::uint8_t>(options.device_port)});
}

const transport::Backend& backend_of(const TransportOptions& options) {
  return **transport::find_backend(options.transport);
}

bool is_decided_for(const TransportOptions& options, transport::Reach reach) {
  const absl::StatusOr<const transport::Backend*> backend = transport::find_backend(options.transport);
  return backend.ok() && (*backend)->reach == reach;
}

const std::string& default_scheme(transport::Reach reach) {
  return transport::default_backend(reach).scheme;
}

std::string schemes_with_devices() {
  return schemes_of([](const transport::Backend& backend) { return backend.find_device != nullptr; });
}

std::string schemes_between_hosts() {
  return schemes_of(
      [](const transport::Backend& backend) { return backend.reach == transport::Reach::kHosts; });
}

absl::StatusOr<std::unique_ptr<transport::Transport>> make_transport(const TransportOptions& options,
                                                                     std::vector<std::string> own_node) {
  const transport::Backend& backend = backend_of(options);
  absl::StatusOr<std::unique_ptr<transport::Transport>> made =
      backend.make({.secret = options.secret,
                    .tls = options.tls,
                    .device = options.device,
                    .device_port = static_cast<std::uint8_t>(options.device_port),
                    .streams = options.streams,
                    .shares_cores = options.shares_cores});
  if (!made.ok() && backend.find_device) {
    const std::string_view reason(made.status().message().data(), made.status().message().size());
    const std::string without_devices = schemes_of([](const transport::Backend& each) {
      return each.reach == transport::Reach::kHosts && each.find_device == nullptr;
    });
    return absl::Status(made.status().code(),
                        fmt::format("{} (`verbena doctor` says what is missing and how to mend it; "
                                    "--transport {} needs no device)",
                                    reason, without_devices));
  }
  if (!made.ok() || options.network.empty()) return made;
  const absl::StatusOr<JobNetwork> network = parse_job_network(options.network);
  if (!network.ok()) return network.status();
  if (network->hosts == Hosts::kProcesses) own_node.clear();
  return std::make_unique<DelayedTransport>(*std::move(made), network->cost, std::move(own_node));
}

}  // namespace verbena::apps
