// What only the shared-memory backend has: peers in other processes, broken and hostile ones, the doorbell.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "tests/transport/backend.hpp"
#include "transport/shm/shm_connection.hpp"
#include "transport/shm/shm_transport.hpp"

extern char** environ;

namespace verbena::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = Event::Kind;

Node make_node(const ShmOptions& options = {}) {
  return Node(std::move(*make_shm_transport(options)));
}

std::string fresh_name() {
  static std::atomic<int> counter = 0;
  return fmt::format("shm-test-{}-{}", ::getpid(), ++counter);
}
std::string socket_name(const std::string& name) {
  return fmt::format("verbena/{}/{}", ::getuid(), name);
}

/// A process that runs another program, shm_peer.cpp.
class PeerProcess {
 public:
  explicit PeerProcess(std::vector<std::string> words) {
    words.insert(words.begin(), VERBENA_SHM_PEER);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, VERBENA_SHM_PEER, nullptr, nullptr, arguments.data(), environ), 0);
  }
  ~PeerProcess() {
    if (pid_ > 0) kill();
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// Waits for its end. Returns its exit status; -1 if a signal ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return exit_status(status);
  }
  /// The same without waiting: nullopt while it runs.
  std::optional<int> ended() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == 0) return std::nullopt;
    pid_ = -1;
    return exit_status(status);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  static int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }

  pid_t pid_ = -1;
};

/// A listening node, to which a peer of another program has connected.
struct Host {
  Host(const std::string& mode, std::vector<std::string> more = {}) {
    EXPECT_TRUE(node.transport->listen("shm:" + name).ok());
    more.insert(more.begin(), {mode, "shm:" + name});
    process = std::make_unique<PeerProcess>(more);
    pump({&node}, [&] { return !node.accepted.empty(); });
    if (!node.accepted.empty()) node.connection = std::move(node.accepted.back());
    node.accepted.clear();
  }
  const std::string name = fresh_name();
  Node node = make_node();
  std::unique_ptr<PeerProcess> process;
};

void send(Node& node, std::string text) {
  const WorkRequest request = {.opcode = Opcode::kSend, .local = bytes_of(text)};
  ASSERT_EQ(node.connection->post({&request, 1}), 1U);
}

// ---- other processes

TEST(ShmProcesses, AnotherProgramConnectsAndAnswers) {
  Host host("echo");
  EXPECT_THAT(host.node.connection->peer_name(),
              ::testing::HasSubstr(fmt::format("{}", host.process->pid())));
  for (int i = 0; i < 100; ++i) {
    const std::string text = fmt::format("message {}", i);
    send(host.node, text);
    ASSERT_TRUE(pump({&host.node}, [&] { return host.node.count(Kind::kMessage) == 1; }));
    EXPECT_EQ(host.node.of(Kind::kMessage)[0].message, text);
    host.node.seen.clear();
  }
  host.node.connection.reset();
  EXPECT_EQ(host.process->wait(), 0);
}

