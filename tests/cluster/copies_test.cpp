// Servers that have copies, with real threads: the one that serves ends while workers train, and its copy
// takes its place. Everything else about it: tests/simulation.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/return_if_error.hpp"
#include "cluster/configuration.hpp"
#include "server/driver.hpp"
#include "server/server.hpp"
#include "transport/backends.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::testing {
namespace {

constexpr std::uint32_t kCopiedWorkers = 2;
constexpr std::int64_t kCopiedClocks = 120;
constexpr Key kCopiedKeys = 64;

/// What all threads of a test see.
class SharedConfiguration {
 public:
  void set(const cluster::Configuration& configuration) {
    const std::lock_guard lock(mutex_);
    configuration_ = configuration;
  }
  std::atomic<bool> has_joined = false;  ///< a copy has said so
  /// Who is held stands still before it looks for news. Others wait until it does.
  std::atomic<bool> holds = false;
  std::atomic<bool> is_held = false;
  [[nodiscard]] cluster::Configuration get() const {
    const std::lock_guard lock(mutex_);
    return configuration_;
  }
  /// As cluster::Controller does: before others can know it.
  void decide(std::uint64_t number) { decided_.store(number, std::memory_order_release); }
  [[nodiscard]] std::uint64_t decided() const { return decided_.load(std::memory_order_acquire); }
  void suspect(const std::string& address) {
    const std::lock_guard lock(mutex_);
    suspects_.insert(address);
  }
  [[nodiscard]] std::set<std::string> suspects() const {
    const std::lock_guard lock(mutex_);
    return suspects_;
  }

 private:
  mutable std::mutex mutex_;
  cluster::Configuration configuration_;
  std::set<std::string> suspects_;
  std::atomic<std::uint64_t> decided_ = 0;
};

/// A process may hear of a change so much later.
class SharedSource final : public cluster::ConfigurationSource {
 public:
  explicit SharedSource(SharedConfiguration& shared, transport::Duration late = {}, bool is_held = false)
      : shared_(shared), late_(late), is_held_(is_held) {}
  [[nodiscard]] const cluster::Configuration& newest() const override { return newest_; }
  [[nodiscard]] std::uint64_t decided() const override { return shared_.decided(); }
  void poll(transport::TimePoint now) override {
    while (is_held_ && shared_.holds) {
      shared_.is_held = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    next_ = now + std::chrono::milliseconds(1);
    cluster::Configuration found = shared_.get();
    if (found.number == newest_.number) return;
    if (newest_.number > 0 && hears_at_ == transport::TimePoint::max()) hears_at_ = now + late_;
    if (newest_.number > 0 && now < hears_at_) return;
    newest_ = std::move(found);
    hears_at_ = transport::TimePoint::max();
  }
  [[nodiscard]] transport::TimePoint next_poll() const override { return next_; }
  void expect_change() override {}
  void suspect(const std::string& address, const std::string& /*why*/) override { shared_.suspect(address); }
  void has_joined(const std::string& /*address*/) override { shared_.has_joined = true; }

 private:
  SharedConfiguration& shared_;
  const transport::Duration late_;
  const bool is_held_;
  transport::TimePoint hears_at_ = transport::TimePoint::max();  ///< of the next one
  cluster::Configuration newest_;
  transport::TimePoint next_ = transport::TimePoint::min();
};

/// A copy of server 0 of 1, in a thread, with lanes in threads of their own.
struct ServerCopy {
  ServerCopy(SharedConfiguration& shared, std::string at, bool joins = false, bool is_held = false)
      : address(std::move(at)) {
    ServerOptions options{
        .address = address,
        .workers = kCopiedWorkers,
        .configuration = std::make_shared<SharedSource>(shared, transport::Duration(), is_held),
        .joins = joins,
        .threads = 3,
        .lanes = 2};
    thread = std::thread([this, options] { status = run_server(options, stop); });
  }
  ~ServerCopy() {
    stop = true;
    thread.join();
  }

  const std::string address;
  std::atomic<bool> stop = false;
  absl::Status status;
  std::thread thread;
};

class CopiesTest : public ::testing::TestWithParam<const char*> {
 protected:
  CopiesTest() {
    static std::atomic<int> jobs = 0;
    const std::string job = fmt::format("shm:copies-{}-{}", ::getpid(), ++jobs);
    shared_.set({.number = 1, .servers = {{job + "/server-0", job + "/server-1"}}});
  }

