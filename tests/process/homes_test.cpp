// Nodes of real processes are killed one after the other, in a job that goes on without them: a server and a
// worker each. Rows whose home has died move on, and hold each update once. With a backup, those that lay on
// a dead node come back.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/return_if_error.hpp"
#include <verbena/server.hpp>
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::process_test {
namespace {

constexpr std::uint32_t kNodes = 4;
constexpr std::uint64_t kRows = 64;  // 16 have their home on each node
constexpr auto kPatience = std::chrono::seconds(30);
constexpr std::uint32_t kBackupEveryMs = 5;
/// Long enough for servers to have found one another, and for all images to be there.
constexpr auto kRest = std::chrono::seconds(1);

/// What the processes tell the test.
struct Board {
  std::atomic<bool> stop = false;
  std::atomic<bool> rests = false;  ///< workers are to change nothing
  std::array<std::atomic<bool>, kNodes> is_resting{};
  std::array<std::atomic<int>, kNodes> rounds{};
  /// By node and row: what it has read at the end; −1: the row is lost.
  std::array<std::array<std::atomic<float>, kRows * kNodes>, kNodes> rows{};
  std::array<std::array<std::atomic<float>, kRows>, kNodes> pushed{};  ///< by node and row
  /// By node and row: it was told that a push may or may not have been applied.
  std::array<std::array<std::atomic<bool>, kRows>, kNodes> is_in_doubt{};
  std::array<std::atomic<bool>, kNodes> has_moved_inherited{};
};

class Worker {
 public:
  /// `may_miss`: rows may come back without the last updates.
  Worker(const std::vector<std::string>& servers, std::uint32_t rank, Board& board, bool may_miss)
      : rank_(rank), board_(board), may_miss_(may_miss), random_(rank) {
    options_ = {.servers = servers, .rank = rank, .workers = kNodes, .outlives_servers = true};
  }

  absl::Status run() {
    auto session = Session::connect(options_);
    if (!session.ok()) return session.status();
    auto table = (*session)->table<float>({.name = "counts",
                                           .rows = kRows,
                                           .width = kNodes,
                                           .consistency = Sequential{},
                                           .allocation = Allocation::kDynamic});
    if (!table.ok()) return table.status();
    for (bool is_last = false; !is_last; ++board_.rounds[rank_]) {
      RETURN_IF_ERROR(rest(**session));
      is_last = board_.stop;
      for (Key key = 0; key < kRows; ++key) RETURN_IF_ERROR(count(*table, key));
    }
    RETURN_IF_ERROR((*session)->barrier());
    return look_at_all(*table);
  }

 private:
  static bool is_loss(const absl::Status& status) {
    return status.code() == absl::StatusCode::kDataLoss || status.code() == absl::StatusCode::kUnavailable;
  }
  absl::Status rest(Session& session) {
    while (board_.rests) {
      board_.is_resting[rank_] = true;
      RETURN_IF_ERROR(session.poll());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    board_.is_resting[rank_] = false;
    return absl::OkStatus();
  }
  absl::Status count(Table<float>& table, Key key) {
    const std::vector<Key> one{key};
    std::vector<float> update(kNodes, 0);
    update[rank_] = 1;
    if (random_() % 3 == 0) static_cast<void>(table.localize(one));
    absl::Status status = table.push(one, update);
    const float pushed = board_.pushed[rank_][key] + (status.ok() ? 1 : 0);
    board_.pushed[rank_][key] = pushed;
    if (status.code() == absl::StatusCode::kUnavailable) board_.is_in_doubt[rank_][key] = true;
    std::vector<float> values(kNodes);
    if (status.ok()) status = table.pull(one, values);
    if (is_loss(status)) return absl::OkStatus();
    RETURN_IF_ERROR(status);
    if (values[rank_] == pushed || (may_miss_ && values[rank_] < pushed)) return absl::OkStatus();
    return absl::InternalError(fmt::format("row {} holds {} of {}", key, values[rank_], pushed));
  }
  absl::Status look_at_all(Table<float>& table) {
    for (Key key = 0; key < kRows; ++key) {
      const std::vector<Key> one{key};
      std::vector<float> values(kNodes);
      const absl::Status moved = table.localize(one).wait();
      const absl::Status pulled = table.pull(one, values);
      if (!moved.ok() && !is_loss(moved)) return moved;
      if (!pulled.ok() && !is_loss(pulled)) return pulled;
      const bool is_inherited = key >= kRows / kNodes && key < 3 * kRows / kNodes;
      if (moved.ok() && pulled.ok() && is_inherited) board_.has_moved_inherited[rank_] = true;
      for (std::uint32_t i = 0; i < kNodes; ++i)
        board_.rows[rank_][key * kNodes + i] = pulled.ok() ? values[i] : -1;
    }
    return absl::OkStatus();
  }

  const std::uint32_t rank_;
  Board& board_;
  const bool may_miss_;
  std::mt19937 random_;
  SessionOptions options_;
};

/// A process that ends with the test.
class Process {
 public:
  explicit Process(const std::function<absl::Status()>& run) : pid_(::fork()) {
    EXPECT_GE(pid_, 0);
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const absl::Status status = run();
    if (!status.ok()) fmt::print(stderr, "{}\n", std::string(status.message()));
    std::_Exit(status.ok() ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// Its exit status.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_;
};

/// `backup_every_ms`: as of servers.
template <std::uint32_t backup_every_ms>
class NodesThatDie : public ::testing::TestWithParam<int> {
 protected:
  NodesThatDie() {
    void* const memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    board_ = new (memory) Board;
    std::vector<std::string> addresses;
    for (std::uint32_t node = 0; node < kNodes; ++node)
      addresses.push_back(
          fmt::format("shm:homes-{}-{}-{}/server-{}", ::getpid(), backup_every_ms, GetParam(), node));
    for (std::uint32_t node = 0; node < kNodes; ++node) {
      servers_.push_back(std::make_unique<Process>([&] {
        const std::atomic<bool> stop = false;
        return run_server({.address = addresses[node],
                           .rank = node,
                           .servers = kNodes,
                           .workers = kNodes,
                           .outlives_workers = true,
                           .backup_every_ms = backup_every_ms},
                          stop);
      }));
      workers_.push_back(std::make_unique<Process>(
          [&] { return Worker(addresses, node, *board_, backup_every_ms > 0).run(); }));
    }
  }
  ~NodesThatDie() override { ::munmap(board_, sizeof(Board)); }

  /// Until these have done so many rounds more.
  void let_work(const std::vector<std::uint32_t>& nodes, int rounds) {
    std::array<int, kNodes> until{};
    for (const std::uint32_t node : nodes) until[node] = board_->rounds[node] + rounds;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const auto are_done = [&] {
      return std::all_of(nodes.begin(), nodes.end(),
                         [&](std::uint32_t node) { return board_->rounds[node] >= until[node]; });
    };
    while (!are_done() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(are_done()) << "they do not go on";
  }
  /// These change nothing, and all images are made.
  void let_rest(const std::vector<std::uint32_t>& nodes) {
    board_->rests = true;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const auto are_resting = [&] {
      return std::all_of(nodes.begin(), nodes.end(),
                         [&](std::uint32_t node) { return board_->is_resting[node].load(); });
    };
    while (!are_resting() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(are_resting()) << "they do not rest";
    std::this_thread::sleep_for(kRest);
  }
  void kill_node(std::uint32_t node) {
    servers_[node]->kill();
    workers_[node]->kill();
  }
  /// All that are left, without an error.
  void end(const std::vector<std::uint32_t>& nodes) {
    board_->stop = true;
    for (const std::uint32_t node : nodes) EXPECT_EQ(workers_[node]->wait(), 0);
    for (const std::uint32_t node : nodes) EXPECT_EQ(servers_[node]->wait(), 0);
  }

  Board* board_ = nullptr;
  std::vector<std::unique_ptr<Process>> servers_;
  std::vector<std::unique_ptr<Process>> workers_;
};

using HomesTest = NodesThatDie<0>;
using BackupTest = NodesThatDie<kBackupEveryMs>;

/// The second node, which inherits from the first, dies so many microseconds after it.
TEST_P(HomesTest, TwoAfterOneAnotherFailOver) {
  ASSERT_NO_FATAL_FAILURE(let_work({0, 1, 2, 3}, 3));
  kill_node(1);
  std::this_thread::sleep_for(std::chrono::microseconds(GetParam()));
  kill_node(2);
  ASSERT_NO_FATAL_FAILURE(let_work({0, 3}, 3));
  end({0U, 3U});
  std::size_t there = 0;
  for (Key key = 0; key < kRows; ++key) {
    for (const std::uint32_t reader : {0U, 3U}) {
      if (board_->rows[reader][key * kNodes] < 0) continue;
      ++there;
      for (const std::uint32_t writer : {0U, 3U}) {
        if (board_->is_in_doubt[writer][key]) continue;
        EXPECT_EQ(board_->rows[reader][key * kNodes + writer], board_->pushed[writer][key])
            << "of worker " << writer << " in row " << key << ", as worker " << reader << " reads it";
      }
    }
  }
  EXPECT_GT(there, kRows / 4) << "of both: half of the nodes are gone, and each row may be on any";
  for (const std::uint32_t node : {0U, 3U}) EXPECT_TRUE(board_->has_moved_inherited[node]);
}

/// Whatever was changed last is in the images: nothing is missing. The second node has images of the first
/// one's rows, which others have taken from it, or it dies with them.
TEST_P(BackupTest, AllRowsOfNodesThatWereAtRestComeBack) {
  ASSERT_NO_FATAL_FAILURE(let_work({0, 1, 2, 3}, 3));
  ASSERT_NO_FATAL_FAILURE(let_rest({0, 1, 2, 3}));
  kill_node(1);
  board_->rests = false;
  ASSERT_NO_FATAL_FAILURE(let_work({0, 2, 3}, 3));
  ASSERT_NO_FATAL_FAILURE(let_rest({0, 2, 3}));
  kill_node(2);
  board_->rests = false;
  ASSERT_NO_FATAL_FAILURE(let_work({0, 3}, 3));
  end({0U, 3U});
  std::size_t there = 0;
  for (Key key = 0; key < kRows; ++key) {
    for (const std::uint32_t reader : {0U, 3U}) {
      // It had sent an update to the dead server before it knew of the death.
      if (board_->is_in_doubt[reader][key]) continue;
      ++there;
      for (std::uint32_t writer = 0; writer < kNodes; ++writer) {
        if (board_->is_in_doubt[writer][key]) continue;
        EXPECT_EQ(board_->rows[reader][key * kNodes + writer], board_->pushed[writer][key])
            << "of worker " << writer << " in row " << key << ", as worker " << reader << " reads it";
      }
    }
  }
  EXPECT_GT(there, kRows) << "of both";
}

/// They work when it dies: what comes back may lack something, and has nothing twice; and what is pushed from
/// then on is there.
TEST_P(BackupTest, RowsComeBackWhileOthersWork) {
  ASSERT_NO_FATAL_FAILURE(let_work({0, 1, 2, 3}, 3));
  ASSERT_NO_FATAL_FAILURE(let_rest({0, 1, 2, 3}));
  board_->rests = false;
  ASSERT_NO_FATAL_FAILURE(let_work({0, 1, 2, 3}, 3));
  kill_node(1);
  ASSERT_NO_FATAL_FAILURE(let_work({0, 2, 3}, 3));
  end({0U, 2U, 3U});
  for (Key key = 0; key < kRows; ++key) {
    for (const std::uint32_t reader : {0U, 2U, 3U}) {
      if (board_->rows[reader][key * kNodes] < 0) continue;
      for (const std::uint32_t writer : {0U, 2U, 3U}) {
        EXPECT_LE(board_->rows[reader][key * kNodes + writer], board_->pushed[writer][key])
            << "of worker " << writer << " in row " << key << ", as worker " << reader << " reads it";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backups, BackupTest, ::testing::Values(0));
INSTANTIATE_TEST_SUITE_P(Microseconds, HomesTest, ::testing::Values(0, 1'000, 100'000));

}  // namespace
}  // namespace verbena::process_test
