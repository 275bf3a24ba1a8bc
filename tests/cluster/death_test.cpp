// A worker dies while rows move. The job goes on without it, all other rows stay usable, and whoever asks for
// a row that was lost with it is told so. The tests send the dying worker's messages one by one, so that it
// dies exactly where they want.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/return_if_error.hpp"
#include "protocol/partition.hpp"
#include "protocol/presence.hpp"
#include "protocol/slot.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/peer.hpp"

namespace verbena::testing {
namespace {

using protocol::KeyAnswers;
using protocol::KeyRequests;
using protocol::SlotHeader;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::uint32_t kServers = 2;
constexpr std::uint32_t kWorkers = 3;
constexpr std::uint64_t kMovingRows = 8;  // the first half's home is server 0, the other's server 1
constexpr std::uint32_t kWidth = 2;
constexpr auto kEndPatience = std::chrono::seconds(20);

const TableOptions kMoving = {.name = "moving",
                              .rows = kMovingRows,
                              .width = kWidth,
                              .consistency = Sequential{},
                              .allocation = Allocation::kDynamic};

/// A worker that lives.
struct Survivor {
  Survivor(const ServerThreads& servers, std::uint32_t rank, std::uint32_t node,
           bool outlives_servers = false) {
    SessionOptions options = servers.session_options(rank);
    options.node = node;
    options.outlives_servers = outlives_servers;
    auto connected = Session::connect(options);
    EXPECT_TRUE(connected.ok()) << connected.status();
    session = std::move(*connected);
    auto opened = session->table<float>(kMoving);
    EXPECT_TRUE(opened.ok()) << opened.status();
    table = *opened;
  }
  absl::Status push(Key key, float update) {
    return table.push(std::vector<Key>{key}, std::vector<float>(kWidth, update));
  }
  /// The value of the row; all of its numbers are equal.
  absl::StatusOr<float> pull(Key key) {
    std::vector<float> values(kWidth);
    RETURN_IF_ERROR(table.pull(std::vector<Key>{key}, values));
    EXPECT_THAT(values, Each(values[0]));
    return values[0];
  }
  absl::Status localize(Key key) { return table.localize(std::vector<Key>{key}).wait(); }
  std::unique_ptr<Session> session;
  Table<float> table;
};

/// Brings both sessions to a barrier. Meanwhile a second thread takes over the other one.
std::pair<absl::Status, absl::Status> meet(Session& one, Session& other) {
  auto beside = std::async(std::launch::async, [&other] {
    other.take_over();
    return other.barrier();
  });
  absl::Status status = one.barrier();
  absl::Status of_other = beside.get();
  other.take_over();
  return {status, of_other};
}

/// A worker that dies.
class Victim {
 public:
  Victim(const ServerThreads& servers, std::uint32_t rank, std::uint32_t node)
      : options_(servers.session_options(rank)), node_(node) {
    const auto server_count = static_cast<std::uint32_t>(options_.servers.size());
    for (std::uint32_t server = 0; server < server_count; ++server) {
      auto peer = std::make_unique<Peer>(
          *options_.transport, *options_.transport->connect(options_.servers[server],
                                                            options_.transport->now() + Peer::kPatience));
      peer->connection().user_data = server;
      peers_.push_back(std::move(peer));
      at(server).say_hello({.worker = rank,
                            .workers = options_.workers,
                            .server = server,
                            .servers = server_count,
                            .node = node});
      at(server).set_ring(at(server).hear<protocol::Welcome>().inbox);
      at(server).say(protocol::OpenTable{.table = 0,
                                         .value_type = ValueType::kFloat,
                                         .rows = kMovingRows,
                                         .width = kWidth,
                                         .name = "moving",
                                         .allocation = Allocation::kDynamic,
                                         .consistency = "sequential"});
      slots_.push_back(at(server).hear<protocol::TableOpened>().shard.as<transport::RemoteDescriptor>());
    }
  }
  /// The keys whose home is the victim's node.
  [[nodiscard]] KeyRange home_keys() const {
    return protocol::RangePartition(kMovingRows, static_cast<std::uint32_t>(slots_.size())).range(node_);
  }
  Peer& at(std::uint32_t server) { return *peers_[server]; }
  void ask(KeyRequests::Kind kind, Key key, std::uint32_t server, std::uint64_t epoch = 0) {
    at(server).say(KeyRequests{.kind = kind, .table = 0, .rows = {{key, epoch}}});
  }
  KeyAnswers::Answer hear_answer(std::uint32_t server) { return at(server).hear<KeyAnswers>().answers.at(0); }
  /// The key's slot on the victim's node, mapped so that it can be changed.
  protocol::Slot slot(Key key) {
    std::byte* const slots = at(node_).connection().mapped_in_place(slots_[node_]);
    EXPECT_NE(slots, nullptr);
    return protocol::slot_at(slots, protocol::slot_bytes(kWidth * sizeof(float)), key, home_keys());
  }
  /// Writes the row into the slot, as a mover does that has read the old owner's slot.
  void install(Key key, std::uint64_t epoch, float value) {
    auto* const values = reinterpret_cast<float*>(protocol::slot_values(slot(key)));
    for (std::uint32_t i = 0; i < kWidth; ++i) values[i] = value;
    protocol::store_header(slot(key), SlotHeader::owned(epoch));
    presence().store(key, protocol::Presence::here(epoch, 0));
  }
  /// The presence words of the victim's node.
  protocol::PresenceMap presence() {
    std::byte* const slots = at(node_).connection().mapped_in_place(slots_[node_]);
    EXPECT_NE(slots, nullptr);
    return {slots + protocol::presence_offset(kMovingRows, protocol::slot_bytes(kWidth * sizeof(float))),
            home_keys()};
  }
  void die() { peers_.clear(); }

