// Workers of jobs on several hosts that die, are stopped or cut off, and whose places other processes take
// that somebody starts: the run goes on, and ends well. VERBENA_TEST_KILLS: how often, in some of the tests.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/process/hosts_job.hpp"
#include "tests/process/metrics_pipe.hpp"
#include "tests/process/program.hpp"
#include "tests/process/small_training.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A job on three hosts. The first has servers only, and leads; the workers are on the others.
class HostsReplacementTest : public HostsJobTest {
 protected:
  /// Begins a job, and waits until it trains. `servers`: their processes.
  void begin(std::size_t servers, const std::vector<std::string>& options) {
    connect({.hosts = 3});
    if (network_ == nullptr) return;
    processes_.clear();
    servers_ = servers;
    options_ = options;
    metrics_name_ = folder_.path(fmt::format("metrics{}", jobs_++));
    metrics_.emplace(metrics_name_);
    for (std::size_t rank = 0; rank < servers + kWorkers; ++rank) processes_.push_back(start(rank));
    ASSERT_TRUE(trains()) << processes_[0]->wait().err;
  }
  /// Another iteration has been trained, and the run is not over.
  [[nodiscard]] bool trains() {
    const std::size_t before = metrics_->iterations();
    const pid_t leader = processes_[0]->pid();
    return wait_until([&] { return metrics_->iterations() > before || !alive(leader); }) && alive(leader);
  }
  [[nodiscard]] std::size_t host_of(std::size_t rank) const {
    return rank < servers_ ? 0 : 1 + (rank - servers_) % 2;
  }
  [[nodiscard]] std::unique_ptr<Program> start(std::size_t rank,
                                               const std::vector<std::string>& more = {}) const {
    return start_on(host_of(rank), rank, more);
  }
  [[nodiscard]] std::unique_ptr<Program> start_on(std::size_t host, std::size_t rank,
                                                  const std::vector<std::string>& more = {}) const {
    std::vector<std::string> own = {"--process", std::to_string(rank), "--slow",
                                    fmt::format("worker=all,pause={},every=1", pause_of_each_clock())};
    if (rank == 0) own.insert(own.end(), {"--metrics", metrics_name_});
    return std::make_unique<Program>(
        VERBENA_PROGRAM, training_words("model", {meeting_words(servers_ + kWorkers), own, options_, more}),
        folder_.path(), network_->on(host));
  }
  /// So that all take some seconds.
  [[nodiscard]] static std::string pause_of_each_clock() {
    return GetParam().application == "kge" ? "10ms" : GetParam().application == "word2vec" ? "20ms" : "60ms";
  }
  [[nodiscard]] std::size_t rank_of(std::size_t worker) const { return servers_ + worker; }
  [[nodiscard]] std::string name_of(std::size_t worker, const Program& process) const {
    return fmt::format("worker {} (rank {}, pid {} on ", worker, rank_of(worker), process.pid());
  }
  /// That this process has taken the worker's place.
  [[nodiscard]] std::string has_come(std::size_t worker, const Program& process) const {
    return fmt::format("worker {}: another process (rank {}, pid {} on ", worker, rank_of(worker),
                       process.pid());
  }
  void pause() { std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(0.2))); }
  /// All train to the end. Returns what rank 0 has said.
  std::string end_well() {
    std::string said = wait_for_all();
    for (const std::string& file : model()) EXPECT_NE(file, "");
    return said;
  }

  int jobs_ = 0;
  std::string metrics_name_;
  std::optional<MetricsPipe> metrics_;  ///< of the job
  std::size_t servers_ = 0;
  std::vector<std::string> options_;
};

/// All are started again on one host.
TEST_P(HostsReplacementTest, WhicheverWorkerDiesAnotherProcessGoesOn) {
  fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
  bool encrypts = false;
  for (const std::string consistency : {"bsp", "ssp:1", "asp"}) {
    SCOPED_TRACE(consistency);
    std::vector<std::string> options = {"--servers", "2", "--consistency", consistency};
    if (std::exchange(encrypts, !encrypts)) options.emplace_back("--tls");
    ASSERT_NO_FATAL_FAILURE(begin(2, options));
    if (network_ == nullptr) return;
    for (const std::size_t worker : {0U, 1U}) {
      pause();
      processes_[rank_of(worker)]->signal(SIGKILL);
    }
    for (const std::size_t worker : {0U, 1U}) {
      const std::size_t rank = rank_of(worker);
      processes_[rank] = start_on(1, rank);
    }
    for (const std::size_t worker : {0U, 1U})
      ASSERT_TRUE(processes_[0]->wait_for_output(has_come(worker, *processes_[rank_of(worker)])));
    ASSERT_TRUE(trains());
    const std::string said = end_well();
    EXPECT_THAT(said, AllOf(HasSubstr("the run waits 60 s for another process in its place"),
                            HasSubstr("takes its place")));
  }
}