/// A process that is gone is known to the first call that needs it, before any event tells of it.
TEST(ShmProcesses, AGrantThatFindsThePeerGoneSaysSo) {
  Host host("echo");
  host.process->kill();
  const auto region = host.node.transport->allocate_region(4096, Access::kRemoteRead);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_TRUE(host.node.connection->status().ok());
  EXPECT_EQ(host.node.connection->grant(**region).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(host.node.connection->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(pump({&host.node}, [&] { return host.node.count(Kind::kDisconnected) == 1; }));
}

TEST(ShmProcesses, AKilledPeerIsNoticedWhileBusy) {
  Host host("talk");
  pump({&host.node}, [&] { return host.node.count(Kind::kNotification) > 1000; });
  host.process->kill();
  const TimePoint killed = host.node.transport->now();
  ASSERT_TRUE(pump({&host.node}, [&] { return host.node.count(Kind::kDisconnected) == 1; }));
  EXPECT_LT(host.node.transport->now() - killed, seconds(2));
}

TEST(ShmProcesses, AKilledPeerIsNoticedInAWait) {
  Host host("echo");
  host.process->kill();
  const TimePoint killed = host.node.transport->now();
  while (host.node.count(Kind::kDisconnected) == 0 && host.node.transport->now() < killed + kPatience) {
    host.node.transport->wait(killed + kPatience);
    host.node.poll();
  }
  EXPECT_EQ(host.node.count(Kind::kDisconnected), 1U);
  EXPECT_LT(host.node.transport->now() - killed, seconds(2));
}

TEST(ShmProcesses, NothingIsLeftNorEverInAFileSystem) {
  const auto files = [] {
    std::set<std::string> names;
    for (const auto& folder : {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path()}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().filename().string().find("shm-test") != std::string::npos)
          names.insert(entry.path());
      }
    }
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path());
    return names;
  };
  const auto sockets = [](const std::string& name) {
    std::ostringstream text;
    text << std::ifstream("/proc/net/unix").rdbuf();
    return text.str().find(fmt::format("@{}", socket_name(name))) != std::string::npos;
  };
  const auto before = files();
  std::string name;
  {
    Host host("talk");
    name = host.name;
    auto region = host.node.region(4096, Access::kRemoteWrite);
    EXPECT_TRUE(host.node.connection->grant(*region).ok());
    pump({&host.node}, [&] { return host.node.count(Kind::kNotification) > 10; });
    EXPECT_TRUE(sockets(name)) << "this test must find the socket while it is there";
    EXPECT_EQ(files(), before);
    host.process->kill();
  }
  EXPECT_FALSE(sockets(name));
  EXPECT_EQ(files(), before);
}

// ---- hostile peers

TEST(ShmHostility, GarbageInSharedMemoryEndsTheConnectionAtMost) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Host host("corrupt", {fmt::format("{}", seed)});
    auto region = host.node.region(4096, Access::kRemoteWrite);
    EXPECT_TRUE(host.node.connection->grant(*region).ok());
    std::array<Event, 16> events;
    bool ended = false;
    std::string text = "hello";
    const std::array<WorkRequest, 2> requests = {
        WorkRequest{.opcode = Opcode::kSend, .local = bytes_of(text)},
        WorkRequest{.opcode = Opcode::kWriteNotify}};
    const TimePoint end = host.node.in(kPatience);
    while (!ended && host.node.transport->now() < end) {
      static_cast<void>(host.node.connection->post(requests));
      const std::size_t count = host.node.transport->poll(events);
      if (count == 0) host.node.transport->wait(host.node.in(milliseconds(1)));
      for (const Event& event : std::span(events).first(count)) {
        EXPECT_LE(event.message.size(), host.node.transport->max_message_bytes());
        ended = ended || event.kind == Kind::kDisconnected;
      }
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(host.process->wait(), 0);
  }
}

TEST(ShmHostility, AnImpossibleEventFailsTheConnectionAndSaysSo) {
  const std::string name = fresh_name();
  Node server = make_node();
  Node client = make_node();
  ASSERT_TRUE(server.transport->listen("shm:" + name).ok());
  server.connection = meet(client, server, "shm:" + name);
  // Both ends are in this process, and each maps the channels. Through both mappings, overwrite the first
  // event word of the first direction, from the client to the server.
  std::ifstream maps("/proc/self/maps");
  std::size_t found = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:verbena-channel") == std::string::npos) continue;
    char* rest = nullptr;
    const std::uintptr_t begin = std::strtoull(line.c_str(), &rest, 16);
    const std::uint64_t too_long = std::uint64_t{1} << 48 | std::uint64_t{2} << 32 | 0xffffffff;
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(begin + 64), too_long, __ATOMIC_SEQ_CST);
    ++found;
  }
  ASSERT_EQ(found, 2U);
  ASSERT_TRUE(pump({&server, &client}, [&] {
    return server.count(Kind::kDisconnected) == 1 && client.count(Kind::kDisconnected) == 1;
  }));
  EXPECT_EQ(server.connection->status().code(), absl::StatusCode::kDataLoss) << server.connection->status();
  EXPECT_EQ(server.count(Kind::kMessage), 0U);
}

