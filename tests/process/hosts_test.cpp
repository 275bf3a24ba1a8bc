// Jobs on several hosts without RDMA devices and without mpirun, whose network delays packets and loses some.
// VERBENA_TEST_KILLS: how often some of the tests let something die.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/free_port.hpp"
#include "tests/process/chance.hpp"
#include "tests/process/hosts_job.hpp"
#include "tests/process/hosts_network.hpp"
#include "tests/process/small_training.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HostsTest : public HostsJobTest {
 protected:
  [[nodiscard]] std::vector<std::string> words(const std::string& output,
                                               const std::vector<std::string>& more) const {
    return training_words(
        output,
        {{"--servers", std::to_string(kServersOfSmallTraining), "--consistency", consistency_}, more});
  }

  /// The same under BSP on one host, and on two, each with a server and a worker. `more`: options of these.
  void train_on_both(const std::vector<std::string>& more = {});
};

void HostsTest::train_on_both(const std::vector<std::string>& more) {
  const Ended on_one = run(VERBENA_PROGRAM, words("one", {}), folder_.path());
  ASSERT_EQ(on_one.status, 0) << on_one.err;
  constexpr std::size_t kProcesses = kServersOfSmallTraining + kWorkers;
  for (std::size_t rank = 0; rank < kProcesses; ++rank) {
    std::vector<std::string> all = meeting_words(kProcesses);
    all.insert(all.end(), {"--process", std::to_string(rank)});
    all.insert(all.end(), more.begin(), more.end());
    processes_.push_back(std::make_unique<Program>(VERBENA_PROGRAM, words("two", all), folder_.path(),
                                                   network_->on(rank % 2)));
  }
  for (std::size_t rank = 0; rank < kProcesses; ++rank) {
    const Ended ended = processes_[rank]->wait();
    EXPECT_EQ(ended.status, 0) << "rank " << rank << ": " << ended.err;
    if (rank == 0) {
      EXPECT_NE(ended.out.find(", tcp"), std::string::npos) << ended.out;
    }
  }
  EXPECT_GT(network_->forwarded(), 0U);
  EXPECT_EQ(model("one"), model("two"));
  for (const std::string& file : model("one")) EXPECT_NE(file, "");
}

TEST_P(HostsTest, UnderBspTheyTrainWhatOneHostTrains) {
  connect({.delay = std::chrono::microseconds(300), .loss = 0.002});
  if (network_ == nullptr) return;
  const bool has_streams = GetParam().application >= "l";  // some have, and some have not
  train_on_both(has_streams ? std::vector<std::string>{"--streams=3"} : std::vector<std::string>());
}

/// Of those that worker 0 has to server 1. Those to the first host are also the ones over which the run is
/// led.
TEST_P(HostsTest, NobodyNoticesThatConnectionsBreak) {
  connect({.delay = std::chrono::microseconds(300), .reset_every = 31, .most_resets = 20, .resets_to = 1});
  if (network_ == nullptr) return;
  const bool encrypts = GetParam().application < "l";  // some do, and some do not
  train_on_both(encrypts ? std::vector<std::string>{"--tls", "--streams=2"} : std::vector<std::string>());
  EXPECT_GT(network_->resets(), 0U);
}

/// Servers with copies on three hosts, of which the first leads and has the workers: servers 0 and 1 are
/// ranks 0 and 1, their copies ranks 2 and 3.
class HostsFailoverTest : public HostsTest {
 protected:
  static constexpr std::size_t kProcesses = 2 * kServersOfSmallTraining + kWorkers;
  static constexpr std::size_t kHostOf[kProcesses] = {0, 1, 1, 2, 0, 0};