/// Some die while they save, and some in a job that goes on from a checkpoint, which must stay for those who
/// come.
TEST_P(HostsReplacementTest, WorkersThatSaveAreReplaced) {
  fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
  const std::filesystem::path saved = folder_.path("saved");
  const std::vector<std::string> options = {
      "--servers",          "2", "--consistency",     "bsp", "--checkpoint", saved,
      "--checkpoint-every", "1", "--checkpoint-keep", "1",   "--resume"};
  for (const std::string from : {"its beginning", "a checkpoint"}) {
    SCOPED_TRACE(from);
    ASSERT_NO_FATAL_FAILURE(begin(2, options));
    if (network_ == nullptr) return;
    for (int iteration = 0; iteration < 3; ++iteration) ASSERT_TRUE(trains());
    for (const std::size_t worker : {0U, 1U}) {
      pause();
      const std::size_t rank = rank_of(worker);
      processes_[rank]->signal(SIGKILL);
      processes_[rank] = start(rank);
      ASSERT_TRUE(processes_[0]->wait_for_output(has_come(worker, *processes_[rank])));
      ASSERT_TRUE(trains());
    }
    if (from == "its beginning") {
      processes_[0]->signal(SIGKILL);
      for (const std::unique_ptr<Program>& process : processes_) process->wait();
    }
  }
  EXPECT_THAT(end_well(), HasSubstr("verbena: goes on from " + saved.string() + "/ckpt-"));
  EXPECT_EQ(run(VERBENA_PROGRAM, {"checkpoint", "verify", saved}, folder_.path()).status, 0);
}

/// With copies of servers, of which one dies meanwhile.
TEST_P(HostsReplacementTest, AWorkerAndAServerMayDie) {
  ASSERT_NO_FATAL_FAILURE(begin(4, {"--servers", "2", "--replicas", "1", "--consistency", "ssp:1"}));
  if (network_ == nullptr) return;
  const std::size_t rank = rank_of(1);
  processes_[rank]->signal(SIGKILL);
  processes_[1]->signal(SIGKILL);
  ASSERT_TRUE(processes_[0]->wait_for_output("the run goes on with the last copy of server 1"));
  processes_[rank] = start(rank);
  ASSERT_TRUE(processes_[0]->wait_for_output(has_come(1, *processes_[rank])));
  processes_[1] = start(1);
  const std::string said = end_well();
  EXPECT_THAT(said, HasSubstr("takes its place"));
}

/// The one that leads takes the place of one that led, and waits for one that takes the place of the worker.
TEST_P(HostsReplacementTest, AWorkerAndTheLeaderMayDie) {
  ASSERT_NO_FATAL_FAILURE(begin(4, {"--servers", "2", "--replicas", "1", "--consistency", "bsp"}));
  if (network_ == nullptr) return;
  const std::size_t rank = rank_of(1);
  for (const std::size_t victim : {std::size_t{0}, rank}) processes_[victim]->signal(SIGKILL);
  processes_[0] = start(0);
  ASSERT_TRUE(processes_[0]->wait_for_output("the run waits 60 s for another process in its place"));
  processes_[rank] = start(rank);
  ASSERT_TRUE(processes_[0]->wait_for_output(has_come(1, *processes_[rank])));
  ASSERT_TRUE(trains());
  for (std::size_t each = 0; each < processes_.size(); ++each) {
    const Ended ended = processes_[each]->wait();
    EXPECT_EQ(ended.status, 0) << "rank " << each << ": " << ended.err;
  }
  for (const std::string& file : model()) EXPECT_NE(file, "");
}

INSTANTIATE_TEST_SUITE_P(Each, HostsReplacementTest, ::testing::ValuesIn(stateless_trainings()),
                         [](const auto& training) { return training.param.application; });

