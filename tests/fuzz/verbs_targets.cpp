// What a peer sends to the verbs transport before and beside its connection, over a fabric in this process.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/target.hpp"
#include "tests/transport/verbs/fake_fabric.hpp"
#include "transport/shm/shared_memory.hpp"
#include "transport/verbs/introduction.hpp"
#include "transport/verbs/neighbours.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::fuzz {
namespace {

using transport::Event;
namespace shm = transport::shm;
namespace verbs = transport::verbs;

constexpr std::size_t kMostPrivateBytes = 56;  // in a request; an answer has more room
constexpr std::size_t kMostAnswerBytes = 196;
constexpr int kMostTurns = 6;

std::string_view bytes_of(const auto& words) {
  return {reinterpret_cast<const char*>(&words), sizeof words};
}

sockaddr_in place_of_listener() {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(7000);
  place.sin_addr.s_addr = htonl(0x0a000002);
  return place;
}

/// The event channel of the peer that the fuzzer plays.
class Channel {
 public:
  explicit Channel(const transport::VerbsApi& api) : api_(api), channel_(api.create_event_channel()) {
    ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  }
  ~Channel() { api_.destroy_event_channel(channel_); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] rdma_cm_id* new_id() const {
    rdma_cm_id* id = nullptr;
    require(api_.create_id(channel_, &id, nullptr, RDMA_PS_TCP) == 0, "no identifier");
    return id;
  }
  struct News {
    rdma_cm_event_type type;
    rdma_cm_id* id;
    std::string said;
  };
  [[nodiscard]] std::optional<News> next() const {
    rdma_cm_event* event = nullptr;
    if (api_.get_cm_event(channel_, &event) != 0) return std::nullopt;
    News news{event->event, event->id, {}};
    if (event->param.conn.private_data != nullptr) {
      news.said.assign(static_cast<const char*>(event->param.conn.private_data),
                       event->param.conn.private_data_len);
    }
    api_.ack_cm_event(event);
    return news;
  }

 private:
  const transport::VerbsApi& api_;
  rdma_event_channel* const channel_;
};

template <class Words>
Words words_of(std::string_view said) {
  Words words;
  std::memcpy(&words, said.data(), std::min(said.size(), sizeof words));
  return words;
}

/// Replaces one byte now and then. `whole`: nothing has changed.
std::string perhaps_damaged(Input& input, std::string bytes, bool& whole) {
  whole = true;
  if (input.below(4) != 3) return bytes;
  char& byte = bytes[input.take<std::uint8_t>() % bytes.size()];
  const auto other = static_cast<char>(input.take<std::uint8_t>());
  whole = byte == other;
  byte = other;
  return bytes;
}

// ---- a peer that connects

/// Asks a listener for a connection, several times.
class Asker {
 public:
  Asker(Input& input, const transport::VerbsApi& api, std::function<void()> go_on)
      : input_(input), api_(api), channel_(api), go_on_(std::move(go_on)) {}

  void run() {
    for (int turn = 0; turn < kMostTurns && !input_.empty(); ++turn) ask();
  }

