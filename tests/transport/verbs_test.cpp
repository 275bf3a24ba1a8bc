// The verbs backend under faults, over the devices of fake_fabric.hpp. What all backends have in common is
// tested in contract_test.cpp.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <future>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "tests/temporary_folder.hpp"
#include "tests/transport/backend.hpp"
#include "tests/transport/verbs/fake_fabric.hpp"
#include "transport/shm/shared_memory.hpp"
#include "transport/verbs/introduction.hpp"
#include "transport/verbs/send_queue.hpp"
#include "transport/verbs/verbs_api.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using verbena::testing::TemporaryFolder;
using Kind = Event::Kind;
using Code = absl::StatusCode;

constexpr auto kPeerTimeout = milliseconds(300);

std::string message(const absl::Status& status) {
  return std::string(status.message());
}

/// A client on the device "left" and a server on "right", each with a region for the other.
class VerbsTest : public ::testing::Test {
 protected:
  explicit VerbsTest(std::uint64_t seed = 1, bool own_thread = true)
      : fabric_(std::make_unique<FakeFabric>(seed, own_thread)) {}

  void TearDown() override {
    forget();
    EXPECT_EQ(fabric_->leaks(), "");
  }
  void forget() {
    for (std::unique_ptr<Node>* node : {&client_, &server_}) node->reset();
  }

  static VerbsOptions options(const std::string& device) {
    return {.device = device, .peer_timeout = kPeerTimeout, .linger = milliseconds(20)};
  }
  void add_devices(const FakeFabric::DeviceOptions& like = {}) {
    FakeFabric::DeviceOptions left = like;
    left.name = "left";
    FakeFabric::DeviceOptions right = like;
    right.name = "right";
    right.address = "10.0.0.2";
    fabric_->add_device(left);
    fabric_->add_device(right);
  }
  std::unique_ptr<Node> node(const VerbsOptions& options) {
    auto transport = make_verbs_transport(options, fabric_->api());
    EXPECT_TRUE(transport.ok()) << transport.status();
    return transport.ok() ? std::make_unique<Node>(std::move(*transport)) : nullptr;
  }
  void connect() { connect(options("left"), options("right")); }
  void connect(const VerbsOptions& left, const VerbsOptions& right) {
    client_ = node(left);
    server_ = node(right);
    ASSERT_TRUE(server_->transport->listen(kAddress).ok());
    server_->connection = meet(*client_, *server_, kAddress);
    ASSERT_NE(server_->connection, nullptr);
    client_->connection->set_peer_name("server 5");
    server_->connection->set_peer_name("worker 6");
    shelf_ = server_->region(4096, Access::kRemoteRead);
    drop_ = server_->region(4096, Access::kRemoteWrite);
    local_ = client_->region(8192, Access::kLocal);
    shelf_remote_ = *server_->connection->grant(*shelf_);
    drop_remote_ = *server_->connection->grant(*drop_);
    while (fabric_->step()) {  // a fault that a test asks for must not hit what connecting has left to do
    }
  }
  void close_regions() {
    shelf_.reset();
    drop_.reset();
    local_.reset();
  }

  WorkRequest request(Opcode opcode, std::uint64_t id, bool signaled = true, std::size_t bytes = 8) {
    if (opcode == Opcode::kSend) {
      return {.opcode = opcode, .signaled = signaled, .id = id, .local = bytes_of(text_)};
    }
    return {.opcode = opcode,
            .signaled = signaled,
            .notification = static_cast<std::uint32_t>(id),
            .id = id,
            .local = local_->bytes().first(bytes),
            .region = local_.get(),
            .remote = opcode == Opcode::kRead ? shelf_remote_ : drop_remote_};
  }
  /// One request of each kind, with the ids 0 … 3.
  std::vector<WorkRequest> one_of_each(bool signaled) {
    return {request(Opcode::kWrite, 0, signaled), request(Opcode::kWriteNotify, 1, signaled),
            request(Opcode::kRead, 2, signaled), request(Opcode::kSend, 3, signaled)};
  }
  /// Polls both until both ends have failed; returns whether they did, within `patience`.
  bool both_end(Duration patience = seconds(5)) {
    const TimePoint end = client_->in(patience);
    while (client_->count(Kind::kDisconnected) == 0 || server_->count(Kind::kDisconnected) == 0) {
      client_->poll();
      server_->poll();
      if (client_->transport->now() > end) return false;
    }
    pump_for({client_.get(), server_.get()}, milliseconds(5));
    for (const Node* each : {client_.get(), server_.get()}) {
      EXPECT_EQ(each->count(Kind::kDisconnected), 1U);
      EXPECT_EQ(each->seen.back().event.kind, Kind::kDisconnected);
      EXPECT_FALSE(each->connection->status().ok());
    }
    EXPECT_THAT(message(client_->connection->status()), HasSubstr("server 5"));
    EXPECT_THAT(message(server_->connection->status()), HasSubstr("worker 6"));
    return true;
  }
  std::vector<std::uint64_t> completed(OperationResult result) const {
    std::vector<std::uint64_t> ids;
    for (const Node::Seen& seen : client_->of(Kind::kCompletion)) {
      if (seen.event.result == result) ids.push_back(seen.event.id);
    }
    return ids;
  }

  static constexpr const char* kAddress = "verbs:10.0.0.2:7000";
  std::unique_ptr<FakeFabric> fabric_;
  std::unique_ptr<Node> client_, server_;
  std::unique_ptr<MemoryRegion> shelf_, drop_, local_;
  RemoteDescriptor shelf_remote_, drop_remote_;
  std::string text_ = "a message";
};

class VerbsConnected : public VerbsTest {
 protected:
  void SetUp() override {
    add_devices();
    connect();
  }
  void TearDown() override {
    close_regions();
    VerbsTest::TearDown();
  }
};

// ---- the send queue

TEST(SendQueue, SignalsOneInAQuarterAndKnowsWhatIsOutstanding) {
  verbs::SendQueue queue(16);
  for (std::uint32_t i = 0; i < 16; ++i) {
    const bool signaled = queue.must_signal();
    EXPECT_EQ(signaled, i % 4 == 3) << i;
    EXPECT_EQ(queue.push({.id = i, .signaled = signaled}), i);
  }
  EXPECT_EQ(queue.room(), 0U);
  EXPECT_TRUE(queue.contains(0));
  for (std::uint64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(queue.front().id, i);
    queue.pop();
  }
  EXPECT_FALSE(queue.contains(11));
  EXPECT_TRUE(queue.contains(12));
  EXPECT_FALSE(queue.contains(16));
  EXPECT_TRUE(queue.awaits_report());
  EXPECT_EQ(queue.push({}), 0U) << "the number is the request's place in the queue";
  queue.drop_last(1);
  while (!queue.empty()) queue.pop();
  EXPECT_FALSE(queue.awaits_report());
  queue.push({});
  EXPECT_FALSE(queue.awaits_report());
  queue.push({.signaled = true});
  EXPECT_TRUE(queue.awaits_report());
}

