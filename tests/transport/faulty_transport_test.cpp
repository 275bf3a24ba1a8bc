#include "tests/transport/faulty_transport.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <set>

#include "transport/shm/shm_transport.hpp"

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kPairTimeout = std::chrono::seconds(30);
constexpr std::size_t kLineBytes = 64;

/// An event without pointers, which can be compared and kept.
struct Seen {
  Event::Kind kind;
  OperationResult result;
  std::uint64_t value;  ///< id or notification
  std::string message;
  friend bool operator==(const Seen&, const Seen&) = default;
};

/// Two connected transports in one thread; only the near one is faulty.
class Pair {
 public:
  explicit Pair(const FaultOptions& options) {
    static int count = 0;
    const std::string address = fmt::format("shm:faulty-transport-test-{}-{}", ::getpid(), count++);
    near = std::make_unique<FaultyTransport>(*make_shm_transport({.answer_patience = kPairTimeout}), options);
    far = *make_shm_transport({});
    EXPECT_EQ(far->listen(address), absl::OkStatus());
    auto connecting =
        std::async(std::launch::async, [&] { return *near->connect(address, near->now() + kPairTimeout); });
    std::array<Event, 1> events;
    while (far_connection == nullptr) {
      if (far->poll(events) == 0) far->wait(far->now() + std::chrono::milliseconds(1));
      far_connection = far->take_accepted();
    }
    near_connection = connecting.get();
    near_connection->set_peer_name("the far side");
    near_memory = *near->allocate_region(kBytes, Access::kLocal);
    far_memory = *far->allocate_region(kBytes, Access::kRemoteWrite);
    remote = *far_connection->grant(*far_memory);
  }

  ~Pair() {
    near_connection.reset();
    far_connection.reset();
  }

  [[nodiscard]] WorkRequest write(std::size_t offset, std::size_t bytes, std::uint64_t id,
                                  Opcode opcode = Opcode::kWrite) const {
    return {.opcode = opcode,
            .signaled = true,
            .notification = static_cast<std::uint32_t>(id),
            .id = id,
            .local = near_memory->bytes().subspan(offset, bytes),
            .region = near_memory.get(),
            .remote = remote.slice(offset, bytes)};
  }

  bool post(const WorkRequest& request) { return near_connection->post({&request, 1}) == 1; }

  static void poll(Transport& transport, std::vector<Seen>& seen) {
    std::array<Event, 8> events;
    const std::size_t count = transport.poll(events);
    for (const Event& event : std::span(events).first(count)) {
      seen.push_back(
          {event.kind, event.result, event.kind == Event::Kind::kNotification ? event.notification : event.id,
           std::string(reinterpret_cast<const char*>(event.message.data()), event.message.size())});
    }
  }

  void poll_near(int times = 1) {
    for (int i = 0; i < times; ++i) poll(*near, near_seen);
  }
  /// Long enough for the far side to notice a connection's end.
  void poll_far_until(Event::Kind kind) {
    const TimePoint deadline = far->now() + kPairTimeout;
    while (far->now() < deadline && (far_seen.empty() || far_seen.back().kind != kind)) {
      const std::size_t before = far_seen.size();
      poll(*far, far_seen);
      if (far_seen.size() == before) far->wait(far->now() + std::chrono::milliseconds(5));
    }
    ASSERT_FALSE(far_seen.empty());
    EXPECT_EQ(far_seen.back().kind, kind);
  }

  static constexpr std::size_t kBytes = 1 << 16;
  std::unique_ptr<FaultyTransport> near;
  std::unique_ptr<Transport> far;
  std::unique_ptr<Connection> near_connection;
  std::unique_ptr<Connection> far_connection;
  std::unique_ptr<MemoryRegion> near_memory;
  std::unique_ptr<MemoryRegion> far_memory;
  RemoteDescriptor remote;
  std::vector<Seen> near_seen;
  std::vector<Seen> far_seen;
};