 private:
  void ask() {
    bool entitled = false;
    const std::string said = opening(entitled);
    rdma_cm_id* const id = channel_.new_id();
    sockaddr_in place = place_of_listener();
    require(api_.resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&place), 1000) == 0, "no address");
    hear(id, entitled);
    require(api_.resolve_route(id, 1000) == 0, "no route");
    hear(id, entitled);
    rdma_conn_param param{};
    param.private_data = said.data();
    param.private_data_len = static_cast<std::uint8_t>(said.size());
    param.responder_resources = param.initiator_depth = 4;
    static_cast<void>(api_.connect(id, &param));
    go_on_();
    hear(id, entitled);
    api_.destroy_id(id);
    go_on_();
  }

  std::string opening(bool& entitled) {
    const std::uint32_t kind = input_.below(8);
    if (kind == 0) return std::string(input_.take_bytes(kMostPrivateBytes));
    verbs::Opening opening{.flags = verbs::Opening::kImmediate,
                           .receives = input_.take<std::uint8_t>(),
                           .max_message_bytes = input_.below(8) == 7 ? input_.take<std::uint32_t>() : 4096};
    const bool answers = kind >= 4 && challenge_.has_value();
    if (answers) {
      opening.flags |= verbs::Opening::kAnswers;
      opening.nonce = nonce_;
      opening.challenge = *challenge_;
      sign(opening, kind == 7 ? nullptr : known_secret().get());
    } else {
      opening.nonce = input_.take<std::array<std::byte, 12>>();
    }
    bool whole = false;
    std::string said = perhaps_damaged(input_, std::string(bytes_of(opening)), whole);
    opening_ = words_of<verbs::Opening>(said);
    if (!answers) nonce_ = opening_.nonce;
    // The listener checks all else after the proof, and a proof is good once.
    const bool proves = answers && whole && kind != 7 && opening.receives >= 2;
    entitled = proves && opening.max_message_bytes == 4096 && !used_.contains(*challenge_);
    if (proves) used_.insert(*challenge_);
    return said;
  }

  /// Checks the answer to this request. Answers to earlier ones may come late, and are ignored.
  void hear(rdma_cm_id* id, bool entitled) {
    while (const auto news = channel_.next()) {
      if (news->id != id) continue;
      if (news->type == RDMA_CM_EVENT_REJECTED) {
        require(!entitled, "who has proved itself is not let in");
        const auto refusal = verbs::read_refusal(std::as_bytes(std::span(news->said)));
        require(refusal.has_value(), "a refusal that cannot be understood");
        if (refusal->reason == verbs::Refusal::kChallenge) challenge_ = refusal->challenge;
      } else if (news->type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
        require(entitled, "who has proved nothing is let in");
        const auto welcome = verbs::read_welcome(std::as_bytes(std::span(news->said)));
        require(welcome && is_signed(*welcome, opening_, known_secret().get()),
                "the listener proves nothing");
      }
    }
  }

  Input& input_;
  const transport::VerbsApi& api_;
  const Channel channel_;
  const std::function<void()> go_on_;
  std::array<std::byte, 12> nonce_{};  ///< the one that the last challenge was given for
  std::optional<std::array<std::byte, 16>> challenge_;
  std::set<std::array<std::byte, 16>> used_;
  verbs::Opening opening_;
};

// ---- a peer that listens

/// Answers requests for connections.
class Answerer {
 public:
  Answerer(Input& input, const transport::VerbsApi& api)
      : input_(input), api_(api), channel_(api), listener_(channel_.new_id()) {
    sockaddr_in place = place_of_listener();
    require(
        api_.bind_addr(listener_, reinterpret_cast<sockaddr*>(&place)) == 0 && api_.listen(listener_, 4) == 0,
        "no listener");
  }
  ~Answerer() {
    for (rdma_cm_id* const id : incoming_) api_.destroy_id(id);
    api_.destroy_id(listener_);
  }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  void go_on() {
    while (const auto news = channel_.next()) {
      if (news->type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
      incoming_.push_back(news->id);
      const auto opening = verbs::read_opening(std::as_bytes(std::span(news->said)));
      require(opening.has_value(), "an opening that cannot be understood");
      answer(news->id, *opening);
    }
  }
  /// Whether it has sent what only a peer with the secret can send.
  [[nodiscard]] bool has_proved() const { return proved_; }

 private:
  void answer(rdma_cm_id* id, const verbs::Opening& opening) {
    const std::uint32_t kind = input_.below(8);
    if (kind < 3) return refuse(id);
    bool whole = false;
    verbs::Welcome welcome{.immediate = input_.below(3),
                           .receives = input_.below(8) == 7 ? input_.take<std::uint32_t>() : 16,
                           .max_message_bytes = input_.below(8) == 7 ? input_.take<std::uint32_t>() : 4096};
    if (input_.below(8) == 7) welcome.neighbours = input_.take<std::array<std::byte, 16>>();
    sign(welcome, opening, kind == 7 ? nullptr : known_secret().get());
    const std::string said = kind == 3 ? std::string(input_.take_bytes(kMostAnswerBytes))
                                       : perhaps_damaged(input_, std::string(bytes_of(welcome)), whole);
    // The first request asks for a challenge, but a listener that has the secret may accept it without one.
    proved_ = proved_ || (whole && kind != 7);
    rdma_conn_param param{};
    param.private_data = said.data();
    param.private_data_len = static_cast<std::uint8_t>(said.size());
    param.responder_resources = param.initiator_depth = 4;
    static_cast<void>(api_.accept(id, &param));
  }

  void refuse(rdma_cm_id* id) {
    if (input_.below(4) == 3) {
      const std::string_view said = input_.take_bytes(kMostAnswerBytes);
      api_.reject(id, said.data(), static_cast<std::uint8_t>(said.size()));
      return;
    }
    verbs::Refusal refusal{.reason = 1 + input_.below(5), .max_message_bytes = 4096, .has_secret = 1};
    refusal.challenge = input_.take<std::array<std::byte, 16>>();
    bool whole = false;
    const std::string said = perhaps_damaged(input_, std::string(bytes_of(refusal)), whole);
    api_.reject(id, said.data(), static_cast<std::uint8_t>(said.size()));
  }

  Input& input_;
  const transport::VerbsApi& api_;
  const Channel channel_;
  rdma_cm_id* const listener_;
  std::vector<rdma_cm_id*> incoming_;
  bool proved_ = false;
};

std::unique_ptr<transport::Transport> transport_on(const char* device,
                                                   const std::shared_ptr<const transport::VerbsApi>& api) {
  auto made = transport::make_verbs_transport({.secret = known_secret(),
                                               .device = device,
                                               .spin = std::chrono::microseconds(0),
                                               .receive_depth = 4,
                                               .answer_patience = std::chrono::milliseconds(0),
                                               .linger = std::chrono::milliseconds(0)},
                                              api);
  require(made.ok(), "no transport");
  return *std::move(made);
}

/// A fabric of two devices. The listening side has the right one.
struct Fabric {
  Fabric() : fabric(1, /*own_thread=*/false) {
    fabric.add_device({.name = "left"});
    fabric.add_device({.name = "right", .address = "10.0.0.2"});
  }
  void require_no_leaks() const {
    const std::string leaks = fabric.leaks();
    require(leaks.empty(), leaks);
  }
  transport::FakeFabric fabric;
};

}  // namespace

