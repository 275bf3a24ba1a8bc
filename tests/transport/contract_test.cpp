// The promises of transport/transport.hpp, tested on every backend.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "base/word_copy.hpp"
#include "tests/transport/backend.hpp"
#include "transport/backends.hpp"
#include "transport/heartbeat.hpp"
#include "transport/refusal.hpp"

namespace verbena::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = Event::Kind;

class TransportContract : public ::testing::TestWithParam<BackendUnderTest> {
 protected:
  void SetUp() override {
    address_ = GetParam().make_address();
    ASSERT_TRUE(server_.transport->listen(address_).ok());
    server_.connection = meet(client_, server_, address_);
    ASSERT_NE(server_.connection, nullptr);
  }
  static Node make_node() { return Node(GetParam().make_transport()); }

  static RemoteDescriptor grant(Node& owner, const MemoryRegion& region) {
    auto descriptor = owner.connection->grant(region);
    EXPECT_TRUE(descriptor.ok()) << descriptor.status();
    return descriptor.ok() ? *descriptor : RemoteDescriptor();
  }
  /// Posts all requests, in several parts if the queue is full.
  void post(Node& node, std::vector<WorkRequest> requests) {
    std::span<const WorkRequest> rest = requests;
    pump({&client_, &server_}, [&] {
      rest = rest.subspan(node.connection->post(rest));
      return rest.empty() || !node.connection->status().ok();
    });
    EXPECT_TRUE(rest.empty()) << node.connection->status();
  }
  /// The node's end fails once, with nothing after that event, and post() takes nothing any more.
  void expect_disconnected(Node& node, const std::string& peer_name) {
    pump({&client_, &server_}, [&] { return node.count(Kind::kDisconnected) > 0; });
    pump_for({&client_, &server_}, milliseconds(30));
    EXPECT_EQ(node.count(Kind::kDisconnected), 1U);
    EXPECT_EQ(node.seen.back().event.kind, Kind::kDisconnected);
    EXPECT_EQ(node.seen.back().event.connection, node.connection.get());
    EXPECT_THAT(std::string(node.connection->status().message()), ::testing::HasSubstr(peer_name));
    std::string text = "late";
    const WorkRequest late = {.opcode = Opcode::kSend, .signaled = true, .local = bytes_of(text)};
    EXPECT_EQ(node.connection->post({&late, 1}), 0U);
  }
  /// The client posts `request`, unsignaled, and a read after it. The first is refused, and the connection
  /// ends.
  void expect_refused(WorkRequest request, const MemoryRegion& untouched) {
    const std::vector<std::byte> before(untouched.bytes().begin(), untouched.bytes().end());
    auto good = server_.region(64, Access::kRemoteRead);
    WorkRequest second = {.opcode = Opcode::kRead,
                          .signaled = true,
                          .id = 2,
                          .local = request.region->bytes().first(8),
                          .region = request.region,
                          .remote = grant(server_, *good)};
    request.id = 1;
    const std::array<WorkRequest, 2> both = {request, second};
    const std::size_t taken = client_.connection->post(both);
    ASSERT_GE(taken, 1U);
    expect_disconnected(client_, client_.connection->peer_name());
    expect_disconnected(server_, server_.connection->peer_name());
    const auto completions = client_.of(Kind::kCompletion);
    ASSERT_EQ(completions.size(), taken);
    EXPECT_EQ(completions[0].event.id, 1U);
    EXPECT_EQ(completions[0].event.result, OperationResult::kAccessDenied);
    if (taken == 2) {
      EXPECT_EQ(completions[1].event.result, OperationResult::kFlushed);
    }
    EXPECT_TRUE(std::equal(before.begin(), before.end(), untouched.bytes().begin()));
  }

  std::string address_;
  Node server_ = make_node();
  Node client_ = make_node();
};

std::vector<std::size_t> sizes() {
  return {0, 1, 7, 8, 9, 63, 64, 65, 100, 400, 4096, std::size_t{1} << 20, (std::size_t{3} << 20) + 5};
}

// Word by word: each case fills megabytes, also in emulated machines and under sanitizers.
void fill(std::span<std::byte> bytes, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof(std::uint64_t)))) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data(), &word, std::min(bytes.size(), sizeof word));
  }
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool all_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes.front() == std::byte{0} && equal(bytes.first(bytes.size() - 1), bytes.subspan(1)));
}

// ---- secrets

TEST_P(TransportContract, OnlyWhoHasTheSameSecretMeets) {
  if (!GetParam().make_guarded) GTEST_SKIP() << "this backend knows no secrets";
  const std::shared_ptr<const Secret> ours = *Secret::random();
  const std::shared_ptr<const Secret> theirs = *Secret::random();
  for (const auto& secret : {ours, std::shared_ptr<const Secret>()}) {
    Node listener(GetParam().make_guarded(secret));
    const std::string address = GetParam().make_address();
    ASSERT_TRUE(listener.transport->listen(address).ok());
    for (const auto& other : {theirs, std::shared_ptr<const Secret>()}) {
      if (other == secret) continue;
      Node stranger(GetParam().make_guarded(other));
      auto connecting = std::async(std::launch::async, [&] {
        return stranger.transport->connect(address, stranger.in(kPatience)).status();
      });
      while (connecting.wait_for(milliseconds(1)) != std::future_status::ready) listener.poll();
      const absl::Status status = connecting.get();
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("secret"));
    }
    EXPECT_EQ(listener.count(Kind::kAccepted), 0U);
    Node member(GetParam().make_guarded(secret));
    listener.connection = meet(member, listener, address);
    ASSERT_NE(listener.connection, nullptr);
    auto shelf = listener.region(64, Access::kRemoteRead);
    auto place = member.region(64, Access::kLocal);
    put_at<std::uint64_t>(shelf->bytes(), 0, 42);
    const WorkRequest read = {.opcode = Opcode::kRead,
                              .signaled = true,
                              .local = place->bytes(),
                              .region = place.get(),
                              .remote = grant(listener, *shelf)};
    pump({&member, &listener}, [&] { return member.connection->post({&read, 1}) == 1; });
    pump({&member, &listener}, [&] { return member.count(Kind::kCompletion) == 1; });
    EXPECT_EQ(value_at<std::uint64_t>(place->bytes()), 42U);
    listener.connection.reset();
    member.connection.reset();
  }
}