TEST(ShmHostility, AReadableRegionCannotBeWrittenByThePeer) {
  Host host("pry");
  auto region = host.node.region(4096, Access::kRemoteRead);
  auto descriptor = host.node.connection->grant(*region);
  ASSERT_TRUE(descriptor.ok());
  send(host.node, std::string(reinterpret_cast<const char*>(&*descriptor), sizeof(*descriptor)));
  pump({&host.node},
       [&] { return host.node.count(Kind::kMessage) + host.node.count(Kind::kDisconnected) > 0; });
  EXPECT_EQ(host.node.count(Kind::kMessage), 1U);
  host.node.connection.reset();
  EXPECT_EQ(host.process->wait(), 0);
}

/// What a request of a batch will read is fetched before the request is checked. One that names nothing that
/// may be read, wherever that would be, fails when it is its turn, and not before.
TEST(ShmTransport, ARequestIsCheckedWhenItIsItsTurn) {
  constexpr std::size_t kRows = 12;
  constexpr std::size_t kRowBytes = 400;
  Node owner = make_node();
  const std::string address = "shm:" + fresh_name();
  ASSERT_TRUE(owner.transport->listen(address).ok());
  const auto source = owner.region(kRows * kRowBytes, Access::kRemoteRead);
  const auto hidden = owner.region(kRows * kRowBytes, Access::kRemoteWrite);
  for (std::size_t i = 0; i < source->bytes().size(); ++i) source->bytes()[i] = std::byte(i % 251);
  using Spoil = std::function<void(WorkRequest&, const RemoteDescriptor&)>;
  const std::vector<Spoil> kSpoils = {
      [](WorkRequest&, const RemoteDescriptor&) {},
      [](WorkRequest& request, const RemoteDescriptor&) { request.remote.address = 0; },
      [](WorkRequest& request, const RemoteDescriptor&) { request.remote.address = ~std::uint64_t{0}; },
      [](WorkRequest& request, const RemoteDescriptor&) {
        request.remote.address += std::uint64_t{1} << 40U;
      },
      [](WorkRequest& request, const RemoteDescriptor&) { request.remote.key = 0; },
      [](WorkRequest& request, const RemoteDescriptor&) { request.remote.key = ~std::uint64_t{0}; },
      [](WorkRequest& request, const RemoteDescriptor&) { request.remote.length_bytes = 1; },
      [](WorkRequest& request, const RemoteDescriptor& other) { request.remote = other; }};
  for (std::size_t spoil = 0; spoil < kSpoils.size(); ++spoil) {
    for (const std::size_t wrong : {0U, 3U, 4U, 11U}) {
      SCOPED_TRACE(fmt::format("request {} is wrong in way {}", wrong, spoil));
      Node reader = make_node();
      const std::unique_ptr<Connection> other_end = meet(reader, owner, address);
      ASSERT_NE(other_end, nullptr);
      const auto granted = other_end->grant(*source);
      const auto granted_hidden = other_end->grant(*hidden);
      ASSERT_TRUE(granted.ok() && granted_hidden.ok());
      const auto local = reader.region(kRows * kRowBytes, Access::kLocal);
      std::vector<WorkRequest> requests;
      for (std::size_t i = 0; i < kRows; ++i) {
        requests.push_back({.opcode = Opcode::kRead,
                            .signaled = true,
                            .id = i,
                            .local = local->bytes().subspan(i * kRowBytes, kRowBytes),
                            .region = local.get(),
                            .remote = granted->slice(i * kRowBytes, kRowBytes)});
      }
      kSpoils[spoil](requests[wrong], *granted_hidden);
      const std::size_t taken = reader.connection->post(requests);
      const bool is_well = spoil == 0;
      EXPECT_EQ(taken, is_well ? kRows : wrong + 1);
      reader.poll();
      const std::vector<Node::Seen> completions = reader.of(Kind::kCompletion);
      ASSERT_EQ(completions.size(), taken);
      for (std::size_t i = 0; i < taken; ++i) {
        EXPECT_EQ(completions[i].event.id, i);
        EXPECT_EQ(completions[i].event.result,
                  is_well || i < wrong ? OperationResult::kOk : OperationResult::kAccessDenied);
      }
      const std::size_t read_bytes = (is_well ? kRows : wrong) * kRowBytes;
      const std::span<std::byte> read = local->bytes().first(read_bytes);
      const std::span<std::byte> not_read = local->bytes().subspan(read_bytes);
      EXPECT_TRUE(std::equal(read.begin(), read.end(), source->bytes().begin()));
      EXPECT_TRUE(
          std::all_of(not_read.begin(), not_read.end(), [](std::byte byte) { return byte == std::byte{0}; }));
    }
  }
}

