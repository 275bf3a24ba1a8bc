// What tests of all applications need: a reporter that keeps what it is told, a way to set an application's
// options, and expectations that hold for every application.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/application.hpp"

namespace verbena::apps {

/// Keeps all that it is told. Asks the application to stop after iteration `stop_after`.
class Recorder final : public Reporter {
 public:
  void iteration(const IterationReport& report) override {
    reports.push_back(report);
    if (report.iteration == stop_after) stop = true;
    if (after_iteration) after_iteration(report.iteration);
  }
  void print(std::string_view line) override { lines.emplace_back(line); }
  void progress(std::string_view /*what*/, double done, double total) override { EXPECT_LE(done, total); }
  void summary(const std::string& name, nlohmann::json value) override { summaries[name] = std::move(value); }

  std::vector<IterationReport> reports;
  std::vector<std::string> lines;
  std::map<std::string, nlohmann::json> summaries;
  std::int64_t stop_after = -1;
  std::function<void(std::int64_t iteration)> after_iteration;  ///< called by the worker
  std::atomic<bool> stop = false;
};

/// Sets the application's options from `arguments`. Options that these leave out are set from `defaults`,
/// pairs of an option and its value.
std::unique_ptr<Application> with_options(
    std::unique_ptr<Application> application, std::vector<std::string> arguments,
    const std::vector<std::pair<std::string, std::string>>& defaults = {});

absl::Status run_baseline(Application& application, Recorder& recorder);

/// Makes an application with these options. Options that are left out get values that suit the test.
using Parsed = std::function<std::unique_ptr<Application>(std::vector<std::string> arguments)>;

/// Trains seven iterations in a plain loop and evaluates after every third. All iterations are reported, with
/// equal numbers of items. `objective` is known after iterations 3, 6 and 7 only. The objectives named in
/// `always` are known after each iteration; if there are none, an iteration without an evaluation reports no
/// sums.
void expect_evaluations_when_due(const Parsed& parsed, Recorder& recorder, const std::string& objective,
                                 const std::vector<std::string>& always = {});
/// Two runs with the same seed save the same bytes, and a run with another seed saves others. `saved(path)`
/// returns all that was saved for --output `path`: more than `least_bytes`.
void expect_runs_to_be_equal(const Parsed& parsed,
                             const std::function<std::string(const std::string& path)>& saved,
                             std::size_t least_bytes);
/// A plain loop that is asked to stop after its second iteration does so, and writes nothing.
void expect_to_stop_without_files(const Parsed& parsed, const std::vector<std::string>& arguments = {});
/// The training diverges, and the error says to lower the learning rate.
void expect_to_say_that_it_diverges(Application& application);
/// The error of the command line or, if that accepts the options, of the application's check().
absl::Status check_options(const Parsed& parsed, const std::vector<std::string>& arguments,
                           std::uint32_t workers);
/// For jobs of four workers: the arguments, and a part of the error that they give.
using Refusals = std::vector<std::pair<std::vector<std::string>, std::string>>;
void expect_refusals(const Parsed& parsed, const Refusals& refusals);
/// Each allocation has its own default model, and refuses models that do not go with it.
void expect_allocations_to_need_their_model(const Parsed& parsed);

}  // namespace verbena::apps
