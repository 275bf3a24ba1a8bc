#include "apps/inspect/running_jobs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::apps::inspect {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kListening = {"shm:run-4711-0123456789abcdef/server-1",
                                             "shm:run-4711-fedcba9876543210/server-0", "shm:bench-17-3",
                                             "shm:demo/server-10", "shm:demo/server-9"};

TEST(RunningJobsTest, AreFoundByTheirServers) {
  const RunningJobs jobs = jobs_at(kListening);
  EXPECT_EQ(jobs.size(), 2);
  EXPECT_THAT(find_job(jobs, "run-4711")->servers, ElementsAre(kListening[1], kListening[0]));
  EXPECT_THAT(find_job(jobs, "demo")->servers, ElementsAre(kListening[4], kListening[3]));
}

TEST(RunningJobsTest, TheOnlyOneNeedsNoName) {
  const RunningJobs one = jobs_at({"shm:demo/server-0"});
  EXPECT_THAT(find_job(one, "")->servers, ElementsAre("shm:demo/server-0"));
  const absl::Status several = find_job(jobs_at(kListening), "").status();
  EXPECT_TRUE(absl::IsInvalidArgument(several));
  EXPECT_THAT(std::string(several.message()), HasSubstr("--job demo or run-4711"));
}

TEST(RunningJobsTest, WhatThereIsNotIsNamed) {
  const absl::Status other = find_job(jobs_at(kListening), "other").status();
  EXPECT_TRUE(absl::IsNotFound(other));
  EXPECT_THAT(std::string(other.message()), AllOf(HasSubstr("\"other\""), HasSubstr("demo, run-4711")));
  EXPECT_TRUE(absl::IsNotFound(find_job({}, "").status()));
}

}  // namespace
}  // namespace verbena::apps::inspect
