#include "tests/process/hosts_network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <random>
#include <utility>

namespace verbena::process_test {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kNetwork = 0x0a4d0000;  // 10.77.0.0
constexpr std::uint32_t kMask = 0xffffff00;
constexpr std::size_t kMostPacketBytes = 2048;
constexpr std::size_t kMostUnderWay = 4096;  // more are lost, as in a router

struct Packet {
  Clock::time_point due;
  std::size_t to = 0;
  std::vector<std::byte> bytes;
};

absl::Status failed(const char* what) {
  return absl::ErrnoToStatus(errno, what);
}

ifreq named(const char* device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  return request;
}

absl::Status set_address(int socket, const char* device, unsigned long what, std::uint32_t address) {
  ifreq request = named(device);
  auto& place = reinterpret_cast<sockaddr_in&>(request.ifr_addr);
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(address);
  return ::ioctl(socket, what, &request) == 0 ? absl::OkStatus() : failed("cannot set an address");
}

absl::Status set_up(int socket, const char* device) {
  ifreq request = named(device);
  if (::ioctl(socket, SIOCGIFFLAGS, &request) != 0) return failed("cannot ask about a device");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  return ::ioctl(socket, SIOCSIFFLAGS, &request) == 0 ? absl::OkStatus()
                                                      : failed("cannot switch a device on");
}

/// The number of the host that an IPv4 packet is for.
std::size_t host_of(const std::vector<std::byte>& packet) {
  constexpr std::size_t kDestination = 16;
  std::uint32_t address = 0;
  if (packet.size() < kDestination + sizeof address) return SIZE_MAX;
  std::memcpy(&address, packet.data() + kDestination, sizeof address);
  const std::uint32_t host = ntohl(address);
  return (host & kMask) == kNetwork ? (host & ~kMask) - 1 : SIZE_MAX;
}

std::uint16_t word_at(const std::vector<std::byte>& packet, std::size_t at) {
  std::uint16_t word = 0;
  std::memcpy(&word, packet.data() + at, sizeof word);
  return ntohs(word);
}

void put_word(std::vector<std::byte>& packet, std::size_t at, std::uint32_t word) {
  const std::uint16_t bytes = htons(static_cast<std::uint16_t>(word));
  std::memcpy(packet.data() + at, &bytes, sizeof bytes);
}

}  // namespace

std::string HostsNetwork::address(std::size_t host) {
  return fmt::format("10.77.0.{}", host + 1);
}

/// In a thread that ends: a thread may have a network namespace of its own.
absl::StatusOr<HostsNetwork::Host> HostsNetwork::make_host(std::size_t number) {
  absl::StatusOr<Host> made = absl::InternalError("not made");
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      made = failed("no network namespace can be made");
      return;
    }
    Host host;
    host.space = base::FileDescriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    host.device = base::FileDescriptor(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (!host.space.valid() || !host.device.valid()) {
      made = failed("/dev/net/tun cannot be opened");
      return;
    }
    ifreq request = named("net0");
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (::ioctl(host.device.get(), TUNSETIFF, &request) != 0) {
      made = failed("no network device can be made");
      return;
    }
    const base::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    absl::Status status = set_up(socket.get(), "lo");
    status.Update(
        set_address(socket.get(), "net0", SIOCSIFADDR, kNetwork + static_cast<std::uint32_t>(number) + 1));
    status.Update(set_address(socket.get(), "net0", SIOCSIFNETMASK, kMask));
    status.Update(set_up(socket.get(), "net0"));
    if (status.ok()) {
      made = std::move(host);
    } else {
      made = status;
    }
  }).join();
  return made;
}

absl::StatusOr<std::unique_ptr<HostsNetwork>> HostsNetwork::make(const Options& options) {
  std::unique_ptr<HostsNetwork> network(new HostsNetwork(options));
  for (std::size_t number = 0; number < options.hosts; ++number) {
    absl::StatusOr<Host> host = make_host(number);
    if (!host.ok()) return host.status();
    network->hosts_.push_back(*std::move(host));
  }
  network->thread_ = std::thread([raw = network.get()] { raw->forward(); });
  return network;
}

HostsNetwork::~HostsNetwork() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