TEST(SendQueue, CountsReadsAndBindsThatAreOutstanding) {
  verbs::SendQueue queue(16);
  queue.push({.read = true});
  queue.push({});
  queue.push({.bind = true});
  queue.push({.read = true});
  EXPECT_EQ(queue.reads(), 2U);
  EXPECT_EQ(queue.binds(), 1U);
  queue.drop_last(1);
  EXPECT_EQ(queue.reads(), 1U) << "the device did not take the second read";
  queue.pop();
  EXPECT_EQ(queue.reads(), 0U);
  EXPECT_EQ(queue.binds(), 1U);
  queue.drop_last(1);
  EXPECT_EQ(queue.binds(), 0U);
}

// ---- devices

TEST_F(VerbsTest, ListensWhereTheDeviceIsAndSaysWhere) {
  add_devices();
  auto transport = make_verbs_transport(options("right"), fabric_->api());
  ASSERT_TRUE(transport.ok());
  ASSERT_TRUE((*transport)->listen("verbs::0").ok());
  const std::string address = (*transport)->listening_address();
  EXPECT_THAT(address, ::testing::MatchesRegex("verbs:10\\.0\\.0\\.2:[1-9][0-9]*"));
  EXPECT_EQ((*transport)->name(), "verbs");
  client_ = node(options("left"));
  server_ = std::make_unique<Node>(std::move(*transport));
  server_->connection = meet(*client_, *server_, address);
  EXPECT_NE(server_->connection, nullptr);
}

TEST_F(VerbsTest, TakesTheFirstUsableDevice) {
  fabric_->add_device({.name = "asleep", .up = false});
  fabric_->add_device({.name = "linklocal", .address = ""});
  fabric_->add_device({.name = "good", .address = "10.0.0.3"});
  auto transport = make_verbs_transport({}, fabric_->api());
  ASSERT_TRUE(transport.ok()) << transport.status();
  ASSERT_TRUE((*transport)->listen("verbs::7000").ok());
  EXPECT_EQ((*transport)->listening_address(), "verbs:10.0.0.3:7000");
  const auto devices = list_verbs_devices(fabric_->api());
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 3U);
  EXPECT_THAT((*devices)[0].ports.at(0).obstacle, HasSubstr("down"));
  EXPECT_THAT((*devices)[1].ports.at(0).obstacle, HasSubstr("RoCEv2"));
  EXPECT_EQ((*devices)[2].ports.at(0).obstacle, "");
  EXPECT_EQ((*devices)[2].ports.at(0).address, "10.0.0.3");
  EXPECT_EQ((*devices)[2].ports.at(0).mtu_bytes, 4096U);
  EXPECT_EQ((*devices)[2].ports.at(0).gids.size(), 4U);
  EXPECT_TRUE((*devices)[2].windows);
}

TEST_F(VerbsTest, WhatHasNoReliableConnectionsIsNamedAndNeverTaken) {
  const TemporaryFolder folder;
  const std::filesystem::path efa = folder.path() / "rdmap0s6";
  std::filesystem::create_directories(efa / "device");
  std::filesystem::create_symlink("../../../bus/pci/drivers/efa", efa / "device" / "driver");
  fabric_->add_device({.name = "rdmap0s6", .connections = false, .folder = efa.string()});
  fabric_->add_device({.name = "hbl_0", .connections = false});
  const auto none = make_verbs_transport({}, fabric_->api());
  EXPECT_EQ(none.status().code(), Code::kUnavailable);
  EXPECT_THAT(
      message(none.status()),
      HasSubstr("rdmap0s6: it is an Elastic Fabric Adapter (EFA), which has no reliable connections"));

  fabric_->add_device({.name = "rxe0", .address = "10.0.0.3"});
  const auto devices = list_verbs_devices(fabric_->api());
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 3U);
  EXPECT_EQ((*devices)[0].transport, "an Elastic Fabric Adapter (EFA)");
  EXPECT_THAT((*devices)[1].transport, Not(HasSubstr("EFA")));
  for (std::size_t other = 0; other < 2; ++other) {
    EXPECT_FALSE((*devices)[other].reliable_connections);
    EXPECT_THAT((*devices)[other].obstacle, HasSubstr("no reliable connections"));
    EXPECT_TRUE((*devices)[other].ports.empty());
  }
  EXPECT_TRUE((*devices)[2].reliable_connections);
  auto transport = make_verbs_transport({}, fabric_->api());
  ASSERT_TRUE(transport.ok()) << transport.status();
  ASSERT_TRUE((*transport)->listen("verbs::7000").ok());
  EXPECT_EQ((*transport)->listening_address(), "verbs:10.0.0.3:7000");
}

TEST_F(VerbsTest, SaysWhyNoDeviceCanBeUsed) {
  auto none = make_verbs_transport({}, fabric_->api());
  EXPECT_EQ(none.status().code(), Code::kUnavailable);
  EXPECT_THAT(message(none.status()), HasSubstr("rdma link add"));
  fabric_->add_device({.name = "asleep", .up = false});
  fabric_->add_device({.name = "linklocal", .address = ""});
  auto unusable = make_verbs_transport({}, fabric_->api());
  EXPECT_EQ(unusable.status().code(), Code::kUnavailable);
  EXPECT_THAT(message(unusable.status()), HasSubstr("asleep port 1: the port is down"));
  EXPECT_THAT(message(unusable.status()), HasSubstr("linklocal port 1: it has no RoCEv2 address"));
  auto unknown = make_verbs_transport({.device = "mlx5_9"}, fabric_->api());
  EXPECT_THAT(message(unknown.status()), HasSubstr("\"mlx5_9\""));
}

TEST_F(VerbsTest, TellsWhyItWouldNotUseAPort) {
  add_devices();
  const VerbsSurvey survey = survey_verbs(fabric_->api());
  ASSERT_EQ(survey.devices.size(), 2U);
  const VerbsDevice& right = survey.devices[1];
  EXPECT_EQ(verbs_obstacle({}, right, right.ports.at(0)), "");
  EXPECT_EQ(verbs_obstacle({.device = "right", .port = 1}, right, right.ports.at(0)), "");
  EXPECT_THAT(verbs_obstacle({.device = "left"}, right, right.ports.at(0)),
              HasSubstr("not the one asked for"));
  EXPECT_THAT(verbs_obstacle({.port = 2}, right, right.ports.at(0)), HasSubstr("not the one asked for"));
}

TEST_F(VerbsTest, SurveysWhatATransportNeeds) {
  add_devices();
  const VerbsSurvey whole = survey_verbs(fabric_->api());
  EXPECT_TRUE(whole.ibverbs.ok() && whole.rdmacm.ok() && whole.listing->ok() &&
              whole.connection_manager->ok());
  EXPECT_EQ(whole.devices.size(), 2U);
  fabric_->fail_call("get_device_list", ENOSYS);
  fabric_->fail_call("create_event_channel", ENODEV);
  const VerbsSurvey broken = survey_verbs(fabric_->api());
  EXPECT_THAT(message(*broken.listing), HasSubstr("ib_uverbs"));
  EXPECT_THAT(message(*broken.connection_manager), HasSubstr("rdma_ucm"));
  EXPECT_TRUE(broken.devices.empty());
}

