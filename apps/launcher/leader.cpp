#include "apps/launcher/leader.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/report/exit_status.hpp"
#include "base/poll_timeout.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "base/signals_blocked.hpp"

namespace verbena::apps {
namespace {

constexpr auto kArrival = std::chrono::seconds(60);             // from the rendezvous to the connection
constexpr auto kIntroduction = std::chrono::seconds(10);        // from the connection to its first line
constexpr auto kStopPatience = std::chrono::milliseconds(700);  // after "stop"; mpirun gives a second in all
constexpr std::chrono::milliseconds kFarewell(3000);
/// The same, while others still write what they save: mpirun would end them with the first that ends.
constexpr std::chrono::milliseconds kFarewellOfSaved(60'000);
/// For who wants to leave, and waits for another copy that joins: less than Kubernetes' and systemd's usual
/// patience with a process that is to end.
constexpr auto kLeavePatience = std::chrono::seconds(20);
constexpr auto kAttempt = std::chrono::seconds(3);  // for connecting to one of the addresses
constexpr auto kSlice = std::chrono::milliseconds(50);
constexpr std::size_t kMostStrangers = 64;  // in addition to the members themselves
constexpr std::size_t kAcceptedAtOnce = 256;
constexpr std::size_t kLongestIntroduction = 256;
constexpr auto kLongestPoll = std::chrono::milliseconds(1000);
constexpr const char* kWelcome = "welcome\n";
constexpr const char* kStop = "stop\n";
/// The same, to one without which the run goes on: it hears why.
constexpr std::string_view kDismissed = "dismissed\n";
constexpr const char* kGo = "go\n";
// About a stop.
constexpr std::string_view kHold = "hold";
constexpr std::string_view kUntil = "until";
constexpr std::string_view kReleased = "release";
/// What a member keeps for another leader. Of more it keeps the newest.
constexpr std::size_t kMostKeptBytes = std::size_t{16} << 20;
constexpr auto kPatienceWithNextLeader = std::chrono::seconds(60);

// The role of the side that proves, without encryption and with it: so the proof is also over that.
constexpr std::array<std::string_view, 2> kLeaderRoles = {"verbena leader", "verbena leader, encrypting"};
constexpr std::array<std::string_view, 2> kMemberRoles = {"verbena member", "verbena member, encrypting"};
/// The role of neither: the proof is a key of both.
constexpr std::string_view kKeyRole = "verbena leader key";

std::string_view role_of(const std::array<std::string_view, 2>& roles, bool encrypts) {
  return roles[encrypts ? 1 : 0];
}

std::string hex(std::span<const std::byte> bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Fills `bytes` from hexadecimal digits. False if the text is not exactly so many bytes.
bool from_hex(std::string_view text, std::span<std::byte> bytes) {
  if (text.size() != 2 * bytes.size() || !std::all_of(text.begin(), text.end(), absl::ascii_isxdigit))
    return false;
  const std::string raw = absl::HexStringToBytes({text.data(), text.size()});
  std::memcpy(bytes.data(), raw.data(), bytes.size());
  return true;
}

transport::Proof proof_of(const transport::Secret& secret, std::string_view role, std::uint32_t rank,
                          const transport::Nonce& member, const transport::Nonce& leader) {
  return transport::prove(&secret, role, {std::as_bytes(std::span(&rank, 1)), member, leader});
}

bool is_proof_of(std::string_view text, const transport::Secret& secret, std::string_view role,
                 std::uint32_t rank, const transport::Nonce& member, const transport::Nonce& leader) {
  transport::Proof proof{};
  return from_hex(text, proof) &&
         transport::is_proof(proof, &secret, role, {std::as_bytes(std::span(&rank, 1)), member, leader});
}

/// "FIRST SECOND"
std::optional<std::pair<std::string_view, std::string_view>> two_words(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return std::pair(line.substr(0, space), line.substr(space + 1));
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

/// The addresses of this host's interfaces, IPv4 first; without addresses that mean something else on each
/// host.
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

/// Makes TCP send lines at once, and notice within seconds that a host has vanished.
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

/// What was sent, and is not taken, ends the connection as soon as silence does.
void end_if_nothing_is_taken(int descriptor) {
  const int most_ms = 11'000;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
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

bool parse_number(std::string_view text, auto& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size();
}

bool is_signal(int number) {
  return number > 0 && number < NSIG;
}

/// 0: there is none.
int signal_in(std::string_view text) {
  int number = 0;
  return parse_number(text, number) && is_signal(number) ? number : 0;
}

std::string hold_line(int signal) {
  return fmt::format("{} {}\n", kHold, signal);
}

std::string until_line(std::int64_t iteration) {
  return fmt::format("{} {}\n", kUntil, iteration);
}

/// What to say after for how long its place is kept.
std::string_view words_about(Leader::Survival::Successor successor) {
  using Successor = Leader::Survival::Successor;
  if (successor == Successor::kIsStarted) return ", which is being started";
  if (successor == Successor::kIsThere) return ", which has come already";
  return ": start it again, with the same command line";
}

/// Adds the part of a line that has arrived to `line`, and not a byte more, because other code reads what
/// follows. False if the other end has closed.
bool read_line(LineChannel& channel, std::string& line) {
  std::array<std::byte, 1> byte{};
  while (!line.ends_with('\n') && line.size() <= kLongestIntroduction) {
    const std::ptrdiff_t got = channel.receive(byte);
    if (got == -EAGAIN) return true;
    if (got <= 0) return false;
    line += std::to_integer<char>(byte[0]);
  }
  return true;
}

/// nullptr if nothing is to be encrypted.
absl::StatusOr<std::unique_ptr<const transport::tcp::TlsContext>> context_if(bool tls) {
  if (!tls) return std::unique_ptr<const transport::tcp::TlsContext>();
  return transport::tcp::TlsContext::create();
}

}  // namespace

// --- the leader

absl::StatusOr<std::unique_ptr<Leader>> Leader::listen(bool loopback_only, std::vector<Member> members,
                                                       std::shared_ptr<const transport::Secret> secret,
                                                       bool tls,
                                                       std::function<base::OwnTime::TimePoint()> clock) {
  absl::StatusOr<std::unique_ptr<const transport::tcp::TlsContext>> context = context_if(tls);
  if (!context.ok()) return context.status();
  absl::StatusOr<std::pair<int, std::uint16_t>> listener = listen_at(loopback_only ? "127.0.0.1" : "::");
  if (!listener.ok() && !loopback_only) listener = listen_at("0.0.0.0");  // for a host without IPv6
  if (!listener.ok()) return listener.status();
  const std::vector<std::string> hosts =
      loopback_only ? std::vector<std::string>{"127.0.0.1"} : own_addresses();
  if (hosts.empty()) {
    ::close(listener->first);
    return absl::UnavailableError("this host has no network interface that other hosts could reach");
  }
  std::string address = fmt::format("{};{}", absl::StrJoin(hosts, ","), listener->second);
  return std::unique_ptr<Leader>(new Leader(listener->first, std::move(address), std::move(secret),
                                            *std::move(context), std::move(members), std::move(clock)));
}

/// What it hears of members, beside what they say.
class Leader::Ear final : public Survival::Host, public Replacement::Host {
 public:
  Ear(Leader& leader, RunMonitor& monitor) : leader_(leader), monitor_(monitor) {}

  void lose(std::uint32_t rank, const std::string& why) override {
    leader_.lose(leader_.seats_[rank], why, monitor_);
  }
  void welcome(std::uint32_t rank, Member member) override { leader_.welcome(rank, std::move(member)); }
  void leave(std::uint32_t rank) override {
    std::optional<Clock::time_point>& since = leader_.seats_[rank].wants_to_leave_since;
    if (!since) since = leader_.time_.now();
  }
  void replace(std::uint32_t rank, Member member, const Replacement::Workers& workers,
               const std::string& what) override {
    if (leader_.seats_[rank].lost_as.empty() || leader_.stopped_at_) return;  // the run ends
    monitor_.replace(workers.process, member.pid, workers.first, workers.count, what);
    leader_.take_place(rank, std::move(member));
  }
  void step_aside(std::uint32_t rank, const std::string& what) override {
    Seat& seat = leader_.seats_[rank];
    seat.gone = true;  // and its connection stays until it has ended
    monitor_.fail_over(seat.member.of_server, seat.member.pid, fmt::format("{} {}", seat.member.name, what));
  }
  void keep_place(std::uint32_t rank) override {
    if (leader_.replacement_ != nullptr) leader_.replacement_->keep_longer(rank);
  }
  void show(const std::string& line) override { monitor_.warn(line); }
  void note_joined(std::uint32_t rank) override {
    Seat& seat = leader_.seats_[rank];
    if (!std::exchange(seat.joins, false)) return;
    monitor_.note_joined(seat.member.of_server, seat.member.pid,
                         fmt::format("{} has all that server {} has, and can take its place",
                                     seat.member.name, seat.member.of_server));
  }

 private:
  Leader& leader_;
  RunMonitor& monitor_;
};

Leader::Leader(int listener, std::string address, std::shared_ptr<const transport::Secret> secret,
               std::unique_ptr<const transport::tcp::TlsContext> tls, std::vector<Member> members,
               std::function<base::OwnTime::TimePoint()> clock)
    : listener_(listener),
      address_(std::move(address)),
      secret_(std::move(secret)),
      tls_(std::move(tls)),
      clock_(std::move(clock)),
      time_(clock_()) {
  for (Member& member : members) seats_.push_back(Seat{.member = std::move(member), .since = time_.now()});
}

Leader::~Leader() {
  const bool have_saved = signal_ == 0 && signal() != 0;
  const std::string go = have_saved ? fmt::format("go {}\n", signal()) : std::string(kGo);
  if (!leads_no_more_) give_orders();
  for (Seat& seat : seats_) {
    if (seat.channel.is_open() && !leads_no_more_) seat.channel.write(go).IgnoreError();
  }
  ::close(listener_);
}

void Leader::save_first() {
  std::vector<std::uint32_t> workers;
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
    if (!seats_[rank].member.server) workers.push_back(rank);
  }
  stop_.emplace(workers);
}

/// If all have come to their end before they could end together, nothing has ended them.
int Leader::signal() const {
  if (signal_ != 0 || !stop_) return signal_;
  const bool have_finished = std::all_of(
      seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.member.server || seat.has_finished; });
  return have_finished ? 0 : stop_->ended_by();
}

void Leader::begin_without(const std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t rank : ranks) seats_[rank].gone = true;
}

void Leader::run(RunMonitor& monitor) {
  while (poll(monitor, kLongestPoll)) {
  }
  monitor.finish();
}

bool Leader::poll(RunMonitor& monitor, std::chrono::milliseconds patience) {
  if (all_over(false) || abandoned_ || leads_no_more_) return false;
  wait(monitor, patience);
  // After the wait, in which this process may have been stopped: whatever has come since may be because of
  // that.
  const auto leads = survival_ == nullptr ? Survival::Leads::kYes : survival_->leads();
  leads_no_more_ = leads == Survival::Leads::kNoMore;
  if (leads == Survival::Leads::kPerhaps) std::this_thread::sleep_for(kSlice);
  if (leads != Survival::Leads::kYes) {
    if (stopped_at_) stopped_at_ = Clock::now();  // members may not have heard it yet
    return !leads_no_more_;
  }
  time_.look(clock_());
  accept();
  // Before strangers: one that comes in another one's place has said so before.
  Ear ear(*this, monitor);
  if (survival_ != nullptr) {
    survival_->tell(ear);
    let_leave_who_want_to(monitor);
  }
  if (replacement_ != nullptr) replacement_->tell(ear);
  hear_strangers();
  hear_members(monitor);
  decide_about_stop(monitor);
  check_time(monitor);
  monitor.answer_watchers([&] { return status(monitor); });
  if (monitor.failed() || signal_ != 0) stop_all();
  monitor.tick();
  // It may have been stopped since: then what it has decided waits until that is over, or nobody hears it.
  if (survival_ == nullptr || survival_->leads() == Survival::Leads::kYes) give_orders();
  return true;
}

void Leader::give_orders() {
  for (Seat& seat : seats_) seat.channel.flush();
  for (LineChannel& channel : former_) channel.flush();
}

RunStatus Leader::status(const RunMonitor& monitor) const {
  using Role = RunStatus::Copy::Role;
  RunStatus status = monitor.status();
  add_processes_of_workers(status);
  if (survival_ != nullptr) {
    add_copies(status);
    return status;
  }
  for (const Seat& seat : seats_) {
    if (!seat.member.server) continue;
    std::vector<RunStatus::Copy>& copies = status.servers.emplace_back();
    if (seat.gone || seat.ended) continue;
    copies.push_back({.copy = 0,
                      .pid = seat.member.pid,
                      .role = seat.came ? Role::kServes : Role::kStarts,
                      .host = seat.member.host});
  }
  return status;
}

/// Each process has as many workers as the others.
void Leader::add_processes_of_workers(RunStatus& status) const {
  std::vector<std::int64_t> processes;
  for (const Seat& seat : seats_) {
    if (!seat.member.server) processes.push_back(seat.gone || seat.ended ? 0 : seat.member.pid);
  }
  if (processes.empty() || status.workers.size() % processes.size() != 0) return;
  const std::size_t workers_each = status.workers.size() / processes.size();
  for (RunStatus::Worker& worker : status.workers) worker.pid = processes[worker.worker / workers_each];
}

void Leader::add_copies(RunStatus& status) const {
  using Role = RunStatus::Copy::Role;
  const std::optional<Survival::Chains> chains = survival_->chains();
  if (!chains) return;
  status.configuration = chains->number;
  for (const std::vector<Survival::Copy>& chain : chains->servers) {
    std::vector<RunStatus::Copy>& copies = status.servers.emplace_back();
    for (const Survival::Copy& copy : chain) {
      copies.push_back({.copy = copy.copy,
                        .pid = seats_[copy.rank].member.pid,
                        .role = copies.empty() ? Role::kServes : Role::kFollows,
                        .host = seats_[copy.rank].member.host});
    }
  }
  for (const Seat& seat : seats_) {
    if (seat.joins && !seat.gone) {
      status.servers[seat.member.of_server].push_back(
          {.copy = seat.member.copy, .pid = seat.member.pid, .role = Role::kJoins, .host = seat.member.host});
    }
  }
  status.moves = survival_->moves();
}

void Leader::wait(const RunMonitor& monitor, std::chrono::milliseconds patience) const {
  std::vector<pollfd> wanted = {{listener_, POLLIN, 0}};
  for (const Stranger& stranger : strangers_) wanted.push_back({stranger.channel.descriptor(), POLLIN, 0});
  for (const Seat& seat : seats_) {
    wanted.push_back({seat.gone || seat.ended ? -1 : seat.channel.descriptor(), POLLIN, 0});
  }
  monitor.add_descriptors(wanted);
  if (survival_ != nullptr) survival_->add_descriptors(wanted);
  if (replacement_ != nullptr) replacement_->add_descriptors(wanted);
  auto timeout_ms = static_cast<int>(patience.count());
  if (stopped_at_)
    timeout_ms = std::min(timeout_ms, base::poll_timeout_ms(*stopped_at_ + kStopPatience, kLongestPoll));
  ::poll(wanted.data(), wanted.size(), timeout_ms);
}

/// Accepts all connections that have come. If there are too many, closes one, preferably the oldest that has
/// sent no line: a member sends its first line at once.
void Leader::accept() {
  for (std::size_t i = 0; i < kAcceptedAtOnce; ++i) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) {
      if ((errno != EMFILE && errno != ENFILE) || strangers_.empty()) return;
      send_one_away();
      continue;
    }
    if (strangers_.size() >= seats_.size() + kMostStrangers) send_one_away();
    tune(descriptor);
    strangers_.push_back({.channel = LineChannel(descriptor), .deadline = time_.now() + kIntroduction});
  }
}

