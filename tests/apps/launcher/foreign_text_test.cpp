// Text that a process of the job, a file or a user has written is escaped, wherever it is shown.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/experiment/experiment_report.hpp"
#include "apps/launcher/outlet.hpp"
#include "apps/launcher/run_monitor.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/html_report.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Unescaped, this would color the terminal, begin a new line, and reverse the direction of writing.
const std::string kForeign = "evil\x1b[31m\nverbena: error: done\xe2\x80\xae";
const std::string kShown = "evil\\u001b[31m\\nverbena: error: done\\u202e";

void expect_escaped(const std::string& text) {
  EXPECT_THAT(text, HasSubstr(kShown));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\xe2\x80\xae")));
  EXPECT_THAT(text, Not(HasSubstr("\nverbena: error: done")));
}

std::map<std::string, double> no_objectives(const std::map<std::string, double>& /*sums*/) {
  return {};
}

class ForeignTextTest : public ::testing::Test {
 protected:
  std::string shown() {
    std::fflush(file_.get());
    return verbena::testing::contents(folder_.path("shown"));
  }

  verbena::testing::TemporaryFolder folder_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{std::fopen(folder_.path("shown").c_str(), "w"),
                                                        std::fclose};
  RunSettings settings_ = [] {
    RunSettings settings;
    settings.model = "lda";
    settings.options = {{"data", kForeign}};
    return settings;
  }();
};

TEST_F(ForeignTextTest, WhatAChildSaysToTheLauncher) {
  RunRecord record(1, no_objectives);
  Display display(settings_, Display::Mode::kPlain, file_.get(), file_.get());
  RunMonitor monitor(record, display, nullptr);
  monitor.hear("worker 0", encode(job::PrintMessage{kForeign}));
  expect_escaped(shown());
  monitor.hear("worker 0", encode(job::ProgressMessage{0, kForeign, 1, 2}));
  expect_escaped(shown());
  EXPECT_FALSE(monitor.failed());
  expect_escaped(html_report(settings_, record, 1, {}, monitor.printed()));

  monitor.hear("worker 0", encode(job::SummaryMessage{"top_words", kForeign}));
  expect_escaped(job::to_line(summary_json(settings_, record, 1, monitor.model_summary())));

  monitor.hear("worker 0", encode(job::FailedMessage{absl::AbortedError(kForeign)}));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(report_error(monitor.failure()), kExitFailed);
  expect_escaped(::testing::internal::GetCapturedStderr());
}

TEST_F(ForeignTextTest, AChartOfTheModel) {
  settings_.options.clear();
  const RunRecord record(1, no_objectives);
  const CurveChart good{"x", "y", {{"curve", {{0, 1}, {1, 2}}}}};
  const CurveChart evil{kForeign, kForeign, {{kForeign, {{0, 1}, {1, 2}}}}};
  for (const ModelChart& chart :
       {ModelChart{kForeign, good, ""}, ModelChart{"title", good, kForeign}, ModelChart{"title", evil, ""}})
    expect_escaped(html_report(settings_, record, 1, {chart}, {}));
}

TEST_F(ForeignTextTest, NoMessageAtAll) {
  // As raw bytes, which are no JSON, and as JSON writes it.
  for (const char* const kind : {"\x1b[31m", R"(\u001b[31m)"}) {
    RunRecord record(1, no_objectives);
    Display display(settings_, Display::Mode::kNone, file_.get(), file_.get());
    RunMonitor monitor(record, display, nullptr);
    monitor.hear("worker 0", fmt::format(R"({{"kind": "{}"}})", kind));
    ::testing::internal::CaptureStderr();
    report_error(monitor.failure());
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("not a message of a worker"), Not(HasSubstr("\x1b"))));
  }
}

TEST_F(ForeignTextTest, AWorkerStartedByHand) {
  settings_.process = "worker 0";
  ConsoleOutlet outlet(settings_, no_objectives);
  ::testing::internal::CaptureStdout();
  outlet.send(job::PrintMessage{kForeign});
  outlet.send(job::SummaryMessage{"words", {{"first", kForeign}}});
  expect_escaped(::testing::internal::GetCapturedStdout());
  ::testing::internal::CaptureStderr();
  outlet.send(job::FailedMessage{absl::AbortedError(kForeign)});
  const std::string error = ::testing::internal::GetCapturedStderr();
  expect_escaped(error);
  EXPECT_THAT(error, HasSubstr("verbena: error: worker 0: evil"));
}

TEST_F(ForeignTextTest, AnExperimentsFailure) {
  const ReportSubject subject{
      .name = "x", .description = "y", .method = "z", .circumstances = "here", .made = {}};
  const std::vector<ReportedRun> runs = {{.label = "a run", .command = "verbena run", .failure = kForeign}};
  expect_escaped(report_text(subject, {}, runs));
  expect_escaped(report_html(subject, {}, runs));
  expect_escaped(job::to_line(report_json(subject, {}, nlohmann::json::array({kForeign})), 1));
}

TEST_F(ForeignTextTest, JsonKeepsItsMeaning) {
  const nlohmann::json json = {{"text", kForeign}, {"more", "\x7f\xf3\xa0\x81\x81"}};
  for (const int indent : {-1, 2}) EXPECT_EQ(nlohmann::json::parse(job::to_line(json, indent)), json);
  EXPECT_NO_THROW(job::to_line({{"name", "\xff"}}));
}

}  // namespace
}  // namespace verbena::apps