TEST(ShmHostility, AnotherUserIsNotLetIn) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string name = fresh_name();
  Node server = make_node();
  ASSERT_TRUE(server.transport->listen("shm:" + name).ok());
  PeerProcess stranger({"intrude", "65534", socket_name(name)});
  std::optional<int> result;
  pump({&server}, [&] { return (result = stranger.ended()).has_value(); });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(server.count(Kind::kAccepted), 0U);
}

TEST(ShmHostility, GarbageInsteadOfAHelloIsDropped) {
  const std::string name = fresh_name();
  Node server = make_node();
  ASSERT_TRUE(server.transport->listen("shm:" + name).ok());
  PeerProcess babbler({"babble", socket_name(name), "7"});
  std::optional<int> result;
  pump({&server}, [&] { return (result = babbler.ended()).has_value(); });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(server.count(Kind::kAccepted), 0U);
  Node client = make_node();
  EXPECT_NE(meet(client, server, "shm:" + name), nullptr) << "it still listens";
}

TEST(ShmHostility, DifferentOptionsAreRefusedAndNamed) {
  const std::string name = fresh_name();
  Node server = make_node({.max_message_bytes = 8192});
  ASSERT_TRUE(server.transport->listen("shm:" + name).ok());
  Node client = make_node();
  auto connection = client.transport->connect("shm:" + name, client.in(kPatience));
  ASSERT_TRUE(connection.ok());
  client.connection = std::move(*connection);
  pump({&server, &client}, [&] { return client.count(Kind::kDisconnected) == 1; });
  EXPECT_EQ(client.connection->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(client.connection->status().message()), ::testing::HasSubstr("8192"));
  EXPECT_EQ(server.count(Kind::kAccepted), 0U);
}

// ---- strangers

std::shared_ptr<const Secret> fresh_secret() {
  return *Secret::random();
}

/// A stranger's connection to the listener `name`, over which a test can send anything.
shm::ControlSocket stranger_at(const std::string& name) {
  for (const auto end = std::chrono::steady_clock::now() + kPatience;
       std::chrono::steady_clock::now() < end;) {
    auto socket = shm::ControlSocket::connect("shm:" + name, seconds(1));
    EXPECT_TRUE(socket.ok()) << socket.status();
    if (socket.ok() && socket->has_value()) return std::move(**socket);
  }
  ADD_FAILURE() << "nobody listens";
  return {};
}
constexpr std::array<int, 3> kNoFiles = {-1, -1, -1};

/// What the server answers on `socket`; nullopt if it closes the connection.
std::optional<shm::ControlMessage> answer(Node& server, const shm::ControlSocket& socket) {
  std::optional<shm::ControlSocket::Received> received;
  auto end = shm::ControlSocket::End::kOpen;
  pump({&server},
       [&] { return (received = socket.receive(end)).has_value() || end != shm::ControlSocket::End::kOpen; });
  return received ? std::optional(received->message) : std::nullopt;
}