// ---- meeting

TEST_P(TransportContract, AnAcceptedConnectionIsAnnouncedOnceAndTakenOnce) {
  pump_for({&client_, &server_}, milliseconds(20));
  EXPECT_EQ(server_.count(Kind::kAccepted), 1U);
  EXPECT_EQ(server_.transport->take_accepted(), nullptr);
  EXPECT_EQ(client_.transport->take_accepted(), nullptr);
  EXPECT_TRUE(server_.connection->status().ok());
  EXPECT_TRUE(client_.connection->status().ok());
  EXPECT_FALSE(server_.connection->peer_name().empty());
}

TEST_P(TransportContract, OnlyOneListensAtAnAddress) {
  EXPECT_EQ(server_.transport->listen(address_).code(), absl::StatusCode::kAlreadyExists);
  const absl::Status status = client_.transport->listen(address_);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(address_));
  server_.connection.reset();
  server_.transport.reset();
  EXPECT_TRUE(client_.transport->listen(address_).ok()) << "the address is free once its listener is gone";
}

TEST_P(TransportContract, AListenerSaysWhereItIsReached) {
  EXPECT_EQ(server_.transport->listening_address(), address_)
      << "the address that was asked for: it had no wildcard";
  EXPECT_EQ(client_.transport->listening_address(), "");
  EXPECT_FALSE(client_.transport->listen(address_).ok());
  EXPECT_EQ(client_.transport->listening_address(), "");
  Node third = make_node();
  EXPECT_NE(meet(third, server_, server_.transport->listening_address()), nullptr);
}

/// As servers of a job may do, while their workers are connected to them.
TEST_P(TransportContract, ThoseWhoListenConnectToOneAnother) {
  Node other = make_node();
  const std::string address = GetParam().make_address();
  ASSERT_TRUE(other.transport->listen(address).ok());
  const auto to_client = std::move(server_.connection);  // meet() assigns another one
  const auto at_other = meet(server_, other, address);
  ASSERT_NE(at_other, nullptr);
  const auto to_other = std::move(server_.connection);
  const auto at_server = meet(other, server_, address_);
  ASSERT_NE(at_server, nullptr);
  const auto to_server = std::move(other.connection);
  std::string text = "forth";
  std::string answer = "back";
  for (Connection* const from : {to_other.get(), at_other.get(), to_server.get(), at_server.get()}) {
    const bool is_forth = from == to_other.get() || from == to_server.get();
    const WorkRequest say = {.opcode = Opcode::kSend, .local = bytes_of(is_forth ? text : answer)};
    ASSERT_TRUE(pump({&server_, &other}, [&] { return from->post({&say, 1}) == 1; }));
  }
  ASSERT_TRUE(pump({&server_, &other},
                   [&] { return server_.count(Kind::kMessage) == 2 && other.count(Kind::kMessage) == 2; }));
  for (const Node* const node : {&server_, &other}) {
    for (const Node::Seen& seen : node->of(Kind::kMessage)) {
      const bool is_incoming =
          seen.event.connection == at_other.get() || seen.event.connection == at_server.get();
      EXPECT_EQ(seen.message, is_incoming ? text : answer);
    }
  }
}

TEST_P(TransportContract, AConnectWithoutListenerEndsAtItsDeadlineAndNamesTheAddress) {
  const std::string nobody = GetParam().make_address();
  const TimePoint deadline = client_.in(milliseconds(60));
  auto connection = client_.transport->connect(nobody, deadline);
  EXPECT_GE(client_.transport->now(), deadline);
  EXPECT_LT(client_.transport->now(), deadline + seconds(5));
  ASSERT_EQ(connection.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(connection.status().message()), ::testing::HasSubstr(nobody));
  // Whose host has answered: who tries again knows that there is no more to wait for.
  const std::string_view name = client_.transport->name();
  if (name == "tcp" || name == "verbs") {
    EXPECT_TRUE(is_refusal(connection.status()));
  }
}

TEST_P(TransportContract, AConnectWaitsForItsListener) {
  const std::string address = GetParam().make_address();
  Node late = make_node();
  Node early = make_node();
  auto connecting =
      std::async(std::launch::async, [&] { return early.transport->connect(address, early.in(kPatience)); });
  std::this_thread::sleep_for(milliseconds(50));
  ASSERT_TRUE(late.transport->listen(address).ok());
  pump({&late}, [&] { return !late.accepted.empty(); });
  auto connection = connecting.get();
  ASSERT_TRUE(connection.ok()) << connection.status();
}

TEST_P(TransportContract, AnAddressOfAnotherKindIsRefused) {
  EXPECT_EQ(server_.transport->listen("carrier-pigeon").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_.transport->connect("carrier-pigeon", client_.in(milliseconds(1))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(TransportContract, ManyConnectionsToOneListenerAreKeptApart) {
  constexpr std::uint32_t kClients = 24;
  std::vector<Node> clients;
  std::vector<std::unique_ptr<Connection>> ends;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    clients.push_back(make_node());
    ends.push_back(meet(clients.back(), server_, address_));
    ASSERT_NE(ends.back(), nullptr);
    ends.back()->user_data = i;
    std::string text = fmt::format("from {}", i);
    const WorkRequest hello = {.opcode = Opcode::kSend, .local = bytes_of(text)};
    ASSERT_EQ(clients.back().connection->post({&hello, 1}), 1U);
  }
  ASSERT_TRUE(pump({&server_}, [&] { return server_.count(Kind::kMessage) == kClients; }));
  for (const Node::Seen& seen : server_.of(Kind::kMessage)) {
    EXPECT_EQ(seen.message, fmt::format("from {}", seen.event.connection->user_data));
    std::string text = fmt::format("to {}", seen.event.connection->user_data);
    const WorkRequest reply = {.opcode = Opcode::kSend, .local = bytes_of(text)};
    ASSERT_EQ(seen.event.connection->post({&reply, 1}), 1U);
  }
  for (std::uint32_t i = 0; i < kClients; ++i) {
    ASSERT_TRUE(pump({&clients[i]}, [&] { return clients[i].count(Kind::kMessage) == 1; }));
    EXPECT_EQ(clients[i].of(Kind::kMessage)[0].message, fmt::format("to {}", i));
  }
}

// ---- memory

TEST_P(TransportContract, ARegionIsZeroedAndPageAligned) {
  for (const Access access : {Access::kLocal, Access::kRemoteRead, Access::kRemoteWrite}) {
    auto region = client_.region(5000, access);
    EXPECT_EQ(region->bytes().size(), 5000U);
    EXPECT_EQ(region->access(), access);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region->bytes().data()) % 4096, 0U);
    EXPECT_TRUE(all_zero(region->bytes()));
    fill(region->bytes(), 1);
  }
}

