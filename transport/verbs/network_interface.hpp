// The network interface that belongs to an RDMA device, by whose address peers find it where its GIDs are
// none: IPoIB, and the Ethernet interface of an iWARP device.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::transport::verbs {

/// An address of the interface of the device's port, IPv4 rather than IPv6; empty if it has none. `sysfs` is
/// another folder in tests only.
std::string interface_address(const std::string& device, std::uint8_t port,
                              const std::string& sysfs = "/sys/class/infiniband");

}  // namespace verbena::transport::verbs