void Leader::send_one_away() {
  const auto silent = std::find_if(strangers_.begin(), strangers_.end(),
                                   [](const Stranger& each) { return !each.challenged; });
  const auto one = silent == strangers_.end() ? strangers_.begin() : silent;
  strangers_.erase(one);
}

void Leader::hear_strangers() {
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const bool stays = hear(*stranger) && time_.now() < stranger->deadline;
    stranger = stays ? std::next(stranger) : strangers_.erase(stranger);
  }
}

/// False: it is no stranger any more, or it is sent away.
bool Leader::hear(Stranger& stranger) {
  while (!stranger.proven) {
    const bool open = read_line(stranger.channel, stranger.said);
    if (!stranger.said.ends_with('\n')) return open && stranger.said.size() <= kLongestIntroduction;
    std::string line = std::exchange(stranger.said, {});
    line.pop_back();
    if (!(stranger.challenged ? believe(stranger, line) : challenge(stranger, line))) return false;
  }
  const absl::StatusOr<bool> is_encrypted = stranger.channel.shake_hands();
  if (!is_encrypted.ok()) {
    spdlog::warn("{} is sent away: {}", seats_[stranger.rank].member.name,
                 std::string(is_encrypted.status().message()));
    return false;
  }
  if (*is_encrypted) seat(stranger);
  return !*is_encrypted;
}

