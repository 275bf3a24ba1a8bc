// The other end of a shared-memory connection, in a process and a program of its own. Called as
// transport_shm_peer MODE ARGUMENTS; NAME is an abstract socket.
//
//   echo ADDRESS          sends each message back, until the connection ends
//   talk ADDRESS          sends "ready", then notifications, until the connection ends
//   corrupt ADDRESS SEED  sends "ready", then writes garbage into all shared memory for half a second
//   pry ADDRESS           receives the descriptor of a readable region, and tries to write there
//   intrude UID NAME      connects as another user
//   crowd NAME            connects as often as it can, and says nothing
//   flood UID NAME        as another user, connects and closes again and again
//   babble NAME SEED      connects again and again, and sends garbage
//
// Exit status 0: it was treated as it should be.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "transport/shm/control_socket.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::transport {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

int fail(const std::string& why) {
  fmt::print(stderr, "shm_peer: {}\n", why);
  return 1;
}

struct Client {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Connection> connection;
};

Client connect(const std::string& address) {
  // connect() waits for the whole handshake, since not every mode polls afterwards.
  auto transport = make_shm_transport({.answer_patience = kPatience});
  if (!transport.ok()) std::exit(fail(transport.status().ToString()));
  auto connection = (*transport)->connect(address, (*transport)->now() + kPatience);
  if (!connection.ok()) std::exit(fail(connection.status().ToString()));
  return {std::move(*transport), std::move(*connection)};
}

void send(Client& client, std::string text) {
  const WorkRequest request = {.opcode = Opcode::kSend, .local = std::as_writable_bytes(std::span(text))};
  if (client.connection->post({&request, 1}) != 1) std::exit(fail("a message was not taken"));
}

/// The next message; empty when the connection has ended.
std::string next_message(Client& client) {
  const TimePoint end = client.transport->now() + kPatience;
  while (client.transport->now() < end) {
    std::array<Event, 1> events;
    if (client.transport->poll(events) == 0) {
      client.transport->wait(end);
    } else if (events[0].kind == Event::Kind::kMessage) {
      return {reinterpret_cast<const char*>(events[0].message.data()), events[0].message.size()};
    } else if (events[0].kind == Event::Kind::kDisconnected) {
      return {};
    }
  }
  std::exit(fail("no message came"));
}

int echo(Client client) {
  for (std::string text = next_message(client); !text.empty(); text = next_message(client))
    send(client, text);
  return 0;
}

int talk(Client client) {
  send(client, "ready");
  std::array<Event, 8> events;
  const WorkRequest request = {.opcode = Opcode::kWriteNotify, .notification = 1};
  while (client.connection->status().ok()) {
    if (client.connection->post({&request, 1}) == 0 && client.transport->poll(events) == 0) {
      client.transport->wait(client.transport->now() + kPatience);
    }
  }
  return 0;
}

/// This process's writable mappings of memory files.
std::vector<std::span<unsigned char>> shared_mappings() {
  std::vector<std::span<unsigned char>> all;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:verbena") == std::string::npos || line.find("rw-s") == std::string::npos) continue;
    char* rest = nullptr;
    const std::uintptr_t begin = std::strtoull(line.c_str(), &rest, 16);
    const std::uintptr_t end = std::strtoull(rest + 1, nullptr, 16);
    all.emplace_back(reinterpret_cast<unsigned char*>(begin), end - begin);
  }
  return all;
}

int corrupt(Client client, unsigned seed) {
  send(client, "ready");
  std::minstd_rand random(seed);
  const auto mappings = shared_mappings();
  if (mappings.empty()) return fail("nothing is shared");
  const TimePoint end = client.transport->now() + std::chrono::milliseconds(500);
  while (client.transport->now() < end) {
    for (int i = 0; i < 1000; ++i) {
      const auto& mapping = mappings[random() % mappings.size()];
      // Mostly near the start, where the credits and the first events are.
      const std::size_t range = random() % 2 == 0 ? 256 : mapping.size();
      const std::size_t place = random() % range / 8 * 8;
      const std::uint64_t lap_and_kind = random() % 2 == 0 ? 0x0001000100000000 : 0x0001000200000000;
      const std::uint64_t value = random() % 2 == 0 ? random() : lap_and_kind | random() % 8192;
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(mapping.data() + place), value, __ATOMIC_RELAXED);
    }
  }
  return 0;
}

