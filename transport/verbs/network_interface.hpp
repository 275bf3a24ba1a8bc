// The network interface that belongs to an RDMA device. Peers find the device by the address of this
// interface if its GIDs are not addresses: IPoIB, and the Ethernet interface of an iWARP device.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::transport::verbs {

/// An address of the interface of the device's port, preferably IPv4; empty if it has none. `sysfs` is
/// another folder only in tests.
std::string interface_address(const std::string& device, std::uint8_t port,
                              const std::string& sysfs = "/sys/class/infiniband");

}  // namespace verbena::transport::verbs
