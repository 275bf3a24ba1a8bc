#include "apps/experiment/experiment_failover.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/report/metrics.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Role = RunStatus::Copy::Role;
using Kind = Fault::Kind;

/// Two servers with a copy each, that train.
RunStatus whole() {
  RunStatus status;
  status.configuration = 1;
  status.servers = {
      {{.copy = 0, .pid = 10, .role = Role::kServes}, {.copy = 1, .pid = 11, .role = Role::kFollows}},
      {{.copy = 0, .pid = 20, .role = Role::kServes}, {.copy = 1, .pid = 21, .role = Role::kFollows}}};
  status.workers = {{.worker = 0, .pid = 30, .iteration = 3}};
  return status;
}

std::vector<std::string> lines_of(const FailoverRun& run, std::size_t server, double failover, double join) {
  const Fault& fault = run.faults.front();
  return {job::to_line(failover_json(static_cast<std::uint32_t>(server), fault.pid, "died", failover)),
          job::to_line(join_json(static_cast<std::uint32_t>(server), 99, "joined", join))};
}

TEST(SaboteurTest, HitsAllKindsOfProcessesInAllWays) {
  std::set<std::pair<std::int64_t, Kind>> hit;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Saboteur saboteur(seed, 0.1);
    EXPECT_FALSE(saboteur.choose(whole(), 0).has_value()) << "it has just begun";
    if (const auto fault = saboteur.choose(whole(), 1)) hit.emplace(fault->pid, fault->kind);
  }
  for (const std::int64_t pid : {10, 11, 20, 21}) {
    EXPECT_THAT(hit, Contains(std::pair(pid, Kind::kKilled)));
    EXPECT_THAT(hit, Contains(std::pair(pid, Kind::kStopped)));
  }
}

TEST(SaboteurTest, LeavesEachServerAProcessThatHasAll) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Saboteur saboteur(seed, 0.1);
    // The status stays behind.
    std::map<std::uint32_t, int> hits;
    for (double now = 1; now < 20; now += 0.1) {
      if (const auto fault = saboteur.choose(whole(), now)) ++hits[fault->server];
    }
    EXPECT_EQ(hits[0], 1) << seed;
    EXPECT_EQ(hits[1], 1) << seed;
  }
  RunStatus last = whole();
  for (auto& chain : last.servers) chain.pop_back();
  Saboteur saboteur(1, 0.1);
  for (double now = 1; now < 20; now += 0.1) EXPECT_FALSE(saboteur.choose(last, now).has_value());
}

TEST(SaboteurTest, GoesOnWhenAnotherCopyHasJoined) {
  Saboteur saboteur(3, 0.1);
  RunStatus status = whole();
  status.servers.pop_back();
  const auto first = saboteur.choose(status, 1);
  ASSERT_TRUE(first.has_value());
  std::vector<RunStatus::Copy>& chain = status.servers.front();
  std::erase_if(chain, [&](const auto& one) { return one.pid == first->pid; });
  chain.front().role = Role::kServes;
  EXPECT_FALSE(saboteur.choose(status, 3).has_value());
  chain.push_back({.copy = 2, .pid = 12, .role = Role::kFollows});
  EXPECT_TRUE(saboteur.choose(status, 5).has_value());
}

TEST(SaboteurTest, HitsOneThatJoinsAndThenLetsAnotherOneJoin) {
  RunStatus status = whole();
  status.servers = {
      {{.copy = 0, .pid = 10, .role = Role::kServes}, {.copy = 2, .pid = 12, .role = Role::kJoins}}};
  int hits = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Saboteur saboteur(seed, 0.1);
    const auto fault = saboteur.choose(status, 1);
    if (!fault) continue;
    ++hits;
    EXPECT_EQ(fault->pid, 12);
    EXPECT_EQ(fault->kind, Kind::kKilled);
    RunStatus next = status;
    next.servers[0][1] = {.copy = 3, .pid = 13, .role = Role::kJoins};
    for (double now = 2; now < 10; now += 0.1) EXPECT_FALSE(saboteur.choose(next, now).has_value());
  }
  EXPECT_GT(hits, 0);
}

TEST(SaboteurTest, HitsOneThatJoinsAgainOnceAnotherHasJoined) {
  RunStatus joining = whole();
  joining.servers = {
      {{.copy = 0, .pid = 10, .role = Role::kServes}, {.copy = 2, .pid = 12, .role = Role::kJoins}}};
  RunStatus joined = whole();
  joined.servers = {
      {{.copy = 0, .pid = 10, .role = Role::kServes}, {.copy = 3, .pid = 13, .role = Role::kFollows}}};
  int hits = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Saboteur saboteur(seed, 0.1);
    if (!saboteur.choose(joining, 1)) continue;
    // Now one of the two that have all is hit, and another copy joins.
    const auto fault = saboteur.choose(joined, 2);
    ASSERT_TRUE(fault.has_value());
    RunStatus again = whole();
    again.servers = {{{.copy = 0, .pid = fault->pid == 10 ? 13 : 10, .role = Role::kServes},
                      {.copy = 4, .pid = 14, .role = Role::kJoins}}};
    for (double now = 3; now < 10; now += 0.1) hits += saboteur.choose(again, now) ? 1 : 0;
  }
  EXPECT_GT(hits, 0);
}

