#include "apps/bench/backend.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "apps/options/transport_options.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::apps::bench {

namespace {

constexpr std::string_view kVerbsPrefix = "verbs:";
constexpr std::size_t kSpareSends = 8;  // of a send queue, for what a connection says itself

/// Of the addresses of a port the one that listens and connects.
int gid_index_of(const transport::VerbsDevice::Port& port) {
  for (const transport::VerbsDevice::Gid& gid : port.gids) {
    if (gid.type == "RoCEv2" && gid.text == port.address) return static_cast<int>(gid.index);
  }
  return -1;
}

struct Found {
  transport::VerbsDevice device;
  transport::VerbsDevice::Port port;
};

absl::StatusOr<Found> find_device(const VerbsChoice& choice) {
  auto devices = transport::list_verbs_devices();
  if (!devices.ok()) return devices.status();
  for (const transport::VerbsDevice& device : *devices) {
    if (!device.obstacle.empty() || (!choice.device.empty() && device.name != choice.device)) continue;
    for (const transport::VerbsDevice::Port& port : device.ports) {
      if (port.obstacle.empty() && (choice.port == 0 || port.number == choice.port)) {
        return Found{device, port};
      }
    }
  }
  // The transport says best what is in the way.
  auto transport = make_transport({.transport = kVerbs, .device = choice.device, .device_port = choice.port});
  if (!transport.ok()) return transport.status();
  return absl::UnavailableError("no usable RDMA device");
}

}  // namespace

Backend shm_backend(SharedSecret secret) {
  return {.name = kShm,
          .make_transport =
              [secret = std::move(secret)] { return transport::make_shm_transport({.secret = secret}); },
          .fresh_address =
              [] {
                static int count = 0;
                return fmt::format("shm:bench-{}-{}", ::getpid(), ++count);
              },
          .listening_address = [](const transport::Transport&, const std::string& asked) { return asked; }};
}

absl::StatusOr<Backend> verbs_backend(const VerbsChoice& choice) {
  const absl::StatusOr<Found> found = find_device(choice);
  if (!found.ok()) return found.status();
  transport::VerbsOptions options;
  options.secret = choice.secret;
  options.device = found->device.name;
  options.port = found->port.number;
  options.send_depth =
      std::max(options.send_depth, static_cast<std::uint32_t>(std::bit_ceil(choice.depth + kSpareSends)));
  return Backend{
      .name = kVerbs,
      .device = fmt::format("{} port {}", options.device, options.port),
      .mtu_bytes = found->port.mtu_bytes,
      .perftest = {.name = options.device, .port = options.port, .gid_index = gid_index_of(found->port)},
      .make_transport = [options]() -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
        auto made = transport::make_verbs_transport(options);
        if (!made.ok()) return made.status();
        return std::unique_ptr<transport::Transport>(*std::move(made));
      },
      .fresh_address = [] { return std::string("verbs::0"); },
      .listening_address =
          [](const transport::Transport& transport, const std::string&) {
            return dynamic_cast<const transport::VerbsTransport&>(transport).listening_address();
          }};
}

std::string host_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (!address.starts_with(kVerbsPrefix) || colon < kVerbsPrefix.size()) return "";
  return address.substr(kVerbsPrefix.size(), colon - kVerbsPrefix.size());
}

std::string with_host(const std::string& address, const std::string& host) {
  if (!address.starts_with(kVerbsPrefix) || !host_of(address).empty()) return address;
  return fmt::format("{}{}{}", kVerbsPrefix, host, address.substr(kVerbsPrefix.size()));
}

}  // namespace verbena::apps::bench