 private:
  SessionOptions options_;
  std::uint32_t node_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<transport::RemoteDescriptor> slots_;
};

void expect_lost(const absl::Status& status, Key key) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(fmt::format("row {} of table \"moving\" was lost", key)));
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 1"));
}

/// All rows except `lost` can be read, changed and moved. Each call for one of those says that it was lost.
void expect_usable_but(Survivor& worker, const std::vector<Key>& lost) {
  for (Key key = 0; key < kMovingRows; ++key) {
    if (std::find(lost.begin(), lost.end(), key) != lost.end()) {
      expect_lost(worker.push(key, 1), key);
      expect_lost(worker.pull(key).status(), key);
      expect_lost(worker.localize(key), key);
      expect_lost(worker.pull(key).status(), key);
      EXPECT_TRUE(worker.table.push_async(std::vector<Key>{key}, std::vector<float>(kWidth, 1)).wait().ok());
      expect_lost(worker.session->clock(), key);
      EXPECT_TRUE(worker.session->clock().ok()) << "the loss is reported once";
      continue;
    }
    const absl::StatusOr<float> before = worker.pull(key);
    EXPECT_TRUE(before.ok()) << before.status();
    EXPECT_TRUE(worker.push(key, 1).ok());
    EXPECT_TRUE(worker.localize(key).ok());
    EXPECT_TRUE(worker.push(key, 1).ok());
    const absl::StatusOr<float> after = worker.pull(key);
    EXPECT_TRUE(after.ok() && before.ok() && *after == *before + 2) << after.status();
  }
}

/// A pull of all rows reads those that are not lost.
void expect_others_in_one_call(Survivor& worker, Key lost) {
  std::vector<float> all(kMovingRows * kWidth, -1);
  expect_lost(worker.table.pull(KeyRange{0, kMovingRows}, all), lost);
  for (Key key = 0; key < kMovingRows; ++key) {
    const absl::StatusOr<float> alone = worker.pull(key);
    EXPECT_EQ(alone.ok(), key != lost);
    EXPECT_EQ(all[key * kWidth], alone.value_or(-1)) << "key " << key;
  }
}

/// A job of two survivors and one victim.
class DeathTest : public ::testing::TestWithParam<ReadPath> {
 protected:
  DeathTest()
      : servers_(
            {.servers = kServers, .workers = kWorkers, .read_path = GetParam(), .outlives_workers = true}),
        zero_(std::make_unique<Survivor>(servers_, 0, 0)),
        victim_(servers_, 1, 1) {
    for (Key key = 0; key < kMovingRows; ++key)
      EXPECT_TRUE(zero_->push(key, 100 + static_cast<float>(key)).ok());
  }
  /// The second survivor, on the victim's node. It joins at the first call.
  Survivor& two() {
    if (two_ == nullptr) two_ = std::make_unique<Survivor>(servers_, 2, 1);
    return *two_;
  }
  /// The survivors can use all rows except these, meet at a barrier, and leave. All servers end without an
  /// error.
  void expect_a_good_end(const std::vector<Key>& lost) {
    expect_usable_but(*zero_, lost);
    if (!has_two_victims_) {
      expect_usable_but(two(), lost);
      const auto [zero, other] = meet(*zero_->session, *two().session);
      EXPECT_TRUE(zero.ok()) << zero;
      EXPECT_TRUE(other.ok()) << other;
    }
    zero_.reset();
    two_.reset();
    for (const absl::Status& status : servers_.join(kEndPatience)) EXPECT_TRUE(status.ok()) << status;
  }

  ServerThreads servers_;
  std::unique_ptr<Survivor> zero_;
  std::unique_ptr<Survivor> two_;
  Victim victim_;
  bool has_two_victims_ = false;
};