TEST(SaboteurTest, SparesRunsThatDoNotTrain) {
  RunStatus status = whole();
  status.workers.front().iteration = -1;
  EXPECT_FALSE(Saboteur(1, 0.1).choose(status, 1).has_value());
  status = whole();
  status.workers.front().finished = true;
  EXPECT_FALSE(Saboteur(1, 0.1).choose(status, 1).has_value());
  status = whole();
  status.configuration = 0;
  EXPECT_FALSE(Saboteur(1, 0.1).choose(status, 1).has_value());
}

TEST(SaboteurTest, HitsOneWorkerAfterTheOther) {
  RunStatus status;
  status.workers = {{.worker = 0, .pid = 30, .iteration = 3}, {.worker = 1, .pid = 31, .iteration = 2}};
  std::set<std::pair<std::uint32_t, Kind>> hit;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Saboteur saboteur(seed, 0.1, /*hits_workers=*/true);
    const auto fault = saboteur.choose(status, 1);
    ASSERT_TRUE(fault.has_value());
    EXPECT_EQ(fault->pid, 30 + *fault->worker);
    hit.emplace(*fault->worker, fault->kind);
    EXPECT_FALSE(saboteur.choose(status, 2).has_value()) << "it may be there still";
    RunStatus next = status;
    next.workers[*fault->worker].pid = 40;
    EXPECT_FALSE(saboteur.choose(next, 3).has_value()) << "nobody has gone on";
    for (RunStatus::Worker& worker : next.workers) worker.iteration = 4;
    EXPECT_TRUE(saboteur.choose(next, 4).has_value());
    next.workers.front().finished = true;
    EXPECT_FALSE(saboteur.choose(next, 9).has_value());
  }
  EXPECT_EQ(hit.size(), 4U);
}

TEST(FailoverTest, AWorkersPlaceIsTakenAndAllGoOn) {
  FailoverRun run;
  run.faults = {{.kind = Kind::kKilled, .worker = 1, .pid = 31, .seconds = 2.0}};
  const auto iteration = [](double seconds) {
    return job::to_line({{"kind", "iteration"}, {"elapsed_seconds", seconds}, {"items", 100}});
  };
  add_metrics_line(iteration(2.1), run);
  add_metrics_line(job::to_line(replacement_json(0, 98, "another one's", 2.2)), run);
  EXPECT_FALSE(run.faults[0].back_after.has_value());
  add_metrics_line(job::to_line(replacement_json(1, 99, "its", 2.5)), run);
  for (const double seconds : {3.0, 4.0, 5.0, 6.0}) add_metrics_line(iteration(seconds), run);
  EXPECT_NEAR(run.faults[0].back_after.value_or(0), 0.5, 1e-9);
  EXPECT_NEAR(run.faults[0].next_iteration_after.value_or(0), 1.0, 1e-9);

  FailoverRun undisturbed;
  for (const double seconds : {1.0, 1.5, 2.0}) add_metrics_line(iteration(seconds), undisturbed);
  const FailoverOptions options{.application = "kge", .hit = kHitWorkers};
  const Judgement judgement = judge_failover(options, {undisturbed, run});
  EXPECT_THAT(judgement.findings.back().found, HasSubstr("50.0 % as a rule"));
  EXPECT_EQ(judgement.findings.back().verdict, verdict_of(false));
  EXPECT_TRUE(check(options).ok());
  EXPECT_FALSE(check({.application = "lda", .hit = kHitWorkers}).ok());
  EXPECT_FALSE(check({.application = "word2vec"}).ok());
}

TEST(FailoverTest, MetricsSayHowLongItTook) {
  FailoverRun run;
  run.faults = {{.kind = Kind::kKilled, .role = Role::kServes, .server = 1, .pid = 20, .seconds = 2.0}};
  add_metrics_line(R"({"kind":"start","throughput_unit":"tokens"})", run);
  add_metrics_line(R"({"kind":"iteration","elapsed_seconds":1.5,"items":300})", run);
  // Of another server, of another process of this one, and of this process, which had joined before.
  add_metrics_line(job::to_line(join_json(0, 98, "joined", 2.1)), run);
  add_metrics_line(job::to_line(failover_json(1, 97, "died", 2.1)), run);
  EXPECT_FALSE(run.faults[0].back_after.has_value());
  const std::vector<std::string> lines = lines_of(run, 1, 2.25, 2.5);
  add_metrics_line(lines[0], run);
  add_metrics_line(job::to_line(join_json(1, 20, "joined", 2.3)), run);
  add_metrics_line(lines[1], run);
  add_metrics_line(R"({"kind":"summary","throughput":200,"elapsed_seconds":9})", run);
  for (const char* other : {"", "[]", "{\"kind\":1}", "{\"kind\":\"failover\"}", "nonsense"})
    add_metrics_line(other, run);
  EXPECT_EQ(run.unit, "tokens");
  EXPECT_EQ(run.throughput, 200);
  EXPECT_EQ(run.seconds, 9);
  ASSERT_EQ(run.items.size(), 1U);
  EXPECT_DOUBLE_EQ(*run.faults[0].back_after, 0.25);
  EXPECT_DOUBLE_EQ(*run.faults[0].joined_after, 0.5);
}