/// What is the same for all, by the one whose bits can be compared: it draws no random numbers.
class OneHostsReplacementTest : public HostsReplacementTest {
 protected:
  /// What a run in which nothing dies trains, on one server, under BSP.
  [[nodiscard]] std::vector<std::string> undisturbed() const {
    const Ended ended =
        run(VERBENA_PROGRAM, training_words("undisturbed", {{"--consistency", "bsp"}}), folder_.path());
    EXPECT_EQ(ended.status, 0) << ended.err;
    return model("undisturbed");
  }
  /// VERBENA_TEST_KILLS says how often, each time with a job of its own.
  void repeat(const std::function<void()>& let_one_die) {
    fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
    const std::uint64_t runs = number_from("VERBENA_TEST_KILLS", 1);
    for (std::uint64_t run = 0; run < runs; ++run) {
      SCOPED_TRACE(fmt::format("run {}", run));
      let_one_die();
      if (HasFailure() || IsSkipped()) return;
    }
  }
  void begin_on_one_server(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"--servers", "1", "--consistency", "bsp"};
    all.insert(all.end(), more.begin(), more.end());
    begin(1, all);
  }
};

TEST_P(OneHostsReplacementTest, UnderBspTheModelIsTheSame) {
  repeat([&] {
    ASSERT_NO_FATAL_FAILURE(begin_on_one_server());
    if (network_ == nullptr) return;
    for (int death = 0; death < 2; ++death) {
      pause();
      const std::size_t rank = rank_of(chance_.below(kWorkers));
      processes_[rank]->signal(SIGKILL);
      processes_[rank] = start(rank);
      ASSERT_TRUE(processes_[0]->wait_for_output(has_come(rank - servers_, *processes_[rank])));
      ASSERT_TRUE(trains());
    }
    end_well();
    EXPECT_EQ(model(), undisturbed());
  });
}

/// It goes on, one day, with all that it had.
TEST_P(OneHostsReplacementTest, OneThatIsStoppedDoesNoHarmToTheOneInItsPlace) {
  repeat([&] {
    ASSERT_NO_FATAL_FAILURE(begin_on_one_server({"--silence-timeout", "2000"}));
    if (network_ == nullptr) return;
    const std::size_t rank = rank_of(1);
    const std::unique_ptr<Program> stopped = std::move(processes_[rank]);
    stopped->signal(SIGSTOP);
    processes_[rank] = start_on(1, rank);
    ASSERT_TRUE(processes_[0]->wait_for_output(has_come(1, *processes_[rank])));
    EXPECT_TRUE(processes_[0]->has_said(name_of(1, *stopped)));
    EXPECT_TRUE(processes_[0]->has_said("shows no sign of life"));
    stopped->signal(SIGCONT);
    const Ended ended = stopped->wait();
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(ended.err,
                AllOf(HasSubstr("verbena: this process ends, and its job goes on without it: worker 1"),
                      Not(HasSubstr("error"))));
    end_well();
    EXPECT_EQ(model(), undisturbed());
  });
}

