// What transfers between network cards cost: tests of the cards alone, and of nodes in virtual time.
#include "apps/simulation/network_cards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

#include "apps/simulation/scheduler.hpp"
#include "apps/simulation/simulated_transport.hpp"

namespace verbena::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using transport::Access;
using transport::Connection;
using transport::Event;
using transport::MemoryRegion;
using transport::Opcode;
using transport::WorkRequest;

/// One byte per nanosecond.
constexpr double kRate = 8e9;
constexpr TimePoint kStart = TimePoint(seconds(1));

/// When a transfer that is posted at `now` arrives at the other card, if nothing else is posted meanwhile.
TimePoint carry(NetworkCards& cards, std::uint32_t from, std::uint32_t to, std::size_t bytes, TimePoint now) {
  return cards.receive(to, bytes, cards.send(from, bytes, now));
}

TEST(NetworkCardsTest, ATransferTakesItsBytesAndTheLatency) {
  NetworkCards cards({.latency = microseconds(5), .bits_per_second = kRate});
  const std::uint32_t a = cards.add();
  const std::uint32_t b = cards.add();
  EXPECT_EQ(carry(cards, a, b, 1000, kStart) - kStart, microseconds(6));
  EXPECT_EQ(carry(cards, a, b, 0, kStart + seconds(1)) - kStart - seconds(1), microseconds(5));
  EXPECT_EQ(cards.traffic(a).bytes_out, 1000U);
  EXPECT_EQ(cards.traffic(b).bytes_in, 1000U);
  EXPECT_EQ(cards.traffic(a).sending, microseconds(1));
  EXPECT_EQ(cards.traffic(b).receiving, microseconds(1));
  EXPECT_EQ(cards.traffic(b).sending, nanoseconds(0));
}

TEST(NetworkCardsTest, EachPacketHasItsHeader) {
  NetworkCards cards(
      {.latency = nanoseconds(0), .bits_per_second = kRate, .packet_bytes = 100, .header_bytes = 10});
  const std::uint32_t a = cards.add();
  const std::uint32_t b = cards.add();
  TimePoint now = kStart;
  for (const auto& [bytes, ns] : std::map<std::size_t, int>{{0, 10}, {1, 11}, {100, 110}, {101, 121}}) {
    now += seconds(1);
    EXPECT_EQ(carry(cards, a, b, bytes, now) - now, nanoseconds(ns)) << bytes;
  }
}

TEST(NetworkCardsTest, TwoSendersShareTheCardOfOneReceiver) {
  NetworkCards cards({.latency = microseconds(5), .bits_per_second = kRate});
  const std::array<std::uint32_t, 3> card = {cards.add(), cards.add(), cards.add()};
  EXPECT_EQ(carry(cards, card[0], card[2], 1000, kStart) - kStart, microseconds(6));
  EXPECT_EQ(carry(cards, card[1], card[2], 1000, kStart) - kStart, microseconds(7));
  // The opposite direction is free.
  EXPECT_EQ(carry(cards, card[2], card[1], 1000, kStart) - kStart, microseconds(6));
}

TEST(NetworkCardsTest, OneSenderSendsToOneAfterTheOther) {
  NetworkCards cards({.latency = microseconds(5), .bits_per_second = kRate});
  const std::array<std::uint32_t, 3> card = {cards.add(), cards.add(), cards.add()};
  EXPECT_EQ(carry(cards, card[0], card[1], 1000, kStart) - kStart, microseconds(6));
  EXPECT_EQ(carry(cards, card[0], card[2], 1000, kStart) - kStart, microseconds(7));
}

TEST(NetworkCardsTest, WithoutABandwidthOnlyTheLatencyCounts) {
  NetworkCards cards({.latency = microseconds(5)});
  const std::uint32_t a = cards.add();
  const std::uint32_t b = cards.add();
  EXPECT_EQ(carry(cards, a, b, std::size_t{1} << 30, kStart) - kStart, microseconds(5));
}

