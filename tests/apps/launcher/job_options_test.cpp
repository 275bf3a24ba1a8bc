#include "apps/launcher/job_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(JobOptionsTest, AddressesChooseVerbs) {
  JobOptions job;
  job.servers = 2;
  job.addresses = {"10.0.0.1:7001", "[fd00::1]:7002"};
  EXPECT_TRUE(check_by_hand(job).ok());
  EXPECT_EQ(decided_by_hand(job).transport, "verbs");
  EXPECT_THAT(server_addresses(job), ElementsAre("verbs:10.0.0.1:7001", "verbs:[fd00::1]:7002"));
}

TEST(JobOptionsTest, JobNameChoosesSharedMemory) {
  JobOptions job;
  job.servers = 2;
  job.job = "demo";
  EXPECT_TRUE(check_by_hand(job).ok());
  EXPECT_EQ(decided_by_hand(job).transport, "shm");
  EXPECT_THAT(server_addresses(job), ElementsAre("shm:demo/server-0", "shm:demo/server-1"));
}

TEST(JobOptionsTest, WhatWasChosenStays) {
  TransportOptions options;
  options.transport = "verbs";
  options.device = "rxe0";
  EXPECT_EQ(decided(options, transport::Reach::kHost).transport, "verbs");
  EXPECT_EQ(decided(options, transport::Reach::kHost).device, "rxe0");
  EXPECT_EQ(decided({}, transport::Reach::kHosts).transport, "verbs");
}

TEST(JobOptionsTest, MemoryIsCountedForThisHostOnly) {
  JobOptions job;
  job.servers = 2048;
  job.workers = 2048;
  EXPECT_THAT(std::string(check_memory(job, job.servers, job.workers).message()),
              HasSubstr("2048 servers × 2048 workers need"));
  EXPECT_TRUE(check_memory(job, 0, 0).ok());
}

TEST(MeetingTest, AddressesAreNobodyElses) {
  TransportOptions shm;
  shm.transport = "shm";
  EXPECT_THAT(*fresh_address(shm, 4711, 2), AllOf(StartsWith("shm:run-4711-"), EndsWith("/server-2")));
  EXPECT_NE(*fresh_address(shm, 4711, 2), *fresh_address(shm, 4711, 2));
  TransportOptions verbs;
  verbs.transport = "verbs";
  EXPECT_EQ(*fresh_address(verbs, 4711, 2), "verbs::0");  // any port
  TransportOptions tcp;
  tcp.transport = "tcp";
  EXPECT_EQ(*fresh_address(tcp, 4711, 2), "tcp::0") << "of this host alone";
  tcp.has_other_hosts = true;
  const absl::StatusOr<std::string> reachable = fresh_address(tcp, 4711, 2);
  // A host without a network has no such address.
  if (reachable.ok()) {
    EXPECT_THAT(*reachable, AllOf(EndsWith(":0"), Not(StartsWith("tcp::")), Not(StartsWith("tcp:127."))));
  }
}

}  // namespace
}  // namespace verbena::apps