  void begin(const std::vector<std::string>& more = {}) {
    connect({.hosts = 3});
    if (network_ != nullptr) begin_at(place_, more);
  }
  void begin_at(const std::string& place, const std::vector<std::string>& more) {
    place_ = place;
    const Ended on_one = run(VERBENA_PROGRAM, words("one", {}), folder_.path());
    ASSERT_EQ(on_one.status, 0) << on_one.err;
    for (std::size_t rank = 0; rank < kProcesses; ++rank) processes_.push_back(start(rank, more));
    wait_for_checkpoint();
  }
  [[nodiscard]] std::unique_ptr<Program> start(std::size_t rank, const std::vector<std::string>& more) const {
    std::vector<std::string> all = meeting_words(kProcesses);
    all.insert(all.end(), {"--process", std::to_string(rank), "--replicas", "1", "--checkpoint", saved(),
                           "--checkpoint-every", "1", "--slow",
                           fmt::format("worker=all,pause={}ms,every=1", pause_.count())});
    all.insert(all.end(), more.begin(), more.end());
    const std::function<void()> there =
        network_ == nullptr ? std::function<void()>([] {}) : network_->on(kHostOf[rank]);
    return std::make_unique<Program>(VERBENA_PROGRAM, words("copies", all), folder_.path(), there);
  }
  /// All but the `lost` train to the end, and get the same model. Returns what rank 0 has said.
  std::string end_without(const std::set<std::size_t>& lost) {
    std::string said = wait_for_all(lost, !waits_for_leader_);
    expect_model_of_one_host("copies");
    return said;
  }
  [[nodiscard]] std::string name_of(std::size_t rank, const std::string& what) const {
    return fmt::format("{} (rank {}, pid {} on ", what, rank, processes_[rank]->pid());
  }

  /// VERBENA_TEST_KILLS says how often, each time with a job of its own.
  void repeat(const std::function<void()>& let_something_die) {
    fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
    const std::uint64_t runs = number_from("VERBENA_TEST_KILLS", 1);
    for (std::uint64_t run = 0; run < runs; ++run) {
      SCOPED_TRACE(fmt::format("run {}", run));
      processes_.clear();
      network_.reset();
      std::filesystem::remove_all(saved());
      let_something_die();
      if (HasFailure() || IsSkipped()) return;
    }
  }
  /// Some moment of the training comes.
  void pause() { std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(0.2))); }

  /// Rank 0 dies, and some others with it; all are started again, and have what the others have.
  void let_die_with_leader(const std::set<std::size_t>& others, const std::vector<std::string>& more = {}) {
    waits_for_leader_ = true;
    std::set<std::size_t> all = others;
    all.insert(0);
    for (const std::size_t rank : all) processes_[rank]->signal(SIGKILL);
    for (const std::size_t rank : all) processes_[rank] = start(rank, more);
    for (const std::size_t rank : all)
      ASSERT_TRUE(wait_until([&] { return has_joined(rank) || !alive(processes_[0]->pid()); }))
          << processes_[0]->wait().err;
  }
  /// Until all others have missed rank 0.
  void stop_leader() {
    processes_[0]->signal(SIGSTOP);
    for (std::size_t rank = 1; rank < kProcesses; ++rank) {
      ASSERT_TRUE(processes_[rank]->wait_for_output(
          fmt::format("rank 0 (process {} at {}) has shown no sign of life for ", processes_[0]->pid(),
                      HostsNetwork::address(0))))
          << rank;
      EXPECT_TRUE(processes_[rank]->has_said("(kill -9), and start it again, with the same command line"));
    }
  }
  /// Rank 0 says so, of the process that has the rank now.
  [[nodiscard]] bool has_joined(std::size_t rank) const {
    std::array<char, 256> host{};
    EXPECT_EQ(::gethostname(host.data(), host.size() - 1), 0);
    return processes_[0]->has_said(fmt::format("(rank {}, pid {} on {}) has all that server {} has", rank,
                                               processes_[rank]->pid(), host.data(),
                                               rank % kServersOfSmallTraining));
  }

  std::chrono::milliseconds pause_{100};  ///< of each worker in each iteration
  bool waits_for_leader_ = false;         ///< the others have something to say
};

TEST_P(HostsFailoverTest, AServerThatDiesIsReplacedByItsCopy) {
  repeat([&] {
    ASSERT_NO_FATAL_FAILURE(begin());
    if (network_ == nullptr) return;
    pause();
    processes_[1]->signal(SIGKILL);
    const std::string said = end_without({1});
    EXPECT_THAT(said, AllOf(HasSubstr(name_of(1, "server 1")),
                            HasSubstr("the run goes on with the last copy of server 1 (configuration 2)")));
  });
}

TEST_P(HostsFailoverTest, AHostThatDiesIsNotMissed) {
  repeat([&] {
    ASSERT_NO_FATAL_FAILURE(begin());
    if (network_ == nullptr) return;
    pause();
    for (const std::size_t rank : {1U, 2U}) processes_[rank]->signal(SIGKILL);
    const std::string said = end_without({1, 2});
    EXPECT_THAT(said, AllOf(HasSubstr(name_of(1, "server 1")), HasSubstr(name_of(2, "copy 1 of server 0")),
                            HasSubstr("(configuration 3)")));
  });
}