/// Nodes that take no time themselves: only the network does.
class CardsInANetworkTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 10'000;

  /// A node that accepts `senders` connections, and records when each notification arrives.
  void spawn_receiver(int senders) {
    scheduler_.spawn([this, senders] {
      const auto node = network_.make_transport(scheduler_.running(), "receiver");
      const auto memory = node->allocate_region(kBytes, Access::kRemoteWrite);
      const auto rows = node->allocate_region(kBytes, Access::kRemoteRead);
      ASSERT_TRUE(memory.ok() && rows.ok() && node->listen("sim:receiver").ok());
      std::vector<std::unique_ptr<Connection>> connections;
      int gone = 0;
      while (gone < senders) {
        std::array<Event, 8> events;
        const std::size_t count = node->poll(events);
        for (const Event& event : std::span(events).first(count)) {
          if (event.kind == Event::Kind::kNotification) arrivals_.push_back(scheduler_.now());
          if (event.kind == Event::Kind::kDisconnected) ++gone;
          if (event.kind != Event::Kind::kAccepted) continue;
          connections.push_back(node->take_accepted());
          writable_.push_back(*connections.back()->grant(**memory));
          readable_.push_back(*connections.back()->grant(**rows));
        }
        if (count == 0) node->wait(scheduler_.now() + seconds(1));
      }
    });
  }

  /// A node that posts `requests` transfers of kBytes each at kPosted, and records when the last one has
  /// completed.
  void spawn_sender(std::size_t number, Opcode opcode, int requests) {
    scheduler_.spawn([this, number, opcode, requests] {
      const auto node = network_.make_transport(scheduler_.running(), "sender");
      const auto memory = node->allocate_region(kBytes, Access::kLocal);
      auto connection = node->connect("sim:receiver", TimePoint::max());
      ASSERT_TRUE(memory.ok() && connection.ok());
      scheduler_.sleep(kPosted);
      const auto& remote = (opcode == Opcode::kRead ? readable_ : writable_).at(number);
      for (int i = 0; i < requests; ++i) {
        const WorkRequest request{.opcode = opcode,
                                  .signaled = i + 1 == requests,
                                  .notification = 1,
                                  .local = (*memory)->bytes(),
                                  .region = memory->get(),
                                  .remote = remote};
        ASSERT_EQ((*connection)->post({&request, 1}), 1U);
      }
      std::array<Event, 8> events;
      while (node->poll(events) == 0) node->wait(TimePoint::max());
      EXPECT_EQ(events[0].kind, Event::Kind::kCompletion);
      completions_.push_back(scheduler_.now() - kPosted);
    });
  }

  void run() {
    ASSERT_EQ(scheduler_.run(network_, TimePoint(seconds(100)), 1'000'000), Scheduler::Outcome::kAllEnded);
  }

  [[nodiscard]] std::vector<Duration> delays() const {
    std::vector<Duration> all;
    for (const TimePoint arrival : arrivals_) all.push_back(arrival - kPosted);
    return all;
  }

  static constexpr TimePoint kPosted = TimePoint(seconds(2));
  Scheduler scheduler_{{.min_step = Duration(0), .max_step = Duration(0)}};
  NetworkCards cards_{{.latency = microseconds(5), .bits_per_second = kRate}};
  Network network_{scheduler_, {.mapped = false, .cards = &cards_}};
  std::vector<transport::RemoteDescriptor> writable_, readable_;
  std::vector<TimePoint> arrivals_;
  std::vector<Duration> completions_;
};

using ::testing::ElementsAre;

TEST_F(CardsInANetworkTest, AWriteArrivesWhenItsBytesHaveAndIsAcknowledged) {
  spawn_receiver(1);
  spawn_sender(0, Opcode::kWriteNotify, 2);
  run();
  EXPECT_THAT(delays(), ElementsAre(microseconds(15), microseconds(25)));
  EXPECT_THAT(completions_, ElementsAre(microseconds(30)));
}

TEST_F(CardsInANetworkTest, WhatWasPostedBeforeTheEndArrivesBeforeIt) {
  spawn_receiver(1);
  scheduler_.spawn([this] {
    const auto node = network_.make_transport(scheduler_.running(), "sender");
    const auto memory = node->allocate_region(kBytes, Access::kLocal);
    auto connection = node->connect("sim:receiver", TimePoint::max());
    ASSERT_TRUE(memory.ok() && connection.ok());
    scheduler_.sleep(kPosted);
    const WorkRequest request{.opcode = Opcode::kWriteNotify,
                              .notification = 1,
                              .local = (*memory)->bytes(),
                              .region = memory->get(),
                              .remote = writable_.at(0)};
    ASSERT_EQ((*connection)->post({&request, 1}), 1U);
  });
  run();
  EXPECT_THAT(delays(), ElementsAre(microseconds(15)));
}

TEST_F(CardsInANetworkTest, TwoSendersIntoOneNodeShareItsCard) {
  spawn_receiver(2);
  spawn_sender(0, Opcode::kWriteNotify, 1);
  spawn_sender(1, Opcode::kWriteNotify, 1);
  run();
  EXPECT_THAT(delays(), ElementsAre(microseconds(15), microseconds(25)));
}

TEST_F(CardsInANetworkTest, AReadTakesTheWayThereAndBack) {
  spawn_receiver(1);
  spawn_sender(0, Opcode::kRead, 1);
  run();
  EXPECT_THAT(completions_, ElementsAre(microseconds(20)));
}

TEST_F(CardsInANetworkTest, ReadersShareTheCardThatTheyReadFrom) {
  spawn_receiver(2);
  spawn_sender(0, Opcode::kRead, 1);
  spawn_sender(1, Opcode::kRead, 1);
  run();
  EXPECT_THAT(completions_, ElementsAre(microseconds(20), microseconds(30)));
}

}  // namespace
}  // namespace verbena::simulation
