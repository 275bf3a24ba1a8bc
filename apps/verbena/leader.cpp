#include "apps/verbena/leader.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/verbena/exit_status.hpp"

namespace verbena::apps {
namespace {

constexpr auto kArrival = std::chrono::seconds(60);             // from the meeting to the connection
constexpr auto kIntroduction = std::chrono::seconds(10);        // from the connection to its first line
constexpr auto kStopPatience = std::chrono::milliseconds(700);  // after "stop"; mpirun gives a second in all
constexpr auto kFarewell = std::chrono::seconds(3);
constexpr auto kAttempt = std::chrono::seconds(3);  // to connect to one of the addresses
constexpr auto kSlice = std::chrono::milliseconds(50);
constexpr std::size_t kMostStrangers = 64;  // beyond the members themselves
constexpr std::size_t kLongestIntroduction = 256;
constexpr int kLongestPollMs = 1000;
constexpr const char* kWelcome = "welcome\n";
constexpr const char* kStop = "stop\n";

std::string random_secret() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

/// In a time that does not tell how much of it was right.
bool same_secret(std::string_view one, std::string_view two) {
  unsigned difference = one.size() == two.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(one.size(), two.size()); ++i) {
    difference |= static_cast<unsigned>(one[i] ^ two[i]);
  }
  return difference == 0;
}

absl::Status system_error(int error, std::string_view what) {
  return absl::UnavailableError(fmt::format("{}: {}", what, std::strerror(error)));
}

std::string text_of(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = address.sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                          : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  ::inet_ntop(address.sa_family, bytes, text.data(), text.size());
  return text.data();
}

/// Of this host's interfaces, IPv4 first; not those that mean something else on each host.
std::vector<std::string> own_addresses() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  std::vector<std::string> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family) continue;
      if ((each->ifa_flags & IFF_LOOPBACK) != 0 || (each->ifa_flags & IFF_UP) == 0) continue;
      if (family == AF_INET6 &&
          IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr)) {
        continue;
      }
      found.push_back(text_of(*each->ifa_addr));
    }
  }
  return found;
}

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
};

std::optional<Endpoint> endpoint(const std::string& host, std::uint16_t port) {
  Endpoint made;
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(made.storage);
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(made.storage);
  if (::inet_pton(AF_INET, host.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(port);
    made.length = sizeof(sockaddr_in);
  } else if (::inet_pton(AF_INET6, host.c_str(), &ipv6.sin6_addr) == 1) {
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(port);
    made.length = sizeof(sockaddr_in6);
  } else {
    return std::nullopt;
  }
  return made;
}

/// Lines go at once, and a host that vanishes is noticed within seconds.
void tune(int descriptor) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

/// A socket that listens at `host`, and its port.
absl::StatusOr<std::pair<int, std::uint16_t>> listen_at(const std::string& host) {
  const std::optional<Endpoint> place = endpoint(host, 0);
  const int descriptor = ::socket(place->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return system_error(errno, "no TCP socket");
  const int no = 0;
  if (place->family() == AF_INET6) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  Endpoint bound;
  bound.length = sizeof bound.storage;
  if (::bind(descriptor, place->address(), place->length) != 0 || ::listen(descriptor, SOMAXCONN) != 0 ||
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) {
    const int error = errno;
    ::close(descriptor);
    return system_error(error, fmt::format("cannot listen at {}", host));
  }
  const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(bound.storage);
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(bound.storage);
  return std::pair(descriptor, ntohs(bound.family() == AF_INET ? ipv4.sin_port : ipv6.sin6_port));
}

int poll_ms_until(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kLongestPollMs));
}

bool parse_number(std::string_view text, auto& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size();
}

/// Adds what there is of a line, and not a byte more: what follows is for others to read. False when the
/// other end has closed.
bool read_line(int descriptor, std::string& line) {
  char byte = 0;
  while (!line.ends_with('\n') && line.size() <= kLongestIntroduction) {
    const ssize_t got = ::read(descriptor, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    line += byte;
  }
  return true;
}

}  // namespace

// --- the leader

absl::StatusOr<std::unique_ptr<Leader>> Leader::listen(bool loopback_only, std::vector<Member> members) {
  absl::StatusOr<std::pair<int, std::uint16_t>> listener = listen_at(loopback_only ? "127.0.0.1" : "::");
  if (!listener.ok() && !loopback_only) listener = listen_at("0.0.0.0");  // a host without IPv6
  if (!listener.ok()) return listener.status();
  const std::vector<std::string> hosts =
      loopback_only ? std::vector<std::string>{"127.0.0.1"} : own_addresses();
  if (hosts.empty()) {
    ::close(listener->first);
    return absl::UnavailableError("this host has no network interface that other hosts could reach");
  }
  std::string secret = random_secret();
  std::string address = fmt::format("{};{};{}", absl::StrJoin(hosts, ","), listener->second, secret);
  return std::unique_ptr<Leader>(
      new Leader(listener->first, std::move(address), std::move(secret), std::move(members)));
}