TEST_P(TransportContract, ARegionBeyondTheHostIsRefused) {
  for (const std::size_t bytes : {std::size_t{1} << 46, std::numeric_limits<std::size_t>::max()}) {
    auto region = client_.transport->allocate_region(bytes, Access::kRemoteRead);
    EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted) << region.status();
  }
}

TEST_P(TransportContract, ALocalRegionIsNotGranted) {
  auto region = client_.region(64, Access::kLocal);
  EXPECT_FALSE(client_.connection->grant(*region).ok());
}

TEST_P(TransportContract, MappedMemoryIsThePeersOwnAndOnlyWhereItIsReadable) {
  auto readable = server_.region(4096, Access::kRemoteRead);
  auto writable = server_.region(4096, Access::kRemoteWrite);
  const RemoteDescriptor whole = grant(server_, *readable);
  RemoteDescriptor beyond = whole;
  beyond.address += 8;
  EXPECT_EQ(client_.connection->mapped(beyond), nullptr);
  EXPECT_EQ(client_.connection->mapped(grant(server_, *writable)), nullptr);
  EXPECT_EQ(client_.connection->mapped({}), nullptr);
  const std::byte* place = client_.connection->mapped(whole.slice(800, 8));
  if (place == nullptr) return;  // nothing is mapped, as between two hosts
  put_at<std::uint64_t>(readable->bytes(), 800, 4711);
  EXPECT_EQ(value_at<std::uint64_t>({place, 8}), 4711U);
  readable.reset();
  EXPECT_EQ(value_at<std::uint64_t>({place, 8}), 4711U) << "readable as long as the connection lives";
  EXPECT_EQ(client_.connection->mapped(whole), nullptr);
}

TEST_P(TransportContract, MemoryIsMappedOnItsHostIfTheBackendSaysSo) {
  const absl::StatusOr<const Backend*> backend = backend_of(address_);
  if (!backend.ok() || (*backend)->scheme != GetParam().name)
    GTEST_SKIP() << "it is made for tests, or wrapped, and says nothing";
  auto shared = server_.region(4096, Access::kRemoteReadHostWrite);
  auto granted = server_.connection->grant_in_place(*shared);
  ASSERT_TRUE(granted.ok()) << granted.status();
  EXPECT_EQ(client_.connection->mapped_in_place(*granted) != nullptr, (*backend)->maps_own_host);
}

TEST_P(TransportContract, MemoryIsChangedInPlaceOnlyByAPeerToWhomItIsGrantedSo) {
  auto shared = server_.region(4096, Access::kRemoteReadHostWrite);
  EXPECT_FALSE(server_.connection->grant_in_place(*server_.region(64, Access::kLocal)).ok());
  const RemoteDescriptor readable = grant(server_, *shared);
  EXPECT_EQ(client_.connection->mapped_in_place(readable), nullptr);
  const std::byte* const read = client_.connection->mapped(readable);
  auto granted = server_.connection->grant_in_place(*shared);
  ASSERT_TRUE(granted.ok()) << granted.status();
  put_at<std::uint64_t>(shared->bytes(), 64, 4711);
  std::byte* const place = client_.connection->mapped_in_place(granted->slice(64, 8));
  if (place == nullptr) return;  // nothing is mapped, as between two hosts
  EXPECT_EQ(value_at<std::uint64_t>({place, 8}), 4711U);
  put_at<std::uint64_t>({place, 8}, 0, 42);
  EXPECT_EQ(value_at<std::uint64_t>(shared->bytes().subspan(64)), 42U);
  if (read != nullptr) {
    EXPECT_EQ(value_at<std::uint64_t>({read + 64, 8}), 42U) << "what was mapped before is the same memory";
  }
  auto beyond = *granted;
  beyond.address += 8;
  EXPECT_EQ(client_.connection->mapped_in_place(beyond), nullptr);
  // A one-sided read reaches the same memory.
  auto target = client_.region(8, Access::kLocal);
  post(client_, {{.opcode = Opcode::kRead,
                  .signaled = true,
                  .local = target->bytes(),
                  .region = target.get(),
                  .remote = granted->slice(64, 8)}});
  ASSERT_TRUE(pump({&client_}, [&] { return client_.count(Kind::kCompletion) > 0; }));
  EXPECT_EQ(value_at<std::uint64_t>(target->bytes()), 42U);
}

// ---- requests

TEST_P(TransportContract, WritesOfEverySizeArriveWholeAndNowhereElse) {
  for (const std::size_t size : sizes()) {
    for (const std::size_t offset : {0U, 3U, 12U}) {
      auto target = server_.region(size + 64, Access::kRemoteWrite);
      auto source = client_.region(size + 64, Access::kLocal);
      fill(source->bytes(), static_cast<std::uint32_t>(size + 1));
      const std::size_t notified = server_.count(Kind::kNotification);
      post(client_, {{.opcode = Opcode::kWriteNotify,
                      .notification = static_cast<std::uint32_t>(size),
                      .local = source->bytes().subspan(8, size),
                      .region = source.get(),
                      .remote = grant(server_, *target).slice(offset, size)}});
      ASSERT_TRUE(pump({&server_}, [&] { return server_.count(Kind::kNotification) > notified; }));
      EXPECT_EQ(server_.seen.back().event.notification, size);
      EXPECT_EQ(server_.seen.back().event.connection, server_.connection.get());
      EXPECT_TRUE(all_zero(target->bytes().first(offset)));
      EXPECT_TRUE(equal(source->bytes().subspan(8, size), target->bytes().subspan(offset, size)))
          << size << " at " << offset;
      EXPECT_TRUE(all_zero(target->bytes().subspan(offset + size)));
    }
  }
}

