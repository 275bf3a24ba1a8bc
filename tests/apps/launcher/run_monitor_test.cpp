#include "apps/launcher/run_monitor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "apps/divergence.hpp"
#include "apps/report/exit_status.hpp"

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;

/// The failure after the only worker has reported the error `sum`, in an application whose loss is the
/// error's square.
absl::Status failure_after(double sum) {
  RunSettings settings;
  RunRecord record(1, [](const std::map<std::string, double>& sums) {
    return std::map<std::string, double>{{"loss", sums.at("error") * sums.at("error")}};
  });
  Display display(settings, Display::Mode::kNone, stdout, stderr);
  RunMonitor monitor(record, display, nullptr);
  job::IterationMessage message;
  message.report = {.iteration = 3, .items = 1, .seconds = 1, .sums = {{"error", sum}}};
  monitor.hear("worker 0", encode(message));
  return monitor.failure();
}

TEST(RunMonitorTest, NumbersThatAreNoneAreDivergenceInWhateverApplication) {
  EXPECT_TRUE(failure_after(7).ok());
  const absl::Status none = failure_after(std::nan(""));
  EXPECT_TRUE(is_diverged(none)) << none;
  EXPECT_EQ(exit_status(none), kExitDiverged);
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("training has diverged in iteration 3: error is no number"));
  const absl::Status infinite = failure_after(1e200);  // its square is infinite
  EXPECT_TRUE(is_diverged(infinite)) << infinite;
  EXPECT_THAT(std::string(infinite.message()), HasSubstr("loss is infinite"));
  EXPECT_TRUE(is_diverged(failure_after(std::numeric_limits<double>::infinity())));
}

TEST(RunMonitorTest, DivergenceOfAWorkerIsTheModelsAndNotTheProcesss) {
  RunSettings settings;
  RunRecord record(1, [](const auto&) { return std::map<std::string, double>(); });
  Display display(settings, Display::Mode::kNone, stdout, stderr);
  RunMonitor monitor(record, display, nullptr);
  monitor.hear("worker 0", encode(job::FailedMessage{diverged("training has diverged in iteration 2")}));
  EXPECT_EQ(monitor.failure(), diverged("training has diverged in iteration 2"));
}

/// A process says whether its error is the cause. The code of the error does not: a program may return
/// ABORTED for an error of its own, too.
TEST(RunMonitorTest, WhatAProcessCallsTheCauseIs) {
  RunSettings settings;
  RunRecord record(2, [](const auto&) { return std::map<std::string, double>(); });
  Display display(settings, Display::Mode::kNone, stdout, stderr);
  RunMonitor monitor(record, display, nullptr);
  monitor.hear("worker 0", encode(job::FailedMessage{absl::AbortedError("another gave up")}));
  monitor.fail(RunMonitor::Cause::kSilentEnd, absl::AbortedError("worker 0 ended with status 1"));
  EXPECT_EQ(monitor.failure().message(), "worker 0 ended with status 1")
      << "it is nearer to the cause than a worker that gave up because of another one";
  monitor.hear("worker 1",
               encode(job::FailedMessage{absl::AbortedError("no coffee"), job::Cause::kOwnError}));
  EXPECT_EQ(monitor.failure().message(), "worker 1: no coffee");
}

TEST(RunMonitorTest, WhatHasHappenedToProcessesIsInItsStatus) {
  RunSettings settings;
  settings.model = "lda";
  settings.consistency = "bsp";
  settings.made.date = "2026-11-25T09:30:00Z";
  RunRecord record(1, [](const auto&) { return std::map<std::string, double>(); });
  Display display(settings, Display::Mode::kNone, stderr, stderr);
  RunMonitor monitor(record, display, nullptr);
  monitor.fail_over(0, 4711, "server 0 has died");
  monitor.note_lost(RunEvent::Kind::kNoJoin, "copy 2 has died");
  monitor.note_joined(0, 4712, "copy 3 has joined");
  monitor.finish();
  monitor.go_back(0, "worker 0 has died");
  const RunStatus status = monitor.status();
  EXPECT_THAT(status.title, HasSubstr("lda, bsp"));
  EXPECT_EQ(status.began, settings.made.date);
  EXPECT_EQ(status.failovers, 1U);
  EXPECT_EQ(status.joins, 1U);
  EXPECT_EQ(status.restarts, 1U);
  ASSERT_EQ(status.events.size(), 4U);
  EXPECT_EQ(status.events[0].what, "server 0 has died");
  EXPECT_EQ(status.events[1].kind, RunEvent::Kind::kNoJoin);
  EXPECT_EQ(status.events[2].kind, RunEvent::Kind::kJoin);
  EXPECT_EQ(status.events[3].kind, RunEvent::Kind::kRestart);
}

TEST(RunMonitorTest, WhatWasBeforeARestartIsForgotten) {
  RunSettings settings;
  RunRecord record(1, [](const auto&) { return std::map<std::string, double>(); });
  Display display(settings, Display::Mode::kNone, stderr, stderr);
  RunMonitor monitor(record, display, nullptr);
  monitor.hear("worker 0", encode(job::PrintMessage{"topic 1"}));
  monitor.hear("worker 0", encode(job::SummaryMessage{"topics", 1}));
  monitor.fail(RunMonitor::Cause::kKilled, absl::AbortedError("server 0 was killed by SIGKILL"));
  EXPECT_EQ(monitor.cause(), RunMonitor::Cause::kKilled);
  monitor.finish();
  monitor.go_back(0, "server 0 was killed by SIGKILL");
  EXPECT_FALSE(monitor.failed());
  EXPECT_TRUE(monitor.failure().ok());
  EXPECT_TRUE(monitor.printed().empty());
  EXPECT_TRUE(monitor.model_summary().empty());
  monitor.fail(RunMonitor::Cause::kFollowed, absl::AbortedError("another gave up"));
  EXPECT_EQ(monitor.failure().message(), "another gave up");
}

TEST(RunMonitorTest, WhatCopiesCostIsAddedUp) {
  RunSettings settings;
  RunRecord record(1, [](const auto&) { return std::map<std::string, double>(); });
  Display display(settings, Display::Mode::kNone, stdout, stderr);
  RunMonitor monitor(record, display, nullptr);
  for (const char* server : {"server 0", "copy 1 of server 0"})
    monitor.hear(server, encode(job::ServedMessage{.bytes_to_copies = 1000}));
  EXPECT_EQ(record.bytes_to_copies(), 2000U);
  monitor.note_processor_time(&ProcessorTime::workers_seconds, 4);
  for (int copy = 0; copy < 2; ++copy) monitor.note_processor_time(&ProcessorTime::copies_seconds, 1);
  EXPECT_EQ(record.processor_time().copies_seconds, 2);
  EXPECT_EQ(record.processor_time().all_seconds(), 6);
  EXPECT_FALSE(monitor.failed());
}

}  // namespace
}  // namespace verbena::apps