/// Nobody has its place yet when it goes on.
TEST_P(OneHostsReplacementTest, OneThatIsStoppedAndGoesOnIsOut) {
  ASSERT_NO_FATAL_FAILURE(begin_on_one_server({"--silence-timeout", "2000"}));
  if (network_ == nullptr) return;
  const std::size_t rank = rank_of(0);
  processes_[rank]->signal(SIGSTOP);
  ASSERT_TRUE(processes_[0]->wait_for_output("the run waits 60 s for another process in its place"));
  processes_[rank]->signal(SIGCONT);
  EXPECT_NE(processes_[rank]->wait().status, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_TRUE(alive(processes_[0]->pid())) << "what it has said at its end counts for nothing";
  processes_[rank] = start(rank);
  end_well();
  EXPECT_EQ(model(), undisturbed());
}

/// All of its host goes on, and hears nothing of the others, and then it does.
TEST_P(OneHostsReplacementTest, OneThatIsCutOffAndComesBackDoesNoHarm) {
  ASSERT_NO_FATAL_FAILURE(begin_on_one_server());
  if (network_ == nullptr) return;
  const std::size_t rank = rank_of(1);
  network_->cut(host_of(rank));
  ASSERT_TRUE(processes_[0]->wait_for_output("the run waits 60 s for another process in its place"));
  const std::unique_ptr<Program> cut_off = std::move(processes_[rank]);
  processes_[rank] = start_on(1, rank);
  ASSERT_TRUE(processes_[0]->wait_for_output(has_come(1, *processes_[rank])));
  network_->mend();
  EXPECT_NE(cut_off->wait().status, 0);
  end_well();
  EXPECT_EQ(model(), undisturbed());
}

TEST_P(OneHostsReplacementTest, IfNobodyComesTheRunEnds) {
  ASSERT_NO_FATAL_FAILURE(begin_on_one_server({"--worker-patience", "2"}));
  if (network_ == nullptr) return;
  const std::size_t rank = rank_of(1);
  processes_[rank]->signal(SIGKILL);
  const std::string what = name_of(1, *processes_[rank]);
  for (const std::size_t other : {std::size_t{0}, rank_of(0)}) {
    const Ended ended = processes_[other]->wait();
    EXPECT_NE(ended.status, 0) << ended.err;
    if (other == 0) {
      EXPECT_EQ(ended.status, 1);
      EXPECT_THAT(ended.err, AllOf(HasSubstr("verbena: error: " + what),
                                   HasSubstr("no other process has taken its place within 2 s")));
    }
  }
}

TEST_P(OneHostsReplacementTest, WhoCannotTakeThePlaceHearsWhyAndEndsNothing) {
  ASSERT_NO_FATAL_FAILURE(begin_on_one_server());
  if (network_ == nullptr) return;
  const std::size_t rank = rank_of(1);
  processes_[rank]->signal(SIGKILL);  // from now on the other worker waits
  const std::size_t other = rank_of(0);
  const Ended second = start(other)->wait();
  EXPECT_EQ(second.status, 2);
  EXPECT_THAT(second.err, HasSubstr(fmt::format("another process has come as rank {}", other)));
  const Ended told_otherwise = start(rank, {"--threads", "2"})->wait();
  EXPECT_EQ(told_otherwise.status, 2);
  EXPECT_THAT(told_otherwise.err, HasSubstr("is to run ctr"));
  const Ended without_data = start(rank, {"--data", folder_.path("nothing")})->wait();
  EXPECT_NE(without_data.status, 0);
  processes_[rank] = start(rank);
  end_well();
  EXPECT_EQ(model(), undisturbed());
}

INSTANTIATE_TEST_SUITE_P(Ctr, OneHostsReplacementTest, ::testing::Values(stateless_trainings().back()),
                         [](const auto& training) { return training.param.application; });

/// All end when a worker of them dies that nobody waits for, and all are started again, as by systemd or
/// Kubernetes.
class HostsResumeTest : public HostsReplacementTest {};

TEST_P(HostsResumeTest, WithTheSameWordsAllGoOnFromTheNewestCheckpoint) {
  const std::vector<std::string> options = {"--servers",
                                            "2",
                                            "--checkpoint",
                                            folder_.path("saved"),
                                            "--resume",
                                            "--checkpoint-every",
                                            "1",
                                            "--consistency",
                                            "bsp",
                                            "--worker-patience",
                                            "0"};
  ASSERT_NO_FATAL_FAILURE(begin(2, options));
  if (network_ == nullptr) return;
  const std::filesystem::path saved = folder_.path("saved");
  ASSERT_TRUE(wait_until([&] {
    std::error_code none;
    const std::filesystem::directory_iterator found(saved, none);
    return std::any_of(found, std::filesystem::directory_iterator(),
                       [](const std::filesystem::directory_entry& entry) {
                         return entry.path().extension().empty();  // others are not whole yet
                       });
  }));
  processes_[rank_of(1)]->signal(SIGKILL);
  std::string said;
  // Each as soon as it has ended, so that some come while others are still there.
  for (std::size_t rank = processes_.size(); rank-- > 0;) {
    const Ended ended = processes_[rank]->wait();
    EXPECT_NE(ended.status, 0) << "who looks after it must see that it has failed";
    if (rank == 0) said = ended.err;
  }
  EXPECT_THAT(said, HasSubstr("worker 1 (rank 3"));
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) processes_[rank] = start(rank);
  EXPECT_THAT(end_well(), HasSubstr("verbena: goes on from " + folder_.path("saved") + "/ckpt-"));
  const std::vector<std::string> resumed = model();
  const std::vector<std::string> all =
      training_words("undisturbed", {{"--servers", "2", "--consistency", "bsp"}});
  EXPECT_EQ(run(VERBENA_PROGRAM, all, folder_.path()).status, 0);
  EXPECT_EQ(resumed, model("undisturbed"));
}

INSTANTIATE_TEST_SUITE_P(Each, HostsResumeTest, ::testing::ValuesIn(small_trainings()),
                         [](const auto& training) { return training.param.application; });

}  // namespace
}  // namespace verbena::process_test