Leader::Leader(int listener, std::string address, std::string secret, std::vector<Member> members)
    : listener_(listener), address_(std::move(address)), secret_(std::move(secret)) {
  for (Member& member : members) seats_.emplace_back().member = std::move(member);
}

Leader::~Leader() {
  ::close(listener_);
  for (const Stranger& stranger : strangers_) ::close(stranger.descriptor);
  for (const Seat& seat : seats_) {
    if (seat.descriptor >= 0) ::close(seat.descriptor);
  }
}

void Leader::run(RunMonitor& monitor) {
  while (!all_over(false) && !abandoned_) {
    wait();
    accept();
    hear_strangers();
    hear_members(monitor);
    check_time(monitor);
    if (monitor.failed() || signal_ != 0) stop_all();
    monitor.tick();
  }
  monitor.finish();
}

void Leader::wait() const {
  std::vector<pollfd> wanted = {{crowded() ? -1 : listener_, POLLIN, 0}};
  for (const Stranger& stranger : strangers_) wanted.push_back({stranger.descriptor, POLLIN, 0});
  for (const Seat& seat : seats_) {
    wanted.push_back({seat.gone || seat.ended ? -1 : seat.descriptor, POLLIN, 0});
  }
  int timeout_ms = kLongestPollMs;
  if (stopped_at_) timeout_ms = poll_ms_until(*stopped_at_ + kStopPatience);
  ::poll(wanted.data(), wanted.size(), timeout_ms);
}

bool Leader::crowded() const {
  return strangers_.size() >= seats_.size() + kMostStrangers;
}

void Leader::accept() {
  while (!crowded()) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) return;
    tune(descriptor);
    strangers_.push_back({descriptor, Clock::now() + kIntroduction});
  }
}

void Leader::hear_strangers() {
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const bool open = read_line(stranger->descriptor, stranger->said);
    const bool whole = stranger->said.ends_with('\n');
    if (whole && seat(*stranger)) {
      stranger = strangers_.erase(stranger);
    } else if (whole || !open || stranger->said.size() > kLongestIntroduction ||
               Clock::now() >= stranger->deadline) {
      ::close(stranger->descriptor);
      stranger = strangers_.erase(stranger);
    } else {
      ++stranger;
    }
  }
}

/// Whether it is a member, and not one that is here already.
bool Leader::seat(const Stranger& stranger) {
  const std::string_view line = std::string_view(stranger.said).substr(0, stranger.said.size() - 1);
  const std::size_t space = line.find(' ');
  std::uint32_t rank = 0;
  if (space == std::string_view::npos || !same_secret(line.substr(0, space), secret_) ||
      !parse_number(line.substr(space + 1), rank) || rank >= seats_.size() || seats_[rank].came) {
    return false;
  }
  Seat& seat = seats_[rank];
  seat.came = true;
  seat.descriptor = stranger.descriptor;
  // These few bytes fit into an empty socket.
  write_all(seat.descriptor, kWelcome).IgnoreError();
  if (stopped_at_) write_all(seat.descriptor, kStop).IgnoreError();
  return true;
}

void Leader::hear_members(RunMonitor& monitor) {
  for (Seat& seat : seats_) {
    if (seat.descriptor < 0 || seat.gone) continue;
    const bool open =
        seat.lines.read(seat.descriptor, [&](std::string_view line) { on_line(seat, line, monitor); });
    if (!open) on_gone(seat, monitor);
  }
  if (!workers_left_at_ && all_over(true)) workers_left_at_ = Clock::now();
}

void Leader::on_line(Seat& seat, std::string_view line, RunMonitor& monitor) {
  const std::optional<ChildMessage> message = monitor.hear(seat.member.name, line);
  if (!message) return;
  if (std::holds_alternative<FailedMessage>(*message)) seat.reported_failure = true;
  const auto* ended = std::get_if<EndedMessage>(&*message);
  if (ended == nullptr) return;
  seat.ended = true;
  if (ended->status > kExitSignalBase) {
    signal_ = ended->status - kExitSignalBase;
  } else if (ended->status != kExitOk && !seat.reported_failure && !stopped_at_) {
    monitor.fail(Cause::kSilentEnd,
                 absl::AbortedError(fmt::format("{} ended with status {}", seat.member.name, ended->status)));
  }
}

void Leader::on_gone(Seat& seat, RunMonitor& monitor) {
  seat.gone = true;
  if (seat.ended) return;
  monitor.fail(Cause::kKilled, absl::AbortedError(fmt::format(
                                   "{} ended without a word: it crashed, was killed, or its host is gone",
                                   seat.member.name)));
}