/// A listening server, whose job has a secret.
struct Guarded {
  Guarded() { EXPECT_TRUE(server.transport->listen("shm:" + name).ok()); }
  [[nodiscard]] bool still_meets() {
    // connect() waits for the whole handshake, since nobody polls the client meanwhile.
    Node client = make_node({.secret = secret, .answer_patience = kPatience});
    server.connection = meet(client, server, "shm:" + name);
    return server.connection != nullptr;
  }
  const std::string name = fresh_name();
  const std::shared_ptr<const Secret> secret = fresh_secret();
  Node server = make_node({.secret = secret});
};

TEST(ShmStrangers, AProofIsGoodForOneMeeting) {
  Guarded job;
  const auto meet_by_hand = [&](const shm::ControlSocket& socket, const Nonce& nonce) {
    const shm::ControlMessage greeting{.kind = shm::ControlKind::kGreeting, .nonce = nonce};
    EXPECT_TRUE(socket.send(greeting, kNoFiles).ok());
    return answer(job.server, socket);
  };
  const Nonce nonce = *fresh_nonce();
  const shm::ControlSocket first = stranger_at(job.name);
  const auto challenge = meet_by_hand(first, nonce);
  ASSERT_TRUE(challenge);
  EXPECT_TRUE(is_proof(challenge->proof, job.secret.get(), shm::kAcceptorRole, {nonce, challenge->nonce}));
  const shm::ControlMessage proof{
      .kind = shm::ControlKind::kProof,
      .proof = prove(job.secret.get(), shm::kConnectorRole, {nonce, challenge->nonce})};
  EXPECT_TRUE(first.send(proof, kNoFiles).ok());
  auto end = shm::ControlSocket::End::kOpen;
  pump_for({&job.server}, milliseconds(50));
  EXPECT_FALSE(first.receive(end));
  EXPECT_EQ(end, shm::ControlSocket::End::kOpen) << "the proof was good";
  // Refused: the same proof a second time, the acceptor's own proof sent back, and no proof.
  for (const Proof& said : {proof.proof, challenge->proof, Proof{}}) {
    const shm::ControlSocket second = stranger_at(job.name);
    ASSERT_TRUE(meet_by_hand(second, nonce));
    EXPECT_TRUE(second.send({.kind = shm::ControlKind::kProof, .proof = said}, kNoFiles).ok());
    EXPECT_FALSE(answer(job.server, second));
  }
  EXPECT_EQ(job.server.count(Kind::kAccepted), 0U);
  EXPECT_TRUE(job.still_meets());
}

TEST(ShmStrangers, WhoSaysHelloFirstIsClosed) {
  Guarded job;
  for (const shm::ControlKind kind :
       {shm::ControlKind::kHello, shm::ControlKind::kGrant, shm::ControlKind::kWelcome,
        shm::ControlKind::kProof, static_cast<shm::ControlKind>(0)}) {
    const shm::ControlSocket socket = stranger_at(job.name);
    EXPECT_TRUE(socket.send({.kind = kind, .geometry = {1024, 64, 4096}}, kNoFiles).ok());
    EXPECT_FALSE(answer(job.server, socket));
  }
  EXPECT_EQ(job.server.count(Kind::kAccepted), 0U);
  EXPECT_TRUE(job.still_meets());
}

TEST(ShmStrangers, FilesOfAStrangerAreNotTaken) {
  Guarded job;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const auto files_here = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const shm::ControlSocket socket = stranger_at(job.name);
  const auto before = files_here();
  EXPECT_TRUE(socket.send({.kind = shm::ControlKind::kGreeting}, {ends[1], ends[1], ends[1]}).ok());
  EXPECT_FALSE(answer(job.server, socket));
  EXPECT_EQ(files_here(), before);
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the server has kept the other end of the pipe open";
  ::close(ends[0]);
  EXPECT_TRUE(job.still_meets());
}

/// Limits this process to so many open files, until it is destroyed.
class FewFiles {
 public:
  explicit FewFiles(rlim_t files) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = files;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit before_{};
};