TEST_F(VerbsTest, RefusesImpossibleOptions) {
  add_devices();
  for (const VerbsOptions& wrong :
       {VerbsOptions{.send_depth = 100}, VerbsOptions{.send_depth = 8}, VerbsOptions{.receive_depth = 1},
        VerbsOptions{.max_message_bytes = 8}, VerbsOptions{.max_message_bytes = 2U << 20U},
        VerbsOptions{.max_inline_bytes = 1U << 20U}, VerbsOptions{.peer_timeout = milliseconds(0)},
        VerbsOptions{.linger = milliseconds(-1)}}) {
    EXPECT_EQ(make_verbs_transport(wrong, fabric_->api()).status().code(), Code::kInvalidArgument);
  }
}

TEST_F(VerbsTest, RefusesAddressesThatAreNone) {
  add_devices();
  server_ = node(options("right"));
  for (const char* address : {"verbs", "verbs:", "verbs:10.0.0.2", "verbs:10.0.0.2:", "verbs:10.0.0.2:x",
                              "verbs:10.0.0.2:70000", "verbs:1:2:3", "shm:7"}) {
    EXPECT_EQ(server_->transport->listen(address).code(), Code::kInvalidArgument) << address;
  }
  EXPECT_FALSE(server_->transport->listen("verbs:10.9.9.9:7000").ok()) << "no device has this address";
  EXPECT_THAT(message(server_->transport->listen("verbs:10.0.0.1:7000")), HasSubstr("left"));
}

TEST_F(VerbsTest, AFailedCallOnTheWayToATransportIsAnErrorAndLeavesNothing) {
  add_devices();
  const std::vector<std::pair<std::string, std::uint32_t>> calls = {
      {"get_device_list", 0}, {"open_device", 1},         {"query_device", 1},        {"query_port", 1},
      {"alloc_pd", 0},        {"create_comp_channel", 0}, {"create_event_channel", 0}};
  for (const auto& [call, skip] : calls) {
    fabric_->fail_call(call, EIO, skip);
    auto transport = make_verbs_transport({}, fabric_->api());
    EXPECT_FALSE(transport.ok()) << call;
    EXPECT_THAT(message(transport.status()), HasSubstr("EIO")) << call;
    EXPECT_EQ(fabric_->leaks(), "") << call;
  }
}

TEST_F(VerbsTest, AFailedCallOnTheWayToAConnectionEndsInAStatus) {
  add_devices();
  const std::map<std::string, std::uint32_t> calls = {
      {"create_id", 2}, {"resolve_addr", 1}, {"resolve_route", 1}, {"reg_mr", 2},
      {"create_cq", 2}, {"create_qp", 2},    {"modify_qp", 6},     {"init_qp_attr", 6},
      {"post_recv", 4}, {"connect", 1},      {"accept", 1},        {"establish", 1}};
  for (const auto& [call, count] : calls) {
    for (std::uint32_t skip = 0; skip < count; ++skip) {
      client_ = node(options("left"));
      server_ = node(options("right"));
      fabric_->fail_call(call, EIO, skip);
      if (server_->transport->listen(kAddress).ok()) {
        auto connecting = std::async(std::launch::async, [&] {
          return client_->transport->connect(kAddress, client_->in(seconds(5)));
        });
        while (connecting.wait_for(milliseconds(0)) != std::future_status::ready) server_->poll();
        auto connection = connecting.get();
        // The transport may have tried again, and succeeded.
        EXPECT_EQ(connection.ok(), message(connection.status()).empty()) << call;
        EXPECT_NE(connection.status().code(), Code::kDeadlineExceeded) << call << skip;
      }
      forget();
      ASSERT_EQ(fabric_->leaks(), "") << call << " " << skip;
      fabric_->forget_faults();
    }
  }
}

TEST_F(VerbsTest, DevicesWithLittleGetLittle) {
  add_devices({.max_inline_bytes = 0, .max_queue_depth = 40, .max_completions = 100});
  connect();
  for (int round = 0; round < 200; ++round) {
    const std::vector<WorkRequest> all = one_of_each(round % 2 == 0);
    std::size_t taken = 0;
    pump({client_.get(), server_.get()}, [&] {
      taken += client_->connection->post(std::span(all).subspan(taken));
      return taken == all.size() || !client_->connection->status().ok();
    });
  }
  pump({client_.get(), server_.get()}, [&] { return server_->count(Kind::kMessage) == 200; });
  EXPECT_TRUE(client_->connection->status().ok()) << client_->connection->status();
  EXPECT_EQ(server_->of(Kind::kMessage)[199].message, text_);
  EXPECT_EQ(fabric_->counters().inline_requests, 0U);
  EXPECT_EQ(fabric_->counters().overruns, 0U);
  close_regions();
}

