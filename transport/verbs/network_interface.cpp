#include "transport/verbs/network_interface.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

#include "transport/socket_address.hpp"

namespace verbena::transport::verbs {

namespace {

std::string address_of(const std::string& interface) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family || interface != each->ifa_name) {
        continue;
      }
      const bool link_local =
          family == AF_INET6 &&
          IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr) != 0;
      if (!link_local) return host_of(*each->ifa_addr);
    }
  }
  return "";
}

}  // namespace

std::string interface_address(const std::string& device, std::uint8_t port, const std::string& sysfs) {
  // The ports of an adapter are one PCI function or several; an interface tells its port number, counted from
  // 0.
  std::error_code error;
  std::vector<std::string> interfaces;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(sysfs) / device / "device" / "net", error)) {
    int number = 0;
    std::ifstream(entry.path() / "dev_port") >> number;
    if (number + 1 == port) interfaces.push_back(entry.path().filename());
  }
  std::sort(interfaces.begin(), interfaces.end());  // ib0 before its child ib0.8001
  for (const std::string& interface : interfaces) {
    if (std::string address = address_of(interface); !address.empty()) return address;
  }
  return "";
}

}  // namespace verbena::transport::verbs