TEST_P(TransportContract, ReadsOfEverySizeBringTheBytesAndNoOthers) {
  for (const std::size_t size : sizes()) {
    for (const std::size_t offset : {0U, 3U, 12U}) {
      auto source = server_.region(size + 64, Access::kRemoteRead);
      auto target = client_.region(size + 64, Access::kLocal);
      fill(source->bytes(), static_cast<std::uint32_t>(size + 1));
      const std::size_t completed = client_.count(Kind::kCompletion);
      post(client_, {{.opcode = Opcode::kRead,
                      .signaled = true,
                      .id = size,
                      .local = target->bytes().subspan(8, size),
                      .region = target.get(),
                      .remote = grant(server_, *source).slice(offset, size)}});
      ASSERT_TRUE(pump({&client_}, [&] { return client_.count(Kind::kCompletion) > completed; }));
      EXPECT_EQ(client_.seen.back().event.id, size);
      EXPECT_EQ(client_.seen.back().event.result, OperationResult::kOk);
      EXPECT_TRUE(equal(source->bytes().subspan(offset, size), target->bytes().subspan(8, size)))
          << size << " at " << offset;
      EXPECT_TRUE(all_zero(target->bytes().subspan(8 + size)));
    }
  }
}

TEST_P(TransportContract, RequestsAreCarriedOutInTheOrderOfPosting) {
  auto shelf = server_.region(4096, Access::kRemoteRead);
  auto drop = server_.region(4096, Access::kRemoteWrite);
  auto local = client_.region(4096, Access::kLocal);
  std::iota(reinterpret_cast<std::uint64_t*>(local->bytes().data()),
            reinterpret_cast<std::uint64_t*>(local->bytes().data() + 512), 1000);
  put_at<std::uint64_t>(shelf->bytes(), 0, 77);
  const RemoteDescriptor source = grant(server_, *shelf).slice(0, 8);
  const RemoteDescriptor target = grant(server_, *drop).slice(0, 8);
  std::vector<WorkRequest> requests;
  for (std::uint32_t i = 0; i < 32; ++i) {
    requests.push_back({.opcode = i % 2 == 0 ? Opcode::kWrite : Opcode::kWriteNotify,
                        .signaled = true,
                        .notification = i,
                        .id = i,
                        .local = local->bytes().subspan(i * 8, 8),
                        .region = local.get(),
                        .remote = target});
  }
  requests.push_back({.opcode = Opcode::kRead,
                      .signaled = true,
                      .id = 32,
                      .local = local->bytes().subspan(2048, 8),
                      .region = local.get(),
                      .remote = source});
  post(client_, requests);
  ASSERT_TRUE(pump({&client_, &server_}, [&] {
    return client_.count(Kind::kCompletion) == 33 && server_.count(Kind::kNotification) == 16;
  }));
  const auto completions = client_.of(Kind::kCompletion);
  for (std::uint32_t i = 0; i < 33; ++i) EXPECT_EQ(completions[i].event.id, i);
  const auto notifications = server_.of(Kind::kNotification);
  for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(notifications[i].event.notification, 2 * i + 1);
  EXPECT_EQ(value_at<std::uint64_t>(drop->bytes()), 1031U) << "the last write wins";
  EXPECT_EQ(value_at<std::uint64_t>(local->bytes(), 2048), 77U);
}

TEST_P(TransportContract, ANotificationShowsAllEarlierWrites) {
  constexpr std::uint32_t kRounds = 3000;
  constexpr std::size_t kWords = 128;
  auto target = server_.region(kWords * 8, Access::kRemoteWrite);
  const RemoteDescriptor remote = grant(server_, *target);
  std::thread writer([&] {
    auto local = client_.region(kWords * 8, Access::kLocal);
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      std::vector<WorkRequest> requests;
      for (std::size_t word = 0; word < kWords; ++word)
        put_at<std::uint64_t>(local->bytes(), word * 8, round);
      for (std::size_t part = 0; part < 8; ++part) {
        requests.push_back({.opcode = part == 7 ? Opcode::kWriteNotify : Opcode::kWrite,
                            .signaled = part == 7,
                            .notification = round,
                            .local = local->bytes().subspan((7 - part) * 128, 128),
                            .region = local.get(),
                            .remote = remote.slice((7 - part) * 128, 128)});
      }
      std::span<const WorkRequest> rest = requests;
      pump({&client_}, [&] { return (rest = rest.subspan(client_.connection->post(rest))).empty(); });
      pump({&client_}, [&] { return client_.count(Kind::kCompletion) == 1; });  // local may be changed now
      client_.seen.clear();
    }
  });
  std::uint32_t last = 0;
  std::size_t stale = 0;
  pump({&server_}, [&] {
    for (const Node::Seen& seen : server_.of(Kind::kNotification)) {
      EXPECT_EQ(seen.event.notification, ++last);
      std::array<std::uint64_t, kWords> words;
      base::copy_words(words.data(), reinterpret_cast<const std::uint64_t*>(target->bytes().data()), kWords);
      for (const std::uint64_t word : words) stale += word < last || word > kRounds ? 1 : 0;
    }
    server_.seen.clear();
    return last == kRounds;
  });
  writer.join();
  EXPECT_EQ(stale, 0U);
}