  /// A worker, `late` with news, and its tables.
  struct Tables {
    std::unique_ptr<Session> session;
    Table<std::int64_t> dense;
    Table<double> sparse;
  };
  absl::StatusOr<Tables> join(std::uint32_t rank, transport::Duration late = {}) {
    const auto model = parse_consistency(GetParam());
    RETURN_IF_ERROR(model.status());
    auto session = Session::connect({.servers = {shared_.get().servers[0][0]},
                                     .rank = rank,
                                     .workers = kCopiedWorkers,
                                     .configuration = std::make_shared<SharedSource>(shared_, late)});
    RETURN_IF_ERROR(session.status());
    auto dense = (*session)->table<std::int64_t>(
        {.name = "dense", .rows = kCopiedKeys, .width = 2, .consistency = *model});
    RETURN_IF_ERROR(dense.status());
    auto sparse = (*session)->table<double>({.name = "sparse",
                                             .key_space = KeySpace::kSparse,
                                             .width = 1,
                                             .consistency = *model,
                                             .expected_rows = kCopiedKeys});
    RETURN_IF_ERROR(sparse.status());
    return Tables{*std::move(session), *dense, *sparse};
  }

  static std::vector<Key> sparse_keys() {
    std::vector<Key> keys;
    for (Key key = 0; key < kCopiedKeys; ++key) keys.push_back(key * 977 + 5);
    return keys;
  }

  absl::Status work(std::uint32_t rank) {
    absl::StatusOr<Tables> tables = join(rank);
    RETURN_IF_ERROR(tables.status());
    auto& [session, dense, sparse] = *tables;
    std::vector<std::int64_t> ones(kCopiedKeys * 2, 1);
    std::vector<std::int64_t> counts(kCopiedKeys * 2);
    std::vector<double> halves(kCopiedKeys, 0.5);
    std::vector<double> sums(kCopiedKeys);
    const std::vector<Key> keys = sparse_keys();
    for (std::int64_t clock = 0; clock < kCopiedClocks; ++clock) {
      RETURN_IF_ERROR(dense.push(KeyRange{0, kCopiedKeys}, ones));
      RETURN_IF_ERROR(sparse.push(keys, halves));
      RETURN_IF_ERROR(session->clock());
      begun_ = std::max<std::int64_t>(begun_, clock);
      // So that the server ends amid the training, on any host.
      while (clock == kCopiedClocks * 2 / 3 && !has_changed_)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      RETURN_IF_ERROR(dense.pull(KeyRange{0, kCopiedKeys}, counts));
      RETURN_IF_ERROR(sparse.pull(keys, sums));
      for (const std::int64_t count : counts) {
        if (count < clock + 1 || count > std::int64_t{kCopiedWorkers} * kCopiedClocks)
          return absl::DataLossError(fmt::format("{} at clock {}", count, clock));
      }
    }
    RETURN_IF_ERROR(session->barrier());
    RETURN_IF_ERROR(dense.pull(KeyRange{0, kCopiedKeys}, counts));
    RETURN_IF_ERROR(sparse.pull(keys, sums));
    for (const std::int64_t count : counts) {
      if (count != std::int64_t{kCopiedWorkers} * kCopiedClocks)
        return absl::DataLossError(fmt::format("{} in the end", count));
    }
    for (const double sum : sums) {
      if (sum != 0.5 * kCopiedWorkers * kCopiedClocks)
        return absl::DataLossError(fmt::format("{} in the end", sum));
    }
    return absl::OkStatus();
  }

  /// Worker 0 pushes; `pushed_` counts the pushes that have returned.
  absl::Status push_on() {
    absl::StatusOr<Tables> tables = join(0);
    RETURN_IF_ERROR(tables.status());
    const std::vector<std::int64_t> ones(kCopiedKeys * 2, 1);
    const std::vector<double> halves(kCopiedKeys, 0.5);
    const std::vector<Key> keys = sparse_keys();
    for (std::int64_t push = 0; push < kCopiedClocks; ++push) {
      while (push == kCopiedClocks / 2 && !has_changed_)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      RETURN_IF_ERROR(tables->dense.push(KeyRange{0, kCopiedKeys}, ones));
      RETURN_IF_ERROR(tables->sparse.push(keys, halves));
      pushed_ = push + 1;
      begun_ = push;
    }
    return absl::OkStatus();
  }

