#include "tests/apps/application_fixture.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "apps/divergence.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using verbena::testing::TemporaryFolder;

std::unique_ptr<Application> with_options(std::unique_ptr<Application> application,
                                          std::vector<std::string> arguments,
                                          const std::vector<std::pair<std::string, std::string>>& defaults) {
  for (const auto& [option, value] : defaults) {
    if (std::find(arguments.begin(), arguments.end(), option) == arguments.end())
      arguments.insert(arguments.end(), {option, value});
  }
  CLI::App command;
  application->add_options(command);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes the last argument first
  command.parse(arguments);
  return application;
}

absl::Status run_baseline(Application& application, Recorder& recorder) {
  BaselineContext context{recorder, recorder.stop};
  return application.run_baseline(context);
}

void expect_evaluations_when_due(const Parsed& parsed, Recorder& recorder, const std::string& objective,
                                 const std::vector<std::string>& always) {
  const auto application = parsed({"--iterations", "7", "--evaluate-every", "3"});
  EXPECT_EQ(application->iterations(), 7);
  const absl::Status status = run_baseline(*application, recorder);
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(recorder.reports.size(), 7U);
  std::int64_t iteration = 0;
  for (const IterationReport& report : recorder.reports) {
    SCOPED_TRACE(fmt::format("iteration {}", ++iteration));
    EXPECT_EQ(report.iteration, iteration);
    EXPECT_EQ(report.items, recorder.reports.front().items);
    EXPECT_GT(report.seconds, 0);
    const bool is_due = iteration == 3 || iteration == 6 || iteration == 7;
    const auto found = application->objectives(report.sums);
    EXPECT_EQ(found.count(objective), is_due ? 1U : 0U);
    for (const std::string& name : always) EXPECT_EQ(found.count(name), 1U) << name;
    EXPECT_EQ(report.sums.empty(), always.empty() && !is_due);
  }
}

void expect_runs_to_be_equal(const Parsed& parsed,
                             const std::function<std::string(const std::string& path)>& saved,
                             std::size_t least_bytes) {
  const TemporaryFolder folder;
  const auto save = [&](const std::string& name, const std::string& seed) {
    const auto application = parsed({"--iterations", "3", "--output", folder.path(name), "--seed", seed});
    Recorder recorder;
    const absl::Status status = run_baseline(*application, recorder);
    EXPECT_TRUE(status.ok()) << status;
    return saved(folder.path(name));
  };
  const std::string first = save("a", "1");
  EXPECT_GT(first.size(), least_bytes);
  EXPECT_TRUE(first == save("b", "1"));
  EXPECT_FALSE(first == save("c", "2"));
}

void expect_to_stop_without_files(const Parsed& parsed, const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  std::vector<std::string> all = {"--output", folder.path("model")};
  all.insert(all.end(), arguments.begin(), arguments.end());
  Recorder recorder;
  recorder.stop_after = 2;
  const absl::Status status = run_baseline(*parsed(all), recorder);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(recorder.reports.size(), 2U);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

void expect_to_say_that_it_diverges(Application& application) {
  Recorder recorder;
  const absl::Status status = run_baseline(application, recorder);
  EXPECT_TRUE(is_diverged(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("lower --learning-rate"));
}

absl::Status check_options(const Parsed& parsed, const std::vector<std::string>& arguments,
                           std::uint32_t workers) {
  try {
    return parsed(arguments)->check(workers);
  } catch (const CLI::ParseError& refused) {
    return absl::InvalidArgumentError(refused.what());
  }
}

void expect_refusals(const Parsed& parsed, const Refusals& refusals) {
  for (const auto& [arguments, expected] : refusals) {
    const absl::Status status = check_options(parsed, arguments, 4);
    EXPECT_THAT(status.code(), AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound))
        << expected;
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  }
}

void expect_allocations_to_need_their_model(const Parsed& parsed) {
  const auto error = [&](const std::string& allocation, const ConsistencyModel& model) {
    const absl::Status status = parsed({"--allocation", allocation})->check_consistency(model);
    EXPECT_THAT(status.code(), AnyOf(absl::StatusCode::kOk, absl::StatusCode::kInvalidArgument));
    return std::string(status.message());
  };
  const auto by_default = [&](const std::string& allocation) {
    return parsed({"--allocation", allocation})->default_consistency(/*is_one_node=*/true, /*workers=*/1);
  };
  EXPECT_EQ(by_default("static"), "bsp");
  EXPECT_EQ(by_default("localize"), "sequential");
  EXPECT_EQ(by_default("intent"), "asp");
  EXPECT_EQ(by_default("none"), "bsp");
  // With one server, rows move by default, and the model is one that lets them.
  const auto of_auto = [&](const ConsistencyModel& model) {
    const auto application = parsed({});
    application->set_job_shape({model});
    // Only the allocation that was chosen goes with only one of the models.
    if (!application->check_consistency(Bsp{}).ok())
      return std::string(application->check_consistency(Asp{}).ok() ? "intent" : "localize");
    return std::string("static");
  };
  EXPECT_THAT(by_default("auto"), AnyOf("sequential", "asp"));
  EXPECT_EQ(parsed({})->default_consistency(/*is_one_node=*/true, /*workers=*/1), by_default("auto"));
  EXPECT_EQ(parsed({})->default_consistency(/*is_one_node=*/false, /*workers=*/2), "bsp");
  EXPECT_EQ(of_auto(Sequential{}), "localize");
  EXPECT_EQ(of_auto(Asp{}), "intent");
  EXPECT_EQ(of_auto(Ssp{.staleness = 1}), "static");
  EXPECT_EQ(error("static", Bsp{}), "");
  EXPECT_EQ(error("localize", Sequential{}), "");
  EXPECT_EQ(error("intent", Asp{}), "");
  EXPECT_EQ(error("localize", Bsp{}), "--allocation localize needs --consistency sequential, found bsp");
  EXPECT_EQ(error("intent", Sequential{}), "--allocation intent needs --consistency asp, found sequential");
  EXPECT_EQ(error("intent", Essp{.staleness = 2}),
            "--allocation intent needs --consistency asp, found essp:2");
}

}  // namespace verbena::apps