TEST_P(TransportContract, OnlySignaledRequestsRaiseCompletionsEachOne) {
  auto target = server_.region(64, Access::kRemoteWrite);
  auto local = client_.region(64, Access::kLocal);
  std::vector<WorkRequest> requests;
  for (std::uint32_t i = 0; i < 100; ++i) {
    requests.push_back({.opcode = Opcode::kWrite,
                        .signaled = i % 3 == 0,
                        .id = i,
                        .local = local->bytes(),
                        .region = local.get(),
                        .remote = grant(server_, *target)});
  }
  post(client_, requests);
  pump({&client_}, [&] { return client_.count(Kind::kCompletion) == 34; });
  pump_for({&client_, &server_}, milliseconds(20));
  const auto completions = client_.of(Kind::kCompletion);
  ASSERT_EQ(completions.size(), 34U);
  for (std::uint32_t i = 0; i < 34; ++i) EXPECT_EQ(completions[i].event.id, 3 * i);
  EXPECT_EQ(client_.seen.size(), 34U);
  EXPECT_EQ(server_.seen.size(), 1U) << "kAccepted; a plain write raises nothing at the peer";
}

TEST_P(TransportContract, MessagesArriveInOrderUpToTheirMaximum) {
  const std::size_t most = client_.transport->max_message_bytes();
  std::vector<std::string> sent;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{7}, most - 1, most}) {
    for (int i = 0; i < 30; ++i) sent.push_back(std::string(size, static_cast<char>('a' + i)));
  }
  for (std::string text : sent) {
    post(client_, {{.opcode = Opcode::kSend, .local = bytes_of(text)}});
    std::ranges::fill(text, '!');  // post() has copied the message
  }
  ASSERT_TRUE(pump({&server_}, [&] { return server_.count(Kind::kMessage) == sent.size(); }));
  const auto messages = server_.of(Kind::kMessage);
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(messages[i].message, sent[i]) << i;
}

TEST_P(TransportContract, MessagesAndNotificationsKeepTheirOrder) {
  auto target = server_.region(64, Access::kRemoteWrite);
  auto local = client_.region(64, Access::kLocal);
  const RemoteDescriptor remote = grant(server_, *target);
  for (std::uint32_t i = 0; i < 3000; ++i) {
    std::string text = fmt::format("{}", i);
    post(client_, {i % 3 == 0 ? WorkRequest{.opcode = Opcode::kSend, .local = bytes_of(text)}
                              : WorkRequest{.opcode = Opcode::kWriteNotify,
                                            .notification = i,
                                            .local = local->bytes().first(i % 3),
                                            .region = local.get(),
                                            .remote = remote}});
  }
  ASSERT_TRUE(pump({&server_}, [&] { return server_.seen.size() == 3001; }));
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const Node::Seen& seen = server_.seen[i + 1];
    ASSERT_EQ(seen.event.kind, i % 3 == 0 ? Kind::kMessage : Kind::kNotification) << i;
    if (i % 3 == 0) {
      EXPECT_EQ(seen.message, fmt::format("{}", i));
    } else {
      EXPECT_EQ(seen.event.notification, i);
    }
  }
}

TEST_P(TransportContract, AMessageThatIsTooLongFailsTheConnection) {
  std::string text(client_.transport->max_message_bytes() + 1, 'x');
  const WorkRequest request = {.opcode = Opcode::kSend, .id = 9, .local = bytes_of(text)};
  EXPECT_EQ(client_.connection->post({&request, 1}), 1U);
  expect_disconnected(client_, client_.connection->peer_name());
  ASSERT_EQ(client_.count(Kind::kCompletion), 1U);
  EXPECT_NE(client_.seen[0].event.result, OperationResult::kOk);
  EXPECT_EQ(server_.count(Kind::kMessage), 0U);
}

TEST_P(TransportContract, AFullQueueTakesFewerAndGoesOnAfterPolls) {
  auto target = server_.region(8, Access::kRemoteWrite);
  auto local = client_.region(8, Access::kLocal);
  WorkRequest request = {.opcode = Opcode::kWriteNotify,
                         .signaled = true,
                         .local = local->bytes(),
                         .region = local.get(),
                         .remote = grant(server_, *target)};
  std::uint32_t posted = 0;
  const auto post_next = [&] {
    request.notification = posted;
    request.id = posted;
    const std::size_t taken = client_.connection->post({&request, 1});
    posted += static_cast<std::uint32_t>(taken);
    return taken;
  };
  while (post_next() == 1) ASSERT_LT(posted, 1U << 22U) << "no bound";
  EXPECT_TRUE(client_.connection->status().ok());
  const std::uint32_t total = posted + 5000;
  std::uint32_t completed = 0;
  std::uint32_t notified = 0;
  pump({&client_, &server_}, [&] {
    for (const Node::Seen& seen : client_.of(Kind::kCompletion)) EXPECT_EQ(seen.event.id, completed++);
    for (const Node::Seen& seen : server_.of(Kind::kNotification))
      EXPECT_EQ(seen.event.notification, notified++);
    client_.seen.clear();
    server_.seen.clear();
    if (posted < total) post_next();
    return completed == total && notified == total;
  });
}

TEST_P(TransportContract, BothDirectionsAtOnce) {
  constexpr std::uint64_t kRounds = 2000;
  const auto run = [](Node& node, std::uint64_t& received) {
    std::uint64_t sent = 0;
    pump({&node}, [&] {
      std::string text(8, ' ');
      put_at(bytes_of(text), 0, sent);
      const WorkRequest request = {.opcode = Opcode::kSend, .local = bytes_of(text)};
      if (sent < kRounds) sent += node.connection->post({&request, 1});
      for (const Node::Seen& seen : node.of(Kind::kMessage)) {
        EXPECT_EQ(value_at<std::uint64_t>(std::as_bytes(std::span(seen.message))), received++);
      }
      node.seen.clear();
      return sent == kRounds && received == kRounds;
    });
  };
  std::uint64_t client_received = 0;
  std::uint64_t server_received = 0;
  std::thread other([&] { run(server_, server_received); });
  run(client_, client_received);
  other.join();
}

// ---- rights

class TransportRights : public TransportContract {
 protected:
  /// No multiple of a cache line, so that a read beyond the end lies in one line: no transport can split it
  /// into a part that is allowed and one that is not.
  static constexpr std::size_t kReadableBytes = 4100;

