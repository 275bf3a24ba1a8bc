// A server under any sequence of connections, messages and ends of connections, in one thread and virtual
// time.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/simulation/simulated_transport.hpp"
#include "protocol/messages.hpp"
#include "protocol/row_stride.hpp"
#include "protocol/server_function.hpp"
#include "server/server.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/virtual_time.hpp"
#include "transport/heartbeat.hpp"
#include "transport/message_ring.hpp"

namespace verbena::fuzz {
namespace {

using protocol::BulkKind;
using transport::Event;

constexpr const char* kAddress = "sim:server";
constexpr std::uint32_t kWorkers = 2;
constexpr std::size_t kRingBytes = protocol::kMinRingBytes;
constexpr std::size_t kMostVisitors = 4;
constexpr std::size_t kMostSteps = 200;  // of one input
constexpr Key kRows = 12;
constexpr std::uint32_t kWidth = 2;
constexpr std::array kModels = {"bsp",        "ssp:1",   "essp:1", "asp",
                                "sequential", "vap:0.5", "a-bsp",  "bounded-delay:1"};

/// A peer with one connection to the server.
class Visitor {
 public:
  Visitor(transport::Transport& transport, std::unique_ptr<transport::Connection> connection)
      : connection_(std::move(connection)),
        receiver_(*transport::RingReceiver::create(transport, *connection_, kRingBytes)),
        sender_(*transport::RingSender::create(transport, *connection_)),
        memory_(*transport.allocate_region(kRingBytes, transport::Access::kLocal)),
        beats_(*transport.allocate_region(transport::Heartbeat::kBytes, transport::Access::kRemoteRead)) {}

  [[nodiscard]] transport::Connection& connection() { return *connection_; }
  /// The workers as which it has said hello and then goodbye.
  [[nodiscard]] const std::set<std::uint32_t>& left() const { return left_; }

  void say(std::string_view bytes) {
    const auto message = protocol::decode_control(std::as_bytes(std::span(bytes)));
    if (message.ok()) {
      if (const auto* hello = std::get_if<protocol::Hello>(&*message)) came_.insert(hello->worker);
      if (std::holds_alternative<protocol::Goodbye>(*message)) left_ = came_;
    }
    std::string copy(bytes);
    const transport::WorkRequest request{.opcode = transport::Opcode::kSend,
                                         .local = std::as_writable_bytes(std::span(copy))};
    static_cast<void>(connection_->post({&request, 1}));
  }
  void say_hello(protocol::Hello hello) {
    hello.push_ring = protocol::Descriptor::of(receiver_->descriptor());
    hello.inbox_credit = protocol::Descriptor::of(sender_->credit_descriptor());
    const auto beats = connection_->grant(*beats_);
    if (beats.ok()) hello.heartbeat = protocol::Descriptor::of(beats->slice(0, transport::Heartbeat::kBytes));
    say(protocol::encode(hello));
  }
  /// Returns true if the server must read it: it was sent, and before any goodbye.
  bool send(const protocol::BulkHeader& header, std::string_view payload) {
    const std::size_t count = std::min(payload.size(), memory_->bytes().size() - sizeof header);
    std::memcpy(memory_->bytes().data(), &header, sizeof header);
    std::memcpy(memory_->bytes().data() + sizeof header, payload.data(), count);
    return sender_->try_send(memory_->bytes().first(sizeof header + count), *memory_) ==
               transport::SendResult::kSent &&
           left_.empty();
  }
  void notify(std::uint32_t notification) {
    const transport::WorkRequest request{.opcode = transport::Opcode::kWriteNotify,
                                         .notification = notification};
    static_cast<void>(connection_->post({&request, 1}));
  }
  void on_event(const Event& event) {
    if (event.kind == Event::Kind::kCompletion) sender_->on_completion(event);
    if (event.kind == Event::Kind::kMessage) hear(event.message);
    if (event.kind != Event::Kind::kNotification) return;
    if (event.notification == 0) return static_cast<void>(sender_->on_credit());
    const auto bytes = receiver_->on_notification(event.notification);
    require(bytes.ok(), "the server breaks the rules of rings");
    require(protocol::decode_bulk(*bytes).ok(), "the server sends what cannot be understood");
    receiver_->release();
  }