/// It goes on, one day, with all that it had.
TEST_P(HostsFailoverTest, AServerThatIsStoppedIsReplacedAndEndsByItself) {
  repeat([&] {
    ASSERT_NO_FATAL_FAILURE(begin({"--silence-timeout", "2000"}));
    if (network_ == nullptr) return;
    processes_[1]->signal(SIGSTOP);
    ASSERT_TRUE(processes_[0]->wait_for_output("shows no sign of life"));
    processes_[1]->signal(SIGCONT);
    const Ended ended = processes_[1]->wait();
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(ended.err,
                AllOf(HasSubstr("verbena: this process ends, and its job goes on without it: server 1"),
                      Not(HasSubstr("error"))));
    EXPECT_THAT(end_without({1}),
                HasSubstr("the run goes on with the last copy of server 1 (configuration 2)"));
  });
}

/// A server is started again when it has died, and then the other copy dies.
TEST_P(HostsFailoverTest, AServerThatComesBackCanTakeThePlaceOfTheOther) {
  pause_ = std::chrono::milliseconds(400);
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  for (const std::size_t victim : {1U, 3U}) {
    processes_[victim]->signal(SIGKILL);
    processes_[victim] = start(victim, {});
    ASSERT_TRUE(processes_[0]->wait_for_output(fmt::format(
        "copy {} of server 1 (rank {}, pid {} on ", victim == 1 ? 2 : 3, victim, processes_[victim]->pid())));
  }
  const std::string said = end_without({});
  EXPECT_THAT(said, AllOf(HasSubstr("copy 2 of server 1"), HasSubstr("copy 3 of server 1")));
  EXPECT_THAT(said, AllOf(HasSubstr("has all that server 1 has, and can take its place"),
                          HasSubstr("the run goes on with the last copy of server 1 (configuration 5)")));
}

/// Then the copy dies that has served meanwhile.
TEST_P(HostsFailoverTest, WhoLeadsMayDieAndTakesUpAgain) {
  pause_ = std::chrono::milliseconds(400);
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  ASSERT_NO_FATAL_FAILURE(let_die_with_leader({}));
  processes_[2]->signal(SIGKILL);
  const std::string said = end_without({2});
  EXPECT_THAT(said, AllOf(HasSubstr("the process of server 0 was lost with rank 0"),
                          HasSubstr("the run goes on with the last copy of server 0 (configuration 1002)"),
                          HasSubstr("copy 1 of server 0 (rank 2"), HasSubstr("(configuration 1005)")));
}

INSTANTIATE_TEST_SUITE_P(Each, HostsFailoverTest, ::testing::ValuesIn(small_trainings()),
                         ::testing::PrintToStringParamName());

/// What is the same for all applications.
class OneHostsFailoverTest : public HostsFailoverTest {};

/// All processes of a host go on, and hear nothing of the others.
TEST_P(OneHostsFailoverTest, AHostThatCannotBeReachedIsNotMissedAndEndsByItself) {
  ASSERT_NO_FATAL_FAILURE(begin({"--leader-patience", "2"}));
  if (network_ == nullptr) return;
  network_->cut(1);
  EXPECT_THAT(end_without({1, 2}), HasSubstr("(configuration 3)"));
  for (const std::size_t rank : {1U, 2U}) {
    const Ended ended = processes_[rank]->wait();
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(ended.err, HasSubstr("rank 0 "));
  }
}

/// Over shared memory, where the memory of one that is stopped can be read.
TEST_P(OneHostsFailoverTest, OnOneHostNobodyEndsTheOneThatIsStoppedEither) {
  repeat([&] {
    ASSERT_NO_FATAL_FAILURE(
        begin_at(fmt::format("localhost:{}", verbena::testing::free_port()), {"--silence-timeout", "2000"}));
    processes_[1]->signal(SIGSTOP);
    ASSERT_TRUE(processes_[0]->wait_for_output("shows no sign of life"));
    const std::string said = end_without({1});
    EXPECT_THAT(said, AllOf(HasSubstr("shm"),
                            HasSubstr("verbena: warning: some servers have a copy on their own host")));
    processes_[1]->signal(SIGCONT);
    const Ended ended = processes_[1]->wait();
    EXPECT_THAT(ended.err, HasSubstr("its job goes on without it"));
  });
}

