#include "transport/message_ring.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <random>
#include <thread>

#include "tests/transport/faulty_transport.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

constexpr auto kTimeout = std::chrono::seconds(30);

std::string fresh_address() {
  static std::atomic<int> count{0};
  return fmt::format("shm:message-ring-test-{}-{}", ::getpid(), count++);
}

std::unique_ptr<FaultyTransport> make_transport(const FaultOptions& options) {
  auto transport = make_shm_transport({.answer_patience = kTimeout});
  EXPECT_TRUE(transport.ok()) << transport.status();
  return std::make_unique<FaultyTransport>(std::move(*transport), options);
}

std::unique_ptr<Connection> await_accepted(Transport& transport) {
  const TimePoint deadline = transport.now() + kTimeout;
  std::array<Event, 1> events;
  while (transport.now() < deadline) {
    if (transport.poll(events) == 1 && events[0].kind == Event::Kind::kAccepted)
      return transport.take_accepted();
    transport.wait(deadline);
  }
  return nullptr;
}

/// Byte `at` of message `number`.
std::byte pattern(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>(number * 131 + at * 7 + at / 251);
}

void fill_with_pattern(std::span<std::byte> message, std::uint64_t number) {
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = pattern(number, i);
}

bool holds(std::span<const std::byte> message, std::uint64_t number) {
  for (std::size_t i = 0; i < message.size(); ++i) {
    if (message[i] != pattern(number, i)) return false;
  }
  return true;
}

/// Sends numbered messages from slots that it overwrites as soon as the ring allows it.
class Source {
 public:
  Source(Transport& transport, Connection& connection, std::size_t slot_bytes) : slot_bytes_(slot_bytes) {
    region_ = *transport.allocate_region(kSlots * slot_bytes, Access::kLocal);
    sender_ = *RingSender::create(transport, connection);
  }

  RingSender& sender() { return *sender_; }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }

  SendResult send(std::size_t bytes) {
    reclaim();
    const std::size_t slot = sent_ % kSlots;
    if (positions_[slot] != 0) return SendResult::kNoCredit;
    const std::span<std::byte> message = region_->bytes().subspan(slot * slot_bytes_, bytes);
    fill_with_pattern(message, sent_);
    const SendResult result = sender_->try_send(message, *region_);
    if (result == SendResult::kSent) {
      positions_[slot] = sender_->sent_position();
      ++sent_;
    }
    return result;
  }

  void reclaim() {
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      if (positions_[slot] == 0 || positions_[slot] > sender_->reusable_position()) continue;
      positions_[slot] = 0;
      std::ranges::fill(region_->bytes().subspan(slot * slot_bytes_, slot_bytes_), std::byte{0xee});
    }
  }

  void on_event(const Event& event) {
    if (event.kind == Event::Kind::kCompletion) sender_->on_completion(event);
    if (event.kind == Event::Kind::kNotification) {
      EXPECT_EQ(event.notification, 0U);
      EXPECT_EQ(sender_->on_credit(), absl::OkStatus());
    }
  }

 private:
  static constexpr std::size_t kSlots = 6;  // not a divisor or multiple of the signalling interval
  const std::size_t slot_bytes_;
  std::unique_ptr<MemoryRegion> region_;
  std::unique_ptr<RingSender> sender_;
  std::array<std::uint64_t, kSlots> positions_ = {};  ///< 0: free
  std::uint64_t sent_ = 0;
};

/// Receives messages, keeps some for a while, and checks them when they come and when it releases them.
class Sink {
 public:
  Sink(Transport& transport, Connection& connection, std::size_t ring_bytes)
      : receiver_(*RingReceiver::create(transport, connection, ring_bytes)) {}

  RingReceiver& receiver() { return *receiver_; }
  [[nodiscard]] std::size_t kept() const { return kept_.size(); }
  [[nodiscard]] std::uint64_t released() const { return released_; }

