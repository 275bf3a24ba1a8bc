#include "transport/verbs/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <string_view>

namespace verbena::transport::verbs {

namespace {

constexpr std::string_view kPrefix = "verbs:";

}  // namespace

absl::StatusOr<Address> parse_address(const std::string& text) {
  if (text.starts_with(kPrefix)) {
    absl::StatusOr<Address> address = parse_host_port(std::string_view(text).substr(kPrefix.size()));
    if (address.ok()) return address;
  }
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is no address of this transport; expected verbs:HOST:PORT", text));
}

std::string to_string(const Address& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}{}:{}", kPrefix, brackets ? "[" : "", address.host, brackets ? "]" : "",
                     address.port);
}

absl::StatusOr<sockaddr_storage> resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_family = address.host.empty() ? AF_INET : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = fmt::format("{}", address.port);
  const int error =
      ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::NotFoundError(
        fmt::format("{}: the host is unknown ({})", to_string(address), ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  sockaddr_storage storage{};
  std::memcpy(&storage, found->ai_addr, found->ai_addrlen);
  return storage;
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

}  // namespace verbena::transport::verbs