TEST_P(DeathTest, WhoDiesAtRestTakesNothingAlong) {
  victim_.ask(KeyRequests::Kind::kLocalize, 1, 0);
  EXPECT_EQ(victim_.hear_answer(0).kind, KeyAnswers::Kind::kTaken);
  victim_.install(1, 1, 101);
  victim_.ask(KeyRequests::Kind::kArrived, 1, 0, 1);
  victim_.die();
  expect_a_good_end({});
}

TEST_P(DeathTest, ARowThatHasLeftAndNotArrivedIsLost) {
  victim_.ask(KeyRequests::Kind::kLocalize, 1, 0);
  EXPECT_EQ(victim_.hear_answer(0).kind, KeyAnswers::Kind::kTaken);
  std::vector<float> out(kWidth);
  Pending pull = zero_->table.pull_async(std::vector<Key>{1}, out);
  Pending localize = zero_->table.localize(std::vector<Key>{1, 2});
  victim_.die();
  expect_lost(pull.wait(), 1);
  expect_lost(localize.wait(), 1);
  EXPECT_TRUE(zero_->table.is_here(2)) << "the others of the same localize have come";
  expect_others_in_one_call(*zero_, 1);
  expect_a_good_end({1});
}

TEST_P(DeathTest, ARowThatHasArrivedUnsaidIsFound) {
  victim_.ask(KeyRequests::Kind::kLocalize, 1, 0);
  EXPECT_EQ(victim_.hear_answer(0).kind, KeyAnswers::Kind::kTaken);
  victim_.install(1, 1, 101);
  victim_.die();
  expect_a_good_end({});
}

/// The row's home is server 1, its owner node 0. The victim has been told to take it, and has not begun.
TEST_P(DeathTest, ARowThatHasNotLeftStaysWhereItIs) {
  ASSERT_TRUE(zero_->localize(5).ok());
  victim_.ask(KeyRequests::Kind::kLocalize, 5, 1);
  EXPECT_EQ(victim_.hear_answer(1).kind, KeyAnswers::Kind::kTake);
  ASSERT_TRUE(zero_->push(5, 1).ok()) << "nobody has asked its owner for it yet";
  victim_.die();
  const absl::StatusOr<float> value = two().pull(5);
  EXPECT_TRUE(value.ok() && *value == 106) << value.status();
  expect_a_good_end({});
}

TEST_P(DeathTest, ARowThatWasHandedOverElsewhereIsLost) {
  ASSERT_TRUE(zero_->localize(5).ok());
  victim_.ask(KeyRequests::Kind::kLocalize, 5, 1);
  EXPECT_EQ(victim_.hear_answer(1).kind, KeyAnswers::Kind::kTake);
  victim_.ask(KeyRequests::Kind::kHandOver, 5, 0, 1);
  EXPECT_EQ(victim_.hear_answer(0).kind, KeyAnswers::Kind::kTaken);
  victim_.die();
  expect_a_good_end({5});
}

TEST_P(DeathTest, WhoDiesInLineIsForgotten) {
  Victim mover(servers_, 2, 0);
  has_two_victims_ = true;
  mover.ask(KeyRequests::Kind::kLocalize, 5, 1);
  EXPECT_EQ(mover.hear_answer(1).kind, KeyAnswers::Kind::kTaken);
  victim_.ask(KeyRequests::Kind::kLocate, 5, 1);
  victim_.ask(KeyRequests::Kind::kLocalize, 5, 1);
  victim_.ask(KeyRequests::Kind::kIntend, 5, 1);
  victim_.ask(KeyRequests::Kind::kLocate, 4, 1);
  EXPECT_EQ(victim_.hear_answer(1).key, 4U) << "the requests about key 5 must wait";
  victim_.die();
  mover.install(5, 1, 105);
  mover.ask(KeyRequests::Kind::kArrived, 5, 1, 1);
  mover.die();
  expect_a_good_end({});
}

TEST_P(DeathTest, ARowInItsHandsIsLost) {
  for (const Key key : {4U, 6U}) {
    SlotHeader header;
    ASSERT_EQ(protocol::try_lock(victim_.slot(key), /*holder=*/1 + 1, header), protocol::LockResult::kLocked);
  }
  victim_.die();
  // A push and a move that wait for the lock.
  expect_lost(zero_->push(4, 1), 4);
  expect_lost(zero_->localize(6), 6);
  expect_a_good_end({4, 6});
}

TEST_P(DeathTest, ARowOfItsOwnNodeInItsHandsIsLostThereToo) {
  SlotHeader header;
  ASSERT_EQ(protocol::try_lock(victim_.slot(4), /*holder=*/1 + 1, header), protocol::LockResult::kLocked);
  victim_.die();
  expect_lost(two().push(4, 1), 4);
  expect_a_good_end({4});
}

