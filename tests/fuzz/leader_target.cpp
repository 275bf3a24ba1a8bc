// What processes of a job send to rank 0 over TCP, and what someone who plays rank 0 sends to a process.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "apps/launcher/leader.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/loopback.hpp"

namespace verbena::fuzz {
namespace {

using transport::Nonce;
using transport::Proof;

// As in leader.hpp.
constexpr std::string_view kLeaderRole = "verbena leader";
constexpr std::string_view kMemberRole = "verbena member";
constexpr std::string_view kWelcome = "welcome\n";

constexpr std::uint32_t kMembers = 2;
constexpr std::size_t kMostCallers = 4;
constexpr std::size_t kMostCalls = 40;  // of one input

std::string hex(std::span<const std::byte> bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// REQUIRES: `text` is 2 · `count` hexadecimal digits.
template <std::size_t count>
std::array<std::byte, count> from_hex(std::string_view text) {
  std::array<std::byte, count> bytes{};
  const std::string raw = absl::HexStringToBytes({text.data(), text.size()});
  std::memcpy(bytes.data(), raw.data(), std::min(raw.size(), bytes.size()));
  return bytes;
}

Proof proof(std::string_view role, std::uint32_t rank, const Nonce& member, const Nonce& leader) {
  return transport::prove(known_secret().get(), role, {std::as_bytes(std::span(&rank, 1)), member, leader});
}

/// A socket that leaves nothing behind when it is closed: thousands a second would use up all ports.
int tcp_socket(int flags) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  require(descriptor >= 0, "no socket");
  const linger none = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  return descriptor;
}

/// Reads all that has come. Returns false if the other end has closed.
bool read_into(int descriptor, std::string& text) {
  std::array<char, 512> block{};
  for (;;) {
    const ssize_t got = ::recv(descriptor, block.data(), block.size(), MSG_DONTWAIT);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
}

/// A peer that connects to the leader.
class Caller {
 public:
  explicit Caller(std::uint16_t port) : descriptor_(tcp_socket(0)) {
    const sockaddr_in place = verbena::testing::loopback(port);
    require(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0,
            "the leader does not listen");
  }
  ~Caller() { ::close(descriptor_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void say(std::string_view text) {
    said_ += text;
    static_cast<void>(::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }
  void introduce(std::uint32_t rank, const Nonce& nonce) {
    if (said_.empty()) {
      rank_ = rank;
      nonce_ = nonce;
    }
    say(fmt::format("{} {}\n", rank, hex(nonce)));
  }
  /// Sends a right proof, if it has been challenged.
  void prove() {
    if (!challenge_ || !rank_) return;
    proven_ = proven_ || (said_.find('\n') + 1 == said_.size() && *rank_ < kMembers);
    say(hex(proof(kMemberRole, *rank_, nonce_, *challenge_)) + "\n");
  }
  /// Checks what has been answered. Returns the rank as which it has just been welcomed.
  std::optional<std::uint32_t> hear() {
    static_cast<void>(read_into(descriptor_, heard_));
    const std::size_t end = heard_.find('\n');
    if (end == std::string::npos) {
      require(heard_.empty(), "half a line");
      return std::nullopt;
    }
    require(said_.find('\n') != std::string::npos, "who has said nothing is told something");
    if (!challenge_) {
      require(end == 2 * sizeof(Nonce) + 1 + 2 * sizeof(Proof), "a challenge of another length");
      challenge_ = from_hex<sizeof(Nonce)>(heard_.substr(0, 2 * sizeof(Nonce)));
      if (rank_) {
        require(heard_.substr(2 * sizeof(Nonce) + 1, 2 * sizeof(Proof)) ==
                    hex(proof(kLeaderRole, *rank_, nonce_, *challenge_)),
                "the leader's own proof");
      }
    }
    const std::string_view rest = std::string_view(heard_).substr(end + 1);
    if (rest.empty() || welcomed_) return std::nullopt;
    require(proven_, "who has proved nothing is told something");
    require(rest.starts_with(kWelcome), "something else before the welcome");
    welcomed_ = true;
    return rank_;
  }

 private:
  const int descriptor_;
  std::string said_;
  std::string heard_;
  std::optional<std::uint32_t> rank_;  ///< and nonce_: in the first line, if introduce() has sent it
  Nonce nonce_{};
  std::optional<Nonce> challenge_;
  bool proven_ = false;
  bool welcomed_ = false;
};

/// A leader, and the peers that connect to it.
class ToLeader {
 public:
  explicit ToLeader(Input& input)
      : input_(input),
        record_(1, [](const auto& sums) { return sums; }),
        display_(settings_, apps::Display::Mode::kNone, stdout, stderr),
        monitor_(record_, display_, nullptr) {
    auto leader = apps::Leader::listen(true, {{"server 0 (rank 0)", true}, {"worker 0 (rank 1)", false}},
                                       known_secret());
    require(leader.ok(), "no leader");
    leader_ = *std::move(leader);
    leader_->save_first();
    const std::string& address = leader_->address();
    const char* const port = address.data() + address.find(';') + 1;
    std::from_chars(port, address.data() + address.size(), port_);
  }

  void run() {
    for (std::size_t step = 0; step < kMostCalls && !input_.empty(); ++step) {
      act();
      go_on();
    }
    go_on();
    if (monitor_.failed()) require(!monitor_.failure().message().empty(), "no reason");
  }

 private:
  void act() {
    const std::uint32_t what = input_.below(10);
    if (callers_.empty() || what == 0) {
      if (callers_.size() < kMostCallers) callers_.push_back(std::make_unique<Caller>(port_));
      return;
    }
    const std::size_t at = input_.below(static_cast<std::uint32_t>(callers_.size()));
    Caller& caller = *callers_[at];
    switch (what) {
      case 1:
      case 2: {
        const std::uint32_t rank = input_.below(kMembers + 1);
        return caller.introduce(rank, input_.take<Nonce>());
      }
      case 3:
      case 4:
        return caller.prove();
      case 5:
        return caller.say(input_.take_bytes(input_.take<std::uint8_t>()));
      case 6:
        return caller.say(job::encode(job::EndedMessage{input_.take<std::uint8_t>()}));
      case 7:
        return caller.say(job::encode(job::PrintMessage{std::string(input_.take_bytes(8))}));
      case 8:
        callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(at));
        return;
      default:
        return caller.say(std::string(input_.take_bytes(input_.take<std::uint8_t>())) + "\n");
    }
  }

  void go_on() {
    for (int round = 0; round < 2; ++round) {
      static_cast<void>(leader_->poll(monitor_, std::chrono::milliseconds(0)));
      for (const auto& caller : callers_) {
        const std::optional<std::uint32_t> rank = caller->hear();
        if (!rank) continue;
        require(!came_.at(*rank), "two are welcomed as one");
        came_.at(*rank) = true;
      }
    }
  }

  Input& input_;
  const apps::RunSettings settings_;
  apps::RunRecord record_;
  apps::Display display_;
  apps::RunMonitor monitor_;
  std::unique_ptr<apps::Leader> leader_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::array<bool, kMembers> came_{};
};

struct Listener {
  Listener() : descriptor(tcp_socket(SOCK_NONBLOCK)) {
    sockaddr_in place = verbena::testing::loopback(0);
    socklen_t length = sizeof place;
    require(::bind(descriptor, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0 &&
                ::listen(descriptor, 8) == 0 &&
                ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&place), &length) == 0,
            "nothing listens");
    address = fmt::format("127.0.0.1;{}", ntohs(place.sin_port));
  }
  const int descriptor;  // open until the process ends
  std::string address;
};

/// Plays the leader to one process, while that waits.
class Impostor {
 public:
  Impostor(int listener, Input& input, std::uint32_t rank)
      : listener_(listener), input_(input), rank_(rank) {}
  ~Impostor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;

  /// Returns true when there is nothing more to send.
  bool go_on() {
    if (descriptor_ < 0) descriptor_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor_ < 0) return ++idle_ > 10;
    if (!read_into(descriptor_, heard_)) return true;
    if (heard_.find('\n') == std::string::npos) return ++idle_ > 10;
    if (turns_ == kMostTurns) return true;
    const std::string words = ++turns_ == 1 ? challenge() : second();
    said_ += words;
    if (words.empty()) ::shutdown(descriptor_, SHUT_WR);
    static_cast<void>(::send(descriptor_, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    return false;
  }
  /// Whether only the leader could have sent what it has sent.
  [[nodiscard]] bool is_leader() const {
    return proven_ && said_.starts_with(right_ + std::string(kWelcome));
  }
  void say_last() {
    const std::string_view words = input_.take_bytes(16);
    static_cast<void>(::send(descriptor_, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    ::shutdown(descriptor_, SHUT_WR);
  }

 private:
  static constexpr int kMostTurns = 3;

  std::string challenge() {
    if (input_.below(4) == 3) return std::string(input_.take_bytes(input_.take<std::uint8_t>()));
    const std::size_t space = heard_.find(' ');
    const auto theirs = from_hex<sizeof(Nonce)>(heard_.substr(space + 1, 2 * sizeof(Nonce)));
    const auto ours = input_.take<Nonce>();
    const std::string right = fmt::format("{} {}\n", hex(ours), hex(proof(kLeaderRole, rank_, theirs, ours)));
    right_ = right;
    proven_ = true;
    if (input_.below(4) != 3) return right;
    std::string wrong = right;
    wrong[input_.take<std::uint8_t>() % wrong.size()] = static_cast<char>(input_.take<std::uint8_t>());
    proven_ = absl::AsciiStrToLower(wrong) == right;
    right_ = wrong;
    return wrong;
  }
  std::string second() {
    if (input_.below(4) != 3) return turns_ == 2 ? std::string(kWelcome) : "";
    return std::string(input_.take_bytes(input_.take<std::uint8_t>()));
  }

  const int listener_;
  Input& input_;
  const std::uint32_t rank_;
  int descriptor_ = -1;
  int idle_ = 0;
  int turns_ = 0;
  std::string heard_;
  std::string said_;
  std::string right_;
  bool proven_ = false;
};

}  // namespace

void leader(std::string_view bytes) {
  Input input(bytes);
  ToLeader(input).run();
}

void leader_link(std::string_view bytes) {
  static const Listener listener;
  Input input(bytes);
  const std::uint32_t rank = input.below(3);
  Impostor impostor(listener.descriptor, input, rank);
  auto link = apps::LeaderLink::connect(listener.address, rank, /*same_host=*/true, *known_secret(),
                                        std::chrono::seconds(0), [&] { return impostor.go_on(); });
  if (!link.ok()) return require(!link.status().message().empty(), "no reason");
  require(impostor.is_leader(), "an impostor is taken for the leader");
  impostor.say_last();
  static_cast<void>((*link)->lost());
}

}  // namespace verbena::fuzz