/// Nobody may be told of anything new as long as somebody may read at the one that is stopped.
TEST_P(OneHostsFailoverTest, ItMayBeUnderModelsWhoseReadsFindWhatOthersWereToldOf) {
  for (const std::string consistency : {"sequential", "vap:2"}) {
    SCOPED_TRACE(consistency);
    consistency_ = consistency;
    processes_.clear();
    std::filesystem::remove_all(saved());
    ASSERT_NO_FATAL_FAILURE(begin_at(fmt::format("localhost:{}", verbena::testing::free_port()),
                                     {"--silence-timeout", "2000", "--allocation", "static"}));
    processes_[1]->signal(SIGSTOP);
    ASSERT_TRUE(processes_[0]->wait_for_output("shows no sign of life"));
    EXPECT_THAT(end_without({1}),
                HasSubstr("the run goes on with the last copy of server 1 (configuration 2)"));
    processes_[1]->signal(SIGCONT);
    EXPECT_THAT(processes_[1]->wait().err, HasSubstr("its job goes on without it"));
  }
}

/// The one before it goes on one day, on the same host or another one.
TEST_P(OneHostsFailoverTest, OneThatIsStoppedDoesNoHarmToTheOneInItsPlace) {
  pause_ = std::chrono::milliseconds(700);
  ASSERT_NO_FATAL_FAILURE(begin({"--silence-timeout", "2000"}));
  if (network_ == nullptr) return;
  const std::unique_ptr<Program> stopped = std::move(processes_[1]);
  stopped->signal(SIGSTOP);
  processes_[1] = start(1, {"--silence-timeout", "2000"});
  ASSERT_TRUE(processes_[0]->wait_for_output("has all that server 1 has"));
  stopped->signal(SIGCONT);
  EXPECT_THAT(stopped->wait().err, HasSubstr("its job goes on without it"));
  processes_[3]->signal(SIGKILL);
  EXPECT_THAT(end_without({3}),
              HasSubstr("the run goes on with the last copy of server 1 (configuration 5)"));
}

/// As systemd and Kubernetes ask a process to end, and start it again elsewhere.
TEST_P(OneHostsFailoverTest, AServerThatIsAskedToEndStepsAsideAndMayComeBack) {
  pause_ = std::chrono::milliseconds(500);
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  processes_[1]->signal(SIGTERM);
  const Ended ended = processes_[1]->wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  ASSERT_TRUE(processes_[0]->wait_for_output("steps aside, as it was asked to"));
  processes_[1] = start(1, {});
  ASSERT_TRUE(processes_[0]->wait_for_output("has all that server 1 has"));
  processes_[3]->signal(SIGTERM);
  EXPECT_EQ(processes_[3]->wait().status, 0);
  EXPECT_THAT(end_without({3}),
              HasSubstr("the run goes on with the last copy of server 1 (configuration 5)"));
}

/// On the host that has none, by a process that is there.
TEST_P(OneHostsFailoverTest, WhenTheLastCopyIsAskedToEndAnotherIsMade) {
  pause_ = std::chrono::milliseconds(400);
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  processes_[1]->signal(SIGKILL);
  ASSERT_TRUE(processes_[0]->wait_for_output("(configuration 2)"));
  processes_[3]->signal(SIGTERM);
  EXPECT_EQ(processes_[3]->wait().status, 0);
  EXPECT_THAT(end_without({1, 3}),
              AllOf(HasSubstr("as its process is to end"), HasSubstr("steps aside for copy 2 on ")));
}

TEST_P(OneHostsFailoverTest, WhoCannotJoinHearsWhyAndEndsNothing) {
  pause_ = std::chrono::milliseconds(700);
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  const auto expect_refusal = [&](std::size_t rank, const std::vector<std::string>& more,
                                  const std::string& why) {
    const Ended ended = start(rank, more)->wait();
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(why));
  };
  verbena::testing::write_file(folder_.path("other"), "another secret\n");
  std::filesystem::permissions(folder_.path("other"), std::filesystem::perms::owner_read);
  expect_refusal(5, {}, "rank 0 refuses this process: another process has come as rank 5");
  processes_[1]->signal(SIGKILL);
  expect_refusal(1, {"--server-threads", "1", "--threads", "2"}, "is to run lda");
  const Ended stranger = start(1, {"--secret-file", folder_.path("other")})->wait();
  EXPECT_NE(stranger.status, 0);
  EXPECT_THAT(stranger.err, HasSubstr("secret"));
  processes_[1] = start(1, {});
  ASSERT_TRUE(processes_[0]->wait_for_output("has all that server 1 has"));
  end_without({});
}