  void SetUp() override {
    TransportContract::SetUp();
    readable_ = server_.region(kReadableBytes, Access::kRemoteRead);
    writable_ = server_.region(4096, Access::kRemoteWrite);
    local_ = client_.region(8192, Access::kLocal);
    fill(readable_->bytes(), 1);
    fill(local_->bytes(), 2);
  }
  void TearDown() override {
    readable_.reset();
    writable_.reset();
    local_.reset();
  }
  WorkRequest request(Opcode opcode, const RemoteDescriptor& remote, std::size_t bytes = 8) const {
    return {
        .opcode = opcode, .local = local_->bytes().first(bytes), .region = local_.get(), .remote = remote};
  }
  std::unique_ptr<MemoryRegion> readable_, writable_, local_;
};

TEST_P(TransportRights, WritingWhatIsOnlyReadable) {
  expect_refused(request(Opcode::kWrite, grant(server_, *readable_)), *readable_);
}

TEST_P(TransportRights, ReadingWhatIsOnlyWritable) {
  expect_refused(request(Opcode::kRead, grant(server_, *writable_)), *local_);
}

TEST_P(TransportRights, ReadingBeyondTheEnd) {
  RemoteDescriptor remote = grant(server_, *readable_);
  remote.address += 4096;
  expect_refused(request(Opcode::kRead, remote), *local_);
}

TEST_P(TransportRights, WritingBeforeTheStart) {
  RemoteDescriptor remote = grant(server_, *writable_);
  remote.address -= 8;
  expect_refused(request(Opcode::kWrite, remote), *writable_);
}

TEST_P(TransportRights, AnAddressNearTheTopDoesNotWrapAround) {
  RemoteDescriptor remote = grant(server_, *readable_);
  remote.address = std::numeric_limits<std::uint64_t>::max() - 3;
  remote.length_bytes = std::numeric_limits<std::uint64_t>::max();
  expect_refused(request(Opcode::kRead, remote), *local_);
}

TEST_P(TransportRights, AKeyOfNobody) {
  RemoteDescriptor remote = grant(server_, *readable_);
  remote.key ^= 0xffffffffffffffff;
  expect_refused(request(Opcode::kRead, remote), *local_);
}

TEST_P(TransportRights, ARegionThatAnotherPeerWasGranted) {
  Node third = make_node();
  auto end = meet(third, server_, address_);
  ASSERT_NE(end, nullptr);
  auto remote = end->grant(*readable_);
  ASSERT_TRUE(remote.ok());
  expect_refused(request(Opcode::kRead, *remote), *local_);
  EXPECT_TRUE(third.connection->status().ok()) << "the other connection goes on";
}

TEST_P(TransportRights, ALocalSpanOutsideItsRegion) {
  WorkRequest wrong = request(Opcode::kRead, grant(server_, *readable_));
  auto small = client_.region(64, Access::kLocal);
  wrong.region = small.get();
  expect_refused(wrong, *local_);
}

TEST_P(TransportRights, ARegionThatIsGone) {
  const RemoteDescriptor remote = grant(server_, *readable_);
  WorkRequest allowed = request(Opcode::kRead, remote);
  allowed.signaled = true;
  post(client_, {allowed});
  pump({&client_}, [&] { return client_.count(Kind::kCompletion) == 1; });
  EXPECT_TRUE(client_.connection->status().ok());
  client_.seen.clear();
  readable_.reset();
  auto successor = server_.region(4096, Access::kRemoteRead);  // perhaps at the same address
  ASSERT_TRUE(server_.connection->grant(*successor).ok());
  expect_refused(request(Opcode::kRead, remote), *local_);
}

TEST_P(TransportRights, APeerMayReachAllThatItWasGranted) {
  const RemoteDescriptor source = grant(server_, *readable_);
  WorkRequest read = request(Opcode::kRead, source, kReadableBytes);
  WorkRequest last = request(Opcode::kRead, source.slice(kReadableBytes - 8, 8));
  read.signaled = last.signaled = true;
  post(client_, {read, last});
  pump({&client_}, [&] { return client_.count(Kind::kCompletion) == 2; });
  EXPECT_TRUE(client_.connection->status().ok());
}

// ---- ends

TEST_P(TransportContract, AClosedConnectionIsReportedOnceWithThePeersName) {
  server_.connection->set_peer_name("worker 3 (pid 4711)");
  EXPECT_EQ(server_.connection->peer_name(), "worker 3 (pid 4711)");
  client_.connection.reset();
  expect_disconnected(server_, "worker 3 (pid 4711)");
}

TEST_P(TransportContract, WhatWasSentBeforeTheEndArrivesBeforeIt) {
  auto target = server_.region(8, Access::kRemoteWrite);
  auto local = client_.region(8, Access::kLocal);
  put_at<std::uint64_t>(local->bytes(), 0, 5);
  std::string text = "farewell";
  post(client_, {{.opcode = Opcode::kWriteNotify,
                  .notification = 1,
                  .local = local->bytes(),
                  .region = local.get(),
                  .remote = grant(server_, *target)},
                 {.opcode = Opcode::kSend, .signaled = true, .local = bytes_of(text)}});
  pump({&client_}, [&] { return client_.count(Kind::kCompletion) == 1; });
  client_.connection.reset();
  ASSERT_TRUE(pump({&server_}, [&] { return server_.count(Kind::kDisconnected) == 1; }));
  ASSERT_EQ(server_.seen.size(), 4U);
  EXPECT_EQ(server_.seen[1].event.notification, 1U);
  EXPECT_EQ(server_.seen[2].message, "farewell");
  EXPECT_EQ(value_at<std::uint64_t>(target->bytes()), 5U);
}

TEST_P(TransportContract, EachOutstandingRequestEndsWhenThePeerGoes) {
  auto target = server_.region(8, Access::kRemoteWrite);
  auto local = client_.region(8, Access::kLocal);
  WorkRequest request = {.opcode = Opcode::kWriteNotify,
                         .signaled = true,
                         .local = local->bytes(),
                         .region = local.get(),
                         .remote = grant(server_, *target)};
  std::uint64_t posted = 0;
  for (; posted < 200; ++posted) {
    request.id = posted;
    if (client_.connection->post({&request, 1}) == 0) break;
  }
  server_.connection.reset();
  expect_disconnected(client_, client_.connection->peer_name());
  const auto completions = client_.of(Kind::kCompletion);
  ASSERT_EQ(completions.size(), posted);
  for (std::uint64_t i = 0; i < posted; ++i) EXPECT_EQ(completions[i].event.id, i);
}