TEST(FaultyTransport, InjectsNothingByDefault) {
  Pair pair({});
  std::ranges::fill(pair.near_memory->bytes(), std::byte{5});
  ASSERT_TRUE(pair.post(pair.write(0, Pair::kBytes, 1, Opcode::kWriteNotify)));
  EXPECT_EQ(pair.far_memory->bytes()[Pair::kBytes - 1], std::byte{5});
  pair.poll_near(2);
  EXPECT_THAT(pair.near_seen, ElementsAre(Seen{Event::Kind::kCompletion, OperationResult::kOk, 1, ""}));
  pair.poll_far_until(Event::Kind::kNotification);
}

TEST(FaultyTransport, LinesArriveInRandomOrderBeforeTheNotification) {
  std::set<std::vector<std::size_t>> orders;
  constexpr std::size_t kLines = 8;
  int mixed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    FaultOptions options;
    options.seed = seed;
    options.split_probability = 1;
    options.max_lines_per_poll = 1;
    Pair pair(options);
    std::ranges::fill(pair.near_memory->bytes(), std::byte{5});
    // The lines of two writes mix. The second write has the notification.
    constexpr std::size_t kHalf = kLines / 2 * kLineBytes;
    const std::array requests = {pair.write(0, kHalf, 1), pair.write(kHalf, kHalf, 2, Opcode::kWriteNotify)};
    ASSERT_EQ(pair.near_connection->post(requests), 2U);
    std::vector<std::size_t> order;
    for (int polls = 0; polls < 100 && pair.far_seen.empty(); ++polls) {
      for (std::size_t line = 0; line < kLines; ++line) {
        const auto bytes = pair.far_memory->bytes().subspan(line * kLineBytes, kLineBytes);
        const auto arrived = std::ranges::count(bytes, std::byte{5});
        EXPECT_TRUE(arrived == 0 || arrived == kLineBytes);
        if (arrived > 0 && std::ranges::count(order, line) == 0) order.push_back(line);
      }
      Pair::poll(*pair.far, pair.far_seen);
      if (!pair.far_seen.empty()) {
        EXPECT_EQ(order.size(), kLines);
      }
      pair.poll_near();
    }
    EXPECT_THAT(pair.far_seen, ElementsAre(Seen{Event::Kind::kNotification, OperationResult::kOk, 2, ""}));
    orders.insert(order);
    mixed += std::ranges::is_partitioned(order, [](std::size_t line) { return line < kLines / 2; }) ? 0 : 1;
  }
  EXPECT_GT(mixed, 10);
  EXPECT_GT(orders.size(), 15U);
}

TEST(FaultyTransport, OverlappingWritesKeepTheirOrder) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    FaultOptions options;
    options.seed = seed;
    options.split_probability = 1;
    options.request_delay_probability = 0.3;
    options.max_lines_per_poll = 2;
    Pair pair(options);
    std::ranges::fill(pair.near_memory->bytes(), std::byte{1});
    WorkRequest later = pair.write(1024, 512, 2, Opcode::kWriteNotify);
    std::ranges::fill(later.local, std::byte{2});
    later.remote = pair.remote.slice(256, 512);
    ASSERT_TRUE(pair.post(pair.write(0, 1024, 1)));
    ASSERT_TRUE(pair.post(later));
    pair.poll_near(200);
    pair.poll_far_until(Event::Kind::kNotification);
    EXPECT_EQ(std::ranges::count(pair.far_memory->bytes().subspan(256, 512), std::byte{2}), 512) << seed;
  }
}

