// Workers that move to a host that joins a job, and from one that leaves it, on hosts that are none
// (docs/elasticity.md).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/hosts_job.hpp"
#include "tests/process/metrics_pipe.hpp"
#include "tests/process/small_training.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Two servers and the two workers on the first host, which leads, and another server on the second one.
/// There is a third host. In processes_ those that join come after the others.
class MovingWorkersTest : public HostsJobTest {
 protected:
  void SetUp() override { connect({.hosts = 3}); }
  [[nodiscard]] std::unique_ptr<Program> start(std::size_t host, const std::vector<std::string>& more,
                                               const std::string& data = "data") const {
    const std::string pause = GetParam().application == "ctr" ? "30ms" : "10ms";
    const std::vector<std::string> all = {"--servers",
                                          std::to_string(servers_),
                                          "--elastic",
                                          "--consistency",
                                          consistency_,
                                          "--slow",
                                          fmt::format("worker=all,pause={},every=1", pause)};
    std::vector<std::string> words =
        training_words("moved", {meeting_words(processes_of_servers() + kWorkers), all, options_, more});
    std::ranges::replace(words, folder_.path("data"), folder_.path(data));
    return std::make_unique<Program>(VERBENA_PROGRAM, words, folder_.path(), network_->on(host));
  }
  /// `host_of_workers`: by their numbers.
  void begin(const std::vector<std::size_t>& host_of_workers = {0, 0}) {
    metrics_.emplace(folder_.path("metrics of " + consistency_));
    processes_.push_back(start_leader());
    for (std::size_t rank = 1; rank < processes_of_servers() + kWorkers; ++rank) {
      const std::size_t host =
          rank < processes_of_servers() ? rank / 2 : host_of_workers[rank - processes_of_servers()];
      processes_.push_back(start(host, {"--process", std::to_string(rank)}));
    }
    ASSERT_TRUE(trains()) << processes_[0]->wait().err;
  }
  [[nodiscard]] std::unique_ptr<Program> start_leader() const {
    return start(0, {"--process", "0", "--metrics", folder_.path("metrics of " + consistency_)});
  }
  /// Another iteration has been trained, and the run is not over.
  [[nodiscard]] bool trains() {
    const std::size_t before = metrics_->iterations();
    const pid_t leader = processes_[0]->pid();
    return wait_until([&] { return metrics_->iterations() > before || !alive(leader); }) && alive(leader);
  }
  [[nodiscard]] bool leader_says(const std::string& what) { return processes_[0]->wait_for_output(what); }
  [[nodiscard]] std::size_t processes_of_servers() const { return servers_ * (has_copies_ ? 2 : 1); }
  [[nodiscard]] std::size_t rank_of(std::size_t worker) const { return processes_of_servers() + worker; }
  /// It has stepped aside: its end is good, and it says nothing.
  void expect_good_end_of(std::size_t rank) {
    const Ended ended = processes_[rank]->wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    processes_[rank] = nullptr;
  }
  /// All processes end well. Returns what rank 0 has said.
  std::string end() {
    std::string said = wait_for_all();
    for (const std::string& file : model("moved")) EXPECT_NE(file, "");
    return said;
  }
  /// And under BSP ctr's model is the one of a job of one host in which nothing moves.
  std::string end_as_if_nothing_had_moved() {
    std::string said = end();
    if (GetParam().application != "ctr" || consistency_ != "bsp") return said;
    const Ended on_one =
        run(VERBENA_PROGRAM,
            training_words("one", {{"--servers", std::to_string(servers_), "--consistency", "bsp"}}),
            folder_.path());
    EXPECT_EQ(on_one.status, 0) << on_one.err;
    EXPECT_EQ(model("one"), model("moved"));
    return said;
  }

  std::size_t servers_ = 3;
  bool has_copies_ = false;  ///< of servers, if options_ say so
  std::vector<std::string> options_;
  std::optional<MetricsPipe> metrics_;  ///< of the job
};

