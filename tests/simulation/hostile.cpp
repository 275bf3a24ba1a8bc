#include "tests/simulation/hostile.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "protocol/messages.hpp"
#include "tests/simulation/scenario.hpp"
#include "transport/heartbeat.hpp"
#include "transport/message_ring.hpp"

namespace verbena::simulation {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::Opcode;
using transport::WorkRequest;

namespace {

constexpr std::size_t kRingBytes = 4096;
/// How long it waits for a server.
constexpr auto kPatience = seconds(2);
/// How long a traitor waits to be disconnected: longer than it may take until all others know of it, so that
/// its own leaving is not what tells them.
constexpr auto kPatienceOfTraitors = seconds(30);

/// A connection, with what a worker needs to speak over it.
class Line {
 public:
  Line(transport::Transport& transport, std::unique_ptr<transport::Connection> connection)
      : transport_(transport), connection_(std::move(connection)) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  [[nodiscard]] bool is_open() const { return connection_->status().ok(); }
  [[nodiscard]] transport::Connection& connection() { return *connection_; }

  /// Allocates what a hello names. Returns false if that fails.
  bool prepare_hello(protocol::Hello& hello) {
    auto heartbeat = transport::Heartbeat::create(transport_);
    auto receiver = transport::RingReceiver::create(transport_, *connection_, kRingBytes);
    auto sender = transport::RingSender::create(transport_, *connection_);
    auto memory = transport_.allocate_region(kRingBytes, transport::Access::kLocal);
    if (!heartbeat.ok() || !receiver.ok() || !sender.ok() || !memory.ok()) return false;
    heartbeat_ = *std::move(heartbeat);
    receiver_ = *std::move(receiver);
    sender_ = *std::move(sender);
    memory_ = *std::move(memory);
    const auto beats = heartbeat_->grant(*connection_);
    if (!beats.ok()) return false;
    hello.pid = static_cast<std::uint32_t>(::getpid());
    hello.inbox_bytes = kRingBytes;
    hello.push_ring = protocol::Descriptor::of(receiver_->descriptor());
    hello.inbox_credit = protocol::Descriptor::of(sender_->credit_descriptor());
    hello.heartbeat = protocol::Descriptor::of(*beats);
    return true;
  }
  void take(const protocol::Welcome& welcome) {
    welcomed_ = true;
    if (sender_) sender_->set_ring(welcome.inbox.as<transport::RemoteDescriptor>());
  }
  [[nodiscard]] bool welcomed() const { return welcomed_; }

  void say(std::string bytes) {
    post({.opcode = Opcode::kSend, .local = std::as_writable_bytes(std::span(bytes))});
  }
  void post(const WorkRequest& request) {
    const TimePoint end = transport_.now() + kPatience;
    while (is_open() && connection_->post({&request, 1}) == 0 && transport_.now() < end)
      transport_.wait(transport_.now() + microseconds(50));
  }
  void send_bulk(const protocol::BulkHeader& header, std::size_t payload_bytes) {
    std::memcpy(memory_->bytes().data(), &header, sizeof header);
    static_cast<void>(sender_->try_send(memory_->bytes().first(sizeof header + payload_bytes), *memory_));
  }
  void fill_payload(std::mt19937_64& random, std::size_t bytes) {
    for (std::byte& each : memory_->bytes().subspan(sizeof(protocol::BulkHeader), bytes))
      each = static_cast<std::byte>(0x80 | below(random, 128));  // no key is so large
  }

 private:
  transport::Transport& transport_;
  std::unique_ptr<transport::Heartbeat> heartbeat_;
  std::unique_ptr<transport::MemoryRegion> memory_;
  std::unique_ptr<transport::Connection> connection_;
  std::unique_ptr<transport::RingReceiver> receiver_;
  std::unique_ptr<transport::RingSender> sender_;
  bool welcomed_ = false;
};

/// A hostile node, with all its connections.
class Hostile {
 public:
  Hostile(transport::Transport& transport, const HostileJob& job, std::uint64_t seed)
      : transport_(transport), job_(job), random_(seed) {}

  Line* call(std::uint32_t server) {
    auto connection = transport_.connect(job_.servers[server], transport_.now() + kPatience);
    if (!connection.ok()) return nullptr;
    Line& line = *lines_.emplace_back(std::make_unique<Line>(transport_, *std::move(connection)));
    line.connection().user_data = reinterpret_cast<std::uintptr_t>(&line);
    return &line;
  }
  /// Takes messages for so long, or until `enough`.
  template <class Enough>
  void hear(Duration time, Enough enough) {
    for (const TimePoint end = transport_.now() + time; !enough() && transport_.now() < end;) {
      std::array<transport::Event, 16> events;
      const std::size_t count = transport_.poll(events);
      for (const transport::Event& event : std::span(events).first(count)) {
        if (event.kind != transport::Event::Kind::kMessage) continue;
        const auto message = protocol::decode_control(event.message);
        Line& line = *reinterpret_cast<Line*>(static_cast<std::uintptr_t>(event.connection->user_data));
        if (!message.ok()) continue;
        if (const auto* welcome = std::get_if<protocol::Welcome>(&*message)) line.take(*welcome);
      }
      if (count == 0) transport_.wait(std::min<TimePoint>(end, transport_.now() + milliseconds(1)));
    }
  }
  void rest(Duration time) {
    hear(time, [] { return false; });
  }

