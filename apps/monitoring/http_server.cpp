#include "apps/monitoring/http_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace verbena::apps {
namespace {

constexpr auto kPause = std::chrono::seconds(1);  // after no descriptor was left
/// For how long, and how much, one that has its answer may go on saying.
constexpr auto kGoodbye = std::chrono::seconds(1);
constexpr std::size_t kMostIgnoredBytes = 1U << 20U;
constexpr std::size_t kReceivedBytesAtOnce = 2048;
constexpr std::size_t kMostReadsAtOnce = 16;
constexpr std::string_view kNoMemory =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
constexpr std::string_view kEndOfLine = "\r\n";
constexpr std::string_view kEndOfHead = "\r\n\r\n";

struct SocketPlace {
  sockaddr_storage storage{};
  socklen_t length = 0;
  bool is_any = false;  ///< of all interfaces

  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::optional<SocketPlace> socket_place(const std::string& address, std::uint16_t port) {
  SocketPlace place;
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(place.storage);
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(place.storage);
  if (::inet_pton(AF_INET, address.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(port);
    place.length = sizeof ipv4;
    place.is_any = ipv4.sin_addr.s_addr == htonl(INADDR_ANY);
  } else if (const std::size_t zone = address.find('%');
             ::inet_pton(AF_INET6, address.substr(0, zone).c_str(), &ipv6.sin6_addr) == 1) {
    ipv6.sin6_family = AF_INET6;
    if (zone != std::string::npos) ipv6.sin6_scope_id = ::if_nametoindex(address.c_str() + zone + 1);
    if (zone != std::string::npos && ipv6.sin6_scope_id == 0) return std::nullopt;
    ipv6.sin6_port = htons(port);
    place.length = sizeof ipv6;
    place.is_any = IN6_IS_ADDR_UNSPECIFIED(&ipv6.sin6_addr);
  } else {
    return std::nullopt;
  }
  return place;
}

/// What to do about it, in the words of the options.
absl::Status cannot_listen(const std::string& address, std::uint16_t port, int error) {
  const std::string_view advice =
      error == EADDRINUSE      ? "; expected a port that nobody listens at, or 0 for any that is free"
      : error == EADDRNOTAVAIL ? "; expected an address of an interface of this host"
      : error == EACCES        ? "; expected a port above 1023, or 0 for any that is free"
      : error == EINVAL        ? "; an address that each interface has is expected with the interface, as "
                                 "fe80::1%eth0"
                               : "";
  return absl::InvalidArgumentError(
      fmt::format("cannot listen at {} port {}: {}{}", address, port, std::strerror(error), advice));
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "HTTP Version Not Supported";
  }
}

HttpParse refused(int status) {
  return {.outcome = HttpParse::Outcome::kRefused, .request = {}, .refusal = status};
}

/// Up to the separator, which is taken away with it.
std::string_view take_until(std::string_view& rest, std::string_view separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + separator.size(), rest.size()));
  return taken;
}

/// "[::1]:9464" → "[::1]"
std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const std::size_t bracket = host.rfind(']');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  return has_port ? host.substr(0, colon) : host;
}

/// As it calls itself, and without its domain; none if it has no name.
std::vector<std::string> names_of_this_host() {
  std::array<char, HOST_NAME_MAX + 1> bytes{};
  if (::gethostname(bytes.data(), bytes.size() - 1) != 0 || bytes[0] == '\0') return {};
  const std::string name(bytes.data());
  return {name, name.substr(0, name.find('.'))};
}

/// "192.0.2.1" or "[2001:db8::1]"
bool is_address(std::string_view host) {
  in6_addr address{};
  if (host.starts_with('[') && host.ends_with(']') && host.size() > 2)
    return ::inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &address) == 1;
  return ::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

bool is_same_name(std::string_view one, std::string_view other) {
  return absl::EqualsIgnoreCase({one.data(), one.size()}, {other.data(), other.size()});
}

bool is_token(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char each) {
    return absl::ascii_isalnum(static_cast<unsigned char>(each)) || kMarks.find(each) != kMarks.npos;
  });
}

bool has_bare_newline(std::string_view text) {
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (at == 0 || text[at - 1] != '\r') return true;
  }
  return false;
}