/// An undisturbed run, and one with a fault.
std::vector<FailoverRun> two_runs() {
  FailoverRun undisturbed;
  undisturbed.label = "undisturbed";
  undisturbed.throughput = 200;
  undisturbed.unit = "tokens";
  undisturbed.items = {{1, 100}, {2, 100}, {3, 100}};
  FailoverRun run = undisturbed;
  run.label = "run 1";
  run.throughput = 100;
  run.faults = {{.role = Role::kServes,
                 .server = 0,
                 .pid = 10,
                 .seconds = 1.5,
                 .back_after = 0.01,
                 .joined_after = 0.3},
                {.kind = Kind::kStopped,
                 .role = Role::kFollows,
                 .server = 1,
                 .pid = 21,
                 .seconds = 2.0,
                 .back_after = 2.5}};
  return {undisturbed, run};
}

std::map<std::string, Verdict> verdicts(const std::vector<FailoverRun>& runs) {
  std::map<std::string, Verdict> found;
  for (const Finding& finding : judge_failover({}, runs).findings)
    found[finding.expectation] = finding.verdict;
  return found;
}

Verdict about(const std::vector<FailoverRun>& runs, const std::string& what) {
  for (const auto& [expectation, verdict] : verdicts(runs)) {
    if (expectation.find(what) != std::string::npos) return verdict;
  }
  ADD_FAILURE() << what;
  return Verdict::kNotSeen;
}

TEST(FailoverTest, WhatHeldIsSaid) {
  const Judgement judgement = judge_failover({}, two_runs());
  for (const Finding& finding : judgement.findings)
    EXPECT_EQ(finding.verdict, Verdict::kHeld) << finding.expectation;
  EXPECT_THAT(judgement.findings[0].found, HasSubstr("1 of 1 runs"));
  EXPECT_THAT(judgement.findings[0].found, HasSubstr("1 processes were killed, 1 stopped"));
  const std::string page = report_html(failover_subject({}), judgement, reported_runs({}, two_runs()));
  EXPECT_THAT(page,
              AllOf(HasSubstr("run 1: throughput over time"),
                    HasSubstr("1.50 s: a process of server 0 that serves was killed"), HasSubstr("50.0 %")));
  const nlohmann::json json = failover_report_json({}, judgement, two_runs());
  EXPECT_EQ(json["runs"][1]["faults"][1]["kind"], "stopped");
  EXPECT_TRUE(json["runs"][1]["faults"][1]["joined_after_seconds"].is_null());
}

TEST(FailoverTest, WhatDidNotHoldIsSaid) {
  std::vector<FailoverRun> runs = two_runs();
  runs[1].differs = true;
  runs[1].failure = "its model is another one";
  EXPECT_EQ(about(runs, "byte for byte"), Verdict::kDidNotHold);
  EXPECT_EQ(about(runs, "no run ends"), Verdict::kHeld) << "it went on to its end";
  runs[1].differs = false;
  EXPECT_EQ(about(runs, "no run ends"), Verdict::kDidNotHold);
  EXPECT_EQ(about(runs, "byte for byte"), Verdict::kNotSeen) << "there is no other model";
  runs = two_runs();
  runs[1].faults[0].back_after = 0.2;
  runs[1].faults[0].joined_after = 2;
  runs[1].faults[1].back_after = 4;
  EXPECT_EQ(about(runs, "within 0.1 s"), Verdict::kDidNotHold);
  EXPECT_EQ(about(runs, "that is stopped"), Verdict::kDidNotHold);
  EXPECT_EQ(about(runs, "has joined"), Verdict::kDidNotHold);
  runs[1].faults.clear();
  for (const auto& [expectation, verdict] : verdicts(runs))
    EXPECT_EQ(verdict, Verdict::kNotSeen) << expectation;
}

TEST(FailoverTest, RunsAreAlikeButForWhereTheyWrite) {
  FailoverOptions options;
  options.data = "text";
  options.iterations = 7;
  EXPECT_THAT(failover_arguments(options), AllOf(Contains("--iterations=7"), Contains("--replicas=1"),
                                                 Contains("--consistency=bsp"), Contains("--data=text")));
  options.application = "ctr";
  EXPECT_THAT(failover_arguments(options), AllOf(Contains("--passes=7"), Not(Contains("--iterations=7"))));
}

}  // namespace
}  // namespace verbena::apps
