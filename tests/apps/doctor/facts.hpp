// Made-up facts: hosts with and without a device, and functions that add devices to them.
#pragma once

#include <string>
#include <vector>

#include "apps/doctor/diagnosis.hpp"

namespace verbena::apps::doctor {

inline transport::VerbsDevice::Port roce_port(const std::string& address = "10.0.0.1",
                                              const std::string& interface = "eth0") {
  transport::VerbsDevice::Port port{.number = 1,
                                    .state = "active",
                                    .link_layer = "Ethernet",
                                    .mtu_bytes = 4096,
                                    .max_mtu_bytes = 4096,
                                    .address = address};
  port.gids = {{.index = 0, .type = "RoCEv1", .text = "fe80::1", .interface = interface},
               {.index = 1, .type = "RoCEv2", .text = "fe80::1", .interface = interface},
               {.index = 2, .type = "RoCEv1", .text = address, .interface = interface},
               {.index = 3, .type = "RoCEv2", .text = address, .interface = interface}};
  return port;
}

inline void add_adapter(Facts& facts, const std::string& name, transport::VerbsDevice::Port port,
                        double gigabits) {
  const std::string node = "uverbs" + std::to_string(facts.host.devices.size());
  facts.host.devices.push_back(
      {.name = name, .node = node, .node_there = true, .node_open = true, .gigabits_per_second = gigabits});
  facts.verbs.devices.push_back({.name = name,
                                 .transport = "InfiniBand",
                                 .reliable_connections = true,
                                 .windows = true,
                                 .ports = {std::move(port)}});
}

/// An adapter that is neither InfiniBand, RoCE nor iWARP. `listed`: libibverbs has a provider for it.
inline void add_other_adapter(Facts& facts, const std::string& name, const std::string& kind, bool listed) {
  const std::string node = "uverbs" + std::to_string(facts.host.devices.size());
  facts.host.devices.push_back(
      {.name = name, .node = node, .node_there = true, .node_open = true, .other_kind = kind});
  if (listed) {
    facts.verbs.devices.push_back(
        {.name = name, .transport = kind, .obstacle = "it has no reliable connections"});
  }
}

inline void add_soft_roce(Facts& facts, const std::string& name, transport::VerbsDevice::Port port,
                          const std::string& parent = "eth0") {
  add_adapter(facts, name, std::move(port), 0);
  facts.host.devices.back().parent = parent;
}

/// A laptop with Debian and without a device. It has one network card, soft-RoCE's kernel module is
/// available, and the user is an ordinary one.
inline Facts laptop() {
  Facts facts;
  facts.host = {.kernel_release = "6.1.0-40-amd64",
                .distribution = "debian",
                .family = {"debian"},
                .distribution_name = "Debian GNU/Linux 12",
                .module_tree = true,
                .rdma_rxe = {.available = true},
                .rdma_tool = true,
                .modprobe_tool = true,
                .transparent_huge_pages = "always"};
  facts.host.interfaces = {
      {.name = "docker0", .ethernet = true, .up = true, .carrier = true, .mtu_bytes = 1500},
      {.name = "eno1", .ethernet = true, .physical = true, .mtu_bytes = 1500},
      {.name = "lo", .up = true, .carrier = true, .mtu_bytes = 65536},
      {.name = "wlp2s0",
       .ethernet = true,
       .physical = true,
       .up = true,
       .carrier = true,
       .default_route = true,
       .mtu_bytes = 1500}};
  facts.verbs.listing = absl::OkStatus();
  facts.verbs.connection_manager = absl::OkStatus();
  facts.shm_trial = {.step = "reading", .status = absl::OkStatus()};
  facts.tcp_trial = facts.shm_trial;
  return facts;
}

/// A server with a RoCE adapter on which all is well.
inline Facts server() {
  Facts facts = laptop();
  facts.host.interfaces.push_back(
      {.name = "eth0", .ethernet = true, .physical = true, .up = true, .carrier = true, .mtu_bytes = 4200});
  add_adapter(facts, "mlx5_0", roce_port(), 100);
  facts.verbs_trial = {.step = "reading", .status = absl::OkStatus()};
  return facts;
}

}  // namespace verbena::apps::doctor