 private:
  void hear(std::span<const std::byte> bytes) {
    const auto message = protocol::decode_control(bytes);
    require(message.ok(), "the server says what cannot be understood");
    const auto* welcome = std::get_if<protocol::Welcome>(&*message);
    if (welcome == nullptr) return;
    require(!came_.empty(), "a stranger is welcomed");
    sender_->set_ring(welcome->inbox.as<transport::RemoteDescriptor>());
    receiver_->set_credit(welcome->push_credit.as<transport::RemoteDescriptor>());
  }

  std::unique_ptr<transport::Connection> connection_;
  std::unique_ptr<transport::RingReceiver> receiver_;
  std::unique_ptr<transport::RingSender> sender_;
  std::unique_ptr<transport::MemoryRegion> memory_;
  std::unique_ptr<transport::MemoryRegion> beats_;
  std::set<std::uint32_t> came_;
  std::set<std::uint32_t> left_;
};

class World {
 public:
  explicit World(Input& input)
      : input_(input),
        network_(time_, {.max_latency = std::chrono::microseconds(3), .memory_bytes = std::size_t{32} << 20}),
        server_transport_(network_.make_transport(0, "server")),
        transport_(network_.make_transport(1, "visitors")),
        outlives_workers_(input.below(4) == 3) {
    auto made = server::Server::create(*server_transport_, {.address = kAddress,
                                                            .workers = kWorkers,
                                                            .outlives_workers = outlives_workers_,
                                                            .lanes = 1 + input.below(2)});
    require(made.ok(), "no server");
    server_ = std::move(*made);
  }

  /// Returns whether the server has finished without an error.
  bool run() {
    for (std::size_t step = 0; step < kMostSteps && !input_.empty(); ++step) {
      act();
      for (std::uint32_t rounds = 1 + input_.below(4); rounds > 0; --rounds) go_on();
      check();
    }
    for (int round = 0; round < 50; ++round) go_on();
    check();
    return server_->finished() && server_->status().ok();
  }

 private:
  void act() {
    const std::uint32_t what = input_.below(12);
    if (visitors_.empty() || what == 0) return connect();
    const std::size_t at = input_.below(static_cast<std::uint32_t>(visitors_.size()));
    Visitor& visitor = *visitors_[at];
    switch (what) {
      case 1:
      case 2:
        return visitor.say_hello(
            {.worker = input_.below(kWorkers), .workers = kWorkers, .servers = 1, .inbox_bytes = kRingBytes});
      case 3:
        return visitor.say(open_table());
      case 4:
        return visitor.say(input_.take_bytes(input_.take<std::uint8_t>()));
      case 5:
        return visitor.say(key_requests());
      case 6:
        return visitor.say(protocol::encode(protocol::EndIteration{.clock = input_.below(8)}));
      case 7:
        return visitor.notify(input_.take<std::uint16_t>());
      case 8:
        if (input_.below(2) == 0) return visitor.say(protocol::encode(protocol::Goodbye{}));
        came_and_left_.insert(visitor.left().begin(), visitor.left().end());
        visitors_.erase(visitors_.begin() + static_cast<std::ptrdiff_t>(at));
        return;
      default:
        return send_bulk(visitor);
    }
  }

  void connect() {
    if (visitors_.size() == kMostVisitors) return;
    auto connection = transport_->connect(kAddress, time_.now() + std::chrono::seconds(1));
    if (connection.ok()) visitors_.push_back(std::make_unique<Visitor>(*transport_, std::move(*connection)));
  }

  std::string open_table() {
    const std::uint32_t choice = input_.take<std::uint8_t>();
    return protocol::encode(
        protocol::OpenTable{.table = choice % 2,
                            .value_type = choice % 2 == 0 ? ValueType::kFloat : ValueType::kInt32,
                            .rows = kRows,
                            .width = kWidth,
                            .name = fmt::format("table {}", choice % 2),
                            .allocation = choice / 2 % 4 == 3 ? Allocation::kDynamic : Allocation::kStatic,
                            .consistency = kModels[choice / 8 % kModels.size()]});
  }

  std::string key_requests() {
    protocol::KeyRequests requests{.kind = static_cast<protocol::KeyRequests::Kind>(1 + input_.below(11)),
                                   .table = input_.below(2)};
    for (std::uint32_t count = 1 + input_.below(4); count > 0; --count) {
      const std::uint32_t key = input_.below(kRows + 1);
      requests.rows.push_back({key, input_.below(4)});
    }
    return protocol::encode(requests);
  }

