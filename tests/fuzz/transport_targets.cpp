// What a peer can reach of a transport before and beside the protocol.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include "tests/fuzz/target.hpp"
#include "tests/transport/verbs/fake_fabric.hpp"
#include "transport/shm/channel.hpp"
#include "transport/shm/control_socket.hpp"
#include "transport/shm/shared_memory.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::fuzz {
namespace {

using transport::Event;
namespace shm = transport::shm;

constexpr shm::ChannelGeometry kGeometry = {
    .event_capacity = 8, .message_capacity = 4, .max_message_bytes = 64};
constexpr std::size_t kAlignment = 64;
constexpr auto kSocketCheck = std::chrono::milliseconds(1);  // the least

/// Exactly as large as a channel is, so that sanitizers see what goes beyond it.
struct ChannelMemory {
  ChannelMemory() : bytes(new (std::align_val_t(kAlignment)) std::byte[kGeometry.bytes()]()) {}
  ~ChannelMemory() { ::operator delete[](bytes, std::align_val_t(kAlignment)); }
  ChannelMemory(const ChannelMemory&) = delete;
  ChannelMemory& operator=(const ChannelMemory&) = delete;
  std::byte* const bytes;
};

/// An attacker's socket.
class RawSocket {
 public:
  explicit RawSocket(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = fmt::format("verbena/{}/{}", ::getuid(), name);
    std::memcpy(address.sun_path + 1, path.data(), path.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
    require(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0,
            "not connected");
  }
  void send(std::string_view bytes, std::span<const int> files) const {
    iovec part = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> space{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!files.empty()) {
      header.msg_control = space.data();
      header.msg_controllen = CMSG_SPACE(files.size_bytes());
      cmsghdr* const rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(files.size_bytes());
      std::memcpy(CMSG_DATA(rights), files.data(), files.size_bytes());
    }
    static_cast<void>(::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT));
  }

 private:
  shm::FileDescriptor socket_;
};

/// The descriptor that the next file would get.
int next_descriptor() {
  const int next = ::fcntl(STDERR_FILENO, F_DUPFD, 0);
  ::close(next);
  return next;
}

}  // namespace

void shm_channel(std::string_view bytes) {
  Input input(bytes);
  const ChannelMemory memory;
  const shm::ChannelLayout layout(memory.bytes, kGeometry);
  shm::ChannelSender sender(layout);
  shm::ChannelReceiver receiver(layout);
  std::deque<std::string> under_way;  // a notification is an empty one
  bool harmed = false;                // by the peer: nothing but safety is promised then
  while (!input.empty()) {
    switch (input.below(7)) {
      case 0: {
        std::array<std::byte, kGeometry.max_message_bytes> space{};
        const std::span<std::byte> offered = std::span(space).first(input.below(2) == 0 ? space.size() : 16);
        std::uint32_t value = 0;
        const shm::ReceiveOutcome outcome = receiver.receive(offered, value);
        if (outcome == shm::ReceiveOutcome::kMessage)
          require(value <= offered.size(), "longer than its space");
        if (harmed) break;
        require(outcome != shm::ReceiveOutcome::kCorrupt, "corrupt without harm");
        require((outcome == shm::ReceiveOutcome::kNothing) == under_way.empty(), "lost or made up");
        if (outcome == shm::ReceiveOutcome::kNothing || outcome == shm::ReceiveOutcome::kNoSpace) break;
        if (outcome == shm::ReceiveOutcome::kMessage) {
          require(std::memcmp(space.data(), under_way.front().data(), value) == 0, "another message");
        }
        under_way.pop_front();
        break;
      }
      case 1:
        static_cast<void>(receiver.release());
        break;
      case 2:
        if (sender.room(false) != shm::SendOutcome::kRoom) break;
        sender.notify(input.take<std::uint32_t>());
        under_way.emplace_back();
        break;
      case 3: {
        const shm::SendOutcome room = sender.room(true);
        require(harmed || room != shm::SendOutcome::kCorrupt, "corrupt without harm");
        if (room != shm::SendOutcome::kRoom) break;
        const std::string_view message = input.take_bytes(input.below(kGeometry.max_message_bytes + 1));
        sender.message(std::as_bytes(std::span(message)));
        under_way.emplace_back(message);
        break;
      }
      case 4:
        static_cast<void>(sender.take_unblocked());
        break;
      default: {
        const std::size_t at = input.take<std::uint16_t>() % (kGeometry.bytes() / sizeof(std::uint64_t));
        const auto word = input.take<std::uint64_t>();
        std::memcpy(memory.bytes + at * sizeof word, &word, sizeof word);
        harmed = true;
      }
    }
  }
}