  void on_event(const Event& event) {
    if (event.kind != Event::Kind::kNotification) return;
    auto message = receiver_->on_notification(event.notification);
    ASSERT_TRUE(message.ok()) << message.status();
    ASSERT_EQ(message->size(), event.notification);
    EXPECT_TRUE(holds(*message, released_ + kept_.size())) << "message " << released_ + kept_.size();
    kept_.push_back(*message);
  }

  void release() {
    EXPECT_TRUE(holds(kept_.front(), released_)) << "message " << released_;
    kept_.pop_front();
    ++released_;
    receiver_->release();
  }

 private:
  std::unique_ptr<RingReceiver> receiver_;
  std::deque<std::span<const std::byte>> kept_;
  std::uint64_t released_ = 0;
};

/// Both ends of a ring, in one thread.
class Ring {
 public:
  explicit Ring(std::size_t ring_bytes, const FaultOptions& options = {}) {
    const std::string address = fresh_address();
    near_ = make_transport(options);
    FaultOptions far_options = options;
    far_options.seed += 1'000'000;
    far_ = make_transport(far_options);
    EXPECT_EQ(far_->listen(address), absl::OkStatus());
    auto connecting =
        std::async(std::launch::async, [&] { return *near_->connect(address, near_->now() + kTimeout); });
    far_connection_ = await_accepted(*far_);
    near_connection_ = connecting.get();
    source_ = std::make_unique<Source>(*near_, *near_connection_, (ring_bytes + 7) / 8 * 8);
    sink_ = std::make_unique<Sink>(*far_, *far_connection_, ring_bytes);
    source_->sender().set_ring(sink_->receiver().descriptor());
    sink_->receiver().set_credit(source_->sender().credit_descriptor());
  }

  ~Ring() {
    // Transfers that are under way must end before their memory is freed.
    for (int i = 0; i < 100; ++i) discard_events();
  }

  Source& source() { return *source_; }
  Sink& sink() { return *sink_; }
  Connection& near_connection() { return *near_connection_; }
  Connection& far_connection() { return *far_connection_; }
  Transport& near() { return *near_; }
  Transport& far() { return *far_; }

  void poll_near() {
    std::array<Event, 4> events;
    const std::size_t count = near_->poll(events);
    for (const Event& event : std::span(events).first(count)) source_->on_event(event);
  }
  void poll_far() {
    std::array<Event, 4> events;
    const std::size_t count = far_->poll(events);
    for (const Event& event : std::span(events).first(count)) sink_->on_event(event);
    sink_->receiver().return_credit();
  }
  void discard_events() {
    std::array<Event, 4> events;
    (void)near_->poll(events);
    (void)far_->poll(events);
  }
  void poll() {
    poll_near();
    poll_far();
  }
  /// Polls both ends until `done`; false after very many polls.
  template <class Done>
  bool poll_until(const Done& done) {
    for (int i = 0; i < 100'000; ++i) {
      if (done()) return true;
      poll();
    }
    return done();
  }

 private:
  std::unique_ptr<FaultyTransport> near_;
  std::unique_ptr<FaultyTransport> far_;
  std::unique_ptr<Connection> near_connection_;
  std::unique_ptr<Connection> far_connection_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<Sink> sink_;
};

std::uint64_t padded(std::size_t bytes) {
  return (bytes + 7) / 8 * 8;
}

TEST(MessageRing, EverySizeArrivesWholeAndInOrder) {
  constexpr std::size_t kRingBytes = 4096;
  Ring ring(kRingBytes);
  for (std::size_t bytes = 1; bytes <= max_ring_message_bytes(kRingBytes); ++bytes) {
    SendResult result = SendResult::kNoCredit;
    ASSERT_TRUE(ring.poll_until([&] {
      result = ring.source().send(bytes);
      return result != SendResult::kNoCredit;
    })) << bytes;
    ASSERT_EQ(result, SendResult::kSent);
    ASSERT_TRUE(ring.poll_until([&] { return ring.sink().kept() == 1; })) << bytes;
    ring.sink().release();
  }
}

