// The answering side of measurements under any sequence of orders, in one thread and virtual time.
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/messages.hpp"
#include "apps/bench/responder.hpp"
#include "apps/simulation/network.hpp"
#include "apps/simulation/simulated_transport.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/virtual_time.hpp"

namespace verbena::fuzz {
namespace {

using apps::bench::Message;
using transport::Event;

constexpr const char* kResponder = "sim:responder";
constexpr std::size_t kMostClients = 3;
constexpr std::size_t kMostOrders = 100;  // of one input
constexpr std::size_t kMemoryBytes = 4096;
constexpr std::array<std::uint64_t, 8> kSizes = {
    0, 8, 16, 64, 100, kMemoryBytes, 2 * kMemoryBytes, std::uint64_t{1} << 31U};

/// The responder's transport. Before each of its polls the other side has a turn.
class Paced final : public transport::Transport {
 public:
  Paced(std::unique_ptr<transport::Transport> inner, std::function<void()> turn)
      : inner_(std::move(inner)), turn_(std::move(turn)) {}

  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> allocate_region(
      std::size_t bytes, transport::Access access) override {
    return inner_->allocate_region(bytes, access);
  }
  absl::Status listen(const std::string& address) override { return inner_->listen(address); }
  [[nodiscard]] std::string listening_address() const override { return inner_->listening_address(); }
  absl::StatusOr<std::unique_ptr<transport::Connection>> connect(const std::string& address,
                                                                 transport::TimePoint deadline) override {
    return inner_->connect(address, deadline);
  }
  std::unique_ptr<transport::Connection> take_accepted() override { return inner_->take_accepted(); }
  [[nodiscard]] std::size_t poll(std::span<Event> events) override {
    turn_();
    return inner_->poll(events);
  }
  void wait(transport::TimePoint /*deadline*/) override {}
  void interrupt() override { inner_->interrupt(); }
  [[nodiscard]] transport::TimePoint now() const override { return inner_->now(); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return inner_->max_message_bytes(); }
  [[nodiscard]] std::string_view name() const override { return inner_->name(); }

 private:
  const std::unique_ptr<transport::Transport> inner_;
  const std::function<void()> turn_;
};

/// A measuring side, or a peer that pretends to be one.
class Measurer {
 public:
  Measurer(transport::Transport& transport, std::unique_ptr<transport::Connection> connection)
      : connection_(std::move(connection)),
        memory_(*transport.allocate_region(kMemoryBytes, transport::Access::kRemoteWrite)),
        granted_(*connection_->grant(*memory_)) {}

  [[nodiscard]] transport::Connection& connection() { return *connection_; }
  [[nodiscard]] const transport::RemoteDescriptor& granted() const { return granted_; }

  void order(Message message) {
    say(std::as_writable_bytes(std::span(&message, 1)),
        message.kind == Message::Kind::kMemory ? message.value : 0);
  }
  void say(std::span<std::byte> bytes, std::uint64_t asked_bytes = 0) {
    const transport::WorkRequest request{.opcode = transport::Opcode::kSend, .local = bytes};
    if (connection_->post({&request, 1}) == 1) asked_bytes_.push_back(asked_bytes);
  }
  /// Writes what an echo of memory waits for.
  void write(std::uint64_t word, std::size_t bytes) {
    bytes = std::min<std::size_t>({bytes, kMemoryBytes, theirs_.length_bytes}) / 8 * 8;
    if (bytes == 0) return;
    apps::bench::last_word(memory_->bytes(), bytes) = word;
    const transport::WorkRequest request{.opcode = transport::Opcode::kWrite,
                                         .local = memory_->bytes().first(bytes),
                                         .region = memory_.get(),
                                         .remote = theirs_.slice(0, bytes)};
    static_cast<void>(connection_->post({&request, 1}));
  }
  void notify() {
    const transport::WorkRequest request{.opcode = transport::Opcode::kWriteNotify, .notification = 1};
    static_cast<void>(connection_->post({&request, 1}));
  }
  void on_event(const Event& event) {
    if (event.kind != Event::Kind::kMessage) return;
    const auto answer = apps::bench::read_message(event.message);
    require(answer.has_value(), "the responder says what cannot be understood");
    require(!asked_bytes_.empty(), "an answer to nothing");
    const std::uint64_t asked_bytes = asked_bytes_.front();
    asked_bytes_.pop_front();
    if (answer->kind == Message::Kind::kFailed) return require(!answer->text().empty(), "no reason");
    if (answer->kind != Message::Kind::kMemory) return;
    require(answer->readable.length_bytes >= asked_bytes && answer->writable.length_bytes >= asked_bytes,
            "less memory than was asked for");
    theirs_ = answer->writable;
  }