TEST(ShmStrangers, ACrowdThatSaysNothingKeepsNobodyOut) {
  const FewFiles few(256);
  Guarded job;
  const PeerProcess crowd({"crowd", socket_name(job.name)});
  pump_for({&job.server}, milliseconds(300));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(job.still_meets());
  EXPECT_EQ(job.server.count(Kind::kAccepted), 3U);
  const std::filesystem::directory_iterator files("/proc/self/fd");
  EXPECT_LT(std::distance(begin(files), end(files)), 200) << "strangers hold the descriptors";
}

TEST(ShmStrangers, WhoDoesNotProveItselfInTimeIsClosed) {
  Guarded job;
  const shm::ControlSocket silent = stranger_at(job.name);
  const shm::ControlSocket challenged = stranger_at(job.name);
  EXPECT_TRUE(challenged.send({.kind = shm::ControlKind::kGreeting, .has_secret = 1}, kNoFiles).ok());
  EXPECT_TRUE(answer(job.server, challenged));
  const auto came = std::chrono::steady_clock::now();
  for (const shm::ControlSocket* socket : {&silent, &challenged}) {
    auto end = shm::ControlSocket::End::kOpen;
    pump({&job.server}, [&] {
      std::this_thread::sleep_for(milliseconds(1));
      socket->receive(end);
      return end != shm::ControlSocket::End::kOpen;
    });
    EXPECT_EQ(end, shm::ControlSocket::End::kHungUp);
  }
  EXPECT_GT(std::chrono::steady_clock::now() - came, seconds(5)) << "it was closed before its time was over";
  EXPECT_TRUE(job.still_meets());
}

TEST(ShmStrangers, AFloodOfAnotherUserKeepsNobodyOut) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become another user";
  Guarded job;
  const PeerProcess flood({"flood", "65534", socket_name(job.name)});
  pump_for({&job.server}, milliseconds(200));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(job.still_meets());
  EXPECT_EQ(job.server.count(Kind::kAccepted), 3U);
}

TEST(ShmStrangers, WhatIsGrantedBeforeTheMeetingGoesToNobodyButTheListenerOfTheJob) {
  // A listener that pretends to be the job's: it accepts, and has no proof.
  const std::string name = fresh_name();
  auto impostor = shm::ControlSocket::listen("shm:" + name);
  ASSERT_TRUE(impostor.ok());
  Node client = make_node({.secret = fresh_secret(), .answer_patience = milliseconds(0)});
  client.connection = *client.transport->connect("shm:" + name, client.in(kPatience));
  auto region = client.region(4096, Access::kRemoteWrite);
  EXPECT_TRUE(client.connection->grant(*region).ok());
  std::string text = "a message";
  const WorkRequest message = {.opcode = Opcode::kSend, .local = bytes_of(text)};
  EXPECT_EQ(client.connection->post({&message, 1}), 1U);
  auto socket = impostor->accept();
  ASSERT_TRUE(socket.ok());
  auto end = shm::ControlSocket::End::kOpen;
  const auto greeting = socket->receive(end);
  ASSERT_TRUE(greeting);
  EXPECT_EQ(greeting->message.kind, shm::ControlKind::kGreeting);
  EXPECT_TRUE(socket->send({.kind = shm::ControlKind::kChallenge, .has_secret = 1}, kNoFiles).ok());
  pump({&client}, [&] { return client.count(Kind::kDisconnected) == 1; });
  EXPECT_EQ(client.connection->status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(client.connection->status().message()), ::testing::HasSubstr("impostor"));
  EXPECT_FALSE(socket->receive(end)) << "the client has sent it more";
}

// ---- the doorbell; the sockets are checked once an hour, so that a lost ring makes a test fail