  /// Worker 1 looks at what worker 0 has pushed, until that is all; it is late with news.
  absl::Status read_on() {
    absl::StatusOr<Tables> tables = join(1, std::chrono::milliseconds(50));
    RETURN_IF_ERROR(tables.status());
    std::vector<std::int64_t> counts(kCopiedKeys * 2);
    std::vector<double> sums(kCopiedKeys);
    const std::vector<Key> keys = sparse_keys();
    const auto check = [](double found, std::int64_t pushed) {
      return found < static_cast<double>(pushed)
                 ? absl::DataLossError(fmt::format("finds {} after {} pushes", found, pushed))
                 : absl::OkStatus();
    };
    for (std::int64_t pushed = 0; pushed < kCopiedClocks && !pushing_has_ended_;) {
      pushed = pushed_;
      RETURN_IF_ERROR(tables->dense.pull(KeyRange{0, kCopiedKeys}, counts));
      for (const std::int64_t count : counts) RETURN_IF_ERROR(check(static_cast<double>(count), pushed));
      pushed = pushed_;
      RETURN_IF_ERROR(tables->sparse.pull(keys, sums));
      for (const double sum : sums) RETURN_IF_ERROR(check(2 * sum, pushed));
    }
    return absl::OkStatus();
  }

  /// Begins the workers. Each waits somewhere for has_changed_.
  void begin(const std::function<absl::Status(std::uint32_t rank)>& what) {
    for (std::uint32_t rank = 0; rank < kCopiedWorkers; ++rank)
      workers_.emplace_back([this, what, rank] { statuses_[rank] = what(rank); });
  }
  void begin() {
    begin([this](std::uint32_t rank) { return work(rank); });
  }
  /// Returns when `done()`, or when it has waited for too long.
  template <class Done>
  static void wait_until(const Done& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  /// The workers go on with the last copy, to the end. REQUIRES: the others have ended
  void end(ServerCopy& last) {
    const std::uint64_t number = shared_.get().number + 1;
    shared_.decide(number);
    shared_.set({.number = number, .servers = {{last.address}}});
    has_changed_ = true;
    for (std::thread& worker : workers_) worker.join();
    for (const absl::Status& status : statuses_) EXPECT_TRUE(status.ok()) << status;
    last.thread.join();
    EXPECT_TRUE(last.status.ok()) << last.status;
    last.thread = std::thread([] {});
  }
  /// Gives the server's place to its copy when `begun_` has come so far.
  void run(const std::function<absl::Status(std::uint32_t rank)>& what) {
    const cluster::Configuration::Chain chain = shared_.get().servers[0];
    auto serving = std::make_unique<ServerCopy>(shared_, chain[0]);
    ServerCopy following(shared_, chain[1]);
    begin(what);
    wait_until([&] { return begun_ >= kCopiedClocks / 3; });
    serving.reset();  // before its place is given to another one
    end(following);
  }

  SharedConfiguration shared_;
  std::vector<absl::Status> statuses_{kCopiedWorkers};
  std::vector<std::thread> workers_;
  std::atomic<std::int64_t> begun_ = -1;
  std::atomic<bool> has_changed_ = false;
  std::atomic<std::int64_t> pushed_ = 0;
  std::atomic<bool> pushing_has_ended_ = false;
};

TEST_P(CopiesTest, OneTakesThePlaceOfAServer) {
  run([this](std::uint32_t rank) { return work(rank); });
}

TEST_P(CopiesTest, OneThatHasJoinedTakesThePlaceOfAServer) {
  const cluster::Configuration::Chain chain = shared_.get().servers[0];
  shared_.set({.number = 1, .servers = {{chain[0]}}});
  auto serving = std::make_unique<ServerCopy>(shared_, chain[0]);
  begin();
  wait_until([&] { return begun_ >= kCopiedClocks / 4; });
  ServerCopy joining(shared_, chain[1], /*joins=*/true);
  wait_until([&] { return begun_ >= kCopiedClocks / 3; });  // so long it is in no configuration
  shared_.set({.number = 2, .servers = {{chain[0]}}, .joining = {chain[1]}});
  wait_until([&] { return shared_.has_joined.load(); });
  EXPECT_TRUE(shared_.has_joined);
  shared_.set({.number = 3, .servers = {chain}});
  wait_until([&] { return begun_ >= kCopiedClocks / 2; });
  serving.reset();
  end(joining);
}

TEST_P(CopiesTest, OneThatJoinsAndStandsStillHoldsUpNobody) {
  const cluster::Configuration::Chain chain = shared_.get().servers[0];
  shared_.set({.number = 1, .servers = {{chain[0]}}});
  ServerCopy serving(shared_, chain[0]);
  ServerCopy joining(shared_, chain[1], /*joins=*/true, /*is_held=*/true);
  begin();
  wait_until([&] { return begun_ >= kCopiedClocks / 3; });
  shared_.holds = true;
  wait_until([&] { return shared_.is_held.load(); });
  shared_.set({.number = 2, .servers = {{chain[0]}}, .joining = {chain[1]}});
  has_changed_ = true;
  for (std::thread& worker : workers_) worker.join();
  for (const absl::Status& status : statuses_) EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(shared_.has_joined);
  // All is over. It hears so from the one that it is to follow, which waits for it a while.
  shared_.holds = false;
  for (ServerCopy* const copy : {&serving, &joining}) {
    copy->thread.join();
    EXPECT_TRUE(copy->status.ok()) << copy->status;
    copy->thread = std::thread([] {});
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CopiesTest,
                         ::testing::Values("bsp", "essp:1", "asp", "sequential", "vap:0.5"),
                         [](const auto& test) {
                           return std::string(test.param).substr(0, std::string(test.param).find(':'));
                         });

/// One that dies in the middle of a chain leaves one that has more than those after it. That does not count:
/// it has it in vain if all die but the last one.
class LongChainTest : public CopiesTest {};

TEST_P(LongChainTest, CountsNothingThatTheLastCopyLacks) {
  constexpr auto kLongEnough = std::chrono::milliseconds(300);  // to follow another copy, and to count
  const std::string first = shared_.get().servers[0][0];
  cluster::Configuration::Chain chain;
  for (int copy = 0; copy < 4; ++copy) chain.push_back(fmt::format("{}-{}", first, copy));
  shared_.set({.number = 1, .servers = {chain}});
  std::vector<std::unique_ptr<ServerCopy>> copies;
  for (const std::string& address : chain)
    copies.push_back(std::make_unique<ServerCopy>(shared_, address, false, address == chain.back()));
  std::atomic<int> pushed = 0;
  begin([&](std::uint32_t rank) -> absl::Status {
    absl::StatusOr<Tables> tables = join(rank);
    RETURN_IF_ERROR(tables.status());
    const std::vector<std::int64_t> ones(kCopiedKeys * 2, 1);
    for (int push = 0; rank == 0 && push < 2; ++push) {
      RETURN_IF_ERROR(tables->dense.push(KeyRange{0, kCopiedKeys}, ones));
      ++pushed;
      while (push == 0 && !shared_.is_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return absl::OkStatus();
  });
  wait_until([&] { return pushed == 1; });
  shared_.holds = true;
  wait_until([&] { return shared_.is_held.load(); });
  // The second push goes as far as the copy before the last one.
  std::this_thread::sleep_for(kLongEnough);
  EXPECT_EQ(pushed, 1);
  copies[1].reset();
  const cluster::Configuration::Chain left = {chain[0], chain[2], chain[3]};
  shared_.decide(2);
  shared_.set({.number = 2, .servers = {left}});
  std::this_thread::sleep_for(kLongEnough);
  EXPECT_EQ(pushed, 1) << "it counts, and the last copy has not heard of it";
  shared_.holds = false;
  for (std::thread& worker : workers_) worker.join();
  for (const absl::Status& status : statuses_) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(pushed, 2);
}

/// A copy that waits for both its neighbours.
TEST_P(LongChainTest, SuspectsWhoJoinsAndDoesNotComeAlsoAfterAnotherOneHasCome) {
  const cluster::Configuration::Chain chain = shared_.get().servers[0];
  const std::string nobody = chain[0] + "-nobody";
  shared_.set({.number = 1, .servers = {chain}, .joining = {nobody}});
  const ServerCopy following(shared_, chain[1]);
  const ServerCopy serving(shared_, chain[0]);
  wait_until([&] { return !shared_.suspects().empty(); });
  EXPECT_EQ(shared_.suspects(), std::set<std::string>{nobody});
}

INSTANTIATE_TEST_SUITE_P(Models, LongChainTest, ::testing::Values("sequential"),
                         [](const auto& test) { return std::string(test.param); });

/// Models whose reads must find what others were told of; here, each push that has returned, since each is
/// more than the value bound lets others miss.
class CopiedReadsTest : public CopiesTest {};

TEST_P(CopiedReadsTest, FindWhatTheCopyHasTold) {
  run([this](std::uint32_t rank) {
    if (rank == 1) return read_on();
    const absl::Status status = push_on();
    pushing_has_ended_ = true;
    return status;
  });
}

INSTANTIATE_TEST_SUITE_P(Models, CopiedReadsTest, ::testing::Values("sequential", "vap:0.5"),
                         [](const auto& test) {
                           return std::string(test.param).substr(0, std::string(test.param).find(':'));
                         });

}  // namespace
}  // namespace verbena::testing