/// Answers a member's first line with a challenge. False if the line is not what a member sends first.
bool Leader::challenge(Stranger& stranger, std::string_view line) {
  const auto words = two_words(line);
  const auto nonce = transport::fresh_nonce();
  if (!words || !nonce.ok() || !parse_number(words->first, stranger.rank) ||
      !from_hex(words->second, stranger.theirs)) {
    return false;
  }
  stranger.ours = *nonce;
  stranger.challenged = true;
  const transport::Proof proof = proof_of(*secret_, role_of(kLeaderRoles, tls_ != nullptr), stranger.rank,
                                          stranger.theirs, stranger.ours);
  // These few bytes, and the bytes of a handshake and a welcome, fit into the empty socket buffer.
  return stranger.channel.write(fmt::format("{} {}\n", hex(stranger.ours), hex(proof))).ok();
}

/// False if the stranger has not proved that it is a member, or if the member has come already.
bool Leader::believe(Stranger& stranger, std::string_view line) {
  const std::uint32_t rank = stranger.rank;
  if (!is_proof_of(line, *secret_, role_of(kMemberRoles, tls_ != nullptr), rank, stranger.theirs,
                   stranger.ours) ||
      rank >= seats_.size() || seats_[rank].came || seats_[rank].gone) {
    return false;
  }
  stranger.proven = true;
  if (tls_ == nullptr) return true;
  const transport::tcp::TlsKey key = proof_of(*secret_, kKeyRole, rank, stranger.theirs, stranger.ours);
  return stranger.channel.encrypt(*tls_, key, transport::tcp::TlsEnd::kListener).ok();
}

