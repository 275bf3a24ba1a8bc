// Jobs whose processes find each other by etcd: Debian's etcd-server, on the loopback interface.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/program.hpp"
#include "tests/process/small_training.hpp"
#include "tests/store/etcd_process.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EtcdTest : public ::testing::Test {
 protected:
  EtcdTest() {
    verbena::testing::write_file(folder_.path("secret"), "a secret that nobody knows\n");
    std::filesystem::permissions(folder_.path("secret"), std::filesystem::perms::owner_read);
    write_data(training_, folder_.path("data"));
  }
  void SetUp() override {
    const absl::Status started = etcd_.start(1);
    if (absl::IsNotFound(started)) GTEST_SKIP() << "skipped: " << started;
    ASSERT_TRUE(started.ok()) << started;
  }

  [[nodiscard]] std::string place() const {
    return fmt::format("etcd://{}/job", etcd_.endpoint(0).substr(std::string("http://").size()));
  }
  [[nodiscard]] std::vector<std::string> words(const std::string& output,
                                               const std::vector<std::string>& more) const {
    std::vector<std::string> all = {
        "run", training_.application, "--data", folder_.path("data"), "--servers",         "1", "--workers",
        "1",   "--consistency",       "bsp",    "--output",           folder_.path(output)};
    all.insert(all.end(), training_.options.begin(), training_.options.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// A server, its copy and a worker, which takes some seconds.
  [[nodiscard]] std::unique_ptr<Program> start(std::size_t rank) const {
    return std::make_unique<Program>(
        VERBENA_PROGRAM,
        words("moved", {"--replicas", "1", "--checkpoint", folder_.path("saved"), "--checkpoint-every", "1",
                        "--slow", "worker=all,pause=400ms,every=1", "--rendezvous", place(), "--processes",
                        "3", "--secret-file", folder_.path("secret"), "--process", std::to_string(rank)}),
        folder_.path());
  }
  /// The job has a checkpoint of it, or a later one.
  [[nodiscard]] bool wait_for_iteration(int iteration, const Program& leader) const {
    const auto is_there = [&] {
      for (int each = iteration; each <= kIterationsOfSmallTraining; ++each) {
        if (std::filesystem::exists(folder_.path("saved") + fmt::format("/ckpt-{}", each))) return true;
      }
      return false;
    };
    return wait_until([&] { return is_there() || !alive(leader.pid()); }) && is_there();
  }
  [[nodiscard]] std::string entry() const {
    const auto answer = cluster::http_post(
        static_cast<std::uint16_t>(std::stoi(etcd_.endpoint(0).substr(17))), "/v3/kv/range",
        R"({"key":"L3ZlcmJlbmEvam9iL3JhbmstMA=="})");  // /verbena/job/rank-0
    const std::size_t at = answer.ok() ? answer->find("\"value\":\"") : std::string::npos;
    return at == std::string::npos ? "" : answer->substr(at, answer->find('"', at + 9) - at);
  }

  const SmallTraining training_ = small_trainings().front();
  verbena::testing::TemporaryFolder folder_;
  cluster::EtcdProcesses etcd_;
};

/// Rank 0 gets another port each time. Nobody needs etcd while they train.
TEST_F(EtcdTest, NobodyMissesEtcdWhileTheyTrainAndRankZeroMayMove) {
  const Ended on_one = run(VERBENA_PROGRAM, words("one", {}), folder_.path());
  ASSERT_EQ(on_one.status, 0) << on_one.err;
  std::vector<std::unique_ptr<Program>> processes;
  for (std::size_t rank = 0; rank < 3; ++rank) processes.push_back(start(rank));
  ASSERT_TRUE(wait_for_iteration(1, *processes[0]));
  const std::string first = entry();
  EXPECT_NE(first, "");
  etcd_.stop(0);
  ASSERT_TRUE(wait_for_iteration(4, *processes[0]));
  for (const auto& process : processes) {
    EXPECT_FALSE(process->has_said("etcd")) << "somebody has noticed";
    EXPECT_FALSE(process->has_said("waits"));
  }
  processes[0]->signal(SIGKILL);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others look for it, and etcd is away
  etcd_.go_on(0);
  processes[0] = start(0);
  ASSERT_TRUE(processes[0]->wait_for_output("this process leads the run, in the place of one that is gone"))
      << processes[0]->wait().err;
  EXPECT_THAT(entry(), AllOf(Not(first), Not(std::string())));
  for (const auto& process : processes) {
    const Ended ended = process->wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
  }
  EXPECT_EQ(entry(), "") << "the job has ended";
  EXPECT_EQ(verbena::testing::contents(folder_.path("moved")),
            verbena::testing::contents(folder_.path("one")));
  EXPECT_NE(verbena::testing::contents(folder_.path("one")), "");
}

/// The entry is that of one that is there, and does not answer.
TEST_F(EtcdTest, WhoIsStoppedNeedNotBeEndedBeforeAnotherLeads) {
  const Ended on_one = run(VERBENA_PROGRAM, words("one", {}), folder_.path());
  ASSERT_EQ(on_one.status, 0) << on_one.err;
  std::vector<std::unique_ptr<Program>> processes;
  for (std::size_t rank = 0; rank < 3; ++rank) processes.push_back(start(rank));
  ASSERT_TRUE(wait_for_iteration(1, *processes[0]));
  const std::unique_ptr<Program> stopped = std::move(processes[0]);
  stopped->signal(SIGSTOP);
  for (const std::size_t rank : {1U, 2U}) {
    ASSERT_TRUE(processes[rank]->wait_for_output("has shown no sign of life"));
    EXPECT_TRUE(processes[rank]->has_said("with the same command line, on any host"));
  }
  const std::string first = entry();
  processes[0] = start(0);
  ASSERT_TRUE(processes[0]->wait_for_output("this process leads the run, in the place of one that is gone"))
      << processes[0]->wait().err;
  stopped->signal(SIGCONT);
  const Ended ended = stopped->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("more than half of the job's processes have left it"));
  EXPECT_THAT(entry(), AllOf(Not(first), Not(std::string()))) << "it is the other one's";
  for (const auto& process : processes) {
    const Ended well = process->wait();
    EXPECT_EQ(well.status, 0) << well.err;
  }
  EXPECT_EQ(verbena::testing::contents(folder_.path("moved")),
            verbena::testing::contents(folder_.path("one")));
}