/// The victim has counted its intent on the row. Nobody else could end that intent.
TEST_P(DeathTest, ARowThatItKeptIsLetGo) {
  ASSERT_TRUE(victim_.presence().begin_intent(5));
  ASSERT_TRUE(zero_->table.intent(std::vector<Key>{5}, 0, 1'000'000).ok());
  const auto deadline = std::chrono::steady_clock::now() + Peer::kPatience;
  const auto poll_until = [&](const auto& is_so) {
    while (!is_so() && std::chrono::steady_clock::now() < deadline) ASSERT_TRUE(zero_->pull(0).ok());
    EXPECT_TRUE(is_so());
  };
  poll_until([&] { return victim_.presence().load(5).is_wanted(); });
  EXPECT_EQ(zero_->session->statistics().rows_moved_by_intent, 0U);
  victim_.die();
  poll_until([&] { return zero_->session->statistics().rows_moved_by_intent == 1; });
  EXPECT_TRUE(zero_->table.is_here(5));
  expect_a_good_end({});
}

TEST_P(DeathTest, OneAfterAnotherMayDieWithTheSameRow) {
  Victim second(servers_, 2, 0);
  has_two_victims_ = true;
  ASSERT_TRUE(zero_->localize(5).ok());
  victim_.ask(KeyRequests::Kind::kLocalize, 5, 1);
  EXPECT_EQ(victim_.hear_answer(1).kind, KeyAnswers::Kind::kTake);
  second.ask(KeyRequests::Kind::kLocalize, 5, 1);
  victim_.die();
  const KeyAnswers::Answer told = second.hear_answer(1);
  EXPECT_EQ(told.kind, KeyAnswers::Kind::kTake);
  EXPECT_EQ(told.node, 0U);
  second.die();
  expect_a_good_end({});
}

std::string name_of_reads(const ::testing::TestParamInfo<ReadPath>& test) {
  return test.param == ReadPath::kAuto ? "InPlace" : "OverTheNetwork";
}
INSTANTIATE_TEST_SUITE_P(Reads, DeathTest, ::testing::Values(ReadPath::kAuto, ReadPath::kCached),
                         name_of_reads);

TEST(DeathOfAWorkerTest, ALostRowStaysLostForWhoWasToldSo) {
  ServerThreads servers({.servers = kServers, .workers = kWorkers, .outlives_workers = true});
  Survivor zero(servers, 0, 1);
  Victim victim(servers, 1, 1);
  Victim late(servers, 2, 1);
  SlotHeader header;
  ASSERT_EQ(protocol::try_lock(victim.slot(4), /*holder=*/1 + 1, header), protocol::LockResult::kLocked);
  victim.die();
  expect_lost(zero.push(4, 1), 4);
  protocol::store_header(late.slot(4), header);  // as a holder does that is not dead, only cut off
  expect_lost(zero.pull(4).status(), 4);
  expect_lost(zero.push(4, 1), 4);
  expect_lost(zero.localize(4), 4);
  std::vector<float*> rows(1);
  ASSERT_TRUE(zero.table.hold(std::vector<Key>{4}, rows).ok());
  EXPECT_EQ(rows[0], nullptr);
}

