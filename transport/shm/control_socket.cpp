#include "transport/shm/control_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>
#include <type_traits>

namespace verbena::transport::shm {

namespace {

static_assert(std::is_trivially_copyable_v<ControlMessage>);
static_assert(sizeof(ControlMessage) == 104);

constexpr std::string_view kScheme = "shm:";
constexpr int kBacklog = 4096;

struct SocketName {
  sockaddr_un address{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// What the names of this user's sockets begin with.
std::string own_names() {
  return fmt::format("verbena/{}/", ::getuid());
}

// An abstract name (its first byte is zero): it is in no file system, and disappears with the process.
absl::StatusOr<SocketName> socket_name(const std::string& address) {
  if (!std::string_view(address).starts_with(kScheme) || address.size() == kScheme.size()) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is no shared-memory address: expected shm:NAME", address));
  }
  const std::string name = own_names() + address.substr(kScheme.size());
  SocketName result;
  if (name.size() + 1 > sizeof(result.address.sun_path)) {
    return absl::InvalidArgumentError(fmt::format("the address \"{}\" is {} bytes too long", address,
                                                  name.size() + 1 - sizeof(result.address.sun_path)));
  }
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

absl::StatusOr<base::FileDescriptor> new_socket() {
  base::FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "no Unix socket can be created");
  return fd;
}

struct FileSpace {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> bytes{};
};

// The files that came with a message, in order. If there are too many, the extra files are closed, too.
ControlSocket::Files take_files(msghdr& header) {
  ControlSocket::Files files;
  std::size_t taken = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      base::FileDescriptor file(fd);
      if (taken < files.size()) files[taken++] = std::move(file);
    }
  }
  return files;
}

}  // namespace

std::vector<std::string> listening_addresses() {
  // unix(7) and the kernel's unix_seq_show(): number, references, protocol, flags, type, state, inode, name;
  // the name of an abstract socket with an @ for its first byte. Accepted sockets have the listener's name,
  // too.
  constexpr std::string_view kAccepts = "00010000";
  const std::string begin = "@" + own_names();
  std::vector<std::string> addresses;
  std::ifstream sockets("/proc/net/unix");
  std::string line;
  while (std::getline(sockets, line)) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, name;
    if (!(words >> number >> references >> protocol >> flags >> type >> state >> inode)) continue;
    std::getline(words >> std::ws, name);
    if (flags == kAccepts && name.starts_with(begin))
      addresses.push_back(std::string(kScheme) + name.substr(begin.size()));
  }
  return addresses;
}

absl::StatusOr<std::optional<ControlSocket>> ControlSocket::connect(const std::string& address,
                                                                    std::chrono::microseconds patience) {
  auto name = socket_name(address);
  if (!name.ok()) return name.status();
  auto fd = new_socket();
  if (!fd.ok()) return fd.status();
  // This must wait: places in a full queue go to the processes that wait for one, in their order. A process
  // that only tries at intervals finds none as long as many others come.
  const timeval timeout = {.tv_sec = patience.count() / 1'000'000, .tv_usec = patience.count() % 1'000'000};
  const int flags = ::fcntl(fd->get(), F_GETFL);  // NOLINT(*-vararg)
  if (::setsockopt(fd->get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0 ||
      ::fcntl(fd->get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {  // NOLINT(*-vararg)
    return absl::ErrnoToStatus(errno, "a Unix socket cannot be prepared");
  }
  const int result = ::connect(fd->get(), name->get(), name->length);
  const int error = errno;
  ::fcntl(fd->get(), F_SETFL, flags | O_NONBLOCK);  // NOLINT(*-vararg)
  if (result == 0) return ControlSocket(std::move(*fd));
  if (error == ECONNREFUSED || error == ENOENT || error == EAGAIN || error == EINTR) return std::nullopt;
  return absl::ErrnoToStatus(error, fmt::format("cannot connect to {}", address));
}

absl::StatusOr<ControlSocket> ControlSocket::listen(const std::string& address) {
  auto name = socket_name(address);
  if (!name.ok()) return name.status();
  auto fd = new_socket();
  if (!fd.ok()) return fd.status();
  if (::bind(fd->get(), name->get(), name->length) != 0) {
    if (errno != EADDRINUSE) {
      const int error = errno;
      return absl::ErrnoToStatus(error, fmt::format("cannot listen at {}", address));
    }
    return absl::AlreadyExistsError(
        fmt::format("someone listens at {} already; expected a name that no running job has", address));
  }
  if (::listen(fd->get(), kBacklog) != 0) {
    const int error = errno;
    return absl::ErrnoToStatus(error, fmt::format("cannot listen at {}", address));
  }
  return ControlSocket(std::move(*fd));
}

absl::StatusOr<ControlSocket> ControlSocket::accept() const {
  base::FileDescriptor fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) return ControlSocket(std::move(fd));
  const int error = errno;
  if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
    return absl::ResourceExhaustedError(
        fmt::format("no descriptor is left for a connection ({})", std::strerror(error)));
  }
  return absl::UnavailableError("nobody has come");
}

absl::StatusOr<Peer> ControlSocket::peer() const {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return absl::ErrnoToStatus(errno, "the peer's identity cannot be read");
  }
  return Peer{.pid = credentials.pid, .uid = credentials.uid};
}

absl::Status ControlSocket::send(const ControlMessage& message, std::array<int, 3> files) const {
  std::size_t count = 0;
  while (count < files.size() && files[count] >= 0) ++count;

  ControlMessage copy = message;
  iovec bytes = {.iov_base = &copy, .iov_len = sizeof(copy)};
  FileSpace space;
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (count > 0) {
    header.msg_control = space.bytes.data();
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(part), files.data(), count * sizeof(int));
  }
  if (::sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return absl::OkStatus();
  if (errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS) {
    return absl::AbortedError("the peer does not take what it is granted");
  }
  return absl::UnavailableError(fmt::format("the peer is gone ({})", std::strerror(errno)));
}

std::optional<ControlSocket::Received> ControlSocket::receive(End& end, TakesFiles takes_files) const {
  Received received;
  iovec bytes = {.iov_base = &received.message, .iov_len = sizeof(received.message)};
  FileSpace space;
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (takes_files == TakesFiles::kYes) {
    header.msg_control = space.bytes.data();
    header.msg_controllen = space.bytes.size();
  }

  ssize_t length = -1;
  do {
    length = ::recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // ECONNRESET: the peer closed the socket before it had read all that we sent. It is reported once; what
    // the peer sent before can be read after it.
  } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
  end = End::kOpen;
  if (length < 0 && errno == EAGAIN) return std::nullopt;
  if (length <= 0) {
    end = End::kHungUp;
    return std::nullopt;
  }
  received.files = take_files(header);
  if (length != sizeof(ControlMessage) || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      received.message.magic != ControlMessage::kMagic) {
    end = End::kNonsense;
    return std::nullopt;
  }
  return received;
}

void ControlSocket::shutdown() const {
  ::shutdown(fd_.get(), SHUT_RDWR);
}

}  // namespace verbena::transport::shm
