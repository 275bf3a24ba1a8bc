#include "job/starters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace verbena::job {
namespace {

using ::testing::HasSubstr;

/// The result of `check` in a process with these environment variables.
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

TEST(StartedAsTest, TheInnermostCounts) {
  const auto as = [](const std::map<std::string, std::string>& variables) {
    return started_as([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  // mpiexec has started a proxy on each of two hosts with srun.
  std::map<std::string, std::string> variables = {
      {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "4"}};
  EXPECT_EQ(as(variables)->rank, 2U);
  EXPECT_EQ(as(variables)->processes, 4U);
  variables.insert({{"RANK", "5"}, {"WORLD_SIZE", "8"}});
  EXPECT_EQ(as(variables)->rank, 5U);
  EXPECT_EQ(as(variables)->processes, 8U);
  EXPECT_EQ(as({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_SIZE", "1"}})->processes, 2U);
  EXPECT_FALSE(as({{"WORLD_SIZE", "8"}}).has_value()) << "anybody may use that name";
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
}  // namespace verbena::job
