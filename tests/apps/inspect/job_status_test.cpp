#include "apps/inspect/job_status.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/file_system.hpp"
#include "tests/apps/inspect/saved_run.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::inspect {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Role = RunStatus::Copy::Role;

/// Two servers with a copy each. One has died, and its copy serves; another one joins.
RunStatus after_a_death() {
  RunStatus run;
  run.title = "lda, bsp, 2 servers × 2 workers, shm";
  run.began = "2026-11-25T09:30:00Z";
  run.elapsed_seconds = 12.5;
  run.configuration = 3;
  run.servers = {
      {{.copy = 1, .pid = 31, .role = Role::kServes}, {.copy = 2, .pid = 35, .role = Role::kJoins}},
      {{.copy = 0, .pid = 32, .role = Role::kServes}, {.copy = 1, .pid = 33, .role = Role::kFollows}}};
  run.workers = {{.worker = 0, .pid = 40, .iteration = 7, .seconds_ago = 0.5},
                 {.worker = 1, .pid = 41, .iteration = 5, .seconds_ago = 3.0}};
  run.failovers = 1;
  run.events = {
      {.kind = RunEvent::Kind::kFailover, .elapsed_seconds = 3.25, .what = "server 0 was killed by SIGKILL"}};
  return run;
}

JobStatus seen_after_a_death() {
  JobStatus status;
  status.job = "run-4711";
  status.run = after_a_death();
  status.seen = ObservedJob{.servers = 2, .workers = 2, .clock = 5};
  return status;
}

TEST(JobStatusTest, PeopleSeeWhoServesAndWhoIsBehind) {
  const std::string text = to_text(seen_after_a_death());
  EXPECT_THAT(text, AllOf(HasSubstr("run-4711: lda, bsp, 2 servers × 2 workers, shm"),
                          HasSubstr("configuration 3: 1 failover, 0 joins"),
                          HasSubstr("all workers have finished 5 clocks"),
                          HasSubstr("3.25 s  server 0 was killed by SIGKILL")));
  EXPECT_THAT(text,
              ContainsRegex("0 +1 +31 +serves\n0 +2 +35 +joins\n1 +0 +32 +serves\n1 +1 +33 +follows\n"));
  EXPECT_THAT(text, ContainsRegex("0 +40 +7 +0 +0\\.5 s ago\n1 +41 +5 +2 +3\\.0 s ago\n"));
  EXPECT_THAT(text, Not(HasSubstr("checkpoint")));
}

TEST(JobStatusTest, AllSeeWhatMoves) {
  JobStatus status = seen_after_a_death();
  EXPECT_THAT(to_text(status), Not(HasSubstr("What moves")));
  status.run->moves = {"the move of worker 1 from node1 to node3 reads its data"};
  EXPECT_THAT(to_text(status),
              HasSubstr("What moves:\n  the move of worker 1 from node1 to node3 reads its data\n"));
  EXPECT_EQ(to_json(status)["moves"].size(), 1U);
}

TEST(JobStatusTest, ProgramsSeeTheSame) {
  const nlohmann::json json = to_json(seen_after_a_death());
  EXPECT_EQ(json["job"], "run-4711");
  EXPECT_EQ(json["configuration"], 3);
  EXPECT_EQ(json["clock"], 5);
  EXPECT_EQ(json["failovers"], 1);
  EXPECT_EQ(json["servers"][0]["copies"][0]["copy"], 1);
  EXPECT_EQ(json["servers"][0]["copies"][0]["role"], "serves");
  EXPECT_EQ(json["servers"][0]["copies"][1]["role"], "joins");
  EXPECT_EQ(json["servers"][1]["copies"][1]["pid"], 33);
  EXPECT_EQ(json["workers"][0]["behind"], 0);
  EXPECT_EQ(json["workers"][1]["behind"], 2);
  EXPECT_EQ(json["workers"][1]["iteration"], 5);
  EXPECT_EQ(json["events"][0]["kind"], "failover");
  EXPECT_TRUE(json["checkpoint"].is_null());
}