void Leader::check_time(RunMonitor& monitor) {
  const auto now = Clock::now();
  if (stopped_at_) {
    abandoned_ = now >= *stopped_at_ + kStopPatience && !all_over(false);
    return;
  }
  for (const Seat& seat : seats_) {
    if (!seat.came && now >= start_ + kArrival) {
      monitor.fail(Cause::kOwnError,
                   absl::DeadlineExceededError(fmt::format(
                       "{} has not come within {} s: may it open TCP connections to {}?", seat.member.name,
                       kArrival.count(), address_.substr(0, address_.rfind(';')))));
    } else if (workers_left_at_ && now >= *workers_left_at_ + RunMonitor::kServersPatience && !seat.ended &&
               !seat.gone) {
      monitor.fail_still_running(seat.member.name);
    }
  }
}

void Leader::stop_all() {
  if (stopped_at_) return;
  stopped_at_ = Clock::now();
  for (const Seat& seat : seats_) {
    if (seat.descriptor >= 0 && !seat.gone) write_all(seat.descriptor, kStop).IgnoreError();
  }
}

bool Leader::all_over(bool workers_only) const {
  return std::all_of(seats_.begin(), seats_.end(), [&](const Seat& seat) {
    return seat.ended || seat.gone || (workers_only && seat.member.server);
  });
}

// --- a process

namespace {

/// −1 if nobody answers there.
int try_to_connect(const Endpoint& place, const std::function<bool()>& stopped) {
  const int descriptor = ::socket(place.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return -1;
  int error = 0;
  if (::connect(descriptor, place.address(), place.length) != 0) {
    error = errno;
    const auto deadline = std::chrono::steady_clock::now() + kAttempt;
    while (error == EINPROGRESS && !stopped() && std::chrono::steady_clock::now() < deadline) {
      pollfd writable = {descriptor, POLLOUT, 0};
      if (::poll(&writable, 1, static_cast<int>(kSlice.count())) <= 0) continue;
      socklen_t length = sizeof error;
      ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
    }
  }
  if (error == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

/// Whether who answers is the leader.
bool introduce(int descriptor, std::string_view secret, std::uint32_t rank,
               const std::function<bool()>& stopped) {
  if (!write_all(descriptor, fmt::format("{} {}\n", secret, rank)).ok()) return false;
  const auto deadline = std::chrono::steady_clock::now() + kAttempt;
  std::string answer;
  while (!stopped() && std::chrono::steady_clock::now() < deadline) {
    pollfd readable = {descriptor, POLLIN, 0};
    ::poll(&readable, 1, static_cast<int>(kSlice.count()));
    if (!read_line(descriptor, answer)) return false;
    if (answer.ends_with('\n')) break;
  }
  return answer == kWelcome;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeaderLink>> LeaderLink::connect(const std::string& address,
                                                                std::uint32_t rank, bool same_host,
                                                                std::chrono::seconds patience,
                                                                const std::function<bool()>& stopped) {
  const std::vector<std::string> parts = absl::StrSplit(address, ';');
  std::uint16_t port = 0;
  if (parts.size() != 3 || !parse_number(parts[1], port)) {
    return absl::InvalidArgumentError("the address of rank 0 cannot be understood");
  }
  // Addresses such as those of a container's bridge are the same on every host. The secret is for the
  // leader's host only.
  const std::vector<std::string> own = same_host ? std::vector<std::string>() : own_addresses();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  do {
    for (const std::string& host : std::vector<std::string>(absl::StrSplit(parts[0], ','))) {
      const std::optional<Endpoint> place = endpoint(host, port);
      if (!place || std::find(own.begin(), own.end(), host) != own.end()) continue;
      const int descriptor = try_to_connect(*place, stopped);
      if (descriptor < 0) continue;
      tune(descriptor);
      if (introduce(descriptor, parts[2], rank, stopped)) return std::make_unique<LeaderLink>(descriptor);
      ::close(descriptor);
    }
    if (stopped()) return absl::CancelledError("stopped");
    ::poll(nullptr, 0, static_cast<int>(kSlice.count()));
  } while (std::chrono::steady_clock::now() < deadline);
  return absl::UnavailableError(
      fmt::format("rank 0 cannot be reached at {} port {} by TCP: is there a firewall between the hosts?",
                  parts[0], parts[1]));
}

LeaderLink::~LeaderLink() {
  ::close(descriptor());
}

/// False when the leader has closed.
bool LeaderLink::read() {
  return lines_.read(descriptor(), [&](std::string_view) { told_to_stop_ = true; });
}

bool LeaderLink::lost() {
  return !read() && !told_to_stop_;
}

void LeaderLink::wait_for_end() {
  const auto deadline = std::chrono::steady_clock::now() + kFarewell;
  while (read() && std::chrono::steady_clock::now() < deadline) {
    pollfd readable = {descriptor(), POLLIN, 0};
    ::poll(&readable, 1, poll_ms_until(deadline));
  }
}

}  // namespace verbena::apps
