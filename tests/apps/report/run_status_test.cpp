#include "apps/report/run_status.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/report/html_report.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Role = RunStatus::Copy::Role;

RunStatus some_status() {
  RunStatus status;
  status.title = "lda, bsp, 1 server × 2 workers, shm";
  status.began = "2026-11-25T09:30:00Z";
  status.elapsed_seconds = 12.5;
  status.configuration = 4;
  status.servers = {{{.copy = 2, .pid = 31, .role = Role::kServes},
                     {.copy = 1, .pid = 30, .role = Role::kFollows},
                     {.copy = 3, .pid = 33, .role = Role::kJoins, .host = "node3"}},
                    {}};
  status.moves = {"the move of server 0 from node1 to node3 copies"};
  status.workers = {{.worker = 0, .pid = 40, .iteration = 7, .seconds_ago = 0.5},
                    {.worker = 1, .iteration = -1, .seconds_ago = 12.5, .finished = true}};
  status.failovers = 1;
  status.joins = 2;
  status.restarts = 3;
  status.events = {{.kind = RunEvent::Kind::kFailover, .elapsed_seconds = 3.25, .what = "it has died"},
                   {.kind = RunEvent::Kind::kSilence, .elapsed_seconds = 4, .what = "not \" nice"}};
  status.checkpoints = "/somewhere";
  return status;
}

TEST(RunStatusTest, ComesBackAsItWas) {
  const auto back = decode_run_status(encode(some_status()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, some_status());
}

TEST(RunStatusTest, RefusesWhatIsNone) {
  const std::string whole = encode(some_status());
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{\"title\":1}"),
                                  whole.substr(0, whole.size() / 2), std::string(1000, '[')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(decode_run_status(text).status())) << text;
  }
}

TEST(RunStatusTest, SaysHowFarWorkersAreAndWhatHasHappened) {
  RunRecord record(2, [](const auto&) { return std::map<std::string, double>(); });
  job::IterationMessage message;
  message.worker = 1;
  message.report.iteration = 5;
  ASSERT_TRUE(record.add(message, 4.0).ok());
  for (int i = 0; i < 30; ++i)
    record.note({.kind = i % 2 == 0 ? RunEvent::Kind::kFailover : RunEvent::Kind::kJoin,
                 .elapsed_seconds = static_cast<double>(i),
                 .what = std::to_string(i)});
  const RunStatus status = status_of(record, 10.0);
  ASSERT_EQ(status.workers.size(), 2U);
  EXPECT_EQ(status.workers[0].iteration, -1);
  EXPECT_EQ(status.workers[0].seconds_ago, 10.0);
  EXPECT_EQ(status.workers[1].iteration, 5);
  EXPECT_EQ(status.workers[1].seconds_ago, 6.0);
  EXPECT_EQ(status.failovers, 15U);
  EXPECT_EQ(status.joins, 15U);
  ASSERT_EQ(status.events.size(), RunStatus::kMostEvents);
  EXPECT_EQ(status.events.back().what, "29") << "the newest ones stay";
}

TEST(RunStatusTest, EventsHaveNames) {
  for (const auto kind : {RunEvent::Kind::kFailover, RunEvent::Kind::kJoin, RunEvent::Kind::kNoJoin,
                          RunEvent::Kind::kSilence, RunEvent::Kind::kRestart, RunEvent::Kind::kReplacement}) {
    EXPECT_EQ(event_kind_of(name_of(kind)), kind);
  }
  EXPECT_EQ(event_kind_of("nonsense"), std::nullopt);
}

TEST(RunStatusTest, AReportTellsWhatHasHappened) {
  RunSettings settings;
  RunRecord record(1, [](const auto&) { return std::map<std::string, double>(); });
  EXPECT_THAT(html_report(settings, record, 1, {}, {}), ::testing::Not(HasSubstr("Deaths and failovers")));
  record.note({.kind = RunEvent::Kind::kFailover, .elapsed_seconds = 3.25, .what = "server <0> has died"});
  EXPECT_THAT(html_report(settings, record, 1, {}, {}),
              AllOf(HasSubstr("Deaths and failovers"), HasSubstr("server &lt;0&gt; has died"),
                    HasSubstr("3.25 s"), HasSubstr("failover")));
}

}  // namespace
}  // namespace verbena::apps
