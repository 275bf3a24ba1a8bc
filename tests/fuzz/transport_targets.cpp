// What a peer can do to a transport before the protocol begins, and beside it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/target.hpp"
#include "transport/shm/channel.hpp"
#include "transport/shm/control_socket.hpp"
#include "transport/shm/shared_memory.hpp"
#include "transport/shm/shm_connection.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::fuzz {
namespace {

using transport::Event;
namespace shm = transport::shm;

constexpr shm::ChannelGeometry kGeometry = {
    .event_capacity = 8, .message_capacity = 4, .max_message_bytes = 64};
constexpr std::size_t kAlignment = 64;
constexpr auto kSocketCheck = std::chrono::milliseconds(1);  // the smallest that is allowed

/// Memory exactly as large as a channel, so that sanitizers see an access beyond it.
struct ChannelMemory {
  ChannelMemory() : bytes(new (std::align_val_t(kAlignment)) std::byte[kGeometry.bytes()]()) {}
  ~ChannelMemory() { ::operator delete[](bytes, std::align_val_t(kAlignment)); }
  ChannelMemory(const ChannelMemory&) = delete;
  ChannelMemory& operator=(const ChannelMemory&) = delete;
  std::byte* const bytes;
};

std::unique_ptr<transport::Transport> shm_transport() {
  auto made = transport::make_shm_transport({.secret = known_secret(),
                                             .spin = std::chrono::microseconds(0),
                                             .socket_check_interval = kSocketCheck,
                                             .answer_patience = std::chrono::milliseconds(0),
                                             .event_capacity = kGeometry.event_capacity,
                                             .message_capacity = kGeometry.message_capacity,
                                             .max_message_bytes = kGeometry.max_message_bytes});
  require(made.ok(), "no transport");
  return *std::move(made);
}

sockaddr_un socket_name(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("verbena/{}/{}", ::getuid(), name);
  std::memcpy(address.sun_path + 1, path.data(), path.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  return address;
}

/// A hostile peer's socket.
class RawSocket {
 public:
  RawSocket() : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {}
  explicit RawSocket(int accepted) : socket_(accepted) {}

  void connect(const std::string& name) const {
    socklen_t length = 0;
    const sockaddr_un address = socket_name(name, length);
    require(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0,
            "not connected");
  }
  void listen(const std::string& name) const {
    socklen_t length = 0;
    const sockaddr_un address = socket_name(name, length);
    require(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                ::listen(socket_.get(), 8) == 0,
            "nothing listens");
  }
  [[nodiscard]] RawSocket accept() const {
    return RawSocket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
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
  /// The next message, without its files.
  [[nodiscard]] std::optional<shm::ControlMessage> receive() const {
    shm::ControlMessage message;
    const ssize_t got = ::recv(socket_.get(), &message, sizeof message, MSG_DONTWAIT);
    return got == sizeof message ? std::optional(message) : std::nullopt;
  }

 private:
  base::FileDescriptor socket_;
};

/// A hostile peer, which sends messages over a control socket, right and wrong ones, with and without files.
class Speaker {
 public:
  Speaker(Input& input, RawSocket socket) : input_(input), socket_(std::move(socket)) {}

  /// As the side that connects: answers the challenge, with a wrong proof unless `proves`.
  void meet_as_connector(bool proves) {
    const auto greeting = proof_of_nothing();
    socket_.send(bytes_of(shm::ControlMessage{.kind = shm::ControlKind::kGreeting, .nonce = greeting}), {});
    poll_();
    const auto challenge = socket_.receive();
    if (!challenge) return;
    require(challenge->kind == shm::ControlKind::kChallenge, "no challenge");
    require(challenge->proof == prove(known_secret().get(), shm::kAcceptorRole, {greeting, challenge->nonce}),
            "the listener proves nothing");
    shm::ControlMessage proof{
        .kind = shm::ControlKind::kProof,
        .proof = prove(known_secret().get(), shm::kConnectorRole, {greeting, challenge->nonce})};
    if (!proves) proof.proof[input_.take<std::uint8_t>() % proof.proof.size()] ^= std::byte{1};
    proved_ = proves;
    socket_.send(bytes_of(proof), {});
  }
  /// As the side that listens: challenges the peer that has come, with a wrong proof unless `proves`.
  void meet_as_listener(bool proves) {
    const auto greeting = socket_.receive();
    require(greeting && greeting->kind == shm::ControlKind::kGreeting, "no greeting");
    shm::ControlMessage challenge{.kind = shm::ControlKind::kChallenge, .has_secret = 1};
    challenge.nonce = proof_of_nothing();
    challenge.proof = prove(known_secret().get(), shm::kAcceptorRole, {greeting->nonce, challenge.nonce});
    if (!proves) challenge.proof[input_.take<std::uint8_t>() % challenge.proof.size()] ^= std::byte{1};
    proved_ = proves;
    socket_.send(bytes_of(challenge), {});
  }
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }
  [[nodiscard]] bool has_proved() const { return proved_; }

  /// Does one more thing. `connection`: the one that may have come of the socket, or nullptr.
  void go_on(transport::Connection* connection) {
    const std::uint32_t what = input_.below(8);
    if (what == 0) return socket_.send(input_.take_bytes(input_.take<std::uint8_t>()), {});
    if (what < 5) return say();
    if (what == 5 && !files_.empty()) {
      const auto word = input_.take<std::uint64_t>();
      const off_t at = input_.take<std::uint16_t>() % 512 * 8;
      static_cast<void>(::pwrite(files_[input_.below(static_cast<std::uint32_t>(files_.size()))].get(), &word,
                                 sizeof word, at));
    } else if (what == 6 && connection != nullptr) {
      const transport::RemoteDescriptor remote{.address = input_.take<std::uint16_t>(),
                                               .length_bytes = input_.take<std::uint16_t>(),
                                               .key = input_.take<std::uint8_t>()};
      const std::byte* const place = connection->mapped(remote);
      if (place != nullptr && remote.length_bytes > 0) {
        seen_ += static_cast<unsigned>(place[0]) + static_cast<unsigned>(place[remote.length_bytes - 1]);
      }
      const transport::WorkRequest request{.opcode = transport::Opcode::kSend};
      static_cast<void>(connection->post({&request, 1}));
    } else {
      poll_();
    }
  }

 private:
  static std::string_view bytes_of(const shm::ControlMessage& message) {
    return {reinterpret_cast<const char*>(&message), sizeof message};
  }
  transport::Nonce proof_of_nothing() { return input_.take<transport::Nonce>(); }

  void say() {
    shm::ControlMessage message{.kind = static_cast<shm::ControlKind>(input_.below(9)),
                                .geometry = kGeometry};
    if (input_.below(8) == 7) message.geometry = input_.take<shm::ChannelGeometry>();
    if (message.kind == shm::ControlKind::kGrant) {
      message.access = input_.below(8);
      message.key = input_.take<std::uint8_t>();
      message.address = input_.take<std::uint16_t>();
      message.length_bytes =
          input_.below(4) == 3 ? input_.take<std::uint64_t>() : input_.take<std::uint16_t>();
    }
    std::vector<int> passed;
    for (std::uint32_t count = input_.below(5); count > 0; --count) {
      const std::uint32_t kind = input_.below(4);
      if (kind == 3) {
        files_.emplace_back(::memfd_create("unsealed", MFD_CLOEXEC));
      } else {
        auto file = shm::create_memory("fuzz", shm::whole_pages(std::size_t{4096} << (4 * kind)));
        require(file.ok(), "no memory");
        files_.push_back(std::move(*file));
      }
      passed.push_back(files_.back().get());
    }
    socket_.send(bytes_of(message), passed);
  }

  Input& input_;
  const RawSocket socket_;
  std::function<void()> poll_;
  std::vector<base::FileDescriptor> files_;
  bool proved_ = false;
  unsigned seen_ = 0;  ///< a sum of bytes of granted memory, to read them
};

/// The descriptor that the next file will get.
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
  std::deque<std::string> under_way;  // messages, and an empty string for each notification
  bool harmed = false;                // the peer has written into the channel: only safety is promised then
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
  static const std::unique_ptr<transport::Transport> listener = [] {
    auto made = shm_transport();
    require(made->listen("shm:" + name).ok(), "no listener");
    return made;
  }();
  std::vector<std::unique_ptr<transport::Connection>> accepted;
  const auto poll = [&] {
    listener->wait(listener->now() + kSocketCheck);
    std::array<Event, 8> events;
    static_cast<void>(listener->poll(events));
    while (auto connection = listener->take_accepted()) accepted.push_back(std::move(connection));
  };
  const int first_descriptor = next_descriptor();
  {
    Input input(bytes);
    RawSocket socket;
    socket.connect(name);
    Speaker speaker(input, std::move(socket));
    speaker.set_poll(poll);
    if (const std::uint32_t how = input.below(4); how > 0) speaker.meet_as_connector(how > 1);
    for (int step = 0; step < 16 && !input.empty(); ++step) {
      speaker.go_on(accepted.empty() ? nullptr : accepted.front().get());
    }
    poll();
    require(accepted.empty() || speaker.has_proved(), "a stranger is let in");
  }
  // Files that were passed are closed when the sockets are checked.
  for (int round = 0; round < 20; ++round) {
    accepted.clear();
    if (next_descriptor() == first_descriptor) return;
    poll();
  }
  require(next_descriptor() == first_descriptor, "a file is left open");
}

void shm_answer(std::string_view bytes) {
  static const std::string name = fmt::format("fuzz-answer-{}", ::getpid());
  static const RawSocket listener = [] {
    RawSocket made;
    made.listen(name);
    return made;
  }();
  static const std::unique_ptr<transport::Transport> connector = shm_transport();
  const int first_descriptor = next_descriptor();
  {
    auto connection = connector->connect("shm:" + name, connector->now() + std::chrono::seconds(1));
    require(connection.ok(), "not connected");
    Input input(bytes);
    Speaker speaker(input, listener.accept());
    const auto poll = [&] {
      connector->wait(connector->now() + kSocketCheck);
      std::array<Event, 8> events;
      static_cast<void>(connector->poll(events));
    };
    speaker.set_poll(poll);
    const std::uint32_t how = input.below(4);
    if (how > 0) speaker.meet_as_listener(how > 1);
    if (how == 1) {
      // Many rounds, since not each poll checks the sockets.
      for (int round = 0; round < 100 && (*connection)->status().ok(); ++round) poll();
      require(!(*connection)->status().ok(), "an impostor is taken for a peer");
    }
    for (int step = 0; step < 16 && !input.empty(); ++step) speaker.go_on(connection->get());
    const transport::RemoteDescriptor anything{};
    require((*connection)->mapped(anything) == nullptr, "memory that nobody has granted");
  }
  require(next_descriptor() == first_descriptor, "a file is left open");
}

}  // namespace verbena::fuzz