  void send_bulk(Visitor& visitor) {
    protocol::BulkHeader header{.kind = static_cast<BulkKind>(input_.below(13)),
                                .table = input_.below(3),
                                .lane = input_.below(3),
                                .count = input_.below(5),
                                .clock = input_.take<std::int8_t>()};
    const std::uint64_t tag = input_.take<std::uint8_t>();
    const bool keys_only = header.kind == BulkKind::kSubscribe || header.kind == BulkKind::kUnsubscribe;
    std::string payload;
    bool is_impossible = false;
    if (input_.below(8) == 7) {
      payload = input_.take_bytes(input_.take<std::uint8_t>());
    } else if (header.kind == BulkKind::kClock) {
      header.count %= 2;
      const protocol::ExampleCounts counts{.processed = input_.below(8), .planned = input_.below(8)};
      if (header.count == 1) payload.assign(reinterpret_cast<const char*>(&counts), sizeof counts);
    } else if (header.kind == BulkKind::kCall) {
      payload = call(header, tag);
    } else {
      if (header.kind == BulkKind::kPush || header.kind == BulkKind::kInstall)
        payload.assign(reinterpret_cast<const char*>(&tag), sizeof tag);
      for (std::uint32_t record = 0; record < header.count; ++record) {
        const Key key = input_.below(kRows + 1);
        is_impossible = is_impossible || key >= kRows;
        payload.append(reinterpret_cast<const char*>(&key), sizeof key);
        if (keys_only) continue;
        std::array<char, protocol::row_stride_bytes(ValueType::kFloat, kWidth)> values{};
        const std::string_view given = input_.take_bytes(4);
        std::copy(given.begin(), given.end(), values.begin());
        payload.append(values.data(), values.size());
      }
    }
    if (visitor.send(header, payload) && is_impossible) had_impossible_key_ = true;
  }

  /// The payload of a call; its keys may be any.
  std::string call(const protocol::BulkHeader& header, std::uint64_t tag) {
    constexpr std::array<std::string_view, 8> kTexts = {
        "norms", "top(count=2)", "scale(factor=2)", "regularize(l1=1)", "regularizer",
        "set",   "set",          "nothing"};
    const std::string_view text = kTexts[input_.below(8)];
    std::vector<Key> keys;
    for (std::uint32_t i = 0; i < header.count; ++i) keys.push_back(input_.below(kRows + 1));
    const std::uint32_t numbers_a_key = header.count > 0 && text == "set" ? kWidth : 0;
    const std::vector<double> numbers(header.count * numbers_a_key, input_.below(9));
    std::string bytes(
        protocol::call_bytes(text.size()) + header.count * protocol::call_bytes_a_key(numbers_a_key), '\0');
    protocol::encode_call(header,
                          {.tag = tag,
                           .range = header.count == 0 ? KeyRange{0, input_.below(kRows + 2)} : KeyRange{},
                           .keys = keys,
                           .numbers_a_key = numbers_a_key,
                           .numbers = numbers,
                           .text = text},
                          std::as_writable_bytes(std::span(bytes)));
    return bytes.substr(sizeof header);
  }

  void go_on() {
    static_cast<void>(server_->poll());
    for (const auto& lane : server_->lanes()) static_cast<void>(lane->poll());
    std::array<Event, 16> events;
    for (const Event& event : std::span(events).first(transport_->poll(events))) {
      for (const auto& visitor : visitors_) {
        if (&visitor->connection() == event.connection) visitor->on_event(event);
      }
    }
  }

  void check() {
    if (!server_->status().ok()) require(!server_->status().message().empty(), "no reason");
    if (outlives_workers_ || !server_->finished() || !server_->status().ok()) return;
    std::set<std::uint32_t> left = came_and_left_;
    for (const auto& visitor : visitors_) left.insert(visitor->left().begin(), visitor->left().end());
    require(left.size() == kWorkers, "finished, but not every worker has come and said goodbye");
    require(!had_impossible_key_, "finished well, with a message about a row that is not there");
  }

  Input& input_;
  VirtualTime time_;
  simulation::Network network_;
  std::unique_ptr<simulation::SimulatedTransport> server_transport_;
  std::unique_ptr<simulation::SimulatedTransport> transport_;
  const bool outlives_workers_;
  std::unique_ptr<server::Server> server_;
  std::set<std::uint32_t> came_and_left_;
  bool had_impossible_key_ = false;
  std::vector<std::unique_ptr<Visitor>> visitors_;
};

}  // namespace

bool server_finishes_well(std::string_view bytes) {
  Input input(bytes);
  return World(input).run();
}

void server(std::string_view bytes) {
  static_cast<void>(server_finishes_well(bytes));
}

}  // namespace verbena::fuzz
