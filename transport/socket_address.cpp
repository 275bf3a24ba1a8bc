#include "transport/socket_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/file_descriptor.hpp"

namespace verbena::transport {

absl::StatusOr<std::vector<sockaddr_storage>> resolve_all(const HostPort& place, std::string_view address) {
  addrinfo hints{};
  hints.ai_family = place.host.empty() ? AF_INET : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = fmt::format("{}", place.port);
  const int error =
      ::getaddrinfo(place.host.empty() ? nullptr : place.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::NotFoundError(fmt::format("{}: the host is unknown ({})", address, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::vector<sockaddr_storage> all;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    sockaddr_storage storage{};
    std::memcpy(&storage, each->ai_addr, each->ai_addrlen);
    all.push_back(storage);
  }
  return all;
}

absl::StatusOr<sockaddr_storage> resolve(const HostPort& place, std::string_view address) {
  absl::StatusOr<std::vector<sockaddr_storage>> all = resolve_all(place, address);
  if (!all.ok()) return all.status();
  return all->front();
}

std::string host_of(const sockaddr& address) {
  const socklen_t length = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  char host[NI_MAXHOST] = "";
  return ::getnameinfo(&address, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0
             ? host
             : "an unknown host";
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return ::ntohl(ipv4.sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) != 0;
}

bool is_of_this_host(const sockaddr_storage& address) {
  // A datagram socket, at any port: it disturbs nobody.
  const base::FileDescriptor socket(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage place = address;
  auto& port = address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(place).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(place).sin_port;
  port = 0;
  const socklen_t length = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return socket.valid() && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), length) == 0;
}

std::string own_address_towards(const sockaddr_storage& place) {
  // Connecting a datagram socket sends nothing; it chooses a route, and so an address of this host.
  const base::FileDescriptor socket(::socket(place.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (!socket.valid() ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) {
    return "";
  }
  const auto& address = reinterpret_cast<const sockaddr&>(own);
  return is_loopback(address) ? "" : host_of(address);
}

namespace {

/// Empty if there is no default route.
std::string address_of_default_route() {
  sockaddr_storage far_away{};
  auto& in = reinterpret_cast<sockaddr_in&>(far_away);
  in.sin_family = AF_INET;
  in.sin_port = ::htons(9);
  in.sin_addr.s_addr = ::htonl(0xC0000201);  // 192.0.2.1, which is reserved for documents (RFC 5737)
  return own_address_towards(far_away);
}

}  // namespace

absl::StatusOr<std::string> own_address() {
  if (std::string address = address_of_default_route(); !address.empty()) return address;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return absl::ErrnoToStatus(errno, "the network interfaces are unknown");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      const bool usable = each->ifa_addr != nullptr && each->ifa_addr->sa_family == family &&
                          (each->ifa_flags & IFF_UP) != 0 && !is_loopback(*each->ifa_addr);
      const bool link_local =
          usable && family == AF_INET6 &&
          IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr) != 0;
      if (usable && !link_local) return host_of(*each->ifa_addr);
    }
  }
  return absl::NotFoundError("this host has no network address that other hosts could reach");
}

}  // namespace verbena::transport