TEST(FaultyTransport, TheSameSeedDoesTheSame) {
  const auto run = [](std::uint64_t seed) {
    FaultOptions options;
    options.seed = seed;
    options.request_delay_probability = options.event_delay_probability = 0.5;
    options.split_probability = options.partial_post_probability = 0.5;
    Pair pair(options);
    std::vector<std::size_t> history;
    for (std::uint64_t id = 0; id < 50; ++id) {
      history.push_back(pair.post(pair.write(0, 1000, id)) ? 1 : 0);
      pair.poll_near();
      history.push_back(pair.near_seen.size());
    }
    return history;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(FaultyTransport, MessagesKeepTheirPlace) {
  FaultOptions options;
  options.partial_post_probability = 0.9;
  options.request_delay_probability = 0.5;
  Pair pair(options);
  for (int i = 0; i < 40; ++i) {
    std::string text = fmt::format("message {}", i);
    const WorkRequest request{.opcode = Opcode::kSend, .local = std::as_writable_bytes(std::span(text))};
    while (pair.near_connection->post({&request, 1}) == 0) pair.poll_near(1);
  }
  pair.poll_near(500);
  pair.poll_far_until(Event::Kind::kMessage);
  for (int i = 0; i < 20; ++i) Pair::poll(*pair.far, pair.far_seen);
  ASSERT_EQ(pair.far_seen.size(), 40U);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(pair.far_seen[i].message, fmt::format("message {}", i));
}

TEST(FaultyTransport, AFailureEndsEveryRequestAndTheConnection) {
  FaultOptions options;
  options.request_delay_probability = 1;
  options.fail_at_request = 3;
  Pair pair(options);
  for (std::uint64_t id = 0; id < 3; ++id) {
    WorkRequest request = pair.write(0, 64, id);
    request.signaled = id != 1;
    ASSERT_TRUE(pair.post(request));
  }
  ASSERT_TRUE(pair.post(pair.write(0, 64, 3)));
  EXPECT_FALSE(pair.post(pair.write(0, 64, 4)));
  EXPECT_EQ(pair.near_connection->status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(pair.near_connection->status().message()), HasSubstr("the far side"));
  pair.poll_near(10);
  EXPECT_THAT(pair.near_seen,
              ElementsAre(Seen{Event::Kind::kCompletion, OperationResult::kDeviceError, 0, ""},
                          Seen{Event::Kind::kCompletion, OperationResult::kFlushed, 1, ""},
                          Seen{Event::Kind::kCompletion, OperationResult::kFlushed, 2, ""},
                          Seen{Event::Kind::kCompletion, OperationResult::kFlushed, 3, ""},
                          Seen{Event::Kind::kDisconnected, OperationResult::kOk, 0, ""}));
  pair.poll_far_until(Event::Kind::kDisconnected);
}

TEST(FaultyTransport, ConnectionsBreakByChanceAndByCall) {
  FaultOptions options;
  options.failure_probability = 0.05;
  options.failure = OperationResult::kPeerGone;
  Pair by_chance(options);
  by_chance.poll_near(1000);
  ASSERT_EQ(by_chance.near_seen.size(), 1U);
  EXPECT_EQ(by_chance.near_seen[0].kind, Event::Kind::kDisconnected);
  EXPECT_EQ(by_chance.near_connection->status().code(), absl::StatusCode::kUnavailable);

  Pair by_call({});
  // What is mapped stays readable as long as the connection lives.
  auto readable = *by_call.far->allocate_region(4096, Access::kRemoteRead);
  std::memcpy(readable->bytes().data(), "here", 4);
  const std::byte* const mapped = by_call.near_connection->mapped(*by_call.far_connection->grant(*readable));
  ASSERT_NE(mapped, nullptr);
  by_call.near->fail(*by_call.near_connection, OperationResult::kPeerGone);
  by_call.poll_near(3);
  ASSERT_EQ(by_call.near_seen.size(), 1U);
  EXPECT_EQ(std::memcmp(mapped, "here", 4), 0);
}

TEST(FaultyTransport, TheLastMessagesOfAPeerThatIsGoneAreSeen) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    FaultOptions options;
    options.seed = seed;
    options.request_delay_probability = options.event_delay_probability = 0.5;
    Pair pair(options);
    std::string text = "the reason";
    const WorkRequest request{.opcode = Opcode::kSend, .local = std::as_writable_bytes(std::span(text))};
    ASSERT_EQ(pair.far_connection->post({&request, 1}), 1U);
    pair.far_connection.reset();
    for (std::uint64_t id = 0; id < 20 && pair.near_connection->status().ok(); ++id)
      (void)pair.post(pair.write(0, 64, id));
    const TimePoint deadline = pair.near->now() + kPairTimeout;
    while (pair.near->now() < deadline &&
           (pair.near_seen.empty() || pair.near_seen.back().kind != Event::Kind::kDisconnected)) {
      pair.near->wait(pair.near->now() + std::chrono::milliseconds(5));
      pair.poll_near();
    }
    EXPECT_EQ(std::ranges::count(pair.near_seen, text, &Seen::message), 1) << seed;
    EXPECT_EQ(pair.near_seen.back().kind, Event::Kind::kDisconnected);
  }
}

}  // namespace
}  // namespace verbena::transport