TEST(MessageRing, TheLargestMessageAlwaysGetsThrough) {
  for (const std::size_t ring_bytes : {64UL, 72UL, 100UL, 256UL, 4096UL, 5000UL}) {
    Ring ring(ring_bytes);
    const std::size_t largest = max_ring_message_bytes(ring.source().sender().capacity_bytes());
    // Messages begin at many positions of the ring; only the sink releases them.
    for (std::size_t i = 0; i < 300; ++i) {
      const std::size_t bytes = i % 2 == 0 ? 1 + i % largest : largest;
      ASSERT_TRUE(ring.poll_until([&] {
        while (ring.sink().kept() > 0) ring.sink().release();
        return ring.source().send(bytes) == SendResult::kSent;
      })) << ring_bytes;
    }
    ASSERT_TRUE(ring.poll_until([&] { return ring.sink().released() + ring.sink().kept() == 300; }));
  }
}

TEST(MessageRing, AFullRingTakesNothingUntilSomethingIsReleased) {
  Ring ring(4096);
  constexpr std::size_t kBytes = 512;
  const auto send = [&] {
    return ring.poll_until([&] { return ring.source().send(kBytes) == SendResult::kSent; });
  };
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(send());
  ASSERT_TRUE(ring.poll_until([&] { return ring.sink().kept() == 8; }));
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(ring.source().send(kBytes), SendResult::kNoCredit);
    ring.poll();
  }
  ring.sink().release();
  ring.sink().release();
  EXPECT_TRUE(send());
  EXPECT_TRUE(send());
  ring.poll();
  EXPECT_EQ(ring.source().send(kBytes), SendResult::kNoCredit);
}

TEST(MessageRing, CreditComesInQuarters) {
  Ring ring(4096);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(ring.poll_until([&] { return ring.source().send(64) == SendResult::kSent; }));
    ASSERT_TRUE(ring.poll_until([&] { return ring.sink().kept() == 1; }));
    ring.sink().release();
    for (int polls = 0; polls < 10; ++polls) ring.poll();
    EXPECT_EQ(ring.source().sender().delivered_position(), (i + 1) * 64 / 1024 * 1024) << i;
  }
}

/// Who sends may go by a message, and its place is not free.
TEST(MessageRing, WhatIsAcknowledgedStaysInTheRing) {
  Ring ring(4096);
  RingSender& sender = ring.source().sender();
  RingReceiver& receiver = ring.sink().receiver();
  const auto send = [&] {
    return ring.poll_until([&] { return ring.source().send(512) == SendResult::kSent; });
  };
  const auto acknowledge_all_but = [&](std::uint64_t newest) {
    receiver.acknowledge_all_but(newest);
    EXPECT_TRUE(receiver.return_acknowledgements());
    for (int i = 0; i < 10; ++i) ring.poll();
    return sender.acknowledged_position();
  };
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(send());
  ASSERT_TRUE(ring.poll_until([&] { return ring.sink().kept() == 8; }));
  EXPECT_EQ(sender.acknowledged_position(), 0U);
  EXPECT_EQ(acknowledge_all_but(8), 0U);
  EXPECT_EQ(acknowledge_all_but(3), 5 * 512U);
  EXPECT_EQ(acknowledge_all_but(7), 5 * 512U) << "nothing is taken back";
  EXPECT_EQ(sender.delivered_position(), 0U);
  EXPECT_EQ(ring.source().send(512), SendResult::kNoCredit);
  ring.sink().release();
  EXPECT_EQ(acknowledge_all_but(0), 8 * 512U);
  EXPECT_EQ(sender.delivered_position(), 512U) << "who is told of the one hears of the other";
  ASSERT_TRUE(send());
  ASSERT_TRUE(ring.poll_until([&] { return ring.sink().kept() == 8; }));
  EXPECT_EQ(acknowledge_all_but(100), 8 * 512U);
  for (int i = 0; i < 8; ++i) ring.sink().release();
  EXPECT_EQ(acknowledge_all_but(100), 9 * 512U) << "what is released is acknowledged";
}