TEST_P(TransportContract, APeerThatVanishesInMidTrafficLeavesAnErrorNotAHang) {
  auto target = server_.region(std::size_t{1} << 16, Access::kRemoteWrite);
  const RemoteDescriptor remote = grant(server_, *target);
  auto local = client_.region(std::size_t{1} << 16, Access::kLocal);
  const WorkRequest request = {.opcode = Opcode::kWriteNotify,
                               .signaled = true,
                               .local = local->bytes(),
                               .region = local.get(),
                               .remote = remote};
  std::thread killer([&] {
    pump({&server_}, [&] { return server_.count(Kind::kNotification) > 100; });
    target.reset();
    server_.connection.reset();
    server_.transport.reset();
  });
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  pump({&client_}, [&] {
    posted += client_.connection->post({&request, 1});
    completed += client_.count(Kind::kCompletion);
    const bool ended = client_.count(Kind::kDisconnected) == 1;
    client_.seen.clear();
    return ended;
  });
  killer.join();
  EXPECT_EQ(completed, posted);
  EXPECT_FALSE(client_.connection->status().ok());
  EXPECT_FALSE(client_.connection->grant(*local).ok());
}

TEST_P(TransportContract, OneConnectionsEndLeavesTheOthersAlone) {
  Node third = make_node();
  auto end = meet(third, server_, address_);
  ASSERT_NE(end, nullptr);
  client_.connection.reset();
  expect_disconnected(server_, server_.connection->peer_name());
  std::string text = "still here";
  const WorkRequest request = {.opcode = Opcode::kSend, .local = bytes_of(text)};
  ASSERT_EQ(third.connection->post({&request, 1}), 1U);
  pump({&server_}, [&] { return server_.count(Kind::kMessage) == 1; });
  EXPECT_TRUE(end->status().ok());
}

// ---- waiting

TEST_P(TransportContract, AWaitEndsAtItsDeadlineAndUsesNoProcessor) {
  pump_for({&client_, &server_}, milliseconds(20));
  const auto used = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const auto before = used();
  const TimePoint deadline = server_.in(milliseconds(600));
  std::size_t returns = 0;
  while (server_.transport->now() < deadline) {
    server_.transport->wait(deadline);
    ++returns;
    server_.poll();
  }
  EXPECT_LT(server_.transport->now(), deadline + seconds(5));
  EXPECT_LT(returns, 100U);
  EXPECT_LT(used() - before, milliseconds(150));
}

TEST_P(TransportContract, AWaitWhoseDeadlineHasPassedReturnsAtOnce) {
  server_.transport->wait(server_.in(-seconds(1)));
  server_.transport->wait(TimePoint::min());
}

TEST_P(TransportContract, AnInterruptEndsAWait) {
  std::atomic<bool> asleep = false;
  std::thread other([&] {
    while (!asleep) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(30));
    server_.transport->interrupt();
  });
  asleep = true;
  const TimePoint deadline = server_.in(kPatience);
  server_.transport->wait(deadline);
  EXPECT_LT(server_.transport->now(), deadline);
  other.join();
}

TEST_P(TransportContract, AnInterruptBeforeAWaitEndsIt) {
  pump_for({&client_, &server_}, milliseconds(20));
  server_.transport->interrupt();
  const TimePoint deadline = server_.in(kPatience);
  server_.transport->wait(deadline);
  EXPECT_LT(server_.transport->now(), deadline);
}

Transport* g_signalled = nullptr;  // what the handler below interrupts

