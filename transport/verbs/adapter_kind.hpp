// RDMA devices that are neither InfiniBand, RoCE nor iWARP: they have no reliable connections.
#pragma once

#include <string>
#include <string_view>

namespace verbena::transport::verbs {

/// The kernel's driver of a device whose folder is `device` (in /sys/class/infiniband), such as "efa"; empty
/// if it cannot be found out.
std::string kernel_driver(const std::string& device);

/// What a device of that driver is, for messages, if it is none of the three: "an Elastic Fabric Adapter
/// (EFA)".
std::string other_adapter(std::string_view driver);

/// Why a transport cannot use a device of that driver.
std::string no_reliable_connections(std::string_view driver);

}  // namespace verbena::transport::verbs