TEST(MessageRing, AllMemoryBecomesReusableByPollingAlone) {
  Ring ring(1 << 16);
  for (int burst = 1; burst <= 6; ++burst) {
    for (int i = 0; i < burst; ++i) ASSERT_EQ(ring.source().send(100), SendResult::kSent);
    EXPECT_LT(ring.source().sender().delivered_position(), ring.source().sender().sent_position());
    RingSender& sender = ring.source().sender();
    ASSERT_TRUE(ring.poll_until([&] { return sender.reusable_position() == sender.sent_position(); }))
        << burst;
  }
}

TEST(MessageRing, ReusablePositionsTrailWhatWasSent) {
  FaultOptions late;
  late.request_delay_probability = 1;
  Ring ring(4096, late);
  ASSERT_EQ(ring.source().send(100), SendResult::kSent);
  EXPECT_EQ(ring.source().sender().sent_position(), padded(100));
  EXPECT_EQ(ring.source().sender().reusable_position(), 0U);
}

FaultOptions unpleasant(std::uint64_t seed) {
  FaultOptions options;
  options.seed = seed;
  options.request_delay_probability = 0.3;
  options.event_delay_probability = 0.3;
  options.split_probability = 0.7;
  options.partial_post_probability = 0.2;
  options.max_lines_per_poll = 3;
  return options;
}

TEST(MessageRing, RandomInterleavingsKeepOrderAndContent) {
  constexpr std::uint64_t kMessages = 300;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const std::size_t ring_bytes = std::array{256UL, 1000UL, 4096UL, 20'000UL}[seed % 4];
    Ring ring(ring_bytes, unpleasant(seed));
    std::size_t bytes = 1;
    bool sent = true;
    for (int step = 0; step < 400'000 && ring.sink().released() < kMessages; ++step) {
      switch (random() % 4) {
        case 0:
          if (sent) bytes = 1 + random() % max_ring_message_bytes(ring_bytes);
          if (ring.source().sent() == kMessages) break;
          sent = ring.source().send(bytes) == SendResult::kSent;
          break;
        case 1:
          ring.poll_near();
          ring.source().reclaim();
          break;
        case 2:
          ring.poll_far();
          break;
        default:
          if (ring.sink().kept() > 0 && random() % 2 == 0) ring.sink().release();
      }
      if (HasFatalFailure()) return;
    }
    ASSERT_EQ(ring.sink().released(), kMessages) << "stuck after " << ring.source().sent() << " sends";
    ASSERT_EQ(ring.source().sender().status(), absl::OkStatus());
  }
}