TEST_P(TransportContract, ASignalHandlerMayInterrupt) {
  g_signalled = server_.transport.get();
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { g_signalled->interrupt(); };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  const TimePoint deadline = server_.in(kPatience);
  std::thread other([owner = pthread_self()] {
    std::this_thread::sleep_for(milliseconds(30));
    pthread_kill(owner, SIGUSR1);
  });
  server_.transport->wait(deadline);
  EXPECT_LT(server_.transport->now(), deadline);
  other.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(TransportContract, AWaitEndsWhenSomethingArrives) {
  constexpr std::uint32_t kRounds = 300;
  const auto run = [&](Node& node, bool first) {
    std::minstd_rand random(first ? 1 : 2);
    std::string text = "ball";
    const WorkRequest ball = {.opcode = Opcode::kSend, .local = bytes_of(text)};
    const TimePoint end = node.in(kPatience);
    std::uint32_t sent = 0;
    while (sent < kRounds && node.transport->now() < end) {
      if (!first) {
        while (node.count(Kind::kMessage) == 0 && node.transport->now() < end) {
          node.transport->wait(end);
          node.poll();
        }
        node.seen.clear();
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      }
      first = false;
      sent += static_cast<std::uint32_t>(node.connection->post({&ball, 1}));
    }
    EXPECT_EQ(sent, kRounds);
  };
  std::thread other([&] { run(server_, false); });
  run(client_, true);
  other.join();
}

TEST_P(TransportContract, ATickerTicksWithoutItsOwnersHelp) {
  std::atomic<int> ticks = 0;
  auto ticker = server_.transport->start_ticker(milliseconds(5), [&] { ++ticks; });
  ASSERT_TRUE(ticker.ok()) << ticker.status();
  pump({&client_}, [&] { return ticks >= 3; });
  ticker->reset();
  const int last = ticks;
  pump_for({&client_}, milliseconds(30));
  EXPECT_EQ(ticks, last);
}

TEST_P(TransportContract, AHeartbeatCountsBeatsAndTurns) {
  auto heartbeat = Heartbeat::create(*server_.transport);
  ASSERT_TRUE(heartbeat.ok()) << heartbeat.status();
  const auto counts = (*heartbeat)->grant(*server_.connection);
  ASSERT_TRUE(counts.ok()) << counts.status();
  auto landing = client_.region(Heartbeat::kBytes, Access::kLocal);
  const auto read = [&] {
    const std::size_t before = client_.count(Kind::kCompletion);
    post(client_, {{.opcode = Opcode::kRead,
                    .signaled = true,
                    .local = landing->bytes().first(Heartbeat::kBytes),
                    .region = landing.get(),
                    .remote = *counts}});
    pump({&client_, &server_}, [&] { return client_.count(Kind::kCompletion) > before; });
    return value_at<std::uint64_t>(landing->bytes());
  };
  const std::uint64_t first = read();
  pump({&client_}, [&] { return read() >= first + 2; });
  EXPECT_EQ(value_at<std::uint64_t>(landing->bytes(), sizeof(std::uint64_t)), 0U);
  (*heartbeat)->count_turn();
  read();
  EXPECT_EQ(value_at<std::uint64_t>(landing->bytes(), sizeof(std::uint64_t)), 1U);
}

/// The test itself counts beats and turns, and says what time it is.
class HeartbeatWatchContract : public TransportContract {
 protected:
  void SetUp() override {
    TransportContract::SetUp();
    if (HasFatalFailure()) return;
    counts_ = server_.region(Heartbeat::kBytes, Access::kRemoteRead);
    client_.connection->set_peer_name("server 7");
    const RemoteDescriptor counts = grant(server_, *counts_);
    // A descriptor that comes in a message can be used at once. This one does not come in one: the message
    // that follows the grant shows that the grant has arrived.
    std::string text = "granted";
    post(server_, {{.opcode = Opcode::kSend, .local = bytes_of(text)}});
    pump({&client_, &server_}, [&] { return client_.count(Kind::kMessage) > 0; });
    ASSERT_TRUE(watch_.watch(*client_.connection, counts).ok());
    is_mapped_ = client_.connection->mapped(counts) != nullptr;
    now_ = client_.transport->now();
  }
  /// What the watch says when it looks after so much time.
  absl::Status look_after(Duration passed) {
    now_ += passed;
    const std::size_t before = client_.count(Kind::kCompletion);
    absl::Status status;
    pump({&client_, &server_}, [&] {
      status = watch_.look(*client_.connection, now_);
      return is_mapped_ || client_.count(Kind::kCompletion) > before;
    });
    if (is_mapped_) return status;
    EXPECT_TRUE(watch_.on_completion(client_.of(Kind::kCompletion).back().event));
    return watch_.look(*client_.connection, now_);
  }
  void count(std::size_t word) {
    auto* const words = reinterpret_cast<std::uint64_t*>(counts_->bytes().data());
    std::atomic_ref(words[word]).fetch_add(1);
  }

  std::unique_ptr<MemoryRegion> counts_;
  HeartbeatWatch watch_{*client_.transport, {.silence = seconds(2), .hanging = seconds(4)}};
  bool is_mapped_ = false;
  TimePoint now_;
};

TEST_P(HeartbeatWatchContract, SilenceIsNamedAndAWordEndsIt) {
  EXPECT_TRUE(look_after(Duration::zero()).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(look_after(milliseconds(500)).ok());
  const absl::Status silent = look_after(milliseconds(500));
  EXPECT_EQ(silent.code(), absl::StatusCode::kUnavailable) << silent;
  EXPECT_EQ(silent.message(),
            "server 7 has shown no sign of life for 2.0 s: it is stopped, or its host hangs");
  count(0);
  EXPECT_TRUE(look_after(milliseconds(500)).ok());
  EXPECT_TRUE(look_after(milliseconds(500)).ok());
}

TEST_P(HeartbeatWatchContract, TheWatchersOwnAbsenceIsNoSilence) {
  EXPECT_TRUE(look_after(Duration::zero()).ok());
  EXPECT_TRUE(look_after(std::chrono::hours(1)).ok());
  EXPECT_TRUE(look_after(milliseconds(500)).ok());
  EXPECT_FALSE(look_after(milliseconds(500)).ok());
}

TEST_P(HeartbeatWatchContract, WhoBeatsAndTakesNoTurnsHangs) {
  EXPECT_TRUE(look_after(Duration::zero()).ok());
  for (int i = 0; i < 7; ++i) {
    count(0);
    EXPECT_TRUE(look_after(milliseconds(500)).ok());
  }
  count(0);
  const absl::Status hangs = look_after(milliseconds(500));
  EXPECT_EQ(hangs.message(), "server 7 runs, but has not looked at its connections for 4.0 s: it hangs");
  count(0);
  count(1);
  EXPECT_TRUE(look_after(milliseconds(500)).ok());
}

TEST_P(HeartbeatWatchContract, WhatCanBeNoHeartbeatIsRefused) {
  RemoteDescriptor counts = grant(server_, *counts_);
  counts.length_bytes = Heartbeat::kBytes - 1;
  EXPECT_EQ(watch_.watch(*client_.connection, counts).code(), absl::StatusCode::kInvalidArgument);
  counts.length_bytes = Heartbeat::kBytes;
  counts.address += 4;
  EXPECT_EQ(watch_.watch(*client_.connection, counts).code(), absl::StatusCode::kInvalidArgument);
}

TEST(HeartbeatTest, ABoundThatABeatWouldBreakIsRefused) {
  EXPECT_TRUE(check_silence_timeout(0).ok());
  EXPECT_TRUE(check_silence_timeout(kMinSilenceTimeoutMs).ok());
  EXPECT_EQ(check_silence_timeout(kMinSilenceTimeoutMs - 1).code(), absl::StatusCode::kInvalidArgument);
}

std::string name_of(const ::testing::TestParamInfo<BackendUnderTest>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Backends, TransportContract, ::testing::ValuesIn(contract_backends()), name_of);
INSTANTIATE_TEST_SUITE_P(Backends, HeartbeatWatchContract, ::testing::ValuesIn(contract_backends()), name_of);
INSTANTIATE_TEST_SUITE_P(Backends, TransportRights, ::testing::ValuesIn(contract_backends()), name_of);

}  // namespace
}  // namespace verbena::transport