/// And it leaves again, with all that it has.
TEST_P(MovingWorkersTest, AHostJoinsWithAWorkerAndLeaves) {
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  processes_.push_back(start(2, {"--join", "--join-servers", "0"}));
  ASSERT_TRUE(leader_says("takes its place"));
  expect_good_end_of(rank_of(0));
  ASSERT_TRUE(trains());
  processes_.back()->signal(SIGTERM);
  ASSERT_TRUE(leader_says("as its process is to end"));
  const Ended left = processes_.back()->wait();
  EXPECT_EQ(left.status, 0) << left.err;
  processes_.pop_back();
  ASSERT_TRUE(trains());
  EXPECT_THAT(end_as_if_nothing_had_moved(),
              AllOf(HasSubstr("joins, with 0 of 3 servers and copies, and 1 of 2 processes with workers"),
                    HasSubstr("the move of worker 0 from "), HasSubstr("worker 0: another process (rank 3,"),
                    Not(HasSubstr("comes to nothing")), Not(HasSubstr("the run waits"))));
}

INSTANTIATE_TEST_SUITE_P(Each, MovingWorkersTest, ::testing::ValuesIn(stateless_trainings()),
                         [](const auto& training) { return training.param.application; });

/// What is the same for all, by the one whose bits can be compared: it draws no random numbers.
class OneMovingWorkersTest : public MovingWorkersTest {};

/// Servers and workers, while all save.
TEST_P(OneMovingWorkersTest, AHostTakesItsShareOfBothAndSaves) {
  options_ = {"--checkpoint", saved(), "--checkpoint-every", "1", "--tls"};
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  processes_.push_back(start(2, {"--join", "--join-servers", "1"}));
  ASSERT_TRUE(leader_says("takes its place"));
  ASSERT_TRUE(leader_says("steps aside for copy"));
  EXPECT_THAT(end_as_if_nothing_had_moved(),
              AllOf(HasSubstr("joins, with 1 of 3 servers and copies, and 1 of 2 processes with workers"),
                    Not(HasSubstr("was replaced by another process"))));
  EXPECT_EQ(run(VERBENA_PROGRAM, {"checkpoint", "verify", saved()}, folder_.path()).status, 0);
}

/// One that joins dies while it reads, and nobody has stepped aside for it.
TEST_P(OneMovingWorkersTest, OneThatDiesWhileItJoinsIsNotMissed) {
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  ASSERT_EQ(::mkfifo(folder_.path("endless").c_str(), 0600), 0);
  const std::unique_ptr<Program> joining = start(2, {"--join", "--join-servers", "0"}, "endless");
  ASSERT_TRUE(leader_says("the move of worker 0 from"));
  ASSERT_TRUE(trains() && trains());
  joining->signal(SIGKILL);
  ASSERT_TRUE(leader_says("comes to nothing: the process there is gone"));
  // Nor for one that cannot read.
  const Ended without_data = start(2, {"--join", "--join-servers", "0"}, "nothing")->wait();
  EXPECT_NE(without_data.status, 0);
  EXPECT_THAT(without_data.err, HasSubstr("nothing"));
  processes_.push_back(start(2, {"--join", "--join-servers", "0"}));
  ASSERT_TRUE(leader_says("takes its place"));
  expect_good_end_of(rank_of(0));
  end_as_if_nothing_had_moved();
}

/// Whether the other one had read its data by then or not, it has the place.
TEST_P(OneMovingWorkersTest, TheOneBeforeMayDieMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  processes_.push_back(start(2, {"--join", "--join-servers", "0"}));
  ASSERT_TRUE(leader_says("the move of worker 0 from"));
  processes_[rank_of(0)]->signal(SIGKILL);
  processes_[rank_of(0)] = nullptr;
  ASSERT_TRUE(leader_says("takes its place"));
  end();
}

/// At any moment. If it had the place by then, the next one that joins has it.
TEST_P(OneMovingWorkersTest, AnyOfThemMayDieAtAnyTime) {
  fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  for (int time = 0; time < 3; ++time) {
    const std::unique_ptr<Program> joining = start(2, {"--join", "--join-servers", "0"});
    std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(0.6)));
    joining->signal(SIGKILL);
  }
  processes_.push_back(start(2, {"--join", "--join-servers", "0", "--join-workers", "2"}));
  ASSERT_TRUE(leader_says("takes its place"));
  ASSERT_TRUE(trains());
  end();
}