class ShmDoorbell : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const std::string address = fmt::format("shm:{}", fresh_name());
    ASSERT_TRUE(server_.transport->listen(address).ok());
    // The first check of the sockets must find the greeting, and once the two have met there must be nothing
    // left to find: the next check is in an hour.
    client_.connection = *client_.transport->connect(address, client_.in(kPatience));
    ASSERT_TRUE(pump({&server_, &client_}, [&] { return !server_.accepted.empty(); }));
    server_.connection = std::move(server_.accepted.back());
    server_.accepted.clear();
    server_.seen.clear();
    pump_for({&client_, &server_}, milliseconds(60));
  }
  ShmOptions options() const {
    return {.spin = std::chrono::microseconds(GetParam()),
            .socket_check_interval = std::chrono::hours(1),
            .answer_patience = milliseconds(0),
            .event_capacity = 16,
            .message_capacity = 4};
  }
  Node server_ = make_node(options());
  Node client_ = make_node(options());
};

void dawdle(std::minstd_rand& random) {
  for (volatile std::uint64_t i = random() % 2000; i > 0;) i = i - 1;
}

#ifdef VERBENA_SANITIZED
constexpr int kRings = 4000;  // each takes ten times as long
#else
constexpr int kRings = 20000;
#endif

TEST_P(ShmDoorbell, NoRingIsLost) {
  const auto play = [](Node& node, bool serve, unsigned seed) {
    std::minstd_rand random(seed);
    const WorkRequest ball = {.opcode = Opcode::kWriteNotify};
    bool is_lost = false;
    for (int round = 0; round < kRings && !is_lost; ++round) {
      if (round > 0 || !serve) {
        const TimePoint end = node.in(kPatience);  // for this round: the total time is not tested
        while (node.count(Kind::kNotification) == 0 && node.transport->now() < end) {
          node.transport->wait(end);
          node.poll();
        }
        is_lost = node.count(Kind::kNotification) == 0;
        node.seen.clear();
      }
      dawdle(random);
      EXPECT_EQ(node.connection->post({&ball, 1}), 1U);
    }
    EXPECT_FALSE(is_lost);
  };
  std::thread other([&] { play(server_, false, 1); });
  play(client_, true, 2);
  other.join();
}

TEST_P(ShmDoorbell, ASenderThatWaitsForRoomIsWoken) {
  constexpr std::uint32_t kTotal = 20000;
  std::thread receiver([&] {
    std::minstd_rand random(3);
    const TimePoint end = server_.in(kPatience);
    std::size_t received = 0;
    while (received < kTotal && server_.transport->now() < end) {
      server_.transport->wait(end);
      dawdle(random);
      server_.poll();
      received += server_.seen.size();
      server_.seen.clear();
    }
    EXPECT_EQ(received, kTotal);
  });
  std::string text = "text";
  const std::array<WorkRequest, 2> both = {WorkRequest{.opcode = Opcode::kWriteNotify},
                                           WorkRequest{.opcode = Opcode::kSend, .local = bytes_of(text)}};
  const TimePoint end = client_.in(kPatience);
  std::uint32_t sent = 0;
  while (sent < kTotal && client_.transport->now() < end) {
    const std::size_t next = sent % 2;
    const std::size_t taken = client_.connection->post(std::span(both).subspan(next));
    sent += static_cast<std::uint32_t>(taken);
    if (taken == 0) client_.transport->wait(end);
    client_.poll();
  }
  EXPECT_EQ(sent, kTotal);
  receiver.join();
}

/// The receiver rings until the sender itself has found room. If the receiver took one ring for enough, a
/// sender that waits for the next one would sleep for ever.
TEST(ShmChannel, ASenderThatHasFoundNoRoomIsRungUntilItHas) {
  constexpr shm::ChannelGeometry kGeometry{
      .event_capacity = 16, .message_capacity = 4, .max_message_bytes = 64};
  alignas(64) std::array<std::byte, 4096> memory{};
  ASSERT_LE(kGeometry.bytes(), memory.size());
  shm::ChannelSender sender(shm::ChannelLayout(memory.data(), kGeometry));
  shm::ChannelReceiver receiver(shm::ChannelLayout(memory.data(), kGeometry));
  std::uint32_t value = 0;
  const auto receive_one = [&] {
    EXPECT_EQ(receiver.receive({}, value), shm::ReceiveOutcome::kNotification);
    return receiver.release();
  };
  for (std::uint32_t i = 0; sender.room(false) == shm::SendOutcome::kRoom; ++i) sender.notify(i);
  EXPECT_TRUE(receive_one());
  EXPECT_TRUE(receive_one()) << "the sender has not looked for room yet";
  EXPECT_TRUE(sender.take_unblocked());
  EXPECT_FALSE(receive_one()) << "the sender has found room";
  for (std::uint32_t i = 0; sender.room(false) == shm::SendOutcome::kRoom; ++i) sender.notify(i);
  EXPECT_TRUE(receive_one()) << "the sender has found no room again";
}