TEST_P(OneHostsFailoverTest, EndsWhenAllCopiesOfAServerAreDead) {
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  for (const std::size_t rank : {1U, 3U}) processes_[rank]->signal(SIGKILL);
  for (const std::size_t rank : {0U, 2U, 4U, 5U}) {
    const Ended ended = processes_[rank]->wait();
    EXPECT_NE(ended.status, 0) << rank;
    if (rank == 0) {
      EXPECT_THAT(ended.err, HasSubstr("server 1 is lost with all its copies"));
    }
  }
}

TEST_P(OneHostsFailoverTest, AnotherServerMayDieWithWhoLeads) {
  pause_ = std::chrono::milliseconds(400);
  ASSERT_NO_FATAL_FAILURE(begin({"--tls"}));
  if (network_ == nullptr) return;
  ASSERT_NO_FATAL_FAILURE(let_die_with_leader({1}, {"--tls"}));
  EXPECT_THAT(end_without({}),
              AllOf(HasSubstr("the run goes on with the last copy of server 1 (configuration 1003)"),
                    HasSubstr("4 of its processes are there")));
}

TEST_P(OneHostsFailoverTest, WhoLeadsMayDieAgainAndAgain) {
  pause_ = std::chrono::milliseconds(500);
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(let_die_with_leader({}));
  EXPECT_THAT(end_without({}), HasSubstr("the run goes on with the last copy of server 0 (configuration 2"));
}

/// It has its address as long as it is there.
TEST_P(OneHostsFailoverTest, WhoLeadsMayBeStoppedForGood) {
  pause_ = std::chrono::milliseconds(400);
  ASSERT_NO_FATAL_FAILURE(begin({"--silence-timeout", "2000"}));
  if (network_ == nullptr) return;
  ASSERT_NO_FATAL_FAILURE(stop_leader());
  const Ended too_early = start(0, {"--silence-timeout", "2000"})->wait();
  EXPECT_EQ(too_early.status, 2) << too_early.err;
  EXPECT_THAT(too_early.err, HasSubstr(fmt::format("end it first (kill -9 {})", processes_[0]->pid())));
  ASSERT_NO_FATAL_FAILURE(let_die_with_leader({}, {"--silence-timeout", "2000"}));
  EXPECT_THAT(end_without({}),
              HasSubstr("the run goes on with the last copy of server 0 (configuration 1002)"));
}

/// It serves as well, until it ends.
TEST_P(OneHostsFailoverTest, WhoLeadsAndIsStoppedEndsByItselfIfItGoesOnTooLate) {
  repeat([&] {
    pause_ = std::chrono::milliseconds(400);
    ASSERT_NO_FATAL_FAILURE(begin({"--silence-timeout", "2000"}));
    if (network_ == nullptr) return;
    ASSERT_NO_FATAL_FAILURE(stop_leader());
    processes_[0]->signal(SIGCONT);
    const Ended ended = processes_[0]->wait();
    EXPECT_EQ(ended.status, 1) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("verbena: this process ends, and its job goes on without it: rank 0 was "
                                     "stopped, or its host hung"));
    EXPECT_THAT(ended.out + ended.err, Not(AnyOf(HasSubstr("error"), HasSubstr("gone: it crashed"),
                                                 HasSubstr("without a word"), HasSubstr("configuration 2"))));
    processes_[0] = start(0, {"--silence-timeout", "2000"});
    ASSERT_TRUE(wait_until([&] { return has_joined(0) || !alive(processes_[0]->pid()); }))
        << processes_[0]->wait().err;
    waits_for_leader_ = true;
    EXPECT_THAT(end_without({}),
                HasSubstr("the run goes on with the last copy of server 0 (configuration 1002)"));
  });
}

/// There is nobody to go on with.
TEST_P(OneHostsFailoverTest, WithoutCopiesARankZeroThatIsStoppedEndsAll) {
  connect({});
  if (network_ == nullptr) return;
  constexpr std::size_t kWithoutCopies = kServersOfSmallTraining + kWorkers;
  for (std::size_t rank = 0; rank < kWithoutCopies; ++rank) {
    std::vector<std::string> all = meeting_words(kWithoutCopies);
    all.insert(all.end(), {"--process", std::to_string(rank), "--silence-timeout", "2000", "--checkpoint",
                           saved(), "--checkpoint-every", "1", "--slow", "worker=all,pause=400ms,every=1"});
    processes_.push_back(std::make_unique<Program>(VERBENA_PROGRAM, words("two", all), folder_.path(),
                                                   network_->on(rank % 2)));
  }
  wait_for_checkpoint();
  processes_[0]->signal(SIGSTOP);
  for (std::size_t rank = 1; rank < kWithoutCopies; ++rank) {
    const Ended ended = processes_[rank]->wait();
    EXPECT_NE(ended.status, 0);
    if (rank != 1) continue;
    EXPECT_THAT(ended.err, AllOf(HasSubstr(fmt::format("rank 0 (process {} at ", processes_[0]->pid())),
                                 HasSubstr("has shown no sign of life for 2.")));
  }
}

