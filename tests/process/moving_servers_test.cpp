// Servers that move to hosts that join a job, and from hosts that leave it, on hosts that are none
// (docs/elasticity.md).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/process/hosts_job.hpp"
#include "tests/process/small_training.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Four servers on two hosts: ranks 0 and 1 on the first one, where the workers are, and 2 and 3 on the
/// second one. With copies, these are on the other host each. There is a third host. In processes_ those that
/// join come after the others.
class MovingServersTest : public HostsJobTest {
 protected:
  static constexpr std::size_t kServers = 4;

  void SetUp() override { connect({.hosts = 3}); }
  [[nodiscard]] std::vector<std::string> words(const std::string& output,
                                               const std::vector<std::string>& more) const {
    return training_words(output,
                          {{"--servers", std::to_string(kServers), "--consistency", consistency_}, more});
  }
  /// Of all processes of the job.
  [[nodiscard]] std::vector<std::string> job_words(const std::vector<std::string>& more) const {
    std::vector<std::string> all = meeting_words(kServers * (1 + replicas_) + kWorkers);
    all.insert(all.end(), {"--checkpoint", saved(), "--checkpoint-every", "1", "--slow",
                           fmt::format("worker=all,pause={}ms,every=1", pause_.count())});
    if (replicas_ == 0) all.emplace_back("--elastic");
    if (GetParam().application < "l") all.emplace_back("--tls");  // some do, and some do not
    if (replicas_ > 0) all.insert(all.end(), {"--replicas", std::to_string(replicas_)});
    all.insert(all.end(), more.begin(), more.end());
    return words("moved", all);
  }
  [[nodiscard]] std::unique_ptr<Program> start(std::size_t host, const std::vector<std::string>& more) const {
    return std::make_unique<Program>(VERBENA_PROGRAM, job_words(more), folder_.path(), network_->on(host));
  }
  /// Trains on one host, and then begins on two. `host_of_servers`: of those that serve, by rank.
  void begin(const std::vector<std::size_t>& host_of_servers = {0, 0, 1, 1},
             const std::vector<std::string>& more = {}) {
    const Ended on_one = run(VERBENA_PROGRAM, words("one", {}), folder_.path());
    ASSERT_EQ(on_one.status, 0) << on_one.err;
    const auto processes = kServers * (1 + replicas_) + kWorkers;
    for (std::size_t rank = 0; rank < processes; ++rank) {
      std::size_t host = 0;  // of workers
      if (rank < kServers) host = host_of_servers[rank];
      if (rank >= kServers && rank < processes - kWorkers) host = 1 - host_of_servers[rank % kServers];
      std::vector<std::string> all = {"--process", std::to_string(rank)};
      all.insert(all.end(), more.begin(), more.end());
      processes_.push_back(start(host, all));
    }
    wait_for_checkpoint();
  }
  /// All processes end well, and the model is the one of a job of one host. Returns what rank 0 has said.
  std::string end() {
    std::string said = wait_for_all();
    expect_model_of_one_host("moved");
    return said;
  }

  std::size_t replicas_ = 0;
  std::chrono::milliseconds pause_{500};  ///< of each worker in each iteration
};

/// And it leaves again, with all that it has.
TEST_P(MovingServersTest, AHostJoinsAndLeavesAndNobodyNotices) {
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  processes_.push_back(start(2, {"--join", "--join-servers", "2", "--join-workers", "0"}));
  ASSERT_TRUE(processes_[0]->wait_for_output("steps aside for copy 2"));
  // Those in whose places others are have ended meanwhile.
  for (const std::size_t replaced : {1U, 2U}) EXPECT_EQ(processes_[replaced]->wait().status, 0) << replaced;
  for (const std::size_t replaced : {1U, 2U}) processes_[replaced] = nullptr;
  processes_.back()->signal(SIGTERM);
  ASSERT_TRUE(processes_[0]->wait_for_output("steps aside for copy 4"));
  EXPECT_EQ(processes_.back()->wait().status, 0);
  processes_.pop_back();
  EXPECT_THAT(end(),
              AllOf(HasSubstr("joins, with 2 of 4 servers and copies"), HasSubstr("server 1 (rank 1, pid "),
                    HasSubstr("server 2 (rank 2, pid "), Not(HasSubstr("comes to nothing"))));
}

INSTANTIATE_TEST_SUITE_P(Each, MovingServersTest, ::testing::ValuesIn(small_trainings()),
                         ::testing::PrintToStringParamName());

/// What is the same for all applications.
class OneMovingServersTest : public MovingServersTest {};