/// Takes the stranger in as a member, unless another one has been quicker.
void Leader::seat(Stranger& stranger) {
  Seat& seat = seats_[stranger.rank];
  if (std::exchange(seat.came, true)) return;
  seat.channel = std::move(stranger.channel);
  seat.channel.write(kWelcome).IgnoreError();
  if (stopped_at_) seat.channel.write_later(kStop);
  if (!is_to_stop()) return;
  seat.channel.write_later(hold_line(stop_->wanted_by()));
  // The one whose place it takes may have answered for it.
  if (const auto end = stop_->end()) seat.channel.write_later(until_line(*end));
}

void Leader::hear_members(RunMonitor& monitor) {
  for (Seat& seat : seats_) {
    if (!seat.channel.is_open() || seat.gone) continue;
    const absl::StatusOr<bool> open =
        seat.channel.read([&](std::string_view line) { on_line(seat, line, monitor); });
    if (!open.ok()) {
      lose(seat, fmt::format("is lost: {}", std::string(open.status().message())), monitor);
    } else if (!*open && !seat.ended) {
      lose(seat, "ended without a word: it crashed, was killed, or its host is gone", monitor);
    }
    seat.gone |= !open.value_or(false);
  }
  std::erase_if(former_,
                [](LineChannel& channel) { return !channel.read([](std::string_view) {}).value_or(false); });
  if (!workers_left_at_ && all_over(true)) workers_left_at_ = time_.now();
  // A server that moves while all save costs the checkpoint.
  if (workers_left_at_ || is_to_stop()) end_those_that_join();
}

/// The run does without it, so that it is no failure of the run.
void Leader::on_line_of_joining(Seat& seat, std::string_view line, RunMonitor& monitor) {
  const absl::StatusOr<job::ChildMessage> said = job::decode(line);
  if (!said.ok()) return lose(seat, "said what nobody understands", monitor);
  if (const auto* const failure = std::get_if<job::FailedMessage>(&*said)) {
    monitor.warn(fmt::format("{} cannot join: {}", seat.member.name,
                             std::string(base::printable(failure->status).message())));
  } else if (const auto* const ended = std::get_if<job::EndedMessage>(&*said)) {
    lose(seat, fmt::format("ended with status {}", ended->status), monitor);
  } else if (const auto* const asked = std::get_if<job::AskedToStopMessage>(&*said);
             asked != nullptr && is_signal(asked->signal)) {
    take_wish_to_stop(asked->signal, monitor);
  }
}

void Leader::on_line(Seat& seat, std::string_view line, RunMonitor& monitor) {
  if (seat.joins) return on_line_of_joining(seat, line, monitor);
  if (seat.is_new) {  // what it cannot do, perhaps another one can
    const absl::StatusOr<job::ChildMessage> said = job::decode(line);
    const auto* const ended = said.ok() ? std::get_if<job::EndedMessage>(&*said) : nullptr;
    if (!said.ok() || std::holds_alternative<job::FailedMessage>(*said) ||
        (ended != nullptr && ended->status != kExitOk))
      return on_line_of_joining(seat, line, monitor);
  }
  const std::optional<job::ChildMessage> message = monitor.hear(seat.member.name, line);
  if (!message) return;
  if (std::holds_alternative<job::FinishedMessage>(*message)) seat.has_finished = true;
  if (replacement_ != nullptr) hear_worker(seat, *message);
  if (const auto* const silent = std::get_if<job::SilentWorkerMessage>(&*message);
      silent != nullptr && replacement_ != nullptr && seat.member.server) {
    const std::optional<std::uint32_t> rank = replacement_->rank_of_silent(silent->worker);
    if (rank)
      lose(seats_[*rank],
           fmt::format("shows no sign of life ({})", std::string(base::printable(silent->why))), monitor);
  }
  if (std::holds_alternative<job::FailedMessage>(*message)) seat.reported_failure = true;
  const auto* signaled = std::get_if<job::SignaledMessage>(&*message);
  if (signaled != nullptr && is_signal(signaled->signal)) end_by(signaled->signal, monitor);
  const auto* asked = std::get_if<job::AskedToStopMessage>(&*message);
  if (asked != nullptr && is_signal(asked->signal)) take_wish_to_stop(asked->signal, monitor);
  if (std::holds_alternative<job::SteppedAsideMessage>(*message)) take_stepping_aside(seat, monitor);
  if (const auto* held = std::get_if<job::HeldMessage>(&*message); held != nullptr && stop_)
    stop_->take(rank_of(seat), *held);
  const auto* ended = std::get_if<job::EndedMessage>(&*message);
  if (ended == nullptr) return;
  seat.ended = true;
  if (stop_ && ended->status == kExitOk) stop_->finish(rank_of(seat));
  if (ended->status > kExitSignalBase) {
    signal_ = ended->status - kExitSignalBase;
  } else if (ended->status != kExitOk && !seat.reported_failure && !stopped_at_) {
    monitor.fail(Cause::kSilentEnd,
                 absl::AbortedError(fmt::format("{} ended with status {}", seat.member.name, ended->status)));
  }
}

/// It is gone, or seems to be.
void Leader::lose(Seat& seat, const std::string& why, RunMonitor& monitor) {
  if (seat.ended || seat.gone) return;
  if (seat.joins) return lose_joining(seat, why, monitor);
  const std::string what = fmt::format("{} {}", seat.member.name, why);
  const bool goes_on = !stopped_at_ && signal_ == 0;
  if (goes_on && !is_to_stop() && replacement_ != nullptr && !seat.member.server && !seat.has_finished)
    return lose_worker(seat, what, monitor);
  if (!goes_on || survival_ == nullptr || !seat.member.server)
    return monitor.fail(Cause::kKilled, absl::AbortedError(what));
  const absl::StatusOr<std::string> next = survival_->go_on_without(rank_of(seat), what);
  if (!next.ok()) {
    return monitor.fail(Cause::kKilled, absl::AbortedError(fmt::format(
                                            "{}; {}", what, std::string(next.status().message()))));
  }
  let_go(seat, kDismissed);
  monitor.fail_over(seat.member.of_server, seat.member.pid, fmt::format("{}: {}", what, *next));
}