void shm_control(std::string_view bytes) {
  static const std::string name = fmt::format("fuzz-{}", ::getpid());
  static const std::unique_ptr<transport::Transport> transport = [] {
    auto made = transport::make_shm_transport({.spin = std::chrono::microseconds(0),
                                               .socket_check_interval = kSocketCheck,
                                               .event_capacity = kGeometry.event_capacity,
                                               .message_capacity = kGeometry.message_capacity,
                                               .max_message_bytes = kGeometry.max_message_bytes});
    require(made.ok() && (*made)->listen("shm:" + name).ok(), "no listener");
    return std::move(*made);
  }();
  std::vector<std::unique_ptr<transport::Connection>> accepted;
  const auto poll = [&] {
    transport->wait(transport->now() + kSocketCheck);
    std::array<Event, 8> events;
    for (const Event& event : std::span(events).first(transport->poll(events))) {
      if (event.kind != Event::Kind::kAccepted) continue;
      if (auto connection = transport->take_accepted()) accepted.push_back(std::move(connection));
    }
  };
  const int first_descriptor = next_descriptor();
  {
    Input input(bytes);
    const RawSocket socket(name);
    std::vector<shm::FileDescriptor> files;
    for (int step = 0; step < 16 && !input.empty(); ++step) {
      const std::uint32_t what = input.below(8);
      if (what == 0) {
        socket.send(input.take_bytes(input.take<std::uint8_t>()), {});
      } else if (what < 4) {
        shm::ControlMessage message{.kind = static_cast<shm::ControlKind>(input.below(6)),
                                    .geometry = kGeometry};
        if (input.below(8) == 7) message.geometry = input.take<shm::ChannelGeometry>();
        message.access = input.below(8);
        message.key = input.take<std::uint16_t>();
        message.address = input.take<std::uint64_t>();
        message.length_bytes = input.take<std::uint32_t>();
        std::vector<int> passed;
        for (std::uint32_t count = input.below(5); count > 0; --count) {
          const std::uint32_t kind = input.below(4);
          if (kind == 3) {
            files.emplace_back(::memfd_create("unsealed", MFD_CLOEXEC));
          } else {
            auto file = shm::create_memory("fuzz", shm::whole_pages(std::size_t{4096} << (4 * kind)));
            require(file.ok(), "no memory");
            files.push_back(std::move(*file));
          }
          passed.push_back(files.back().get());
        }
        socket.send({reinterpret_cast<const char*>(&message), sizeof message}, passed);
      } else if (what == 4 && !files.empty()) {
        const auto word = input.take<std::uint64_t>();
        const off_t at = input.take<std::uint16_t>() % 512 * 8;
        static_cast<void>(::pwrite(files[input.below(static_cast<std::uint32_t>(files.size()))].get(), &word,
                                   sizeof word, at));
      } else if (what == 5 && !accepted.empty()) {
        transport::Connection& connection = *accepted.front();
        static_cast<void>(connection.mapped(input.take<transport::RemoteDescriptor>()));
        const transport::WorkRequest request{.opcode = transport::Opcode::kSend, .local = {}};
        static_cast<void>(connection.post({&request, 1}));
      }
      poll();
    }
  }
  for (int round = 0; round < 4; ++round) poll();
  accepted.clear();
  for (int round = 0; round < 4; ++round) poll();
  accepted.clear();
  require(next_descriptor() == first_descriptor, "a file is left open");
}

/// The private data of a connection request.
void verbs_hello(std::string_view bytes) {
  constexpr std::size_t kMostPrivateBytes = 56;
  transport::FakeFabric fabric(1, /*own_thread=*/false);
  fabric.add_device({.name = "left"});
  fabric.add_device({.name = "right", .address = "10.0.0.2"});
  const auto api = fabric.api();
  {
    auto listener =
        transport::make_verbs_transport({.device = "right", .linger = std::chrono::milliseconds(0)}, api);
    require(listener.ok() && (*listener)->listen("verbs:10.0.0.2:7000").ok(), "no listener");
    rdma_event_channel* const channel = api->create_event_channel();
    ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
    rdma_cm_id* id = nullptr;
    require(api->create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "no identifier");
    const auto take_events = [&] {
      rdma_cm_event* event = nullptr;
      while (api->get_cm_event(channel, &event) == 0) api->ack_cm_event(event);
    };
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(7000);
    place.sin_addr.s_addr = htonl(0x0a000002);
    require(api->resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&place), 1000) == 0, "no address");
    take_events();
    require(api->resolve_route(id, 1000) == 0, "no route");
    take_events();
    const std::string_view said = bytes.substr(0, kMostPrivateBytes);
    rdma_conn_param param{};
    param.private_data = said.data();
    param.private_data_len = static_cast<std::uint8_t>(said.size());
    param.responder_resources = param.initiator_depth = 4;
    static_cast<void>(api->connect(id, &param));
    std::array<Event, 8> events;
    std::vector<std::unique_ptr<transport::Connection>> accepted;
    for (int round = 0; round < 8; ++round) {
      (*listener)->wait((*listener)->now());
      static_cast<void>((*listener)->poll(events));
      if (auto connection = (*listener)->take_accepted()) accepted.push_back(std::move(connection));
      while (fabric.step()) {
      }
      take_events();
    }
    accepted.clear();
    api->destroy_id(id);
    api->destroy_event_channel(channel);
  }
  const std::string leaks = fabric.leaks();
  require(leaks.empty(), leaks);
}

}  // namespace verbena::fuzz