/// The host that the fields of a head name, without its port, empty if none does. nullopt if there are
/// several, or a field is not as it should be: whoever else reads them may take another one for it.
std::optional<std::string> host_of(std::string_view fields) {
  std::optional<std::string> host;
  while (!fields.empty()) {
    std::string_view value = take_until(fields, kEndOfLine);
    if (value.find(':') == std::string_view::npos) return std::nullopt;
    const std::string_view name = take_until(value, ":");
    const bool is_text = std::ranges::none_of(value, [](char each) {
      return each != '\t' && absl::ascii_iscntrl(static_cast<unsigned char>(each));
    });
    if (!is_token(name) || !is_text) return std::nullopt;
    if (!is_same_name(name, "host")) continue;
    if (host) return std::nullopt;
    const absl::string_view named = absl::StripAsciiWhitespace({value.data(), value.size()});
    host = without_port({named.data(), named.size()});
  }
  return host.value_or("");
}

std::string http_text(const HttpAnswer& answer, bool wants_body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'\r\nConnection: close\r\n\r\n{}",
      answer.status, reason_of(answer.status), answer.type, answer.body.size(),
      wants_body ? std::string_view(answer.body) : std::string_view());
}

}  // namespace

HttpParse parse_http_request(std::string_view text) {
  const std::size_t end = text.find(kEndOfHead);
  // Of one that ends its lines otherwise the end of the head would never come.
  if (has_bare_newline(text.substr(0, end))) return refused(400);
  if (end == std::string_view::npos) {
    if (text.size() >= HttpServer::kMostRequestBytes) return refused(431);
    // One that speaks another protocol may never send the end of a head.
    const std::string_view method = text.substr(0, text.find(' '));
    const bool may_begin = std::ranges::all_of(method, absl::ascii_isupper) && method.size() <= 16;
    return may_begin ? HttpParse() : refused(400);
  }
  if (end >= HttpServer::kMostRequestBytes) return refused(431);
  std::string_view rest = text.substr(0, end);
  std::string_view line = take_until(rest, kEndOfLine);
  const std::string_view method = take_until(line, " ");
  const std::string_view target = take_until(line, " ");
  if (method.empty() || !target.starts_with('/') || !std::ranges::all_of(target, absl::ascii_isgraph) ||
      !line.starts_with("HTTP/")) {
    return refused(400);
  }
  if (line != "HTTP/1.1" && line != "HTTP/1.0") return refused(505);
  if (method != "GET" && method != "HEAD") return refused(405);
  std::optional<std::string> host = host_of(rest);
  if (!host) return refused(400);
  return {.outcome = HttpParse::Outcome::kRequest,
          .request = {.wants_body = method == "GET",
                      .path = std::string(target.substr(0, target.find('?'))),
                      .host = *std::move(host)}};
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& address, std::uint16_t port,
                                                               Clock::duration patience) {
  const std::optional<SocketPlace> place = socket_place(address, port);
  if (!place) {
    return absl::InvalidArgumentError(
        fmt::format("an IPv4 or IPv6 address is expected, such as 127.0.0.1, ::1 or, with an interface that "
                    "is there, fe80::1%eth0, not \"{}\"",
                    address));
  }
  base::FileDescriptor listener(
      ::socket(place->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  // A connection of an earlier run that is not forgotten yet is no reason to refuse its port.
  if (listener.valid()) ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  SocketPlace bound;
  bound.length = sizeof bound.storage;
  if (!listener.valid() || ::bind(listener.get(), place->address(), place->length) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) {
    return cannot_listen(address, port, errno);
  }
  // The port has the same place in both kinds of address.
  const std::uint16_t chosen = ntohs(reinterpret_cast<const sockaddr_in&>(bound.storage).sin_port);
  std::vector<std::string> own_names = names_of_this_host();
  const bool is_ipv6 = bound.storage.ss_family == AF_INET6;
  std::string host = is_ipv6 ? fmt::format("[{}]", address) : address;
  if (place->is_any && !own_names.empty()) host = own_names.front();  // nobody can go to "all interfaces"
  return std::unique_ptr<HttpServer>(new HttpServer(
      std::move(listener), fmt::format("http://{}:{}/", host, chosen), std::move(own_names), patience));
}

void HttpServer::add_descriptors(std::vector<pollfd>& wanted) const {
  try {
    if (listener_.valid() && Clock::now() >= accepts_again_at_)
      wanted.push_back({listener_.get(), POLLIN, 0});
    for (const Peer& peer : peers_) wanted.push_back(peer.wanted());
  } catch (const std::bad_alloc&) {
    // They are served at the next poll(), whatever wakes it.
  }
}

void HttpServer::poll(Handler handle) {
  accept();
  const Clock::time_point now = Clock::now();
  std::erase_if(peers_, [&](Peer& peer) { return !serve(peer, handle) || now >= peer.deadline; });
}

void HttpServer::finish(Handler handle, std::chrono::milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  poll(handle);
  listener_.reset();
  std::erase_if(peers_, [](const Peer& peer) { return peer.answer.empty() || peer.is_answered; });
  while (!peers_.empty() && Clock::now() < end) {
    std::array<pollfd, kMostConnections> wanted{};
    std::ranges::transform(peers_, wanted.begin(), &Peer::wanted);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    ::poll(wanted.data(), peers_.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    std::erase_if(peers_, [&](Peer& peer) { return !serve(peer, handle) || peer.is_answered; });
  }
  peers_.clear();
}

/// At most as many as there may be, so that a flood of them does not keep this thread.
void HttpServer::accept() {
  for (std::size_t i = 0; i < kMostConnections && Clock::now() >= accepts_again_at_; ++i) {
    base::FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        accepts_again_at_ = Clock::now() + kPause;
      return;
    }
    if (peers_.size() >= kMostConnections) peers_.pop_front();
    try {
      peers_.push_back({.socket = std::move(socket), .deadline = Clock::now() + patience_});
    } catch (const std::bad_alloc&) {
      return;  // and closes the connection
    }
  }
}

/// As go_on(), also without memory for an answer: the run goes on.
bool HttpServer::serve(Peer& peer, Handler handle) const {
  try {
    return go_on(peer, handle);
  } catch (const std::bad_alloc&) {
    if (peer.sent_bytes > 0) return false;
    (void)!::send(peer.socket.get(), kNoMemory.data(), kNoMemory.size(), MSG_NOSIGNAL);
    return say_goodbye(peer);
  }
}

bool HttpServer::go_on(Peer& peer, Handler handle) const {
  if (peer.is_answered) return ignore_rest(peer);
  if (peer.answer.empty() && !hear(peer, handle)) return false;
  while (peer.sent_bytes < peer.answer.size()) {
    const std::string_view rest = std::string_view(peer.answer).substr(peer.sent_bytes);
    const ssize_t sent = ::send(peer.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN;
    peer.sent_bytes += static_cast<std::size_t>(sent);
  }
  return peer.answer.empty() || say_goodbye(peer);  // until it has asked
}

/// All is sent. If the connection were closed now, and the peer had said more than was read, TCP would take
/// from it what it has not read of the answer.
bool HttpServer::say_goodbye(Peer& peer) {
  peer.is_answered = true;
  peer.deadline = std::min(peer.deadline, Clock::now() + kGoodbye);
  return ::shutdown(peer.socket.get(), SHUT_WR) == 0 && ignore_rest(peer);
}

bool HttpServer::ignore_rest(Peer& peer) {
  std::array<char, kReceivedBytesAtOnce> bytes{};
  for (std::size_t i = 0; i < kMostReadsAtOnce; ++i) {
    const ssize_t got = ::recv(peer.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    peer.ignored_bytes += static_cast<std::size_t>(got);
  }
  return peer.ignored_bytes <= kMostIgnoredBytes;
}

/// Reads what has come, and makes the answer when that is a request.
bool HttpServer::hear(Peer& peer, Handler handle) const {
  std::array<char, kReceivedBytesAtOnce> bytes{};
  bool is_over = false;  // it says no more, but may still read
  while (!is_over && peer.said.size() < kMostRequestBytes) {
    const ssize_t got = ::recv(peer.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) return false;
    is_over = got == 0;
    peer.said.append(bytes.data(), static_cast<std::size_t>(got));
  }
  const HttpParse parsed = parse_http_request(peer.said);
  if (parsed.outcome == HttpParse::Outcome::kIncomplete) return !is_over;
  const bool wants_body = parsed.outcome == HttpParse::Outcome::kRefused || parsed.request.wants_body;
  peer.answer = http_text(answer_to(parsed, handle), wants_body);
  return true;
}

HttpAnswer HttpServer::answer_to(const HttpParse& parsed, Handler handle) const {
  if (parsed.outcome == HttpParse::Outcome::kRefused)
    return {.status = parsed.refusal, .body = fmt::format("{}\n", reason_of(parsed.refusal))};
  // A page from elsewhere could have a name of its own lead here, and would read what is not for it.
  const std::string& host = parsed.request.host;
  const bool is_own =
      host.empty() || is_same_name(host, "localhost") || is_address(host) ||
      std::ranges::any_of(own_names_, [&](const auto& own) { return is_same_name(host, own); });
  if (!is_own) {
    return {.status = 403,
            .body = fmt::format("Nobody is called so here: expected localhost{} or an address as numbers.\n",
                                own_names_.empty() ? "" : ", " + own_names_.front())};
  }
  return handle(parsed.request.path);
}

}  // namespace verbena::apps