/// Where all share a host at first, and would talk over shared memory.
TEST_P(OneMovingServersTest, AHostJoinsAJobOfOneHost) {
  ASSERT_NO_FATAL_FAILURE(begin({0, 0, 0, 0}));
  if (network_ == nullptr) return;
  processes_.push_back(start(2, {"--join"}));
  ASSERT_TRUE(processes_[0]->wait_for_output("steps aside for copy 2"));
  EXPECT_THAT(end(), AllOf(HasSubstr("joins, with 2 of 4 servers and copies"), HasSubstr(", tcp")));
}

TEST_P(OneMovingServersTest, AHostThatLeavesHasNoServersAnyMore) {
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  for (const std::size_t leaving : {2U, 3U}) processes_[leaving]->signal(SIGTERM);
  for (const std::size_t leaving : {2U, 3U}) {
    const Ended ended = processes_[leaving]->wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    processes_[leaving] = nullptr;
  }
  EXPECT_THAT(end(), AllOf(HasSubstr("the move of server 2 from "), HasSubstr("as its process is to end"),
                           HasSubstr("server 3 (rank 3, pid ")));
}

TEST_P(OneMovingServersTest, CopiesMoveAndWhoServesMayDieMeanwhile) {
  replicas_ = 1;
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  processes_.push_back(start(2, {"--join"}));
  processes_[2]->signal(SIGKILL);
  processes_[2] = nullptr;
  ASSERT_TRUE(processes_[0]->wait_for_output("steps aside for copy"));
  EXPECT_THAT(end(), HasSubstr("the run goes on with"));
}

/// One that joins dies, and nobody has stepped aside for it.
TEST_P(OneMovingServersTest, OneThatDiesWhileItJoinsIsNotMissed) {
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  const std::unique_ptr<Program> joining = start(2, {"--join"});
  ASSERT_TRUE(processes_[0]->wait_for_output("the move of server 1 from"));
  joining->signal(SIGKILL);
  processes_.push_back(start(2, {"--join"}));
  ASSERT_TRUE(processes_[0]->wait_for_output("steps aside for copy"));
  end();
}

TEST_P(OneMovingServersTest, ServersMoveUnderModelsWhoseReadsFindWhatOthersWereToldOf) {
  for (const std::string consistency : {"sequential", "vap:2"}) {
    SCOPED_TRACE(consistency);
    consistency_ = consistency;
    processes_.clear();
    std::filesystem::remove_all(saved());
    ASSERT_NO_FATAL_FAILURE(begin({0, 0, 1, 1}, {"--allocation", "static"}));
    if (network_ == nullptr) return;
    processes_.push_back(start(2, {"--join", "--allocation", "static"}));
    ASSERT_TRUE(processes_[0]->wait_for_output("steps aside for copy"));
    end();
  }
}

TEST_P(OneMovingServersTest, WhenNobodyCanTakeAServerTheRunEndsAndSaysWhy) {
  ASSERT_NO_FATAL_FAILURE(begin({0, 0, 0, 0}));
  if (network_ == nullptr) return;
  processes_[1]->signal(SIGTERM);
  const Ended ended = processes_[0]->wait();
  EXPECT_EQ(ended.status, 128 + SIGTERM);
  EXPECT_THAT(ended.out + ended.err,
              HasSubstr("there is no other host with servers that could take its place"));
}

TEST_P(OneMovingServersTest, WhoCannotJoinHearsWhyAndEndsNothing) {
  ASSERT_NO_FATAL_FAILURE(begin());
  if (network_ == nullptr) return;
  const auto expect_refusal = [&](const std::vector<std::string>& more, const std::string& why) {
    const Ended ended = start(2, more)->wait();
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(why));
  };
  expect_refusal({"--join", "--process", "3"}, "--join and --process 3");
  expect_refusal({"--join", "--process", "9"}, "its rank is 9");
  expect_refusal({"--join", "--threads", "2"}, "is to run lda");
  expect_refusal({"--join-servers", "1"}, "--join");
  const Ended on_one = run(VERBENA_PROGRAM, words("other", {"--elastic"}), folder_.path());
  EXPECT_EQ(on_one.status, 2);
  EXPECT_THAT(on_one.err, HasSubstr("--elastic: expected with --rendezvous"));
  processes_.push_back(start(2, {"--join"}));
  ASSERT_TRUE(processes_[0]->wait_for_output("steps aside for copy"));
  expect_refusal({"--join"}, "this process is not needed");
  end();
}

INSTANTIATE_TEST_SUITE_P(Lda, OneMovingServersTest, ::testing::Values(small_trainings().front()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace verbena::process_test