void Leader::lose_joining(Seat& seat, const std::string& why, RunMonitor& monitor) {
  const std::string what = fmt::format("{} {} before it had what the others have", seat.member.name, why);
  // What follows from that is nothing new.
  static_cast<void>(survival_->go_on_without(rank_of(seat), what));
  let_go(seat, kDismissed);
  monitor.note_lost(RunEvent::Kind::kNoJoin, what);
}

/// The others wait where their consistency model lets them go no further.
void Leader::lose_worker(Seat& seat, const std::string& what, RunMonitor& monitor) {
  const std::uint32_t rank = rank_of(seat);
  const Successor successor =
      survival_ == nullptr ? Successor::kNobody : survival_->note_free(rank, /*has_stepped_aside=*/false);
  const absl::StatusOr<std::string> wait = replacement_->await(rank, what, successor != Successor::kNobody);
  if (!wait.ok()) {
    return monitor.fail(Cause::kKilled, absl::AbortedError(fmt::format(
                                            "{}; {}", what, std::string(wait.status().message()))));
  }
  seat.lost_as = what;
  let_go(seat, kDismissed);
  monitor.warn(fmt::format("{}: {}{}", what, *wait, words_about(successor)));
}

/// All that it has reported has been heard. Another rank 0 may have told it to, which alone knew for whom; or
/// that one is gone since.
void Leader::take_stepping_aside(Seat& seat, RunMonitor& monitor) {
  if (stopped_at_ || replacement_ == nullptr || survival_ == nullptr || seat.member.server) {
    seat.ended = true;  // nobody comes after it
    return;
  }
  const std::uint32_t rank = rank_of(seat);
  seat.lost_as = fmt::format("{} has stepped aside", seat.member.name);
  const Successor successor = survival_->note_free(rank, /*has_stepped_aside=*/true);
  const std::string wait = replacement_->keep_place(rank);
  let_go(seat, kGo);
  if (successor != Successor::kIsThere) {
    monitor.warn(fmt::format("{}, and the process that was to take its place is gone: {}{}", seat.lost_as,
                             wait, words_about(successor)));
  }
}

void Leader::take_place(std::uint32_t rank, Member member) {
  Seat& seat = seats_[rank];
  // The one before it may be stopped, and has still to hear that it is to end.
  if (seat.channel.is_open()) former_.push_back(std::move(seat.channel));
  seat = Seat{.member = std::move(member), .is_new = true, .since = time_.now()};
}

void Leader::hear_worker(Seat& seat, const job::ChildMessage& message) {
  bool works = std::holds_alternative<job::FinishedMessage>(message);
  if (const auto* const iteration = std::get_if<job::IterationMessage>(&message))
    works = replacement_->note_iteration(rank_of(seat), iteration->report.iteration);
  if (works && std::exchange(seat.is_new, false) && survival_ != nullptr) survival_->note_work(rank_of(seat));
}

std::uint32_t Leader::rank_of(const Seat& seat) const {
  const auto is_it = [&](const Seat& each) { return &each == &seat; };
  return static_cast<std::uint32_t>(std::find_if(seats_.begin(), seats_.end(), is_it) - seats_.begin());
}

void Leader::welcome(std::uint32_t rank, Member member) {
  // A place may be kept for one before it that has not come yet.
  while (seats_.size() <= rank)
    seats_.push_back(Seat{.member = {.name = "nobody", .server = true}, .gone = true});
  Seat& seat = seats_[rank];
  if (!seat.gone) return;  // the run ends, and has kept no place for it
  // The one before it may be stopped, and has still to hear that it is to end.
  if (seat.channel.is_open()) former_.push_back(std::move(seat.channel));
  seat = Seat{.member = std::move(member), .joins = true, .since = time_.now()};
}

/// Nobody needs them any more, and who does not know them cannot tell them so.
void Leader::end_those_that_join() {
  if (survival_ != nullptr) survival_->end_moves_of_workers(workers_left_at_ || stopped_at_);
  for (Seat& seat : seats_) {
    if (!seat.joins || seat.gone) continue;
    static_cast<void>(survival_->go_on_without(
        rank_of(seat), workers_left_at_ ? "all workers have ended" : "the run saves and ends"));
    let_go(seat, kDismissed);
  }
}

/// If no other copy has all that one of them has, and none will have it soon, the run ends, as it does when
/// any other process is to end. A run that is to save and end needs them until then.
void Leader::let_leave_who_want_to(RunMonitor& monitor) {
  for (Seat& seat : seats_) {
    if (!seat.wants_to_leave_since || seat.gone || seat.ended || stopped_at_) continue;
    const auto since = *seat.wants_to_leave_since;
    if (seat.joins) {
      lose(seat, "was asked to end", monitor);
      continue;
    }
    if (is_to_stop()) continue;
    const absl::StatusOr<std::string> next = survival_->let_leave(rank_of(seat));
    if (absl::IsUnavailable(next.status())) continue;
    if (next.ok()) {
      seat.gone = true;  // and its connection stays until it has ended
      monitor.fail_over(seat.member.of_server, seat.member.pid,
                        fmt::format("{} steps aside, as it was asked to: {}", seat.member.name, *next));
    } else if (!seat.member.server || !survival_->is_being_joined(seat.member.of_server) ||
               time_.now() > since + kLeavePatience) {
      seat.wants_to_leave_since.reset();
      const bool ends_anyhow = workers_left_at_ || (stop_ && stop_->is_wanted());
      monitor.warn(
          fmt::format("{} was asked to end, and {}: {}", seat.member.name,
                      ends_anyhow ? "stays until the run ends, which is about to" : "the run ends with it",
                      std::string(next.status().message())));
      if (!ends_anyhow) take_wish_to_stop(SIGTERM, monitor);
    }
  }
}

/// The run goes on without it. If it goes on, too, it ends by this.
void Leader::let_go(Seat& seat, std::string_view word) {
  seat.gone = true;
  if (!seat.channel.is_open()) return;
  seat.channel.write_later(word);
  seat.channel.end_sending_later();
}

/// Another copy of its server has ended as it should. The one before this one may have been lost before it
/// could dismiss it.
bool Leader::is_left_over(const Seat& seat) const {
  return survival_ != nullptr && seat.member.server &&
         std::any_of(seats_.begin(), seats_.end(), [&](const Seat& other) {
           return other.member.server && other.ended && other.member.of_server == seat.member.of_server;
         });
}