int pry(Client client) {
  const std::string text = next_message(client);
  RemoteDescriptor remote;
  if (text.size() != sizeof(remote)) return fail("no descriptor came");
  std::memcpy(&remote, text.data(), sizeof(remote));
  const std::byte* place = client.connection->mapped(remote);
  if (place == nullptr) return fail("the region is not mapped");
  auto* page = const_cast<std::byte*>(place);  // to try what must fail
  if (::mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0) return fail("the mapping became writable");
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  const std::string file = fmt::format("/proc/self/map_files/{:x}-{:x}", address, address + 4096);
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd >= 0) {
    if (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) {
      return fail("a writable mapping was made");
    }
    if (::pwrite(fd, "x", 1, 0) == 1) return fail("the region was written");
    if (::ftruncate(fd, 0) == 0) return fail("the region was truncated");
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0) {
      return fail("the region was cleared");
    }
  }
  send(client, "shut");
  next_message(client);
  return 0;
}

/// A socket that is connected to the abstract socket `name`; -1, with errno, if that fails.
int try_raw_socket(std::string_view name) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

int raw_socket(std::string_view name) {
  const int fd = try_raw_socket(name);
  if (fd < 0) std::exit(fail(fmt::format("cannot connect to {}: {}", name, std::strerror(errno))));
  return fd;
}

int intrude(unsigned uid, const std::string& name) {
  if (::setresuid(uid, uid, uid) != 0) return fail("the user cannot be changed");
  const int fd = raw_socket(name);
  char byte = 0;
  return ::recv(fd, &byte, 1, 0) <= 0 ? 0 : fail("a stranger was answered");
}

int babble(const std::string& name, unsigned seed) {
  std::minstd_rand random(seed);
  for (int i = 0; i < 50; ++i) {
    const int fd = raw_socket(name);
    std::array<std::uint32_t, sizeof(shm::ControlMessage) / 4 + 4> words;
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random()) % 8;
    if (i % 2 == 0) words[0] = shm::ControlMessage::kMagic;  // begins as a control message
    const std::size_t length = i % 3 == 0 ? random() % sizeof(words) : sizeof(shm::ControlMessage);
    if (::send(fd, words.data(), length, MSG_NOSIGNAL) < 0) return fail("nothing can be sent");
    if (i % 4 == 0) {
      char byte = 0;
      if (length > 0 && ::recv(fd, &byte, 1, 0) > 0 && i % 2 == 1) return fail("garbage was answered");
    }
    ::close(fd);
  }
  return 0;
}

/// Keeps as many silent connections as this process can have, until it is killed.
int crowd(const std::string& name) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return fail("no limit of files");
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 3000);
  ::setrlimit(RLIMIT_NOFILE, &files);
  for (rlim_t i = 0; i + 16 < files.rlim_cur; ++i) static_cast<void>(raw_socket(name));
  while (::pause() == -1) {
  }
  return 0;
}

/// As another user: connects and closes as fast as it can, until it is killed.
int flood(unsigned uid, const std::string& name) {
  if (::setresuid(uid, uid, uid) != 0) return fail("the user cannot be changed");
  while (true) {
    const int fd = try_raw_socket(name);
    if (fd >= 0) ::close(fd);
  }
}

int run(const std::vector<std::string>& words) {
  if (words.size() < 3) return fail("expected MODE ADDRESS");
  const auto number = [&](std::size_t word) {
    return static_cast<unsigned>(words.size() > word ? std::atoi(words[word].c_str()) : 0);
  };
  if (words[1] == "echo") return echo(connect(words[2]));
  if (words[1] == "talk") return talk(connect(words[2]));
  if (words[1] == "corrupt") return corrupt(connect(words[2]), number(3));
  if (words[1] == "pry") return pry(connect(words[2]));
  if (words[1] == "intrude" && words.size() == 4) return intrude(number(2), words[3]);
  if (words[1] == "crowd") return crowd(words[2]);
  if (words[1] == "flood" && words.size() == 4) return flood(number(2), words[3]);
  if (words[1] == "babble") return babble(words[2], number(3));
  return fail("unknown mode " + words[1]);
}

}  // namespace
}  // namespace verbena::transport

int main(int argc, char** argv) {
  return verbena::transport::run(std::vector<std::string>(argv, argv + argc));
}