 private:
  std::unique_ptr<transport::Connection> connection_;
  std::unique_ptr<transport::MemoryRegion> memory_;
  transport::RemoteDescriptor granted_;
  transport::RemoteDescriptor theirs_;
  std::deque<std::uint64_t> asked_bytes_;  ///< bytes that each unanswered order asks for, in their order
};

class ToResponder {
 public:
  explicit ToResponder(Input& input)
      : input_(input),
        network_(time_, {.max_latency = std::chrono::microseconds(3), .memory_bytes = std::size_t{1} << 16}),
        transport_(network_.make_transport(1, "clients")) {
    bool made = false;
    const apps::bench::Backend backend{
        .name = "sim",
        .make_transport = [this, &made]() -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
          // No transport for servers: they would have threads.
          if (std::exchange(made, true)) return absl::UnavailableError("no transport is left");
          return std::make_unique<Paced>(network_.make_transport(0, "responder"), [this] { turn(); });
        },
        .fresh_address = [] { return std::string("sim:server"); }};
    auto responder = apps::bench::Responder::create(backend, kResponder);
    require(responder.ok(), "no responder");
    require((*responder)->run(stop_).ok(), "the responder gives up");
    clients_.clear();
  }

 private:
  void turn() {
    constexpr std::size_t kRoundsAtEnd = 30;
    if (pause_ > 0) {
      --pause_;
    } else if (++steps_ <= kMostOrders && !input_.empty()) {
      act();
      pause_ = input_.below(8);
    } else if (++rounds_ > kRoundsAtEnd) {
      stop_ = true;
    }
    std::array<Event, 16> events;
    for (const Event& event : std::span(events).first(transport_->poll(events))) {
      for (const auto& client : clients_) {
        if (&client->connection() == event.connection) client->on_event(event);
      }
    }
  }

  void act() {
    const std::uint32_t what = input_.below(10);
    if (clients_.empty() || what == 0) return connect();
    const std::size_t at = input_.below(static_cast<std::uint32_t>(clients_.size()));
    Measurer& client = *clients_[at];
    switch (what) {
      case 1:
      case 2: {
        const std::uint64_t asked = kSizes[input_.below(kSizes.size())];
        transport::RemoteDescriptor mine = client.granted();
        mine.length_bytes = kSizes[input_.below(kSizes.size())];
        return client.order(
            {.kind = Message::Kind::kMemory, .value = asked, .readable = mine, .writable = mine});
      }
      case 3:
      case 4:
        return client.order({.kind = Message::Kind::kEcho,
                             .number = input_.below(6),
                             .value = kSizes[input_.below(kSizes.size())]});
      case 5: {
        const std::uint64_t word = input_.below(4);
        return client.write(word, kSizes[input_.below(kSizes.size())]);
      }
      case 6:
        return client.notify();
      case 7: {
        Message message{.kind = static_cast<Message::Kind>(input_.below(11)),
                        .number = input_.take<std::uint32_t>(),
                        .servers = input_.take<std::uint32_t>(),
                        .value = input_.take<std::uint64_t>()};
        message.set_text(input_.take_bytes(input_.take<std::uint8_t>()));
        // Longer than an hour is refused; what is allowed would take its time.
        const bool computes = message.kind == Message::Kind::kCompute;
        if (computes && message.value <= std::uint64_t{3'600'000}) message.value %= 2;
        return client.order(message);
      }
      case 8: {
        std::string bytes(input_.take_bytes(input_.take<std::uint16_t>() % 1024));
        return client.say(std::as_writable_bytes(std::span(bytes)));
      }
      default:
        clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  void connect() {
    if (clients_.size() == kMostClients) return;
    auto connection = transport_->connect(kResponder, time_.now() + std::chrono::seconds(1));
    if (connection.ok()) clients_.push_back(std::make_unique<Measurer>(*transport_, std::move(*connection)));
  }

  Input& input_;
  VirtualTime time_;
  simulation::Network network_;
  std::unique_ptr<simulation::SimulatedTransport> transport_;
  std::vector<std::unique_ptr<Measurer>> clients_;
  std::size_t steps_ = 0;
  std::uint32_t pause_ = 0;  ///< turns until the next order
  std::size_t rounds_ = 0;
  std::atomic<bool> stop_ = false;
};

}  // namespace

void bench_orders(std::string_view bytes) {
  Input input(bytes);
  const ToResponder world(input);
}

}  // namespace verbena::fuzz