std::function<void()> HostsNetwork::on(std::size_t host) const {
  return [space = hosts_[host].space.get()] {
    if (::setns(space, CLONE_NEWNET) != 0) ::_exit(126);
  };
}

/// A packet of a connection that stands says instead that it has ended.
void HostsNetwork::reset_now_and_then(std::vector<std::byte>& packet, std::size_t to) {
  if (options_.reset_every == 0 || resets_ == options_.most_resets) return;
  constexpr std::size_t kProtocol = 9;
  constexpr std::size_t kTcpHeaderBytes = 20;
  constexpr std::size_t kFlags = 12;
  constexpr std::size_t kChecksum = 16;
  constexpr std::uint32_t kSyn = 0x02;
  constexpr std::uint32_t kReset = 0x04;
  constexpr std::uint32_t kAcknowledges = 0x10;
  const std::size_t tcp = (std::to_integer<std::size_t>(packet[0]) & 0xfU) * 4;
  if (std::to_integer<int>(packet[kProtocol]) != IPPROTO_TCP || packet.size() < tcp + kTcpHeaderBytes) return;
  const std::uint32_t flags = word_at(packet, tcp + kFlags);
  const bool goes_there = to == options_.resets_to;
  const std::uint16_t port = word_at(packet, goes_there ? tcp + sizeof(std::uint16_t) : tcp);
  if (goes_there && (flags & (kSyn | kAcknowledges)) == kSyn) ports_.insert(port);
  if (!ports_.contains(port) || (flags & (kSyn | kReset)) != 0) return;
  if (++may_be_reset_ % options_.reset_every != 0) return;
  put_word(packet, tcp + kFlags, flags | kReset);
  // RFC 1624, equation 3: a checksum after one word of what it is over has changed.
  std::uint32_t sum =
      (~std::uint32_t{word_at(packet, tcp + kChecksum)} & 0xffffU) + (~flags & 0xffffU) + (flags | kReset);
  sum = (sum & 0xffffU) + (sum >> 16U);
  sum = (sum & 0xffffU) + (sum >> 16U);
  put_word(packet, tcp + kChecksum, ~sum & 0xffffU);
  ++resets_;
}

void HostsNetwork::forward() {
  std::mt19937_64 random(options_.seed);
  std::bernoulli_distribution is_lost(options_.loss);
  std::deque<Packet> under_way;  // all take as long
  std::vector<std::byte> bytes(kMostPacketBytes);
  while (!stop_) {
    std::vector<pollfd> files;
    for (const Host& host : hosts_)
      files.push_back({.fd = host.device.get(), .events = POLLIN, .revents = 0});
    const auto left = under_way.empty() ? std::chrono::nanoseconds(std::chrono::milliseconds(20))
                                        : std::chrono::nanoseconds(under_way.front().due - Clock::now());
    const timespec time = {.tv_sec = 0, .tv_nsec = std::max<long>(left.count(), 0)};
    ::ppoll(files.data(), files.size(), &time, nullptr);
    const auto due = Clock::now() + options_.delay;
    for (std::size_t from = 0; from < hosts_.size(); ++from) {
      const Host& host = hosts_[from];
      while (under_way.size() < kMostUnderWay) {
        bytes.resize(kMostPacketBytes);
        const ssize_t count = ::read(host.device.get(), bytes.data(), bytes.size());
        if (count <= 0) break;
        bytes.resize(static_cast<std::size_t>(count));
        const std::size_t to = host_of(bytes);
        if (to >= hosts_.size()) continue;
        if (is_cut_ || from == cut_host_ || to == cut_host_ || is_lost(random)) {
          ++lost_;
          continue;
        }
        under_way.push_back({.due = due, .to = to, .bytes = bytes});
      }
    }
    for (; !under_way.empty() && under_way.front().due <= Clock::now(); under_way.pop_front()) {
      Packet& packet = under_way.front();
      ++forwarded_;
      reset_now_and_then(packet.bytes, packet.to);
      [[maybe_unused]] const ssize_t sent =
          ::write(hosts_[packet.to].device.get(), packet.bytes.data(), packet.bytes.size());
    }
  }
}

}  // namespace verbena::process_test