/// A process that localizes, pushes and holds rows until it is killed.
class Killable {
 public:
  /// Forks; the child waits for go(). REQUIRES: this process has no other threads.
  Killable() {
    void* const memory =
        ::mmap(nullptr, sizeof(Rounds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    rounds_ = new (memory) Rounds(0);
    EXPECT_EQ(::pipe2(pipe_.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    EXPECT_GE(pid_, 0);
    if (pid_ == 0) ::_exit(run() ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  ~Killable() {
    kill();
    ::close(pipe_[0]);
    ::close(pipe_[1]);
    ::munmap(rounds_, sizeof(Rounds));
  }
  Killable(const Killable&) = delete;
  Killable& operator=(const Killable&) = delete;

  void go(const SessionOptions& options) const {
    std::string text;
    for (const std::string& server : options.servers) text += server + '\n';
    EXPECT_EQ(::write(pipe_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// How many rounds it has done so far; -1: it has failed.
  [[nodiscard]] int rounds() const { return rounds_->load(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  using Rounds = std::atomic<int>;
  [[nodiscard]] bool run() const {
    SessionOptions options{.rank = 1, .workers = kWorkers, .node = 1};
    std::string address;
    for (char letter = 0; options.servers.size() < kServers && ::read(pipe_[0], &letter, 1) == 1;) {
      if (letter != '\n') {
        address += letter;
      } else {
        options.servers.push_back(std::exchange(address, {}));
      }
    }
    auto session = Session::connect(options);
    auto table = session.ok() ? (*session)->table<float>(kMoving) : session.status();
    std::mt19937 random(1);
    while (table.ok()) {
      const std::vector<Key> keys{random() % kMovingRows, random() % kMovingRows};
      const Pending coming = table->localize(keys);
      std::vector<float*> rows(keys.size());
      if (!table->push(keys, std::vector<float>(keys.size() * kWidth, 0)).ok()) break;
      if (!table->hold(keys, rows).ok()) break;  // and releases them
      rounds_->fetch_add(1);
    }
    rounds_->store(-1);
    return false;
  }

  std::array<int, 2> pipe_{};
  pid_t pid_ = -1;
  Rounds* rounds_ = nullptr;
};

/// Adds 1 to `column`, which is this survivor's own, of each row that is not lost, and checks it. Does so
/// until `stop`, and then once more.
absl::Status count_what_is_not_lost(Survivor& worker, std::size_t column, const std::atomic<bool>& stop,
                                    std::atomic<int>& rounds) {
  std::vector<float> counted(kMovingRows, 0);
  std::vector<bool> lost(kMovingRows, false);
  std::mt19937 random(static_cast<std::uint32_t>(column));
  std::vector<float> update(kWidth, 0);
  update[column] = 1;
  std::vector<float> values(kWidth);
  for (bool stopped = false; !stopped; ++rounds) {
    stopped = stop;
    for (Key key = 0; key < kMovingRows; ++key) {
      const std::vector<Key> one{key};
      if (random() % 2 == 0) static_cast<void>(worker.table.localize(one));
      absl::Status status = worker.table.push(one, update);
      if (status.ok()) status = worker.table.pull(one, values);
      if (status.code() == absl::StatusCode::kDataLoss) {
        lost[key] = true;
        continue;
      }
      if (!status.ok()) return status;
      if (lost[key]) return absl::InternalError(fmt::format("row {} was lost, and is back", key));
      if (++counted[key] != values[column])
        return absl::InternalError(fmt::format("row {} holds {} of {}", key, values[column], counted[key]));
    }
  }
  return worker.session->barrier();
}

TEST(DeathOfAProcessTest, LeavesTheOthersWhatItDidNotHave) {
#ifdef VERBENA_THREAD_SANITIZED
  GTEST_SKIP() << "skipped: the thread sanitizer follows no process that forks and goes on with threads";
#endif
  for (const int round : {1, 2, 3, 5, 20, 50, 51, 52}) {
    Killable victim;
    ServerThreads servers({.servers = kServers, .workers = kWorkers, .outlives_workers = true});
    victim.go(servers.session_options(1));
    std::atomic<bool> stop = false;
    std::array<std::atomic<int>, 2> rounds{};
    std::array<std::future<absl::Status>, 2> counting;
    for (std::uint32_t i = 0; i < 2; ++i) {
      counting[i] = std::async(std::launch::async, [&, i] {
        Survivor survivor(servers, 2 * i, i);
        absl::Status status = count_what_is_not_lost(survivor, i, stop, rounds[i]);
        if (!status.ok()) static_cast<void>(survivor.session->give_up(status));
        return status;
      });
    }
    while (victim.rounds() >= 0 && victim.rounds() < round) std::this_thread::yield();
    EXPECT_GE(victim.rounds(), 0) << "the process has failed before it was killed";
    victim.kill();
    // Let the survivors do some rounds without it.
    for (std::uint32_t i = 0; i < 2; ++i) {
      const int before = rounds[i];
      while (rounds[i] < before + 3 &&
             counting[i].wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
        std::this_thread::yield();
    }
    stop = true;
    for (auto& worker : counting) {
      const absl::Status status = worker.get();
      EXPECT_TRUE(status.ok()) << "killed after " << round << " rounds: " << status;
    }
    for (const absl::Status& status : servers.join(kEndPatience)) EXPECT_TRUE(status.ok()) << status;
  }
}

/// A job of three nodes, the second of which dies. Keys 0 to 2 have their home on node 0, 3 to 5 on node 1, 6
/// and 7 on node 2.
class DeathOfANodeTest : public ::testing::TestWithParam<ReadPath> {
 protected:
  DeathOfANodeTest()
      : servers_({.servers = 3, .workers = 3, .read_path = GetParam(), .outlives_workers = true}),
        zero_(std::make_unique<Survivor>(servers_, 0, 0, /*outlives_servers=*/true)),
        two_(std::make_unique<Survivor>(servers_, 2, 2, /*outlives_servers=*/true)),
        victim_(servers_, 1, 1) {
    for (Key key = 0; key < kMovingRows; ++key)
      EXPECT_TRUE(zero_->push(key, 100 + static_cast<float>(key)).ok());
  }
  void let_the_node_die() {
    victim_.die();
    servers_.stop(1);
    expect_a_barrier();  // after it both survivors know
  }
  void expect_a_barrier() {
    const auto [zero, other] = meet(*zero_->session, *two_->session);
    EXPECT_TRUE(zero.ok()) << zero;
    EXPECT_TRUE(other.ok()) << other;
  }
  /// Until this object ends, the session does what comes. Only its owner may use it meanwhile.
  class Polling {
   public:
    explicit Polling(Session& session)
        : session_(session), thread_([this] {
            session_.take_over();
            while (!stop_) {
              EXPECT_TRUE(session_.poll().ok());
              std::this_thread::sleep_for(std::chrono::microseconds(100));
            }
          }) {}
    ~Polling() {
      stop_ = true;
      thread_.join();
      session_.take_over();
    }
    Polling(const Polling&) = delete;
    Polling& operator=(const Polling&) = delete;

   private:
    Session& session_;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
  };
  void expect_a_good_end() {
    expect_a_barrier();
    zero_.reset();
    two_.reset();
    const std::vector<absl::Status> ends = servers_.join(kEndPatience);
    EXPECT_TRUE(ends[0].ok()) << ends[0];
    EXPECT_TRUE(ends[2].ok()) << ends[2];
  }

  ServerThreads servers_;
  std::unique_ptr<Survivor> zero_;
  std::unique_ptr<Survivor> two_;
  Victim victim_;
};

TEST_P(DeathOfANodeTest, TakesItsRowsAlongAndNoOthers) {
  ASSERT_TRUE(zero_->localize(4).ok());
  victim_.ask(KeyRequests::Kind::kLocalize, 1, 0);
  EXPECT_EQ(victim_.hear_answer(0).kind, KeyAnswers::Kind::kTaken);
  victim_.install(1, 1, 101);
  victim_.ask(KeyRequests::Kind::kArrived, 1, 0, 1);
  victim_.ask(KeyRequests::Kind::kLocalize, 6, 2);
  EXPECT_EQ(victim_.hear_answer(2).kind, KeyAnswers::Kind::kTaken);
  let_the_node_die();
  for (Survivor* const worker : {zero_.get(), two_.get()}) {
    for (const Key lost : {Key{1}, Key{3}, Key{5}, Key{6}}) {
      expect_lost(worker->pull(lost).status(), lost);
      expect_lost(worker->push(lost, 1), lost);
      expect_lost(worker->localize(lost), lost);
    }
    // The home of key 4 is dead, and another has found out where the row is.
    for (const Key whole : {Key{0}, Key{2}, Key{4}, Key{7}}) {
      EXPECT_TRUE(worker->push(whole, 1).ok());
      EXPECT_TRUE(worker->localize(whole).ok());
      EXPECT_TRUE(worker->push(whole, 1).ok());
      const absl::StatusOr<float> value = worker->pull(whole);
      EXPECT_EQ(value.value_or(-1), 100 + static_cast<float>(whole) + (worker == zero_.get() ? 2 : 4));
    }
  }
  expect_a_good_end();
}

/// Nobody has asked about the row since its home has died.
TEST_P(DeathOfANodeTest, AnIntentOnARowWhoseHomeHasDiedBringsIt) {
  ASSERT_TRUE(zero_->localize(4).ok());
  let_the_node_die();
  ASSERT_TRUE(two_->table.intent(std::vector<Key>{4}, 0, 1'000'000).ok());
  const auto deadline = std::chrono::steady_clock::now() + Peer::kPatience;
  while (!two_->table.is_here(4) && std::chrono::steady_clock::now() < deadline)
    ASSERT_TRUE(two_->session->poll().ok());
  EXPECT_EQ(two_->session->statistics().rows_moved_by_intent, 1U);
  EXPECT_EQ(two_->pull(4).value_or(-1), 104);
  expect_a_good_end();
}

/// The home has told worker 2 to keep its row, which worker 0 wants, and dies. Its heir is told of both.
TEST_P(DeathOfANodeTest, IntentsAreToldToTheHeir) {
  const std::vector<Key> row{4};
  ASSERT_TRUE(two_->localize(4).ok());
  ASSERT_TRUE(two_->table.intent(row, 0, 2).ok());
  ASSERT_TRUE(zero_->table.intent(row, 0, 1'000'000).ok());
  const auto deadline = std::chrono::steady_clock::now() + Peer::kPatience;
  for (int times = 0; times < 2'000; ++times) ASSERT_TRUE(zero_->session->poll().ok());
  EXPECT_EQ(zero_->session->statistics().rows_moved_by_intent, 0U);
  let_the_node_die();
  expect_a_barrier();  // worker 2's intent is over
  while (!zero_->table.is_here(4) && std::chrono::steady_clock::now() < deadline) {
    ASSERT_TRUE(zero_->session->clock().ok());
    ASSERT_TRUE(two_->session->clock().ok());
  }
  EXPECT_TRUE(zero_->table.is_here(4));
  EXPECT_EQ(zero_->pull(4).value_or(-1), 104);
  expect_a_good_end();
}

/// One worker says that a server is gone which lives: it is out for all, and its workers with it.
TEST(DeathOfAServerTest, WhomOneTakesForDeadIsDeadForAll) {
  ServerThreads servers({.servers = 3, .workers = 3, .outlives_workers = true});
  Survivor zero(servers, 0, 0, /*outlives_servers=*/true);
  Survivor one(servers, 1, 1, /*outlives_servers=*/true);
  Victim cut_off(servers, 2, 2);
  ASSERT_TRUE(zero.localize(4).ok());
  ASSERT_TRUE(zero.push(4, 3).ok());
  ASSERT_TRUE(zero.push(5, 3).ok());
  cut_off.at(2).say(protocol::ServerGone{.server = 1});
  cut_off.at(2).say(protocol::MovesEnded{.gone = 1});
  const auto deadline = std::chrono::steady_clock::now() + Peer::kPatience;
  absl::Status of_one;
  while (of_one.ok() && std::chrono::steady_clock::now() < deadline) of_one = one.session->poll();
  EXPECT_EQ(of_one.code(), absl::StatusCode::kUnavailable) << of_one;
  EXPECT_THAT(std::string(of_one.message()), HasSubstr("server 1"));
  EXPECT_THAT(std::string(of_one.message()), HasSubstr("as server 2"));
  // The home of key 4 is server 2 now. It waits until worker 0 has said that its moves have ended.
  cut_off.ask(KeyRequests::Kind::kLocate, 4, 2);
  for (int times = 0; times < 200; ++times) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(zero.session->poll().ok());
  }
  const auto census = cut_off.at(2).hear<protocol::Census>();
  EXPECT_EQ(census, (protocol::Census{.table = 0, .server = 1, .gone = 1}));
  cut_off.at(2).say(
      KeyAnswers{.table = 0, .answers = {{.key = 4, .kind = KeyAnswers::Kind::kHas, .node = 0, .epoch = 1}}});
  cut_off.at(2).say(census);
  EXPECT_EQ(cut_off.hear_answer(2), (KeyAnswers::Answer{.key = 4, .node = 0, .epoch = 1}));
  expect_lost(zero.pull(5).status(), 5);
  EXPECT_EQ(zero.pull(4).value_or(-1), 3);
}

TEST_P(DeathOfANodeTest, EndsWhatWaitsForIt) {
  // The victim moves two rows. The home of key 1 lives, that of key 4 dies; others wait for both.
  victim_.ask(KeyRequests::Kind::kLocalize, 1, 0);
  EXPECT_EQ(victim_.hear_answer(0).kind, KeyAnswers::Kind::kTaken);
  ASSERT_TRUE(zero_->localize(4).ok());
  victim_.ask(KeyRequests::Kind::kLocalize, 4, 1);
  EXPECT_EQ(victim_.hear_answer(1).kind, KeyAnswers::Kind::kTake);
  victim_.ask(KeyRequests::Kind::kHandOver, 4, 0, 1);
  EXPECT_EQ(victim_.hear_answer(0).kind, KeyAnswers::Kind::kTaken);
  std::array<std::vector<float>, 2> out{std::vector<float>(kWidth), std::vector<float>(kWidth)};
  std::array<Pending, 4> waiting{zero_->table.pull_async(std::vector<Key>{1}, out[0]),
                                 zero_->table.pull_async(std::vector<Key>{4}, out[1]),
                                 zero_->table.localize(std::vector<Key>{1}),
                                 zero_->table.localize(std::vector<Key>{4})};
  EXPECT_TRUE(zero_->table.push_async(std::vector<Key>{4}, std::vector<float>(kWidth, 1)).wait().ok());
  victim_.die();
  servers_.stop(1);
  {
    const Polling two(*two_->session);  // its moves have ended, as it says
    expect_lost(waiting[0].wait(), 1);
    expect_lost(waiting[1].wait(), 4);
    expect_lost(waiting[2].wait(), 1);
    expect_lost(waiting[3].wait(), 4);
    expect_lost(zero_->session->clock(), 4);  // the asynchronous push
  }
  EXPECT_TRUE(two_->session->clock().ok());
  EXPECT_EQ(zero_->pull(0).value_or(-1), 100);
  expect_a_good_end();
}

/// The row moves from one living node to another. Its home has arranged the move, and dies; its heir finds
/// the row where it has come.
TEST_P(DeathOfANodeTest, ARowThatIsOnItsWayToHereComes) {
  ASSERT_TRUE(two_->localize(4).ok());
  std::vector<float*> rows(1);
  absl::StatusOr<HeldRows> held = two_->table.hold(std::vector<Key>{4}, rows);
  ASSERT_TRUE(held.ok());
  ASSERT_NE(rows[0], nullptr);
  Pending localize = zero_->table.localize(std::vector<Key>{4});
  std::vector<float> out(kWidth);
  Pending pull = zero_->table.pull_async(std::vector<Key>{4}, out);
  // Long enough for the home to grant the move, and for worker 0 to ask the owner, which must wait for the
  // held row.
  for (int times = 0; times < 20; ++times) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (int pulls = 0; pulls < 1'000; ++pulls) ASSERT_TRUE(zero_->pull(0).ok());  // which polls now and then
  }
  victim_.die();
  servers_.stop(1);
  for (int times = 0; times < 20; ++times) {  // until all have noticed
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(zero_->session->poll().ok());
    ASSERT_TRUE(two_->session->poll().ok());
  }
  EXPECT_TRUE(zero_->table.push_async(std::vector<Key>{4}, std::vector<float>(kWidth, 1)).wait().ok());
  EXPECT_TRUE(held->release().ok());
  EXPECT_TRUE(localize.wait().ok());
  EXPECT_TRUE(pull.wait().ok());
  EXPECT_THAT(out[0], AnyOf(104, 105));  // the pull has ended after the push began, so it may see it
  EXPECT_EQ(zero_->pull(4).value_or(-1), 105);
  EXPECT_TRUE(zero_->table.is_here(4));
  EXPECT_EQ(two_->pull(4).value_or(-1), 105);
  EXPECT_TRUE(two_->localize(4).ok());
  EXPECT_EQ(two_->pull(4).value_or(-1), 105);
  expect_a_good_end();
}

TEST_P(DeathOfANodeTest, ItsOwnWorkersAreDeadToo) {
  victim_.die();
  {
    ServerThreads servers({.servers = 2, .workers = 2, .read_path = GetParam(), .outlives_workers = true});
    Survivor zero(servers, 0, 0, /*outlives_servers=*/true);
    {
      Survivor one(servers, 1, 1, /*outlives_servers=*/true);
      servers.stop(1);
      const absl::Status status = one.session->barrier();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("server 1"));
      static_cast<void>(one.session->give_up(status));  // has no effect: it is as dead as its node
    }
    EXPECT_TRUE(zero.session->barrier().ok());
    EXPECT_TRUE(zero.push(0, 1).ok());
  }
  servers_.stop(1);
  expect_a_good_end();
}

TEST_P(DeathOfANodeTest, NoTableIsOpenedAfterIt) {
  let_the_node_die();
  TableOptions other = kMoving;
  other.name = "other";
  const absl::Status status = zero_->session->table<float>(other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("server 1"));
  EXPECT_TRUE(zero_->push(0, 1).ok());
  expect_a_good_end();
}

INSTANTIATE_TEST_SUITE_P(Reads, DeathOfANodeTest, ::testing::Values(ReadPath::kAuto, ReadPath::kCached),
                         name_of_reads);

/// The status of a worker that waits at a barrier for one that dies without a message.
absl::Status end_of_a_job(const ClusterOptions& options, bool with_a_static_table) {
  ServerThreads servers(options);
  Survivor zero(servers, 0, 0);
  Victim victim(servers, 1, 1);
  if (with_a_static_table) {
    auto opened = zero.session->table<float>({.name = "static", .rows = 1, .width = 1});
    EXPECT_TRUE(opened.ok()) << opened.status();
  }
  victim.die();
  return zero.session->barrier();
}

TEST(DeathOfAWorkerTest, FailsAJobThatIsNotToOutliveIt) {
  const absl::Status status = end_of_a_job({.servers = kServers, .workers = 2}, false);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1"));
}

TEST(DeathOfAWorkerTest, FailsAJobWithAStaticTable) {
  const absl::Status status =
      end_of_a_job({.servers = kServers, .workers = 2, .outlives_workers = true}, true);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1"));
}

TEST(DeathOfAWorkerTest, LeavesNoRoomForALaterStaticTable) {
  ServerThreads servers({.servers = kServers, .workers = 2, .outlives_workers = true});
  Survivor zero(servers, 0, 0);
  Victim victim(servers, 1, 1);
  victim.die();
  EXPECT_TRUE(zero.session->barrier().ok()) << "a barrier must not wait for a dead worker";
  const absl::Status status = zero.session->table<float>({.name = "static", .rows = 1, .width = 1}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1"));
  EXPECT_FALSE(zero.session->barrier().ok());
}

}  // namespace
}  // namespace verbena::testing
