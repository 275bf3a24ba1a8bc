#include "apps/conditions/delayed_transport.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>

#include "tests/transport/backend.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::transport {

/// The backends for contract_test.cpp. They deliver late, but keep all promises of a transport.
std::vector<BackendUnderTest> contract_backends() {
  const auto address = [](const std::string& name, int number) {
    return fmt::format("shm:{}-{}-{}", name, ::getpid(), number);
  };
  const auto backend = [&](const std::string& name, const apps::NetworkCost& cost, bool near = false) {
    const auto counter = std::make_shared<std::atomic<int>>(0);
    return BackendUnderTest{.name = name,
                            .make_transport =
                                [=] {
                                  std::vector<std::string> addresses;
                                  // Which addresses are near is fixed here: those that make_address() has
                                  // returned last and will return next.
                                  for (int ahead = 0; near && ahead < 16; ++ahead)
                                    addresses.push_back(address(name, *counter + ahead));
                                  return std::make_unique<apps::DelayedTransport>(
                                      std::move(*make_shm_transport()), cost, std::move(addresses));
                                },
                            .make_address = [=] { return address(name, ++*counter); }};
  };
  return {backend("delayed", {.latency = std::chrono::microseconds(50), .bits_per_second = 10e9}),
          backend("delayed_by_nothing", {}),
          backend("near", {.latency = std::chrono::microseconds(50), .bits_per_second = 10e9}, true)};
}

}  // namespace verbena::transport

namespace verbena::apps {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using transport::Access;
using transport::Event;
using transport::Node;
using transport::Opcode;
using transport::pump;
using transport::TimePoint;
using transport::WorkRequest;

/// Two nodes with a link between them. The tests check only lower bounds of times: upper bounds depend on the
/// host.
class DelayedTransportTest : public ::testing::Test {
 protected:
  void connect(const NetworkCost& cost, bool near = false) {
    static std::atomic<int> counter = 0;
    const std::string address = fmt::format("shm:delayed-test-{}-{}", ::getpid(), ++counter);
    for (Node** node : {&client_, &server_}) {
      std::vector<std::string> known;
      if (near && node == &client_) known.push_back(address);
      owned_.push_back(std::make_unique<Node>(std::make_unique<DelayedTransport>(
          std::move(*transport::make_shm_transport()), cost, std::move(known))));
      *node = owned_.back().get();
    }
    ASSERT_TRUE(server_->transport->listen(address).ok());
    server_->connection = meet(*client_, *server_, address);
    ASSERT_NE(server_->connection, nullptr);
    memory_ = server_->region(1 << 20, Access::kRemoteWrite);
    readable_ = server_->region(1 << 20, Access::kRemoteRead);
    local_ = client_->region(1 << 20, Access::kLocal);
  }
  [[nodiscard]] WorkRequest request(Opcode opcode, std::size_t bytes, const transport::MemoryRegion& remote) {
    auto descriptor = server_->connection->grant(remote);
    EXPECT_TRUE(descriptor.ok());
    return {.opcode = opcode,
            .signaled = true,
            .notification = 7,
            .local = local_->bytes().first(bytes),
            .region = local_.get(),
            .remote = *descriptor};
  }
  void post(std::span<const WorkRequest> requests) {
    posted_ = client_->transport->now();
    ASSERT_EQ(client_->connection->post(requests), requests.size());
  }
  /// The time from post() until `node` has seen `count` events of the kind.
  transport::Duration time_until(Node& node, Event::Kind kind, std::size_t count) {
    pump({client_, server_}, [&] { return node.count(kind) >= count; });
    return node.transport->now() - posted_;
  }