/// The one that serves, of the server whose copy it is; nullptr: the server has no other copy, or cannot do
/// without that one.
Leader::Seat* Leader::first_of_several(const Seat& seat) {
  const auto chains = survival_ == nullptr || !seat.member.server ? std::nullopt : survival_->chains();
  if (!chains || seat.member.of_server >= chains->servers.size()) return nullptr;
  const std::vector<Survival::Copy>& chain = chains->servers[seat.member.of_server];
  if (chain.size() < 2 || chain.front().rank == 0) return nullptr;
  Seat& first = seats_[chain.front().rank];
  return first.ended || first.gone ? nullptr : &first;
}

void Leader::check_time(RunMonitor& monitor) {
  if (stopped_at_) {
    abandoned_ = Clock::now() >= *stopped_at_ + kStopPatience && !all_over(false);
    return;
  }
  const auto now = time_.now();
  if (const auto overdue = replacement_ != nullptr ? replacement_->overdue() : std::nullopt) {
    const std::string& what = seats_[overdue->first].lost_as;
    return monitor.fail(Cause::kKilled, absl::AbortedError(fmt::format("{}; {}", what, overdue->second)));
  }
  for (Seat& seat : seats_) {
    if (!seat.came && !seat.joins && !seat.gone && now >= seat.since + kArrival) {
      const std::string why = fmt::format("has not come within {} s: may it open TCP connections to {}?",
                                          kArrival.count(), address_);
      if (seat.is_new) {
        lose(seat, why, monitor);
      } else {
        monitor.fail(Cause::kOwnError,
                     absl::DeadlineExceededError(fmt::format("{} {}", seat.member.name, why)));
      }
    } else if (workers_left_at_ && now >= *workers_left_at_ + RunMonitor::kServersPatience && !seat.ended &&
               !seat.gone) {
      if (is_left_over(seat)) {
        let_go(seat, kStop);  // nobody says why
        continue;
      }
      // The copy that follows has all, and ends when it serves.
      if (Seat* const first = first_of_several(seat)) {
        lose(*first, "has not ended, although all workers have", monitor);
        workers_left_at_ = now;
        return;
      }
      monitor.fail_still_running(seat.member.name);
    }
  }
}

// ---- all save, and end

/// Several may want it, as when a batch system ends all processes.
void Leader::take_wish_to_stop(int signal, RunMonitor& monitor) {
  if (!stop_) return end_by(signal, monitor);
  if (stopped_at_ || workers_left_at_ || signal_ != 0 || !stop_->want(signal, time_.now())) return;
  monitor.warn(
      "stopping: saves this iteration, or one of the next, when it is done; a second signal to the same "
      "process ends the run at once");
  tell_of_stop(hold_line(signal));
}

void Leader::decide_about_stop(RunMonitor& monitor) {
  if (!stop_ || stopped_at_ || signal_ != 0 || monitor.failed()) return;
  const std::optional<JointStop::Decision> decision = stop_->decide(time_.now());
  if (!decision) return;
  if (const auto* const ends = std::get_if<JointStop::EndsAfter>(&*decision))
    return tell_of_stop(until_line(ends->iteration));
  if (std::holds_alternative<JointStop::IsTooLate>(*decision)) {
    monitor.warn("nothing is stopped: a worker has trained to the end already, and the others are about to");
    return tell_of_stop(fmt::format("{}\n", kReleased));
  }
  const auto* const unanswered = std::get_if<JointStop::IsUnanswered>(&*decision);
  monitor.warn(unanswered == nullptr
                   ? std::string("nothing is saved, since no worker has begun to train")
                   : fmt::format("the run ends without having saved: {} has not said within {} s which "
                                 "iteration it has begun; what is left is the newest checkpoint",
                                 seats_[unanswered->rank].member.name, JointStop::kPatience.count()));
  end_by(stop_->wanted_by(), monitor);
}

void Leader::tell_of_stop(const std::string& line) {
  for (Seat& seat : seats_) {
    if (seat.channel.is_open() && !seat.gone) seat.channel.write_later(line);
  }
}

void Leader::end_by(int signal, RunMonitor& monitor) {
  signal_ = signal;
  monitor.expect_failures();
}

void Leader::stop_all() {
  if (stopped_at_) return;
  stopped_at_ = Clock::now();
  end_those_that_join();
  for (Seat& seat : seats_) {
    if (seat.channel.is_open() && !seat.gone) seat.channel.write_later(kStop);
  }
}