void verbs_hello(std::string_view bytes) {
  Input input(bytes);
  Fabric fabric;
  const auto api = fabric.fabric.api();
  {
    const auto listener = transport_on("right", api);
    require(listener->listen("verbs:10.0.0.2:7000").ok(), "no listener");
    std::vector<std::unique_ptr<transport::Connection>> accepted;
    Asker(input, *api, [&] {
      for (int round = 0; round < 2; ++round) {
        std::array<Event, 8> events;
        listener->wait(listener->now());
        static_cast<void>(listener->poll(events));
        if (auto connection = listener->take_accepted()) accepted.push_back(std::move(connection));
        while (fabric.fabric.step()) {
        }
      }
    }).run();
  }
  fabric.require_no_leaks();
}

void verbs_answer(std::string_view bytes) {
  Input input(bytes);
  Fabric fabric;
  const auto api = fabric.fabric.api();
  {
    Answerer answerer(input, *api);
    const auto connector = transport_on("left", api);
    auto connection = connector->connect("verbs:10.0.0.2:7000", connector->now() + std::chrono::seconds(10));
    for (int turn = 0; connection.ok() && (*connection)->status().ok() && turn < kMostTurns; ++turn) {
      answerer.go_on();
      std::array<Event, 8> events;
      connector->wait(connector->now());
      static_cast<void>(connector->poll(events));
      const transport::WorkRequest request{.opcode = transport::Opcode::kSend};
      const bool open = (*connection)->post({&request, 1}) == 1;
      require(!open || answerer.has_proved(), "an impostor is taken for a peer");
      while (fabric.fabric.step()) {
      }
    }
    if (connection.ok() && !(*connection)->status().ok()) {
      require(!(*connection)->status().message().empty(), "no reason");
    }
  }
  fabric.require_no_leaks();
}

/// Messages and files from a process of the same user on this host that has proved itself.
void verbs_neighbour(std::string_view bytes) {
  Input input(bytes);
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0,
          "no sockets");
  const shm::ControlSocket peer{base::FileDescriptor(ends[0])};
  verbs::Neighbour neighbour{shm::ControlSocket(base::FileDescriptor(ends[1]))};
  for (int step = 0; step < 16 && !input.empty(); ++step) {
    shm::ControlMessage message{.kind = static_cast<shm::ControlKind>(input.below(10)),
                                .key = input.below(4),
                                .address = input.take<std::uint16_t>(),
                                .length_bytes = input.take<std::uint16_t>()};
    if (input.below(4) == 3) message.length_bytes = input.take<std::uint64_t>();
    if (input.below(8) == 7) message.magic = input.take<std::uint32_t>();
    base::FileDescriptor file;
    const std::uint32_t kind = input.below(4);
    std::size_t file_bytes = 0;
    if (kind == 3) {
      file = base::FileDescriptor(::memfd_create("unsealed", MFD_CLOEXEC));
    } else if (kind > 0) {
      file_bytes = shm::whole_pages(std::size_t{1} << (8 + 4 * kind));
      auto made = shm::create_memory("fuzz", file_bytes);
      require(made.ok(), "no memory");
      file = *std::move(made);
    }
    static_cast<void>(peer.send(message, {file.get(), -1, -1}));
    const std::uint64_t address = input.take<std::uint16_t>();
    const std::uint64_t length = input.take<std::uint16_t>();
    if (std::byte* const place = neighbour.find(input.below(4), address, length);
        place != nullptr && length > 0) {
      place[0] = place[length - 1] = std::byte{1};  // the memory must be there
    }
  }
}

}  // namespace verbena::fuzz
