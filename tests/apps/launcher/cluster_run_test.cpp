#include "apps/launcher/cluster_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;

RunOptions given(std::optional<std::uint32_t> servers, std::optional<std::uint32_t> workers) {
  RunOptions run;
  run.job.servers = servers.value_or(1);
  run.job.workers = workers.value_or(1);
  run.servers_given = servers.has_value();
  run.workers_given = workers.has_value();
  return run;
}

TEST(ShareOutTest, WhatIsLeftOpenIsChosen) {
  struct Case {
    std::uint32_t size;
    std::optional<std::uint32_t> servers;
    std::optional<std::uint32_t> workers;
    std::uint32_t expected_servers;
    std::uint32_t expected_workers;
  };
  for (const Case& one : std::vector<Case>{{2, {}, {}, 1, 1},
                                           {3, {}, {}, 1, 2},
                                           {4, {}, {}, 2, 2},
                                           {9, {}, {}, 4, 5},
                                           {4, 1, {}, 1, 3},
                                           {4, {}, 1, 3, 1},
                                           {4, 3, 1, 3, 1}}) {
    RunOptions run = given(one.servers, one.workers);
    EXPECT_TRUE(share_out(one.size, run).ok()) << one.size;
    EXPECT_EQ(run.job.servers, one.expected_servers) << one.size;
    EXPECT_EQ(run.job.workers, one.expected_workers) << one.size;
  }
}

TEST(ShareOutTest, WhatDoesNotComeOutIsAnError) {
  for (auto [servers, workers] :
       std::vector<std::pair<std::optional<std::uint32_t>, std::optional<std::uint32_t>>>{
           {2, 3}, {1, 1}, {4, {}}, {5, {}}, {{}, 4}, {{}, 5}}) {
    RunOptions run = given(servers, workers);
    const absl::Status status = share_out(4, run);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("4 processes were started"));
  }
  RunOptions baseline;
  baseline.baseline = true;
  EXPECT_THAT(std::string(share_out(2, baseline).message()), HasSubstr("--baseline is one process"));
}

TEST(OwnServerTest, IsOnTheWorkersHost) {
  const std::vector<std::string> hosts{"a", "b", "a", "a",
                                       "b", "a", "a", "c"};  // three servers, five workers
  std::vector<std::optional<std::uint32_t>> own;
  for (std::uint32_t rank = 3; rank < hosts.size(); ++rank) own.push_back(own_server(hosts, 3, rank));
  EXPECT_THAT(own, ::testing::ElementsAre(0, 1, 2, 0, std::nullopt));
}

/// What `check` says of a process with these variables.
absl::Status with_environment(absl::Status (*check)(const Environment&),
                              const std::map<std::string, std::string>& variables) {
  return check([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(StartedApartTest, ProcessesWithoutPmixAreFoundOut) {
  const auto with = [](const std::map<std::string, std::string>& variables) {
    return with_environment(check_started_apart, variables);
  };
  EXPECT_TRUE(with({}).ok());
  EXPECT_TRUE(with({{"SLURM_STEP_NUM_TASKS", "1"}}).ok());
  EXPECT_TRUE(with({{"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "0"}}).ok());
  EXPECT_THAT(std::string(with({{"SLURM_STEP_NUM_TASKS", "4"}}).message()), HasSubstr("it needs --mpi=pmix"));
  const std::map<std::string, std::string> hydra = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "5"}};
  EXPECT_THAT(std::string(with(hydra).message()),
              HasSubstr("mpiexec (of MPICH, Intel MPI or alike) has started 2"));
  const std::map<std::string, std::string> by_port = {
      {"PMI_PORT", "host:1"}, {"PMI_ID", "1"}, {"MPI_LOCALNRANKS", "3"}};
  EXPECT_THAT(std::string(with(by_port).message()), HasSubstr("has started 3 processes"));
  std::map<std::string, std::string> flux = {{"FLUX_TASK_RANK", "3"}, {"FLUX_JOB_SIZE", "4"}};
  flux.insert(hydra.begin(), hydra.end());
  EXPECT_THAT(std::string(with(flux).message()), HasSubstr("flux run has started 4 processes"));
  EXPECT_THAT(std::string(with({{"OMPI_COMM_WORLD_SIZE", "2"}}).message()), HasSubstr("built without PMIx"));
  EXPECT_THAT(std::string(with({{"MV2_COMM_WORLD_SIZE", "2"}}).message()), HasSubstr("MVAPICH"));
  std::map<std::string, std::string> pals = {{"PALS_RANKID", "3"}, {"PALS_LOCAL_SIZE", "4"}};
  pals.insert(hydra.begin(), hydra.end());
  EXPECT_THAT(std::string(with(pals).message()), HasSubstr("Cray PALS has started 4 processes"));
  EXPECT_THAT(std::string(with({{"JSM_NAMESPACE_SIZE", "6"}}).message()), HasSubstr("jsrun has started 6"));
  for (const char* const name : {"PMI_SIZE", "FLUX_JOB_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
                                 "PALS_SIZE", "PALS_LOCAL_SIZE", "JSM_NAMESPACE_SIZE"}) {
    EXPECT_EQ(with({{name, "2"}}).code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_TRUE(with({{name, "1"}}).ok()) << name;
    EXPECT_TRUE(with({{name, "2"}, {"PMIX_RANK", "0"}}).ok()) << name;
    EXPECT_TRUE(with({{name, "nonsense"}}).ok()) << name;
  }
}

TEST(StartedOnceTest, AWholeWorkIsNotDoneByEach) {
  const auto with = [](const std::map<std::string, std::string>& variables) {
    return with_environment(check_started_once, variables);
  };
  EXPECT_TRUE(with({}).ok());
  EXPECT_TRUE(with({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}}).ok());
  EXPECT_THAT(std::string(with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}}).message()),
              HasSubstr("mpirun has started 2 processes, each of which would do the whole work"));
}

}  // namespace
}  // namespace verbena::apps