TEST(MessageRing, ImpossibleRingsAreRefused) {
  Ring ring(4096);
  for (const std::size_t bytes : {std::size_t{0}, kMinRingBytes - 1, kMaxRingBytes + 1, SIZE_MAX}) {
    EXPECT_EQ(RingReceiver::create(ring.far(), ring.far_connection(), bytes).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  auto region = *ring.near().allocate_region(64, Access::kLocal);
  for (const RemoteDescriptor& descriptor :
       {RemoteDescriptor{0, 0, 0}, RemoteDescriptor{0, 60, 0}, RemoteDescriptor{4, 4096, 0},
        RemoteDescriptor{0, 4097, 0}, RemoteDescriptor{0, kMaxRingBytes + 8, 0}}) {
    auto sender = *RingSender::create(ring.near(), ring.near_connection());
    EXPECT_EQ(sender->try_send(region->bytes(), *region), SendResult::kNoCredit);
    sender->set_ring(descriptor);
    EXPECT_EQ(sender->try_send(region->bytes().first(8), *region), SendResult::kFailed);
    EXPECT_EQ(sender->status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(MessageRing, AMessageTheRingCannotTakeFails) {
  Ring ring(4096);
  auto region = *ring.near().allocate_region(2048, Access::kLocal);
  EXPECT_EQ(ring.source().sender().try_send(region->bytes().first(1032), *region), SendResult::kFailed);
  EXPECT_THAT(std::string(ring.source().sender().status().message()), HasSubstr("1032"));
}

TEST(MessageRing, SendingFailsWhenTheConnectionHas) {
  FaultOptions options;
  options.fail_at_request = 2;
  Ring ring(4096, options);
  ASSERT_EQ(ring.source().send(8), SendResult::kSent);
  ASSERT_EQ(ring.source().send(8), SendResult::kSent);
  (void)ring.source().send(8);  // is posted, and breaks the connection
  EXPECT_EQ(ring.source().sender().try_send({}, *ring.near().allocate_region(8, Access::kLocal).value()),
            SendResult::kFailed);
}

TEST(MessageRing, CreditsThatCannotBeAreErrors) {
  const auto write_credit = [](Ring& ring, std::uint64_t credit, std::uint64_t offset = 0) {
    auto word = *ring.far().allocate_region(8, Access::kLocal);
    std::memcpy(word->bytes().data(), &credit, sizeof credit);
    const WorkRequest request{.opcode = Opcode::kWrite,
                              .local = word->bytes().first(8),
                              .region = word.get(),
                              .remote = ring.source().sender().credit_descriptor().slice(offset, 8)};
    ASSERT_EQ(ring.far_connection().post({&request, 1}), 1U);
    for (int i = 0; i < 10; ++i) ring.poll();
  };
  {
    Ring ring(4096);
    write_credit(ring, 8);
    EXPECT_EQ(ring.source().sender().on_credit().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ring.source().send(8), SendResult::kFailed);
  }
  {
    Ring ring(4096);
    write_credit(ring, 8, 8);
    EXPECT_THAT(std::string(ring.source().sender().on_credit().message()), HasSubstr("acknowledged"));
    EXPECT_EQ(ring.source().sender().acknowledged_position(), 0U);
  }
  Ring ring(4096);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(ring.source().send(512), SendResult::kSent);
  write_credit(ring, 1024);
  EXPECT_EQ(ring.source().sender().on_credit(), absl::OkStatus());
  EXPECT_EQ(ring.source().sender().delivered_position(), 1024U);
  write_credit(ring, 1016);  // it was on the way when a later one was told in its place
  EXPECT_EQ(ring.source().sender().on_credit(), absl::OkStatus());
  EXPECT_EQ(ring.source().sender().delivered_position(), 1024U);
  // A sender whose ring is full reads the credit, and finds the error without a notification.
  Ring full(4096);
  write_credit(full, UINT64_MAX);
  SendResult result = SendResult::kSent;
  for (int i = 0; i < 100 && result != SendResult::kFailed; ++i) {
    result = full.source().send(1024);
    full.poll();
  }
  EXPECT_EQ(result, SendResult::kFailed);
}

TEST(MessageRing, NotificationsThatCannotBeAreErrors) {
  Ring ring(4096);
  RingReceiver& receiver = ring.sink().receiver();
  EXPECT_EQ(receiver.on_notification(1025).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(receiver.on_notification(UINT32_MAX).status().code(), absl::StatusCode::kInvalidArgument);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(receiver.on_notification(1024).ok());
  EXPECT_EQ(receiver.on_notification(1).status().code(), absl::StatusCode::kInvalidArgument);
  auto empty = receiver.on_notification(0);
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->empty());
  auto no_credit = *RingReceiver::create(ring.far(), ring.far_connection(), 4096);
  EXPECT_EQ(no_credit->on_notification(8).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MessageRing, AnyNotificationIsAMessageInsideTheRingOrAnError) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    Ring ring(64 + random() % 10'000);
    RingReceiver& receiver = ring.sink().receiver();
    const std::size_t ring_bytes = receiver.capacity_bytes();
    std::deque<std::span<const std::byte>> unreleased;
    const std::byte* lowest = nullptr;
    const std::byte* highest = nullptr;
    for (int i = 0; i < 3000; ++i) {
      if (random() % 3 == 0 && !unreleased.empty()) {
        unreleased.pop_front();
        receiver.release();
        ring.discard_events();  // the sender knows nothing of these messages
        continue;
      }
      const auto notification =
          static_cast<std::uint32_t>(random() % 8 == 0 ? random() : random() % (ring_bytes / 3));
      auto message = receiver.on_notification(notification);
      if (!message.ok()) {
        ASSERT_EQ(message.status().code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      ASSERT_EQ(message->size(), notification);
      if (message->empty()) continue;
      for (const auto& other : unreleased) {
        ASSERT_TRUE(message->data() + message->size() <= other.data() ||
                    other.data() + other.size() <= message->data());
      }
      const std::byte* const end = message->data() + message->size();
      lowest = lowest == nullptr ? message->data() : std::min(lowest, message->data());
      highest = highest == nullptr ? end : std::max(highest, end);
      ASSERT_LE(static_cast<std::size_t>(highest - lowest), ring_bytes);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(message->data()) % 8, 0U);
      unreleased.push_back(*message);
    }
  }
}

/// Two threads over shared memory without faults. Each sleeps when it has nothing to do: a credit must wake
/// the sender.
TEST(MessageRing, TwoThreads) {
  constexpr std::uint64_t kMessages = 3000;
  constexpr std::size_t kRingBytes = 4096;
  const std::string address = fresh_address();
  RemoteDescriptor ring;
  RemoteDescriptor credit;
  std::atomic<int> ready{0};
  std::atomic<bool> over{false};
  const auto meet = [&](int count) {
    ready.fetch_add(1);
    while (ready.load() < count) std::this_thread::yield();
  };
  const auto poll = [](Transport& transport, auto& side) {
    std::array<Event, 16> events;
    const std::size_t count = transport.poll(events);
    for (const Event& event : std::span(events).first(count)) side.on_event(event);
    return count > 0;
  };
  std::thread far([&] {
    auto transport = *make_shm_transport({});
    ASSERT_EQ(transport->listen(address), absl::OkStatus());
    auto connection = await_accepted(*transport);
    ASSERT_NE(connection, nullptr);
    Sink sink(*transport, *connection, kRingBytes);
    ring = sink.receiver().descriptor();
    meet(2);
    sink.receiver().set_credit(credit);
    meet(4);
    const TimePoint deadline = transport->now() + kTimeout;
    while (sink.released() < kMessages && transport->now() < deadline) {
      const bool worked = poll(*transport, sink);
      while (sink.kept() > 0) sink.release();
      sink.receiver().return_credit();
      if (!worked) transport->wait(deadline);
    }
    EXPECT_EQ(sink.released(), kMessages);
    over = true;
    meet(6);
  });
  {
    auto transport = *make_shm_transport({.answer_patience = kTimeout});
    auto connection = *transport->connect(address, transport->now() + kTimeout);
    Source source(*transport, *connection, kRingBytes);
    credit = source.sender().credit_descriptor();
    meet(2);
    source.sender().set_ring(ring);
    meet(4);
    const TimePoint deadline = transport->now() + kTimeout;
    std::mt19937_64 random(1);
    while (source.sent() < kMessages && transport->now() < deadline) {
      const SendResult result = source.send(1 + random() % max_ring_message_bytes(kRingBytes));
      ASSERT_NE(result, SendResult::kFailed);
      if (!poll(*transport, source) && result == SendResult::kNoCredit) transport->wait(deadline);
    }
    EXPECT_EQ(source.sent(), kMessages);
    while (!over && transport->now() < deadline) {
      poll(*transport, source);
      source.reclaim();
    }
    meet(6);
  }
  far.join();
}

}  // namespace
}  // namespace verbena::transport