bool Leader::all_over(bool workers_only) const {
  return std::all_of(seats_.begin(), seats_.end(), [&](const Seat& seat) {
    const bool is_awaited = !seat.lost_as.empty() && !stopped_at_;
    return ((seat.ended || seat.gone) && !is_awaited) || (workers_only && seat.member.server);
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

/// Waits for the other end's words, until `heard` or for a while. False: they have not come.
bool wait_for_words(const LineChannel& channel, const std::function<bool()>& stopped,
                    const std::function<bool()>& heard) {
  const auto deadline = std::chrono::steady_clock::now() + kAttempt;
  while (!heard()) {
    if (stopped() || std::chrono::steady_clock::now() >= deadline) return false;
    pollfd readable = {channel.descriptor(), POLLIN, 0};
    ::poll(&readable, 1, static_cast<int>(kSlice.count()));
  }
  return true;
}

/// The next line, if it comes soon; else empty.
std::string hear_line(LineChannel& channel, const std::function<bool()>& stopped) {
  std::string line;
  bool open = true;
  const bool heard = wait_for_words(channel, stopped, [&] {
    open = read_line(channel, line);
    return !open || line.ends_with('\n');
  });
  if (!heard || !line.ends_with('\n')) return "";
  line.pop_back();
  return line;
}

absl::Status encrypt(LineChannel& channel, const transport::tcp::TlsContext& context,
                     const transport::tcp::TlsKey& key, const std::function<bool()>& stopped) {
  RETURN_IF_ERROR(channel.encrypt(context, key, transport::tcp::TlsEnd::kConnector));
  absl::StatusOr<bool> is_encrypted = false;
  const bool heard = wait_for_words(channel, stopped, [&] {
    is_encrypted = channel.shake_hands();
    return !is_encrypted.ok() || *is_encrypted;
  });
  return heard ? is_encrypted.status() : absl::UnavailableError("it does not answer");
}

/// Exchanges the proofs. OK if the other end is the leader, and it has sent its welcome. UNAVAILABLE: it is
/// not, or has not.
absl::Status introduce(LineChannel& channel, const transport::Secret& secret,
                       const transport::tcp::TlsContext* tls, std::uint32_t rank,
                       const std::function<bool()>& stopped) {
  const bool encrypts = tls != nullptr;
  const absl::Status is_another = absl::UnavailableError("who answers is not rank 0");
  const auto ours = transport::fresh_nonce();
  if (!ours.ok()) return ours.status();
  if (!channel.write(fmt::format("{} {}\n", rank, hex(*ours))).ok()) return is_another;
  const std::string challenge = hear_line(channel, stopped);
  const auto words = two_words(challenge);
  transport::Nonce theirs{};
  if (!words || !from_hex(words->first, theirs)) return is_another;
  const auto is_leader = [&](bool leader_encrypts) {
    return is_proof_of(words->second, secret, role_of(kLeaderRoles, leader_encrypts), rank, *ours, theirs);
  };
  if (is_leader(!encrypts)) {
    return absl::FailedPreconditionError(
        encrypts ? "rank 0 does not encrypt what it sends, and this process does (TLS)"
                 : "rank 0 encrypts what it sends (TLS), and this process does not");
  }
  if (!is_leader(encrypts)) return is_another;
  const transport::Proof proof = proof_of(secret, role_of(kMemberRoles, encrypts), rank, *ours, theirs);
  if (!channel.write(hex(proof) + "\n").ok()) return is_another;
  if (encrypts)
    RETURN_IF_ERROR(encrypt(channel, *tls, proof_of(secret, kKeyRole, rank, *ours, theirs), stopped));
  return hear_line(channel, stopped) + "\n" == kWelcome ? absl::OkStatus() : is_another;
}

/// A connection to the leader that listens there, which has welcomed the member.
absl::StatusOr<LineChannel> reach(const std::string& address, std::uint32_t rank, bool same_host,
                                  const transport::Secret& secret, const transport::tcp::TlsContext* tls,
                                  std::chrono::seconds patience, const std::function<bool()>& stopped) {
  const std::vector<std::string> parts = absl::StrSplit(address, ';');
  std::uint16_t port = 0;
  if (parts.size() != 2 || !parse_number(parts[1], port)) {
    return absl::InvalidArgumentError("the address of rank 0 cannot be understood");
  }
  // Some addresses, for instance of a container's bridge, are the same on every host, and lead to another
  // process there.
  const std::vector<std::string> own = same_host ? std::vector<std::string>() : own_addresses();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  do {
    for (const std::string& host : std::vector<std::string>(absl::StrSplit(parts[0], ','))) {
      const std::optional<Endpoint> place = endpoint(host, port);
      if (!place || std::find(own.begin(), own.end(), host) != own.end()) continue;
      const int descriptor = try_to_connect(*place, stopped);
      if (descriptor < 0) continue;
      tune(descriptor);
      LineChannel channel(descriptor);
      const absl::Status met = introduce(channel, secret, tls, rank, stopped);
      if (met.ok()) return channel;
      if (!absl::IsUnavailable(met)) {
        return absl::Status(met.code(), fmt::format("the connection to rank 0 ({} port {}): {}", host, port,
                                                    std::string(met.message())));
      }
    }
    if (stopped()) return absl::CancelledError("stopped");
    ::poll(nullptr, 0, static_cast<int>(kSlice.count()));
  } while (std::chrono::steady_clock::now() < deadline);
  return absl::UnavailableError(
      fmt::format("rank 0 cannot be reached at {} port {} by TCP: is there a firewall between the hosts?",
                  parts[0], parts[1]));
}

void ring(const base::FileDescriptor& bell) {
  const std::uint64_t one = 1;
  (void)!::write(bell.get(), &one, sizeof one);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeaderLink>> LeaderLink::connect(
    const std::string& address, std::uint32_t rank, bool same_host, const transport::Secret& secret,
    std::chrono::seconds patience, const std::function<bool()>& stopped, bool tls) {
  absl::StatusOr<std::unique_ptr<const transport::tcp::TlsContext>> context = context_if(tls);
  if (!context.ok()) return context.status();
  absl::StatusOr<LineChannel> channel =
      reach(address, rank, same_host, secret, context->get(), patience, stopped);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<LeaderLink>(new LeaderLink(*std::move(channel), rank, *std::move(context)));
}

LeaderLink::~LeaderLink() {
  if (!movement_) return;
  {
    const absl::MutexLock lock(&orders_mutex_);
    ends_ = true;
  }
  ring(movement_->wakes);
  movement_->thread.join();
}

absl::Status LeaderLink::listen(Listening listening) {
  base::FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  base::FileDescriptor wakes(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid() || !wakes.valid()) return absl::ErrnoToStatus(errno, "no eventfd");
  stop_listener_ = std::move(listening.stop);
  if (listening.outlives_with != nullptr) end_if_nothing_is_taken(socket_);
  movement_.emplace(Movement{.secret = std::move(listening.outlives_with),
                             .bell = std::move(bell),
                             .wakes = std::move(wakes),
                             .thread = {}});
  const base::SignalsBlocked blocked;
  movement_->thread = std::thread([this] { move(); });
  return absl::OkStatus();
}

void LeaderLink::leave_leader() {
  if (!movement_) return;
  {
    const absl::MutexLock lock(&orders_mutex_);
    leaves_ = true;
  }
  ring(movement_->wakes);
}

void LeaderLink::follow(const std::string& address, bool same_host) {
  if (!movement_) return;
  {
    const absl::MutexLock lock(&orders_mutex_);
    next_ = Next{.address = address, .same_host = same_host};
  }
  ring(movement_->wakes);
}

/// The thread.
void LeaderLink::move() {
  int socket = socket_;
  for (;;) {
    std::array<pollfd, 2> wanted = {{{movement_->wakes.get(), POLLIN, 0}, {socket, POLLIN, 0}}};
    ::poll(wanted.data(), wanted.size(), -1);
    std::uint64_t rings = 0;
    (void)!::read(movement_->wakes.get(), &rings, sizeof rings);
    std::optional<Next> next;
    bool leaves = false;
    {
      const absl::MutexLock lock(&orders_mutex_);
      if (ends_) return;
      leaves = std::exchange(leaves_, false);
      next = std::exchange(next_, std::nullopt);
    }
    {
      const absl::MutexLock lock(&mutex_);
      if (leaves || next || (channel_.is_open() && !read())) {
        channel_.close();
        led_since_.reset();
      }
    }
    obey();
    {
      const absl::MutexLock lock(&mutex_);
      const bool is_lost = !led_since_ && (movement_->secret == nullptr || is_held());
      if (told_to_stop_ || is_lost) ring(movement_->bell);
    }
    if (next && movement_->secret != nullptr) move_to(*next);
    const absl::MutexLock lock(&mutex_);
    socket = channel_.descriptor();
  }
}

/// Another leader, or none, ends an attempt to reach this one.
void LeaderLink::move_to(const Next& next) {
  absl::StatusOr<LineChannel> channel = reach(next.address, rank_, next.same_host, *movement_->secret,
                                              tls_.get(), kPatienceWithNextLeader, [&] {
                                                const absl::MutexLock lock(&orders_mutex_);
                                                return ends_ || leaves_ || next_;
                                              });
  const absl::MutexLock lock(&mutex_);
  if (!channel.ok()) {
    spdlog::warn("the next leader: {}", std::string(channel.status().message()));
    return;
  }
  channel_ = *std::move(channel);
  end_if_nothing_is_taken(channel_.descriptor());
  for (const std::string& line : kept_.lines) channel_.write(line).IgnoreError();
  for (const auto& [worker, line] : kept_.statistics) channel_.write(line).IgnoreError();
  led_since_ = Clock::now();
  ++leaders_before_;
}

int LeaderLink::descriptor() const {
  return movement_ ? movement_->bell.get() : socket_;
}

void LeaderLink::send(const job::ChildMessage& message) {
  const std::string line = encode(message);
  const absl::MutexLock lock(&mutex_);
  if (movement_) keep(message, line);
  // If the leader is gone, the thread that polls descriptor() ends the process.
  if (channel_.is_open()) channel_.write(line).IgnoreError();
}

void LeaderLink::keep(const job::ChildMessage& message, const std::string& line) {
  // These are about this moment, and of a stop nothing is left for another leader.
  if (std::holds_alternative<job::ProgressMessage>(message) ||
      std::holds_alternative<job::SilentWorkerMessage>(message) ||
      std::holds_alternative<job::AskedToStopMessage>(message) ||
      std::holds_alternative<job::HeldMessage>(message))
    return;
  if (const auto* const statistics = std::get_if<job::StatisticsMessage>(&message)) {
    kept_.statistics[statistics->worker] = line;
    return;
  }
  kept_.lines.push_back(line);
  for (kept_.bytes += line.size(); kept_.bytes > kMostKeptBytes; kept_.lines.pop_front())
    kept_.bytes -= kept_.lines.front().size();
}

/// False if the leader has closed the connection, or what came is not its own.
bool LeaderLink::read() {
  return channel_.read([&](std::string_view line) ABSL_NO_THREAD_SAFETY_ANALYSIS { take_line(line); })
      .value_or(false);
}

void LeaderLink::take_line(std::string_view line) {
  const auto words = two_words(line);
  const std::string_view first = words ? words->first : line;
  if (first == "go") {
    told_to_go_ = true;
    if (words) ended_by_ = signal_in(words->second);
  } else if (first == kHold || first == kUntil || line == kReleased) {
    if (stop_listener_) stop_lines_.emplace_back(line);
  } else {
    told_to_stop_ = true;
    is_dismissed_ = line == kDismissed.substr(0, kDismissed.size() - 1);
  }
}

/// What was said about a stop. Without the lock, since it is answered.
void LeaderLink::obey() {
  std::vector<std::string> lines;
  {
    const absl::MutexLock lock(&mutex_);
    lines = std::exchange(stop_lines_, {});
  }
  for (const std::string& line : lines) {
    const auto words = two_words(line);
    std::int64_t number = 0;
    if (!words) {
      stop_listener_->release();
    } else if (parse_number(words->second, number) && words->first == kUntil) {
      stop_listener_->end_after(number);
    } else if (const int signal = signal_in(words->second); signal != 0) {
      stop_listener_->hold(signal);
    }
  }
}

bool LeaderLink::is_held() const {
  return stop_listener_ && stop_listener_->is_held();
}

int LeaderLink::ended_by() {
  const absl::MutexLock lock(&mutex_);
  return ended_by_;
}

bool LeaderLink::is_led() {
  const absl::MutexLock lock(&mutex_);
  return led_since_.has_value();
}

bool LeaderLink::lost() {
  const absl::MutexLock lock(&mutex_);
  if (movement_) return !led_since_ && !told_to_stop_ && !told_to_go_;
  return !read() && !told_to_stop_ && !told_to_go_;
}

int LeaderLink::leaders_before() {
  const absl::MutexLock lock(&mutex_);
  return leaders_before_;
}

bool LeaderLink::is_dismissed() {
  const absl::MutexLock lock(&mutex_);
  return is_dismissed_;
}

bool LeaderLink::wait_for_end(const std::function<bool()>& stopped, bool has_saved) {
  if (movement_) return wait_for_last_leader(stopped, has_saved ? kFarewellOfSaved : kFarewell);
  const auto deadline = Clock::now() + kFarewell;
  const auto is_open = [&] {
    const absl::MutexLock lock(&mutex_);
    return read();
  };
  bool open = is_open();
  while (open && Clock::now() < deadline) {
    pollfd readable = {socket_, POLLIN, 0};
    ::poll(&readable, 1, base::poll_timeout_ms(deadline, kLongestPoll));
    open = is_open();
  }
  return !open;
}

bool LeaderLink::wait_for_last_leader(const std::function<bool()>& stopped,
                                      std::chrono::milliseconds patience) {
  const auto waits_since = Clock::now();
  while (!stopped()) {
    {
      const absl::MutexLock lock(&mutex_);
      if (told_to_go_ || told_to_stop_) return true;
      if (!led_since_ && movement_->secret == nullptr) return true;
      if (led_since_ && Clock::now() >= *led_since_ + patience && Clock::now() >= waits_since + patience)
        return false;
    }
    ::poll(nullptr, 0, static_cast<int>(kSlice.count()));
  }
  return false;
}

}  // namespace verbena::apps