TEST_P(OneHostsFailoverTest, NobodyMissesWhoLeadsIfItGoesOnInTime) {
  ASSERT_NO_FATAL_FAILURE(begin({"--silence-timeout", "20000"}));
  if (network_ == nullptr) return;
  processes_[0]->signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  processes_[0]->signal(SIGCONT);
  EXPECT_THAT(end_without({}), Not(HasSubstr("configuration 2")));
}

/// Both would decide.
TEST_P(OneHostsFailoverTest, NobodyLeadsARunThatIsLed) {
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  const Ended another = start(0, {})->wait();
  EXPECT_EQ(another.status, 2) << another.err;
  EXPECT_THAT(another.err, AllOf(HasSubstr(":7000"),
                                 HasSubstr(fmt::format("end it first (kill {})", processes_[0]->pid()))));
  end_without({});
}

TEST_P(OneHostsFailoverTest, WithoutAnotherLeaderAllEndInTime) {
  ASSERT_NO_FATAL_FAILURE(begin({"--leader-patience", "3"}));
  if (network_ == nullptr) return;
  const auto since = std::chrono::steady_clock::now();
  processes_[0]->signal(SIGKILL);
  for (std::size_t rank = 1; rank < kProcesses; ++rank) {
    const Ended ended = processes_[rank]->wait();
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("this process waits 3 s for another one in its place"),
                                 HasSubstr("no other process has led the job in its place within 3 s")));
  }
  const auto took = std::chrono::steady_clock::now() - since;
  EXPECT_GE(took, std::chrono::seconds(3));
  EXPECT_LT(took, std::chrono::seconds(30));
}

TEST_P(OneHostsFailoverTest, EndsWhenAWorkerOrRankZeroDies) {
  for (const std::size_t victim : {5U, 0U}) {
    SCOPED_TRACE(victim);
    processes_.clear();
    std::filesystem::remove_all(saved());
    ASSERT_NO_FATAL_FAILURE(begin({"--leader-patience", "0"}));
    if (network_ == nullptr) return;
    processes_[victim]->signal(SIGKILL);
    std::string said;
    for (std::size_t rank = 0; rank < kProcesses; ++rank) {
      if (rank == victim) continue;
      const Ended ended = processes_[rank]->wait();
      EXPECT_NE(ended.status, 0) << rank;
      said += ended.err;
    }
    EXPECT_THAT(said, HasSubstr(name_of(victim, victim == 0 ? "server 0" : "worker 1")));
  }
}

INSTANTIATE_TEST_SUITE_P(Lda, OneHostsFailoverTest, ::testing::Values(small_trainings().front()),
                         ::testing::PrintToStringParamName());

TEST(CutTest, WhenTheNetworkIsCutEachHostEndsByItself) {
  auto network = HostsNetwork::make({});
  if (!network.ok()) GTEST_SKIP() << "skipped: no networks of its own: " << network.status();
  const verbena::testing::TemporaryFolder folder;
  std::vector<std::unique_ptr<Program>> processes;
  for (const int rank : {0, 1}) {
    const std::vector<std::string> words = {"run",
                                            "counter",
                                            "--iterations",
                                            "1000000",
                                            "--milliseconds",
                                            "20",
                                            "--rendezvous",
                                            HostsNetwork::address(0) + ":7000",
                                            "--process",
                                            std::to_string(rank),
                                            "--processes",
                                            "2",
                                            "--no-secret"};
    processes.push_back(std::make_unique<Program>(COUNTER_PROGRAM, words, folder.path(),
                                                  (*network)->on(static_cast<std::size_t>(rank))));
  }
  ASSERT_TRUE(processes[0]->wait_for_output("  counted "));
  (*network)->cut();
  for (const auto& process : processes) {
    const Ended ended = process->wait();
    EXPECT_NE(ended.status, 0);
    EXPECT_NE(ended.err.find("has not answered"), std::string::npos) << ended.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, HostsTest, ::testing::ValuesIn(trainings_of_all_applications()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace verbena::process_test
