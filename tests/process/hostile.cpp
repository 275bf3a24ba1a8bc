// A process that attacks a job on this host, for hostile_test.cpp.
//
//   verbena_hostile ATTACK SOCKET [ADDRESS SECRET-FILE]
//
// SOCKET is the abstract name at which a server listens. The process says "ready" when the attack has begun,
// and attacks until it is killed.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "protocol/messages.hpp"
#include "transport/shm/control_socket.hpp"
#include "transport/shm/shm_connection.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::process_test {
namespace {

using std::chrono::milliseconds;
using transport::Opcode;
using transport::Secret;
using transport::WorkRequest;
using transport::shm::ControlKind;
using transport::shm::ControlMessage;
using transport::shm::ControlSocket;

struct Target {
  std::string socket;   ///< abstract name
  std::string address;  ///< the server's, for transports
  std::string secret_file;
};

/// Returns -1 if nobody listens or too many others wait.
int connect_to(const Target& target) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, target.socket.data(), target.socket.size());
  const timeval timeout = {.tv_sec = 0, .tv_usec = 100'000};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + target.socket.size());
  if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

std::optional<ControlSocket> socket_to(const Target& target) {
  const int fd = connect_to(target);
  return fd < 0 ? std::nullopt : std::optional(ControlSocket(base::FileDescriptor(fd)));
}

std::optional<ControlMessage> hear(const ControlSocket& socket) {
  auto end = ControlSocket::End::kOpen;
  for (int i = 0; i < 200 && end == ControlSocket::End::kOpen; ++i) {
    if (const auto received = socket.receive(end)) return received->message;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return std::nullopt;
}

std::minstd_rand& dice() {
  static std::minstd_rand random(7);
  return random;
}

void scribble(std::span<std::byte> bytes) {
  for (std::byte& each : bytes) each = static_cast<std::byte>(dice()());
}

const ControlMessage kGreeting = {.kind = ControlKind::kGreeting, .nonce = {}};
constexpr std::array<int, 3> kNoFiles = {-1, -1, -1};

// ---- attacks: each function is one round of an attack

/// Holds as many connections as it can, and is silent on them. Replaces those that the server has closed.
void silent(const Target& target) {
  static std::vector<int> held;
  while (held.size() < 900) {
    const int fd = connect_to(target);
    if (fd < 0) break;
    held.push_back(fd);
  }
  std::erase_if(held, [](int fd) {
    char byte = 0;
    const bool closed = ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
    if (closed) ::close(fd);
    return closed;
  });
}

void flood(const Target& target) {
  for (int i = 0; i < 100; ++i) {
    const int fd = connect_to(target);
    if (fd >= 0) ::close(fd);
  }
}

/// Sends noise, and messages of the protocol with random content and with files.
void garbage(const Target& target) {
  const int fd = connect_to(target);
  if (fd < 0) return;
  std::array<std::byte, 4096> noise;
  scribble(noise);
  ::send(fd, noise.data(), dice()() % noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  const ControlSocket socket{base::FileDescriptor(fd)};
  const base::FileDescriptor file(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  for (int i = 0; i < 4; ++i) {
    ControlMessage word = kGreeting;
    word.kind = static_cast<ControlKind>(dice()() % 9);
    word.geometry = {static_cast<std::uint32_t>(dice()()), 64, 4096};
    scribble(word.nonce);
    scribble(word.proof);
    static_cast<void>(socket.send(word, {file.get(), file.get(), file.get()}));
  }
}

/// Says hello as if it were a worker, with its files, before anything has been proved.
void hello_first(const Target& target) {
  const auto socket = socket_to(target);
  if (!socket) return;
  const auto file = transport::shm::create_memory("hostile", 1 << 20);
  if (!file.ok()) return;
  for (const ControlKind kind : {ControlKind::kHello, ControlKind::kProof, ControlKind::kHello}) {
    const ControlMessage word = {.kind = kind, .geometry = {1024, 64, 4096}};
    static_cast<void>(socket->send(word, {file->get(), file->get(), file->get()}));
  }
  static_cast<void>(hear(*socket));
}

/// Connects with the secret of another job, or with none.
void wrong_secret(const Target& target) {
  const auto secret = dice()() % 3 == 0 ? nullptr : *Secret::random();
  // Waits until the server has refused it, or is gone.
  constexpr auto kPatience = std::chrono::seconds(60);
  const auto transport = *transport::make_shm_transport({.secret = secret, .answer_patience = kPatience});
  const auto connection = transport->connect(target.address, transport->now() + kPatience);
  if (connection.ok()) {
    fmt::print("let in\n");
    std::fflush(stdout);
  }
}

/// Answers a challenge with the proof in it, or with the proof in the challenge before.
void replay(const Target& target) {
  static transport::Proof heard{};
  const auto socket = socket_to(target);
  if (!socket || !socket->send(kGreeting, kNoFiles).ok()) return;
  const auto challenge = hear(*socket);
  if (!challenge) return;
  ControlMessage proof = {.kind = ControlKind::kProof, .proof = dice()() % 2 == 0 ? challenge->proof : heard};
  heard = challenge->proof;
  if (!socket->send(proof, kNoFiles).ok()) return;
  if (hear(*socket)) {
    fmt::print("let in\n");
    std::fflush(stdout);
  }
}

/// A process that dies in the middle of the handshake.
void killed_amid_hello(const Target& target) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto socket = socket_to(target);
    if (socket) static_cast<void>(socket->send(kGreeting, kNoFiles));
    if (socket && dice()() % 2 == 0) static_cast<void>(hear(*socket));
    ::kill(::getpid(), SIGKILL);
  }
  if (child > 0) ::waitpid(child, nullptr, 0);
  dice()();
}

/// Writes to random places in all memory that it shares with the server, for a moment.
void rewrite_shared_memory() {
  std::vector<std::span<std::uint64_t>> shared;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:verbena") == std::string::npos || line.find("rw-s") == std::string::npos) continue;
    char* rest = nullptr;
    const std::uintptr_t begin = std::strtoull(line.c_str(), &rest, 16);
    const std::uintptr_t end = std::strtoull(rest + 1, nullptr, 16);
    shared.emplace_back(reinterpret_cast<std::uint64_t*>(begin), (end - begin) / sizeof(std::uint64_t));
  }
  for (int i = 0; i < 100'000 && !shared.empty(); ++i) {
    const std::span<std::uint64_t> words = shared[dice()() % shared.size()];
    const std::size_t range = dice()() % 2 == 0 ? std::min<std::size_t>(words.size(), 64) : words.size();
    const std::uint64_t likely = 0x0001000100000000 + (dice()() % 2 << 32U);
    const std::uint64_t value = dice()() % 2 == 0 ? dice()() : likely | dice()() % 8192;
    __atomic_store_n(&words[dice()() % range], value, __ATOMIC_RELAXED);
  }
}

/// It has the secret. It breaks every rule but one: it never says that it is a worker of this job.
void insider(const Target& target) {
  const auto secret = Secret::read_file(target.secret_file);
  if (!secret.ok()) return;
  const auto transport = *transport::make_shm_transport({.secret = *secret});
  const auto made = transport->connect(target.address, transport->now() + milliseconds(500));
  if (!made.ok()) return;
  transport::Connection& connection = **made;
  std::array<transport::Event, 16> events;
  const auto say = [&](std::string words) {
    const WorkRequest request = {.opcode = Opcode::kSend, .local = std::as_writable_bytes(std::span(words))};
    static_cast<void>(connection.post({&request, 1}));
    static_cast<void>(transport->poll(events));
  };
  const auto act = dice()() % 6;
  for (int i = 0; i < 50; ++i) {
    if (act == 0) {
      std::string noise(dice()() % transport->max_message_bytes(), '\0');
      scribble(std::as_writable_bytes(std::span(noise)));
      say(noise);
    } else if (act == 1) {
      say(protocol::encode(protocol::Hello{.worker = 0, .workers = 3, .servers = 1}));
      say(protocol::encode(
          protocol::Hello{.worker = 0, .workers = 2, .servers = 1, .inbox_bytes = SIZE_MAX}));
    } else if (act == 2) {
      say(protocol::encode(protocol::Failed{.code = 13, .reason = "\x1b[2J the job has failed"}));
      say(protocol::encode(protocol::Goodbye{}));
    } else if (act == 3) {
      const WorkRequest notify = {.opcode = Opcode::kWriteNotify,
                                  .notification = static_cast<std::uint32_t>(dice()())};
      static_cast<void>(connection.post({&notify, 1}));
    } else if (act == 4 && i % 10 == 0) {
      say("something to wake it");
      rewrite_shared_memory();
    }  // otherwise it says nothing, and stays a while
    std::this_thread::sleep_for(milliseconds(1));
  }
}

int run(const std::vector<std::string>& words) {
  const std::map<std::string, std::function<void(const Target&)>> attacks = {
      {"silent", silent},
      {"flood", flood},
      {"garbage", garbage},
      {"hello-first", hello_first},
      {"wrong-secret", wrong_secret},
      {"replay", replay},
      {"killed-amid-hello", killed_amid_hello},
      {"insider", insider}};
  const auto attack = words.size() == 5 ? attacks.find(words[1]) : attacks.end();
  if (attack == attacks.end()) return 2;
  const Target target = {words[2], words[3], words[4]};
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 1024);
  ::setrlimit(RLIMIT_NOFILE, &files);
  attack->second(target);
  fmt::print("ready\n");
  std::fflush(stdout);
  while (true) {
    attack->second(target);
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace
}  // namespace verbena::process_test

int main(int argc, char** argv) {
  return verbena::process_test::run(std::vector<std::string>(argv, argv + argc));
}