TEST_F(VerbsTest, PeersWhoseOptionsDifferAreToldSo) {
  add_devices();
  VerbsOptions other = options("right");
  other.max_message_bytes = 128;
  client_ = node(options("left"));
  server_ = node(other);
  ASSERT_TRUE(server_->transport->listen(kAddress).ok());
  auto connecting = std::async(std::launch::async,
                               [&] { return client_->transport->connect(kAddress, client_->in(kPatience)); });
  while (connecting.wait_for(milliseconds(1)) != std::future_status::ready) server_->poll();
  auto connection = connecting.get();
  EXPECT_EQ(connection.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(message(connection.status()), HasSubstr("max_message_bytes 128; here 4096"));
}

TEST_F(VerbsTest, AConnectionToABusyListenerEstablishesItselfLater) {
  add_devices();
  VerbsOptions impatient = options("left");
  impatient.answer_patience = milliseconds(10);
  client_ = node(impatient);
  server_ = node(options("right"));
  ASSERT_TRUE(server_->transport->listen(kAddress).ok());
  auto connection = client_->transport->connect(kAddress, client_->in(kPatience));
  ASSERT_TRUE(connection.ok()) << connection.status();
  client_->connection = std::move(*connection);
  const WorkRequest hello = request(Opcode::kSend, 1);
  EXPECT_EQ(client_->connection->post({&hello, 1}), 0U) << "not established";
  std::size_t sent = 0;
  pump({client_.get(), server_.get()}, [&] {
    if (sent == 0) sent = client_->connection->post({&hello, 1});
    return server_->count(Kind::kMessage) == 1;
  });
}

TEST_F(VerbsTest, AConnectionThatIsNeverAnsweredFailsAtItsDeadline) {
  add_devices();
  VerbsOptions impatient = options("left");
  impatient.answer_patience = milliseconds(10);
  client_ = node(impatient);
  server_ = node(options("right"));
  ASSERT_TRUE(server_->transport->listen(kAddress).ok());
  auto connection = client_->transport->connect(kAddress, client_->in(milliseconds(60)));
  ASSERT_TRUE(connection.ok()) << connection.status();
  client_->connection = std::move(*connection);
  pump({client_.get()}, [&] { return client_->count(Kind::kDisconnected) == 1; });
  EXPECT_EQ(client_->connection->status().code(), Code::kDeadlineExceeded);
  EXPECT_THAT(message(client_->connection->status()), HasSubstr(kAddress));
}

// ---- strangers

/// Asks a listener for a connection with any private data, by calls of the library (VerbsApi).
class VerbsStranger {
 public:
  explicit VerbsStranger(std::shared_ptr<const VerbsApi> api)
      : api_(std::move(api)), channel_(api_->create_event_channel()) {
    ::fcntl(channel_->fd, F_SETFL, O_NONBLOCK);
  }
  ~VerbsStranger() {
    for (rdma_cm_id* id : ids_) api_->destroy_id(id);
    api_->destroy_event_channel(channel_);
  }
  VerbsStranger(const VerbsStranger&) = delete;
  VerbsStranger& operator=(const VerbsStranger&) = delete;

  /// The listener's refusal; nullopt: it has accepted.
  std::optional<verbs::Refusal> ask(Node& server, std::span<const std::byte> data) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(api_->create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
    ids_.push_back(id);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(7000);
    ::inet_pton(AF_INET, "10.0.0.2", &to.sin_addr);
    EXPECT_EQ(api_->resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 100), 0);
    wait(server, RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(api_->resolve_route(id, 100), 0);
    wait(server, RDMA_CM_EVENT_ROUTE_RESOLVED);
    rdma_conn_param param{};
    param.private_data = data.data();
    param.private_data_len = static_cast<std::uint8_t>(data.size());
    EXPECT_EQ(api_->connect(id, &param), 0);
    return verbs::read_refusal(wait(server, std::nullopt));
  }
  std::optional<verbs::Refusal> ask(Node& server, const verbs::Opening& opening) {
    return ask(server, std::as_bytes(std::span(&opening, 1)));
  }

 private:
  std::vector<std::byte> wait(Node& server, std::optional<rdma_cm_event_type> expected) {
    std::vector<std::byte> said;
    rdma_cm_event* event = nullptr;
    pump({&server}, [&] { return api_->get_cm_event(channel_, &event) == 0; });
    if (expected) {
      EXPECT_EQ(event->event, *expected);
    }
    const auto* data = static_cast<const std::byte*>(event->param.conn.private_data);
    if (event->event == RDMA_CM_EVENT_REJECTED && data != nullptr)
      said.assign(data, data + event->param.conn.private_data_len);
    api_->ack_cm_event(event);
    return said;
  }

  std::shared_ptr<const VerbsApi> api_;
  rdma_event_channel* channel_;
  std::vector<rdma_cm_id*> ids_;
};

TEST_F(VerbsTest, StrangersCostNoQueuePairAndAProofIsGoodOnce) {
  using verbs::Opening;
  using verbs::Refusal;
  add_devices();
  const std::shared_ptr<const Secret> secret = *Secret::random();
  VerbsOptions right = options("right");
  right.secret = secret;
  server_ = node(right);
  ASSERT_TRUE(server_->transport->listen(kAddress).ok());
  {
    VerbsStranger stranger(fabric_->api());
    const auto refused = [&](const auto& said, std::uint32_t reason) {
      const auto refusal = stranger.ask(*server_, said);
      EXPECT_TRUE(refusal && refusal->reason == reason) << (refusal ? refusal->reason : 0);
      return refusal.value_or(Refusal{});
    };
    std::vector<std::byte> noise(56, std::byte{0x5a});
    refused(std::span<const std::byte>(noise), Refusal::kOther);
    refused(std::span<const std::byte>(noise).first(3), Refusal::kOther);
    Opening opening{.flags = Opening::kImmediate, .receives = 8, .max_message_bytes = 4096};
    for (int i = 0; i < 20; ++i) opening.challenge = refused(opening, Refusal::kChallenge).challenge;
    // It answers the challenge without the secret: with no proof, with a guess, with a proof by another
    // secret.
    opening.flags |= Opening::kAnswers;
    refused(opening, Refusal::kNoProof);
    opening.proof.fill(std::byte{1});
    refused(opening, Refusal::kNoProof);
    sign(opening, (*Secret::random()).get());
    refused(opening, Refusal::kNoProof);
    // With the secret, but for a challenge that it has made up, and for one that was given for another nonce.
    Opening forged = opening;
    forged.challenge.fill(std::byte{0});
    sign(forged, secret.get());
    refused(forged, Refusal::kNoProof);
    Opening moved = opening;
    moved.nonce.fill(std::byte{9});
    sign(moved, secret.get());
    refused(moved, Refusal::kNoProof);
    EXPECT_EQ(fabric_->counters().queue_pairs, 0U);
    // What a member of the job says is accepted, and refused when it is said a second time, as by someone who
    // has overheard it.
    sign(opening, secret.get());
    EXPECT_FALSE(stranger.ask(*server_, opening));
    EXPECT_EQ(fabric_->counters().queue_pairs, 1U);
    refused(opening, Refusal::kNoProof);
    EXPECT_EQ(fabric_->counters().queue_pairs, 1U);
  }
  server_->accepted.clear();
  server_->seen.clear();
  VerbsOptions left = options("left");
  left.secret = secret;
  client_ = node(left);
  server_->connection = meet(*client_, *server_, kAddress);
  EXPECT_NE(server_->connection, nullptr);
}

/// Listens without the secret, and goes as far as it can: it accepts a request and signs with a secret of its
/// own.
class VerbsImpostor {
 public:
  explicit VerbsImpostor(std::shared_ptr<const VerbsApi> api)
      : api_(std::move(api)), channel_(api_->create_event_channel()) {
    ::fcntl(channel_->fd, F_SETFL, O_NONBLOCK);
    EXPECT_EQ(api_->create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), 0);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(7000);
    ::inet_pton(AF_INET, "10.0.0.2", &place.sin_addr);
    EXPECT_EQ(api_->bind_addr(listener_, reinterpret_cast<sockaddr*>(&place)), 0);
    EXPECT_EQ(api_->listen(listener_, 8), 0);
  }
  ~VerbsImpostor() {
    if (queue_ != nullptr) api_->destroy_qp(queue_);
    if (completions_ != nullptr) api_->destroy_cq(completions_);
    if (notices_ != nullptr) api_->destroy_comp_channel(notices_);
    if (domain_ != nullptr) api_->dealloc_pd(domain_);
    for (rdma_cm_id* id : asked_) api_->destroy_id(id);
    api_->destroy_id(listener_);
    api_->destroy_event_channel(channel_);
  }
  VerbsImpostor(const VerbsImpostor&) = delete;
  VerbsImpostor& operator=(const VerbsImpostor&) = delete;

  /// Accepts one request. Returns false if there is none.
  bool say_yes() {
    rdma_cm_event* event = nullptr;
    if (api_->get_cm_event(channel_, &event) != 0) return false;
    rdma_cm_id* const id = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : nullptr;
    api_->ack_cm_event(event);
    if (id == nullptr) return false;
    asked_.push_back(id);
    make_queue(id->verbs);
    verbs::Welcome welcome{.receives = 8, .max_message_bytes = 4096};
    sign(welcome, verbs::Opening{}, (*Secret::random()).get());
    rdma_conn_param param{};
    param.private_data = &welcome;
    param.private_data_len = sizeof welcome;
    param.qp_num = queue_->qp_num;
    EXPECT_EQ(api_->accept(id, &param), 0);
    return true;
  }
  /// Sends a message. REQUIRES: accepting has connected the queue pairs, as on iWARP.
  void speak() {
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(api_->post_send(queue_, &request, &bad), 0);
  }

 private:
  void make_queue(ibv_context* context) {
    if (queue_ != nullptr) return;
    domain_ = api_->alloc_pd(context);
    notices_ = api_->create_comp_channel(context);
    completions_ = api_->create_cq(context, 8, nullptr, notices_, 0);
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = attributes.recv_cq = completions_;
    attributes.cap = {
        .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    queue_ = api_->create_qp(domain_, &attributes);
  }

  std::shared_ptr<const VerbsApi> api_;
  rdma_event_channel* channel_;
  rdma_cm_id* listener_ = nullptr;
  std::vector<rdma_cm_id*> asked_;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* notices_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_qp* queue_ = nullptr;
};

TEST_F(VerbsTest, WhoListensWithoutTheSecretIsNotBelieved) {
  add_devices();
  VerbsOptions left = options("left");
  left.secret = *Secret::random();
  client_ = node(left);
  VerbsImpostor impostor(fabric_->api());
  auto connecting = std::async(std::launch::async, [&] {
    return client_->transport->connect(kAddress, client_->in(kPatience)).status();
  });
  while (connecting.wait_for(milliseconds(1)) != std::future_status::ready) impostor.say_yes();
  const absl::Status status = connecting.get();
  EXPECT_EQ(status.code(), Code::kPermissionDenied) << status;
  EXPECT_THAT(message(status), HasSubstr("secret"));
  forget();
}

// On iWARP a listener's message can come before its proof, which the connection manager has still to deliver.
TEST_F(VerbsTest, AWordBeforeTheProofEndsTheConnection) {
  add_devices({.iwarp = true});
  VerbsOptions left = options("left");
  left.secret = *Secret::random();
  left.answer_patience = milliseconds(10);
  // After the first poll(), only the queues are polled: what the connection manager has to say waits.
  left.connection_check_interval = kPatience;
  client_ = node(left);
  VerbsImpostor impostor(fabric_->api());
  auto connection = client_->transport->connect(kAddress, client_->in(kPatience));
  ASSERT_TRUE(connection.ok()) << connection.status();
  client_->connection = std::move(*connection);
  client_->poll();
  ASSERT_TRUE(impostor.say_yes());
  impostor.speak();
  pump({client_.get()}, [&] { return client_->count(Kind::kDisconnected) == 1; });
  EXPECT_EQ(client_->count(Kind::kMessage), 0U);
  const absl::Status status = client_->connection->status();
  EXPECT_EQ(status.code(), Code::kPermissionDenied) << status;
  EXPECT_THAT(message(status), HasSubstr("spoke without having proved"));
  forget();
}

// ---- memory

TEST_F(VerbsConnected, MemoryThatCannotBeLockedSaysWhatToDo) {
  fabric_->fail_call("reg_mr", ENOMEM);
  auto region = client_->transport->allocate_region(4096, Access::kRemoteRead);
  EXPECT_EQ(region.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(message(region.status()), HasSubstr("ulimit -l"));
  EXPECT_THAT(message(region.status()), HasSubstr("ENOMEM"));
  EXPECT_THAT(message(region.status()), HasSubstr("left"));
}

TEST_F(VerbsConnected, AGrantWithoutWindowIsAnErrorOfTheGrantOnly) {
  auto region = server_->region(64, Access::kRemoteRead);
  fabric_->fail_call("alloc_mw", ENOMEM);
  EXPECT_FALSE(server_->connection->grant(*region).ok());
  EXPECT_TRUE(server_->connection->grant(*region).ok());
  EXPECT_EQ(server_->connection->grant(*region)->key, server_->connection->grant(*region)->key)
      << "a second grant of a region returns the first one";
}

TEST_F(VerbsConnected, ARegionTooLargeForAWindowIsGranted) {
  constexpr std::size_t kBytes = (std::size_t{1} << 31) + 4096;
  auto large = server_->transport->allocate_region(kBytes, Access::kRemoteWrite);
  ASSERT_TRUE(large.ok()) << large.status();
  const auto remote = server_->connection->grant(**large);
  ASSERT_TRUE(remote.ok()) << remote.status();
  put_at(local_->bytes(), 0, 77);
  WorkRequest write = request(Opcode::kWrite, 1);
  write.remote = remote->slice(kBytes - 8, 8);
  ASSERT_EQ(client_->connection->post({&write, 1}), 1U);
  pump({client_.get(), server_.get()}, [&] { return client_->count(Kind::kCompletion) == 1; });
  EXPECT_EQ(value_at<std::uint64_t>((*large)->bytes().last(8)), 77U);
  EXPECT_TRUE(server_->connection->status().ok()) << server_->connection->status();
}

TEST_F(VerbsTest, WithoutWindowsARegionIsReachedByItsKey) {
  add_devices({.windows = false});
  connect();
  const WorkRequest read = request(Opcode::kRead, 1);
  ASSERT_EQ(client_->connection->post({&read, 1}), 1U);
  pump({client_.get()}, [&] { return client_->count(Kind::kCompletion) == 1; });
  const WorkRequest wrong = {.opcode = Opcode::kWrite,
                             .id = 2,
                             .local = local_->bytes().first(8),
                             .region = local_.get(),
                             .remote = shelf_remote_};
  ASSERT_EQ(client_->connection->post({&wrong, 1}), 1U);
  EXPECT_TRUE(both_end());
  EXPECT_EQ(completed(OperationResult::kAccessDenied), std::vector<std::uint64_t>{2});
  EXPECT_EQ(server_->connection->status().code(), Code::kPermissionDenied);
  close_regions();
}

// ---- posting

TEST_F(VerbsConnected, MemoryOfAPeerOnThisHostIsChangedInPlace) {
  auto slots = server_->region(10'000, Access::kRemoteReadHostWrite);
  auto others = server_->region(64, Access::kRemoteReadHostWrite);
  const RemoteDescriptor granted = *server_->connection->grant_in_place(*slots);
  const RemoteDescriptor other = *server_->connection->grant_in_place(*others);
  std::byte* const place = client_->connection->mapped_in_place(granted);
  ASSERT_NE(place, nullptr);
  EXPECT_NE(place, slots->bytes().data()) << "another mapping";
  put_at<std::uint64_t>({place, 10'000}, 9'992, 42);
  EXPECT_EQ(value_at<std::uint64_t>(slots->bytes(), 9'992), 42U);
  std::byte* const second = client_->connection->mapped_in_place(other);
  ASSERT_NE(second, nullptr);
  put_at<std::uint64_t>({second, 64}, 0, 43);
  EXPECT_EQ(value_at<std::uint64_t>(others->bytes()), 43U);
  slots.reset();
  EXPECT_EQ(value_at<std::uint64_t>({place, 10'000}, 9'992), 42U) << "mapped as long as the connection lives";
}

TEST_F(VerbsConnected, APeerNamesNoFilesOfThisProcess) {
  // Keys that hold a file descriptor's number, as they did once. Here the peer's descriptors are this
  // process's own.
  const base::FileDescriptor file = *shm::create_memory("a-private-file", 8192);
  for (int number = 0; number < 64; ++number) {
    const RemoteDescriptor made_up = {
        .address = 0,
        .length_bytes = 8,
        .key = (static_cast<std::uint64_t>(file.get()) + static_cast<std::uint64_t>(number)) << 32U};
    EXPECT_EQ(client_->connection->mapped_in_place(made_up), nullptr) << number;
  }
}

TEST_F(VerbsConnected, WhatCannotBeMappedIsReachedThroughTheDevice) {
  auto slots = server_->region(64, Access::kRemoteReadHostWrite);
  put_at<std::uint64_t>(slots->bytes(), 8, 42);
  RemoteDescriptor granted = *server_->connection->grant_in_place(*slots);
  granted.key += std::uint64_t{1000} << 32U;  // no such file was passed
  EXPECT_EQ(client_->connection->mapped_in_place(granted), nullptr);
  EXPECT_EQ(client_->connection->mapped_in_place(granted), nullptr);
  WorkRequest read = request(Opcode::kRead, 7);
  read.remote = granted.slice(8, 8);
  ASSERT_EQ(client_->connection->post({&read, 1}), 1U);
  ASSERT_TRUE(pump({client_.get()}, [&] { return client_->count(Kind::kCompletion) > 0; }));
  EXPECT_EQ(client_->seen.back().event.result, OperationResult::kOk);
  EXPECT_EQ(value_at<std::uint64_t>(local_->bytes()), 42U);
}

TEST_F(VerbsConnected, ManyRequestsRingOneDoorbellAndFewAreSignaled) {
  const std::vector<WorkRequest> batch(32, request(Opcode::kWrite, 0, false, 400));
  const FakeFabric::Counters before = fabric_->counters();
  std::size_t calls = 0;
  for (std::size_t posted = 0; posted < 32000;) {
    const std::size_t taken = client_->connection->post(batch);
    posted += taken;
    calls += taken > 0 ? 1 : 0;
    client_->poll();
  }
  const FakeFabric::Counters after = fabric_->counters();
  EXPECT_LE(after.doorbells - before.doorbells, calls + 10) << "an empty write now and then is allowed";
  EXPECT_LE((after.signaled_requests - before.signaled_requests) * 60, after.requests - before.requests);
  EXPECT_EQ(client_->count(Kind::kCompletion), 0U) << "no request asked for a completion";
}

TEST_F(VerbsConnected, SmallRequestsAreInline) {
  const std::uint64_t before = fabric_->counters().inline_requests;
  const std::vector<WorkRequest> requests = {request(Opcode::kWrite, 1, true, 220),
                                             request(Opcode::kWrite, 2, true, 221),
                                             request(Opcode::kSend, 3)};
  ASSERT_EQ(client_->connection->post(requests), 3U);
  pump({client_.get()}, [&] { return client_->count(Kind::kCompletion) == 3; });
  EXPECT_EQ(fabric_->counters().inline_requests - before, 2U);
}

TEST_F(VerbsConnected, NothingOvertakesARead) {
  const auto fenced_of = [&](const std::vector<WorkRequest>& requests) {
    const std::uint64_t before = fabric_->counters().fenced_requests;
    const std::size_t completions = client_->count(Kind::kCompletion) + requests.size();
    EXPECT_EQ(client_->connection->post(requests), requests.size());
    pump({client_.get()}, [&] { return client_->count(Kind::kCompletion) == completions; });
    return fabric_->counters().fenced_requests - before;
  };
  EXPECT_EQ(fenced_of({request(Opcode::kWrite, 1), request(Opcode::kSend, 2)}), 0U);
  EXPECT_EQ(fenced_of({request(Opcode::kRead, 3), request(Opcode::kSend, 4)}), 1U);
  EXPECT_EQ(fenced_of({request(Opcode::kRead, 5), request(Opcode::kWrite, 6), request(Opcode::kSend, 7)}),
            2U);
  EXPECT_EQ(fenced_of({request(Opcode::kSend, 8)}), 0U) << "no read is outstanding";
}

TEST_F(VerbsConnected, WhatAReadBringsCanBeWrittenInTheSamePost) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    put_at(shelf_->bytes(), 0, i + 1);
    const std::vector<WorkRequest> both = {request(Opcode::kRead, 1), request(Opcode::kWrite, 2)};
    ASSERT_EQ(client_->connection->post(both), 2U);
    pump({client_.get()}, [&] { return client_->count(Kind::kCompletion) == 2 * (i + 1); });
    ASSERT_EQ(value_at<std::uint64_t>(drop_->bytes()), i + 1);
  }
}

TEST_F(VerbsConnected, TheReceiverIsAlwaysReadyAndNoQueueOverruns) {
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  const std::vector<WorkRequest> batch = {request(Opcode::kWriteNotify, 0, false),
                                          request(Opcode::kSend, 1, false)};
  pump({client_.get()}, [&] {
    sent += client_->connection->post(batch);
    answered += server_->connection->post(std::span(batch).last(1));
    if (sent % 3 == 0 || client_->connection->post(batch) == 0) server_->poll();
    for (Node* each : {client_.get(), server_.get()}) each->seen.clear();
    return sent > 20000 && answered > 5000;
  });
  EXPECT_EQ(fabric_->counters().receiver_not_ready, 0U);
  EXPECT_EQ(fabric_->counters().overruns, 0U);
  EXPECT_TRUE(client_->connection->status().ok()) << client_->connection->status();
  EXPECT_TRUE(server_->connection->status().ok()) << server_->connection->status();
}

TEST_F(VerbsConnected, ASenderOutOfCreditSleepsUntilItHasSome) {
  const WorkRequest notify = request(Opcode::kWriteNotify, 0, false);
  std::uint64_t sent = 0;
  while (client_->connection->post({&notify, 1}) == 1) ++sent;
  pump_for({client_.get()}, milliseconds(5));
  std::atomic<bool> done = false;
  std::thread reader([&] {
    std::this_thread::sleep_for(milliseconds(30));
    while (!done) server_->poll();
  });
  const TimePoint end = client_->in(kPatience);
  std::size_t taken = 0;
  while (taken == 0 && client_->transport->now() < end) {
    client_->transport->wait(end);
    client_->poll();
    taken = client_->connection->post({&notify, 1});
  }
  EXPECT_EQ(taken, 1U);
  done = true;
  reader.join();
  pump({server_.get()}, [&] { return server_->count(Kind::kNotification) == sent + 1; });
}

TEST_F(VerbsConnected, AFailedPostFailsTheConnectionAndLosesNoCompletion) {
  for (std::uint32_t skip = 0; skip < 4; ++skip) {
    fabric_->fail_call("post_send", ENOMEM, skip);
    const std::vector<WorkRequest> all = one_of_each(true);
    ASSERT_EQ(client_->connection->post(all), skip);
    ASSERT_TRUE(both_end());
    EXPECT_EQ(client_->count(Kind::kCompletion), skip);
    EXPECT_THAT(message(client_->connection->status()), HasSubstr("ENOMEM"));
    EXPECT_EQ(client_->connection->post(all), 0U);
    close_regions();
    forget();
    connect();
  }
}

TEST_F(VerbsConnected, AFailedReceiveFailsTheConnection) {
  fabric_->fail_call("post_recv", ENOMEM);
  const WorkRequest send = request(Opcode::kSend, 0);
  ASSERT_EQ(client_->connection->post({&send, 1}), 1U);
  EXPECT_TRUE(both_end());
}

// ---- failed requests

class VerbsStatuses : public VerbsConnected, public ::testing::WithParamInterface<int> {};

TEST_P(VerbsStatuses, EachStatusEndsTheConnectionAndEveryRequest) {
  const auto status = static_cast<ibv_wc_status>(GetParam());
  for (const bool signaled : {true, false}) {
    for (std::uint32_t skip = 0; skip < 4; ++skip) {
      fabric_->fail_request("left", status, skip);
      const std::vector<WorkRequest> all = one_of_each(signaled);
      ASSERT_EQ(client_->connection->post(all), 4U);
      ASSERT_TRUE(both_end()) << client_->connection->status() << server_->connection->status();
      const auto completions = client_->of(Kind::kCompletion);
      ASSERT_EQ(completions.size(), signaled ? 4U : 4U - skip);
      for (std::size_t i = 0; i < completions.size(); ++i) {
        const std::uint64_t id = 4 - completions.size() + i;
        EXPECT_EQ(completions[i].event.id, id);
        EXPECT_EQ(completions[i].event.result == OperationResult::kOk, id < skip);
        EXPECT_EQ(completions[i].event.result == OperationResult::kFlushed,
                  id > skip || (id == skip && status == IBV_WC_WR_FLUSH_ERR));
      }
      EXPECT_THAT(message(client_->connection->status()),
                  HasSubstr(GetParam() == IBV_WC_WR_FLUSH_ERR ? "closed" : "IBV_WC_"));
      close_regions();
      forget();
      connect();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, VerbsStatuses,
                         ::testing::Range(static_cast<int>(IBV_WC_LOC_LEN_ERR),
                                          static_cast<int>(IBV_WC_TM_RNDV_INCOMPLETE) + 1),
                         ::testing::PrintToStringParamName());

/// Why a connection has ended may lie behind another one's end, which takes completions, too.
TEST_F(VerbsTest, CompletionsAreHeededInTheirOrderWhateverElseEnds) {
  constexpr std::uint64_t kRequests = 40;  // more than are taken at once
  constexpr auto kOther = "verbs:10.0.0.1:7472";
  add_devices();
  VerbsOptions left = options("left");
  left.connection_check_interval = milliseconds(300);
  connect(left, options("right"));
  ASSERT_TRUE(client_->transport->listen(kOther).ok());
  std::this_thread::sleep_for(left.connection_check_interval);
  std::thread other([&] {
    const std::unique_ptr<Node> gives_up = node(options("right"));
    static_cast<void>(gives_up->transport->connect(kOther, gives_up->in(milliseconds(150))));
  });
  std::this_thread::sleep_for(milliseconds(50));
  client_->poll();  // challenges the other one; its answer lies there from now on, until the next look
  other.join();
  fabric_->fail_call("init_qp_attr", EINVAL);  // nobody can be met who has given up
  fabric_->fail_request("left", IBV_WC_WR_FLUSH_ERR, 1);
  for (std::uint64_t id = 0; id < kRequests; ++id) {
    const WorkRequest read = request(Opcode::kRead, id);
    ASSERT_EQ(client_->connection->post({&read, 1}), 1U);
  }
  std::this_thread::sleep_for(milliseconds(50));  // the device has done all that it will
  // Where this host is slow, the other one was met, and has ended before.
  const auto has_ended = [&] { return client_->count(Kind::kCompletion) == kRequests; };
  ASSERT_TRUE(pump({client_.get(), server_.get()}, has_ended));
  EXPECT_EQ(completed(OperationResult::kOk), std::vector<std::uint64_t>{0});
  std::vector<std::uint64_t> flushed(kRequests - 1);
  std::iota(flushed.begin(), flushed.end(), 1);
  EXPECT_EQ(completed(OperationResult::kFlushed), flushed);
  fabric_->forget_faults();
  close_regions();
}

TEST_F(VerbsConnected, ADeviceThatDoesNotFlushIsNotWaitedFor) {
  fabric_->swallow_flushes(true);
  fabric_->fail_request("left", IBV_WC_FATAL_ERR);
  const std::vector<WorkRequest> all = one_of_each(true);
  ASSERT_EQ(client_->connection->post(all), 4U);
  EXPECT_TRUE(both_end());
  EXPECT_EQ(completed(OperationResult::kDeviceError), std::vector<std::uint64_t>{0});
  EXPECT_EQ(completed(OperationResult::kFlushed), (std::vector<std::uint64_t>{1, 2, 3}));
}

// ---- events of the device

TEST_F(VerbsConnected, EventsOfQueuesAndDeviceEndTheConnection) {
  const std::map<ibv_event_type, Code> events = {{IBV_EVENT_QP_FATAL, Code::kInternal},
                                                 {IBV_EVENT_QP_REQ_ERR, Code::kInternal},
                                                 {IBV_EVENT_QP_ACCESS_ERR, Code::kPermissionDenied},
                                                 {IBV_EVENT_CQ_ERR, Code::kInternal},
                                                 {IBV_EVENT_DEVICE_FATAL, Code::kUnavailable}};
  for (const auto& [event, code] : events) {
    fabric_->raise("left", event);
    ASSERT_TRUE(both_end()) << event;
    EXPECT_EQ(client_->connection->status().code(), code) << client_->connection->status();
    close_regions();
    forget();
    connect();
  }
}

TEST_F(VerbsConnected, APortThatGoesDownAndComesBackIsNoFailure) {
  fabric_->raise("left", IBV_EVENT_PORT_ERR);
  pump_for({client_.get(), server_.get()}, milliseconds(30));
  fabric_->raise("left", IBV_EVENT_PORT_ACTIVE);
  fabric_->raise("left", IBV_EVENT_GID_CHANGE);
  pump_for({client_.get(), server_.get()}, milliseconds(30));
  const WorkRequest read = request(Opcode::kRead, 1);
  ASSERT_EQ(client_->connection->post({&read, 1}), 1U);
  pump({client_.get(), server_.get()}, [&] { return client_->count(Kind::kCompletion) == 1; });
  EXPECT_TRUE(client_->connection->status().ok());
}

TEST_F(VerbsConnected, ThePortIsNamedWhenItsLossCostsTheConnection) {
  fabric_->raise("left", IBV_EVENT_PORT_ERR);
  pump_for({client_.get()}, milliseconds(30));
  fabric_->vanish("left");
  EXPECT_TRUE(both_end());
  EXPECT_THAT(message(client_->connection->status()), HasSubstr("port 1 of left is down"));
}

TEST_F(VerbsConnected, APeerThatVanishedIsMissedEvenWhenNothingIsSaid) {
  pump_for({client_.get(), server_.get()}, 2 * kPeerTimeout);
  EXPECT_EQ(client_->count(Kind::kDisconnected), 0U) << "a peer that says nothing has not failed";
  fabric_->vanish("right");
  EXPECT_TRUE(both_end(4 * kPeerTimeout));
  EXPECT_EQ(client_->connection->status().code(), Code::kUnavailable);
}

TEST_F(VerbsConnected, AnOwnerThatDidNotLookForLongBlamesNobody) {
  std::this_thread::sleep_for(3 * kPeerTimeout);
  pump_for({client_.get(), server_.get()}, kPeerTimeout);
  EXPECT_TRUE(client_->connection->status().ok()) << client_->connection->status();
  EXPECT_TRUE(server_->connection->status().ok()) << server_->connection->status();
}

// ---- faults at random

/// The devices work only when the test tells them to, so that a seed determines all that happens.
class VerbsSeeds : public VerbsTest, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  VerbsSeeds() : VerbsTest(1, false) {}

  void run(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    fabric_ = std::make_unique<FakeFabric>(seed, false);
    add_devices({.iwarp = random() % 3 == 0});
    VerbsOptions left = options("left");
    VerbsOptions right = options("right");
    for (VerbsOptions* each : {&left, &right}) {
      each->linger = milliseconds(0);
      each->send_depth = 16U << (random() % 3);
      each->receive_depth = 2 + static_cast<std::uint32_t>(random() % 20);
      each->max_inline_bytes = random() % 2 == 0 ? 0 : 64;
    }
    connect(left, right);
    for (int i = 0; i < 20; ++i) {
      while (fabric_->step()) {
      }
      client_->poll();
      server_->poll();
    }
    const std::uint64_t faulty_round = random() % 60;
    std::uint64_t next = 0;
    std::uint64_t last = 0;
    std::uint64_t completions = 0;
    std::map<std::uint64_t, bool> asked;  // outstanding requests: whether each is signaled, by id
    bool ended = false;
    for (std::uint64_t round = 0; round < 4000 && !ended; ++round) {
      if (round == faulty_round) make_fault(random);
      if (round == 3000) client_->connection.reset();
      if (round == 3000) break;
      std::vector<WorkRequest> batch;
      for (std::uint64_t i = random() % 6; i > 0; --i) {
        const auto opcode = static_cast<Opcode>(random() % 4);
        batch.push_back(request(opcode, next + batch.size(), random() % 3 == 0, 8 * (random() % 40)));
      }
      const std::size_t taken = client_->connection->post(batch);
      for (std::size_t i = 0; i < taken; ++i) asked[next + i] = batch[i].signaled;
      next += taken;
      for (std::uint64_t i = random() % 8; i > 0; --i) fabric_->step();
      if (random() % 2 == 0) server_->poll();
      if (random() % 2 == 0) client_->poll();
      for (const Node::Seen& seen : client_->of(Kind::kCompletion)) {
        ASSERT_TRUE(asked.contains(seen.event.id)) << "completed twice or never posted, seed " << seed;
        ASSERT_TRUE(completions == 0 || seen.event.id > last) << "out of order, seed " << seed;
        ASSERT_TRUE(asked[seen.event.id] || seen.event.result != OperationResult::kOk) << seed;
        for (auto each = asked.begin(); each->first < seen.event.id; each = asked.erase(each)) {
          ASSERT_FALSE(each->second) << "a completion was lost, seed " << seed;
        }
        asked.erase(seen.event.id);
        last = seen.event.id;
        ++completions;
      }
      ended = client_->count(Kind::kDisconnected) == 1;
      EXPECT_TRUE(!ended || client_->seen.back().event.kind == Kind::kDisconnected) << seed;
      for (Node* each : {client_.get(), server_.get()}) {
        if (each->count(Kind::kDisconnected) == 0) each->seen.clear();
      }
    }
    if (ended) {
      EXPECT_THAT(message(client_->connection->status()), HasSubstr("server 5")) << seed;
      for (const auto& [id, signaled] : asked) EXPECT_FALSE(signaled) << "lost " << id << ", seed " << seed;
    }
    ended_ += ended ? 1 : 0;
    EXPECT_EQ(fabric_->counters().receiver_not_ready, 0U) << seed;
    close_regions();
    forget();
    EXPECT_EQ(fabric_->leaks(), "") << seed;
  }

  void make_fault(std::mt19937_64& random) {
    const std::string device = random() % 2 == 0 ? "left" : "right";
    const auto skip = static_cast<std::uint32_t>(random() % 10);
    constexpr std::array kEvents = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
                                    IBV_EVENT_CQ_ERR,   IBV_EVENT_PORT_ERR,   IBV_EVENT_DEVICE_FATAL};
    switch (random() % 7) {
      case 0:
        return fabric_->fail_call("post_send", ENOMEM, skip);
      case 1:
        return fabric_->fail_call("post_recv", EINVAL, skip);
      case 2:
      case 3:
        return fabric_->fail_request(device, static_cast<ibv_wc_status>(1 + random() % 23), skip);
      case 4:
        return fabric_->raise(device, kEvents[random() % kEvents.size()]);
      case 5:
        return fabric_->vanish(device);
      default:
        fabric_->fail_request(device, IBV_WC_GENERAL_ERR, skip);
        return fabric_->fail_call("modify_qp", EIO, 0);
    }
  }

  std::uint64_t ended_ = 0;
};

TEST_P(VerbsSeeds, AHundredFaultsLoseNoCompletionAndLeakNothing) {
  for (std::uint64_t seed = 100 * GetParam(); seed < 100 * (GetParam() + 1); ++seed) {
    run(seed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(ended_, 60U) << "most faults end a connection";
}
#ifdef VERBENA_SANITIZED
constexpr std::uint64_t kHundreds = 3;
#else
constexpr std::uint64_t kHundreds = 10;
#endif
INSTANTIATE_TEST_SUITE_P(Hundreds, VerbsSeeds, ::testing::Range<std::uint64_t>(0, kHundreds),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace verbena::transport