TEST_F(EtcdTest, AProgramOfOnesOwnMeetsThereByAVariable) {
  std::vector<std::unique_ptr<Program>> processes;
  processes.reserve(3);
  for (int rank = 0; rank < 3; ++rank) {
    processes.push_back(
        std::make_unique<Program>(OWN_PROGRAM, std::vector<std::string>{"count"}, folder_.path(), [&, rank] {
          ::setenv("VERBENA_RENDEZVOUS", place().c_str(), 1);
          ::setenv("VERBENA_SECRET_FILE", folder_.path("secret").c_str(), 1);
          ::setenv("RANK", std::to_string(rank).c_str(), 1);
          ::setenv("WORLD_SIZE", "3", 1);
        }));
  }
  for (const auto& process : processes) {
    const Ended ended = process->wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("of 3"));
  }
}

TEST_F(EtcdTest, WhatIsWrongIsSaidAtOnce) {
  const auto says = [&](const std::string& where) {
    const Ended ended = run(VERBENA_PROGRAM,
                            words("none", {"--rendezvous", where, "--process", "0", "--processes", "2",
                                           "--secret-file", folder_.path("secret")}),
                            folder_.path());
    EXPECT_EQ(ended.status, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(says("etcd://127.0.0.1:2379"), HasSubstr("the name of the job is missing"));
  EXPECT_THAT(says("zookeeper://127.0.0.1:2181/job"), HasSubstr("expected etcd://HOST:PORT"));
}

}  // namespace
}  // namespace verbena::process_test