TEST(JobStatusTest, WithoutCopiesThereIsNoConfiguration) {
  JobStatus status = seen_after_a_death();
  status.run->configuration = 0;
  status.run->servers = {{{.copy = 0, .pid = 31, .role = Role::kServes}}};
  status.run->events.clear();
  status.run->checkpoints = "/ckpts";
  EXPECT_THAT(to_text(status),
              AllOf(Not(HasSubstr("configuration")), HasSubstr("no checkpoint yet in /ckpts"),
                    Not(HasSubstr("What has happened"))));
  EXPECT_TRUE(to_json(status)["configuration"].is_null());
  status.checkpoint = LastCheckpoint{"/ckpts/ckpt-5", 5, "2026-11-25T09:31:00Z"};
  EXPECT_THAT(to_text(status),
              HasSubstr("last checkpoint: /ckpts/ckpt-5, of clock 5, written 2026-11-25T09:31:00Z"));
  EXPECT_EQ(to_json(status)["checkpoint"]["clock"], 5);
}

TEST(JobStatusTest, ServersThatAreSilentAreNoError) {
  JobStatus status = seen_after_a_death();
  status.seen.reset();
  status.silence = "shm:x has not answered for 1.0 s";
  EXPECT_THAT(to_text(status), HasSubstr("the servers do not answer: shm:x has not answered"));
  EXPECT_TRUE(to_json(status)["clock"].is_null());
  EXPECT_EQ(to_json(status)["silence"], status.silence);
}

TEST(JobStatusTest, OfAJobWithoutALauncherItIsWhatServersKnow) {
  JobStatus status;
  status.job = "demo";
  status.addresses = {"shm:demo/server-0"};
  status.seen = ObservedJob{.servers = 1, .workers = 3, .workers_left = 1, .clock = 9};
  EXPECT_THAT(to_text(status),
              AllOf(HasSubstr("demo: 1 server, 3 workers, of which 1 has left"),
                    HasSubstr("shm:demo/server-0"), HasSubstr("No process of this host leads")));
  EXPECT_EQ(to_json(status)["servers"][0]["address"], "shm:demo/server-0");
  EXPECT_EQ(to_json(status)["workers"].size(), 3U);
}

TEST(JobStatusTest, ThoseThatServeAreAsked) {
  FoundJob job;
  job.name = "run-4711";
  for (const char* number : {"0", "1", "2", "3", "4"})
    job.servers.push_back(std::string("shm:run-4711-0123456789abcdef/server-") + number);
  // Copy 1 of server 0 is process 2, copy 0 of server 1 is process 1.
  EXPECT_THAT(serving_of(job, after_a_death()), ElementsAre(job.servers[2], job.servers[1]));
  EXPECT_THAT(serving_of(job, std::nullopt), job.servers);
}

TEST(JobStatusTest, NobodyHasStartedAJobThatIsNoRun) {
  FoundJob job;
  job.name = "demo";
  const auto run = ask_launcher(job, nullptr, std::chrono::milliseconds(10));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE(run->has_value());
  job.name = "run-999999999";  // there is no such process
  const absl::Status silent = ask_launcher(job, nullptr, std::chrono::milliseconds(10)).status();
  EXPECT_THAT(std::string(silent.message()),
              HasSubstr("run-999999999: process 999999999, which leads the run, does not answer"));
}

TEST(JobStatusTest, TheLastCheckpointIsTheRunsOwn) {
  const verbena::testing::TemporaryFolder scratch;
  RunStatus run;
  checkpoint::FileSystem& files = checkpoint::host_file_system();
  EXPECT_FALSE(last_checkpoint(files, run).has_value()) << "none are made";
  run.checkpoints = scratch.path("ckpts");
  run.began = "2026-01-01T00:00:00Z";
  EXPECT_FALSE(last_checkpoint(files, run).has_value()) << "the first one makes the folder";
  for (const std::uint64_t clock : {10U, 20U}) SavedRun(run.checkpoints, clock).commit();
  const std::optional<LastCheckpoint> found = last_checkpoint(files, run);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->clock, 20U);
  EXPECT_THAT(found->path, HasSubstr("ckpt-20"));
  run.began = "9999-01-01T00:00:00Z";
  EXPECT_FALSE(last_checkpoint(files, run).has_value()) << "these are of an earlier run";
}

}  // namespace
}  // namespace verbena::apps::inspect