  absl::Status visit(std::uint32_t server) {
    Line* const line = call(server);
    if (line == nullptr) return absl::OkStatus();
    for (std::uint64_t more = below(random_, 6); more > 0 && line->is_open(); --more) {
      intrude(*line, server);
      rest(microseconds(below(random_, 500)));
    }
    rest(microseconds(below(random_, 20'000)));
    if (line->welcomed()) return absl::InternalError("a stranger was welcomed");
    return absl::OkStatus();
  }

  void betray(std::uint32_t rank, std::uint32_t node, const std::function<void()>& turns) {
    const auto servers = static_cast<std::uint32_t>(job_.servers.size());
    for (std::uint32_t server = 0; server < servers; ++server) {
      Line* const line = call(server);
      protocol::Hello hello{
          .worker = rank, .workers = job_.workers, .server = server, .servers = servers, .node = node};
      if (line == nullptr || !line->prepare_hello(hello)) return;
      line->say(protocol::encode(hello));
    }
    const auto all = [&](const auto& what) { return std::all_of(lines_.begin(), lines_.end(), what); };
    hear(kPatience,
         [&] { return all([](const auto& line) { return line->welcomed() || !line->is_open(); }); });
    rest(microseconds(below(random_, 3000)));
    turns();
    Line& line = *lines_[below(random_, lines_.size())];
    for (std::uint64_t more = below(random_, 4); more > 0 && line.is_open(); --more) {
      break_a_rule(line);
      rest(microseconds(below(random_, 300)));
    }
    line.say(protocol::encode(protocol::Welcome{.lanes = 1}));
    hear(kPatienceOfTraitors, [&] { return all([](const auto& each) { return !each->is_open(); }); });
  }

 private:
  std::string noise(std::size_t most) {
    std::string bytes(below(random_, most + 1), '\0');
    for (char& each : bytes) each = static_cast<char>(below(random_, 256));
    return bytes;
  }
  /// A message that no worker sends, or not now: about tables that are not open, or clocks to come.
  protocol::ControlMessage message_out_of_place() {
    const auto some = static_cast<std::uint32_t>(1 + below(random_, 5));
    switch (below(random_, 6)) {
      case 0:
        return protocol::OpenTable{
            .table = some, .rows = some, .width = some, .name = "hostile", .consistency = "asp"};
      case 1:
        return protocol::TableOpened{.table = some};
      case 2:
        return protocol::EndIteration{.clock = 1000 + some};
      case 3:
        return protocol::KeyRequests{
            .kind = protocol::KeyRequests::Kind::kLocate, .table = some, .rows = {{some, 0}}};
      case 4:
        return protocol::KeyAnswers{.table = some, .answers = {{.key = some}}};
      default:
        return protocol::Welcome{.lanes = some};
    }
  }
  /// Sends something as a stranger. Nothing that it sends may make it a worker, or harm one.
  void intrude(Line& line, std::uint32_t server) {
    const auto servers = static_cast<std::uint32_t>(job_.servers.size());
    switch (below(random_, 6)) {
      case 0:
        return line.say(noise(200));
      case 1:
        return line.say(protocol::encode(message_out_of_place()));
      case 2: {
        std::string cut = protocol::encode(message_out_of_place());
        cut.resize(below(random_, cut.size()));
        return line.say(std::move(cut));
      }
      case 3:
        return line.post({.opcode = Opcode::kWriteNotify,
                          .notification = static_cast<std::uint32_t>(below(random_, 100))});
      case 4:
        return;  // and says nothing
      default:
        break;
    }
    protocol::Hello hello{.worker = static_cast<std::uint32_t>(below(random_, job_.workers)),
                          .workers = job_.workers,
                          .server = server,
                          .servers = servers,
                          .node = 0};
    if (!line.prepare_hello(hello)) return;
    if (!job_.ranks_are_taken || below(random_, 2) == 0) ++hello.workers;
    line.say(protocol::encode(hello));
  }
  void break_a_rule(Line& line) {
    switch (below(random_, 4)) {
      case 0:
        return line.say(noise(200));
      case 1:
        return line.say(protocol::encode(message_out_of_place()));
      case 2:
        return line.post({.opcode = Opcode::kWriteNotify,
                          .notification = static_cast<std::uint32_t>(1 + below(random_, 1 << 16))});
      default:
        break;
    }
    const std::size_t payload = 8 * below(random_, 8);
    line.fill_payload(random_, payload);
    line.send_bulk({.kind = static_cast<protocol::BulkKind>(1 + below(random_, 12)),
                    .table = static_cast<std::uint32_t>(below(random_, 3)),
                    .lane = static_cast<std::uint32_t>(below(random_, 3)),
                    .count = 1 + static_cast<std::uint32_t>(below(random_, 3)),
                    .clock = -1 - static_cast<std::int64_t>(below(random_, 3))},
                   payload);
  }

  transport::Transport& transport_;
  const HostileJob& job_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace

absl::Status visit(transport::Transport& transport, const HostileJob& job, std::uint32_t server,
                   std::uint64_t seed) {
  return Hostile(transport, job, seed).visit(server);
}

void betray(transport::Transport& transport, const HostileJob& job, std::uint32_t rank, std::uint32_t node,
            std::uint64_t seed, const std::function<void()>& turns) {
  Hostile(transport, job, seed).betray(rank, node, turns);
}

}  // namespace verbena::simulation
