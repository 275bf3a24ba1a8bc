// Jobs on several hosts that get a signal: all processes save after the same iteration, and end; and what
// goes on from there trains what a job trains that was never stopped.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/process/hosts_job.hpp"
#include "tests/process/metrics_pipe.hpp"
#include "tests/process/program.hpp"
#include "tests/process/small_training.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Of two servers and two workers on two hosts, one of each on each.
class HostsStopTest : public HostsJobTest {
 protected:
  static constexpr std::size_t kServers = 2;

  /// Begins a job, and waits until it trains.
  void start_all() {
    processes_.clear();
    const std::string metrics = folder_.path(fmt::format("metrics{}", jobs_++));
    metrics_.emplace(metrics);
    for (std::size_t rank = 0; rank < kServers + kWorkers; ++rank) {
      std::vector<std::string> own = {"--process",
                                      std::to_string(rank),
                                      "--servers",
                                      std::to_string(kServers),
                                      "--consistency",
                                      "bsp",
                                      "--checkpoint",
                                      saved(),
                                      "--checkpoint-every",
                                      "1000",
                                      "--resume",
                                      "--slow",
                                      "worker=all,pause=150ms,every=1"};
      if (rank == 0) own.insert(own.end(), {"--metrics", metrics});
      processes_.push_back(std::make_unique<Program>(
          VERBENA_PROGRAM, training_words("model", {meeting_words(kServers + kWorkers), own}), folder_.path(),
          network_->on(rank % 2)));
    }
    EXPECT_TRUE(wait_until([&] { return metrics_->iterations() > 0 || !alive(processes_[0]->pid()); }));
  }
  /// These processes get the signal. Returns what rank 0 has said.
  std::string stop(const std::vector<std::size_t>& ranks) {
    for (const std::size_t rank : ranks) processes_[rank]->signal(SIGTERM);
    std::string said;
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      const Ended ended = processes_[rank]->wait();
      EXPECT_EQ(ended.status, 128 + SIGTERM) << "rank " << rank << ": " << ended.err;
      if (rank == 0) {
        said = ended.out + ended.err;
      } else {
        EXPECT_EQ(ended.err, "") << "rank " << rank << ": rank 0 speaks for all";
      }
    }
    return said;
  }

  int jobs_ = 0;
  std::optional<MetricsPipe> metrics_;  ///< of the job
};

TEST_P(HostsStopTest, WhoeverGetsTheSignalAllSaveAndGoOnFromThere) {
  connect({.hosts = 2});
  if (network_ == nullptr) return;
  const std::vector<std::string> alone = training_words("one", {{"--servers", "2", "--consistency", "bsp"}});
  ASSERT_EQ(run(VERBENA_PROGRAM, alone, folder_.path()).status, 0);
  std::string goes_on = "there is no checkpoint in";
  const std::vector<std::vector<std::size_t>> signaled = {{0, 1, 2, 3}, {3}, {0}};
  for (const std::vector<std::size_t>& ranks : signaled) {
    SCOPED_TRACE(::testing::PrintToString(ranks));
    start_all();
    EXPECT_THAT(stop(ranks),
                AllOf(HasSubstr(goes_on), HasSubstr("stopped after iteration "), HasSubstr(", saved as "),
                      HasSubstr("verbena: stopped by SIGTERM"), Not(HasSubstr("error"))));
    goes_on = "goes on from";
  }
  start_all();
  EXPECT_THAT(wait_for_all(), HasSubstr(goes_on));
  expect_model_of_one_host("model");
}

INSTANTIATE_TEST_SUITE_P(Each, HostsStopTest,
                         ::testing::Values(small_trainings().front(), small_trainings().back()),
                         [](const auto& training) { return training.param.application; });

}  // namespace
}  // namespace verbena::process_test