TEST_P(OneMovingWorkersTest, AHostThatLeavesHasNoWorkersAnyMore) {
  ASSERT_NO_FATAL_FAILURE(begin({2, 2}));
  if (network_ == nullptr) return;
  for (const std::size_t worker : {0U, 1U}) processes_[rank_of(worker)]->signal(SIGTERM);
  for (const std::size_t worker : {0U, 1U}) expect_good_end_of(rank_of(worker));
  ASSERT_TRUE(trains());
  EXPECT_THAT(end_as_if_nothing_had_moved(),
              AllOf(HasSubstr("the move of worker 0 from "), HasSubstr("the move of worker 1 from "),
                    HasSubstr("as its process is to end")));
}

TEST_P(OneMovingWorkersTest, WorkersMoveUnderOtherModels) {
  for (const std::string consistency : {"ssp:1", "asp"}) {
    SCOPED_TRACE(consistency);
    consistency_ = consistency;
    processes_.clear();
    ASSERT_NO_FATAL_FAILURE(begin());
    if (network_ == nullptr) return;
    processes_.push_back(start(2, {"--join", "--join-servers", "0"}));
    ASSERT_TRUE(leader_says("takes its place"));
    expect_good_end_of(rank_of(0));
    end();
  }
}

/// It is stopped, and goes on, or is killed, and another one takes the run over, at any moment of a move.
class LeaderOfMovingWorkersTest : public OneMovingWorkersTest {
 protected:
  LeaderOfMovingWorkersTest() {
    servers_ = 2;
    has_copies_ = true;
    options_ = {"--replicas", "1", "--silence-timeout", "20000"};
  }
  [[nodiscard]] std::unique_ptr<Program> let_one_join() const {
    return start(2, {"--join", "--join-servers", "0", "--join-workers", "1"});
  }
  void stop_leader_for_a_while() {
    processes_[0]->signal(SIGSTOP);
    pause(1.5);
    processes_[0]->signal(SIGCONT);
  }
  void replace_leader() {
    processes_[0]->signal(SIGKILL);
    processes_[0] = start_leader();
    ASSERT_TRUE(leader_says("this process leads the run")) << processes_[0]->wait().err;
  }
  void pause(double most_seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(most_seconds)));
  }
};

TEST_P(LeaderOfMovingWorkersTest, WhoLeadsMayDieOrBeStopped) {
  fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
  ASSERT_NO_FATAL_FAILURE(begin({1, 1}));
  if (network_ == nullptr) return;
  // Who has been stopped goes on with it.
  const std::unique_ptr<Program> first = let_one_join();
  pause(0.6);
  stop_leader_for_a_while();
  ASSERT_TRUE(leader_says("takes its place"));
  // If nobody has the place when another one leads, rank 0 lets a process be started, or the next one that
  // joins has it.
  std::vector<std::unique_ptr<Program>> others;
  for (int time = 0; time < 2; ++time) {
    others.push_back(let_one_join());
    pause(0.6);
    ASSERT_NO_FATAL_FAILURE(replace_leader());
  }
  others.push_back(let_one_join());
  // A worker's process of the beginning may hear from the other leader, too, that its place is another one's.
  wait_for_all({rank_of(0), rank_of(1)}, /*only_leader_speaks=*/false);
  for (Program* const each : {processes_[rank_of(0)].get(), processes_[rank_of(1)].get(), first.get()})
    each->wait();
  for (const std::unique_ptr<Program>& each : others) each->wait();
  for (const std::string& file : model("moved")) EXPECT_NE(file, "");
}

INSTANTIATE_TEST_SUITE_P(Ctr, LeaderOfMovingWorkersTest, ::testing::Values(stateless_trainings().back()),
                         [](const auto& training) { return training.param.application; });

INSTANTIATE_TEST_SUITE_P(Ctr, OneMovingWorkersTest, ::testing::Values(stateless_trainings().back()),
                         [](const auto& training) { return training.param.application; });

}  // namespace
}  // namespace verbena::process_test