  TimePoint posted_;
  std::vector<std::unique_ptr<Node>> owned_;
  Node* client_ = nullptr;
  Node* server_ = nullptr;
  std::unique_ptr<transport::MemoryRegion> memory_;
  std::unique_ptr<transport::MemoryRegion> readable_;
  std::unique_ptr<transport::MemoryRegion> local_;
};

TEST_F(DelayedTransportTest, NotificationsComeAfterLatencyAndTransfer) {
  connect({.latency = milliseconds(20), .bits_per_second = 100e6});
  const WorkRequest write = request(Opcode::kWriteNotify, 125'000, *memory_);  // 10 ms
  post({&write, 1});
  EXPECT_GE(time_until(*server_, Event::Kind::kNotification, 1), milliseconds(30));
  EXPECT_EQ(server_->of(Event::Kind::kNotification)[0].event.notification, 7U);
}

TEST_F(DelayedTransportTest, SenderNeedNotPoll) {
  connect({.latency = milliseconds(20)});
  const WorkRequest write = request(Opcode::kWriteNotify, 8, *memory_);
  post({&write, 1});
  pump({server_}, [&] { return server_->count(Event::Kind::kNotification) == 1; });
}

TEST_F(DelayedTransportTest, ALinkCarriesOneThingAfterTheOther) {
  connect({.latency = milliseconds(1), .bits_per_second = 100e6});
  const WorkRequest write = request(Opcode::kWriteNotify, 125'000, *memory_);
  const std::array<WorkRequest, 3> three = {write, write, write};
  post(three);
  EXPECT_GE(time_until(*server_, Event::Kind::kNotification, 3), milliseconds(31));
}

TEST_F(DelayedTransportTest, AWriteWithoutNotificationTakesTheLinkToo) {
  connect({.latency = milliseconds(1), .bits_per_second = 100e6});
  const std::array<WorkRequest, 2> both = {request(Opcode::kWrite, 125'000, *memory_),
                                           request(Opcode::kWriteNotify, 8, *memory_)};
  post(both);
  EXPECT_GE(time_until(*server_, Event::Kind::kNotification, 1), milliseconds(11));
}

TEST_F(DelayedTransportTest, AReadTakesTheWayThereAndBack) {
  connect({.latency = milliseconds(10), .bits_per_second = 100e6});
  readable_->bytes()[0] = std::byte{42};
  WorkRequest read = request(Opcode::kRead, 125'000, *readable_);
  WorkRequest unsignaled = read;
  unsignaled.signaled = false;
  unsignaled.local = local_->bytes().subspan(500'000, 125'000);
  read.id = 99;
  const std::array<WorkRequest, 2> both = {unsignaled, read};
  post(both);
  EXPECT_GE(time_until(*client_, Event::Kind::kCompletion, 1), milliseconds(40));
  EXPECT_EQ(client_->of(Event::Kind::kCompletion)[0].event.id, 99U);
  EXPECT_EQ(local_->bytes()[0], std::byte{42});
}

TEST_F(DelayedTransportTest, MessagesAreLateAndWhole) {
  connect({.latency = milliseconds(15)});
  std::string text = "an ark of gopher wood..!";  // as long as the stamps that the transport sends
  ASSERT_EQ(text.size(), 24U);
  const WorkRequest send = {.opcode = Opcode::kSend, .local = transport::bytes_of(text)};
  post({&send, 1});
  EXPECT_GE(time_until(*server_, Event::Kind::kMessage, 1), milliseconds(15));
  EXPECT_EQ(server_->of(Event::Kind::kMessage)[0].message, text);
}

TEST_F(DelayedTransportTest, NoMemoryIsMapped) {
  connect({});
  const WorkRequest read = request(Opcode::kRead, 8, *readable_);
  EXPECT_EQ(client_->connection->mapped(read.remote), nullptr);
}

/// A latency longer than any test waits.
constexpr NetworkCost kEndless = {.latency = std::chrono::hours(1), .bits_per_second = 1e6};

TEST_F(DelayedTransportTest, NothingIsLateBetweenNearOnes) {
  connect(kEndless, /*near=*/true);
  readable_->bytes()[0] = std::byte{42};
  const std::array<WorkRequest, 3> all = {request(Opcode::kRead, 125'000, *readable_),
                                          request(Opcode::kWrite, 125'000, *memory_),
                                          request(Opcode::kWriteNotify, 125'000, *memory_)};
  post(all);
  pump({client_, server_}, [&] {
    return server_->count(Event::Kind::kNotification) == 1 && client_->count(Event::Kind::kCompletion) == 3;
  });
  EXPECT_EQ(local_->bytes()[0], std::byte{42});
  // The server's transport knows no near address, but the client's transport has told it.
  std::string text = "a dove";
  const WorkRequest send = {.opcode = Opcode::kSend, .local = transport::bytes_of(text)};
  ASSERT_EQ(server_->connection->post({&send, 1}), 1U);
  pump({client_, server_}, [&] { return client_->count(Event::Kind::kMessage) == 1; });
  EXPECT_EQ(client_->of(Event::Kind::kMessage)[0].message, text);
  EXPECT_EQ(server_->count(Event::Kind::kMessage), 0U)
      << "what the transports tell each other must not reach the user as a message";
}

TEST_F(DelayedTransportTest, MemoryOfNearOnesIsMapped) {
  connect(kEndless, /*near=*/true);
  readable_->bytes()[0] = std::byte{42};
  const std::byte* const place = client_->connection->mapped(request(Opcode::kRead, 8, *readable_).remote);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(*place, std::byte{42});
  const auto shared = server_->region(4096, Access::kRemoteReadHostWrite);
  const auto granted = server_->connection->grant_in_place(*shared);
  ASSERT_TRUE(granted.ok());
  EXPECT_NE(client_->connection->mapped_in_place(*granted), nullptr);
}

TEST_F(DelayedTransportTest, NearOnesTakeNothingOfTheLinks) {
  connect({.bits_per_second = 1e4}, /*near=*/true);
  // A second connection of the same transports, over the network.
  const std::string address = fmt::format("shm:delayed-test-far-{}", ::getpid());
  ASSERT_TRUE(server_->transport->listen(address).ok());
  const std::unique_ptr<transport::Connection> near = std::move(client_->connection);
  const auto far = meet(*client_, *server_, address);
  ASSERT_NE(far, nullptr);
  const WorkRequest large = request(Opcode::kWriteNotify, 1 << 20, *memory_);  // minutes over the network
  ASSERT_EQ(near->post({&large, 1}), 1U);
  pump({client_, server_}, [&] { return server_->count(Event::Kind::kNotification) == 1; });
  std::string text = "a dove";
  const WorkRequest send = {.opcode = Opcode::kSend, .local = transport::bytes_of(text)};
  ASSERT_EQ(client_->connection->post({&send, 1}), 1U);
  pump({client_, server_}, [&] { return server_->count(Event::Kind::kMessage) == 1; });
}

TEST_F(DelayedTransportTest, WaitingEndsWhenSomethingIsDue) {
  connect({.latency = milliseconds(30)});
  const WorkRequest write = request(Opcode::kWriteNotify, 8, *memory_);
  post({&write, 1});
  const TimePoint start = server_->transport->now();
  // Each call waits. Without waiting, 100 polls would end long before the notification comes.
  int polls = 0;
  while (server_->count(Event::Kind::kNotification) == 0 && ++polls < 100) {
    server_->transport->wait(start + std::chrono::hours(1));
    server_->poll();
  }
  EXPECT_EQ(server_->count(Event::Kind::kNotification), 1U);
}

TEST(ParseNetworkTest, ReadsLatencyAndBandwidth) {
  const auto cost = parse_network("latency=10us,bandwidth=2.5Gb/s");
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->latency, microseconds(10));
  EXPECT_EQ(cost->bits_per_second, 2.5e9);
  EXPECT_EQ(parse_network("bandwidth=100Mb/s")->latency, transport::Duration::zero());
  EXPECT_EQ(parse_network("latency=1ms")->bits_per_second, 0);
}

TEST(ParseNetworkTest, ReadsWhatSharesAHost) {
  EXPECT_EQ(parse_job_network("latency=10us")->hosts, Hosts::kProcesses);
  EXPECT_EQ(parse_job_network("hosts=processes,latency=10us")->hosts, Hosts::kProcesses);
  const auto network = parse_job_network("latency=10us,hosts=nodes");
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->hosts, Hosts::kNodes);
  EXPECT_EQ(network->cost.latency, microseconds(10));
  EXPECT_THAT(std::string(parse_job_network("hosts=all").status().message()), HasSubstr("hosts=nodes or"));
  EXPECT_THAT(std::string(parse_network("latency=10us,hosts=nodes").status().message()),
              HasSubstr("hosts= is of a job that runs"));
}

TEST(ParseNetworkTest, SaysWhatWasExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "such as latency=10us,bandwidth=1Gb/s, is expected"},
      {"fast", "such as latency=10us"},
      {"latency=10", "a latency of at most 1s"},
      {"latency=2s", "a latency of at most 1s"},
      {"bandwidth=1GB/s", "a bandwidth from 1Mb/s"},
      {"bandwidth=0Gb/s", "a bandwidth from 1Mb/s"},
      {"bandwidth=nanGb/s", "a bandwidth from 1Mb/s"},
      {"latency=1us,latency=2us", "latency= comes twice"},
      {"jitter=1us", "there is no jitter="},
  };
  for (const auto& [text, expected] : cases) {
    const auto cost = parse_network(text);
    ASSERT_FALSE(cost.ok()) << text;
    EXPECT_THAT(std::string(cost.status().message()), HasSubstr(expected)) << text;
  }
}

}  // namespace
}  // namespace verbena::apps