TEST_P(ShmDoorbell, ClosingRings) {
  std::thread closer([&] {
    std::this_thread::sleep_for(milliseconds(30));
    server_.connection.reset();
  });
  const TimePoint end = client_.in(kPatience);
  client_.transport->wait(end);
  EXPECT_LT(client_.transport->now(), end);
  closer.join();
}

INSTANTIATE_TEST_SUITE_P(SpinMicroseconds, ShmDoorbell, ::testing::Values(0, 20),
                         ::testing::PrintToStringParamName());

// ---- the rest

TEST(ShmTransport, ImpossibleOptionsAreRefused) {
  for (const ShmOptions& wrong :
       {ShmOptions{.spin = std::chrono::microseconds(-1)},
        ShmOptions{.socket_check_interval = milliseconds(0)}, ShmOptions{.answer_patience = milliseconds(-1)},
        ShmOptions{.event_capacity = 100}, ShmOptions{.event_capacity = 0},
        ShmOptions{.event_capacity = 1U << 21U}, ShmOptions{.message_capacity = 0},
        ShmOptions{.message_capacity = 2048}, ShmOptions{.max_message_bytes = 0},
        ShmOptions{.max_message_bytes = 1U << 21U}, ShmOptions{.completion_capacity = 0}}) {
    EXPECT_EQ(make_shm_transport(wrong).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ShmTransport, AddressesThatCannotBeAreRefused) {
  Node node = make_node();
  for (const std::string& address : {std::string("shm:"), std::string(), fmt::format("shm:{:x>200}", "")}) {
    EXPECT_EQ(node.transport->listen(address).code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

TEST(ShmTransport, RegionsThatWereNotTouchedYetCountAsPromised) {
  Node node = make_node();
  std::vector<std::unique_ptr<MemoryRegion>> regions;
  absl::Status status;
  while (status.ok() && regions.size() < 1000) {
    auto region = node.transport->allocate_region(std::size_t{1} << 34, Access::kLocal);
    status = region.status();
    if (region.ok()) regions.push_back(std::move(*region));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("promised"));
}

TEST(ShmTransport, ALimitOnFileSizesIsAnErrorNotASignal) {
  Node node = make_node();
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  auto region = node.transport->allocate_region(2 << 20, Access::kLocal);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ShmTransport, RegionsComeAndGoWithoutEnd) {
  const std::string address = fmt::format("shm:{}", fresh_name());
  Node server = make_node();
  Node client = make_node();
  ASSERT_TRUE(server.transport->listen(address).ok());
  server.connection = meet(client, server, address);
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
      count += line.find("verbena-region") != std::string::npos;
    return count;
  };
  const std::size_t before = mappings();
  auto local = client.region(8, Access::kLocal);
  for (int i = 0; i < 2000; ++i) {
    auto region = server.region(4096, Access::kRemoteRead);
    auto remote = server.connection->grant(*region);
    ASSERT_TRUE(remote.ok()) << remote.status();
    put_at(region->bytes(), 0, i);
    const WorkRequest read = {
        .opcode = Opcode::kRead, .local = local->bytes(), .region = local.get(), .remote = *remote};
    ASSERT_EQ(client.connection->post({&read, 1}), 1U);
    ASSERT_EQ(value_at<int>(local->bytes()), i);
  }
  EXPECT_LE(mappings(), before + 4);
}

}  // namespace
}  // namespace verbena::transport
